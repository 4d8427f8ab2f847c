"""What a job says as it begins, and what it makes room for."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch.distributed as dist

from collectrace.records import Removed
from tests.support.meeting import inits
from tests.support.real_ranks import Ranks

# On a busy machine a rank may be late by seconds, and that would be said.
PATIENT = {"COLLECTRACE_STALL_AFTER": "120"}
ON = PATIENT | {"COLLECTRACE_ANNOUNCE": "1"}


def _meet() -> None:
    dist.barrier()


def _lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if "collectrace" in line]


def test_rank_zero_says_where_it_records_and_how_to_ask(ranks: Ranks) -> None:
    ran = ranks.run(_meet, env=ON)
    folder = ran.log(0).path.parent
    [told] = _lines(ran.output(0))
    ask = f"python -m collectrace align {folder}"
    assert told == f"collectrace: recording to {folder}. If the job hangs or fails, run: {ask}"
    assert _lines(ran.output(1)) == []
    assert ran.output(0).lstrip().startswith("collectrace: ")


def test_it_can_be_switched_off(ranks: Ranks) -> None:
    off = PATIENT | {"COLLECTRACE_ANNOUNCE": "0"}
    assert _lines(ranks.run(_meet, env=off).output(0)) == []


def _twice() -> None:
    for _ in inits(2):
        dist.barrier()  # who leaves before the other is connected takes the connection with it


def test_a_second_group_of_a_process_is_not_told_again(ranks: Ranks) -> None:
    ran = ranks.run(_twice, init=False, env=ON)
    assert len(_lines(ran.output(0))) == 1


def _once_there_is_room() -> list[str]:
    """The folder's runs once rank 0 has written which it removed."""
    logs = Path(os.environ["COLLECTRACE_LOG_DIR"])
    until = time.monotonic() + 50
    while time.monotonic() < until:
        if any(b'"kind":"removed"' in f.read_bytes() for f in logs.glob("2*/rank00000.jsonl")):
            break
        time.sleep(0.05)
    return sorted(path.name for path in logs.glob("2*"))


def _make_old_runs() -> None:
    logs = Path(os.environ["COLLECTRACE_LOG_DIR"])
    if os.environ["RANK"] == "0":
        for day in range(1, 6):
            folder = logs / f"202001{day:02}-120000-00aa{day:02}"
            folder.mkdir(parents=True, exist_ok=True)
            ended = b'{"kind":"exit","t":2,"reason":"finished"}\n'
            last = ended if day != 2 else b'{"kind":"of a later version","t":2}\n'
            (folder / "rank00000.jsonl").write_bytes(last)


def _keeps_three() -> list[str]:
    _make_old_runs()
    dist.init_process_group("gloo")
    left = _once_there_is_room() if dist.get_rank() == 0 else []
    dist.destroy_process_group()
    return left


def test_old_runs_are_removed_and_the_file_says_so(ranks: Ranks) -> None:
    ran = ranks.run(_keeps_three, env={"COLLECTRACE_KEEP_RUNS": "3"}, init=False)
    left = ran.result(0)
    # The second is beyond three, and may still be written to.
    assert [name[:8] for name in left[:-1]] == ["20200102", "20200104", "20200105"]
    logs = [log for log in ran.files if not log.path.parent.name.startswith("2020")]
    zero, one = sorted(logs, key=lambda log: log.path.name)
    assert [zero.header.keep_runs, one.header.keep_runs] == [3, 3]
    [removed] = zero.of(Removed)
    assert [name[:8] for name in removed.runs] == ["20200101", "20200103"]
    assert one.of(Removed) == []


def _stalls_and_raises() -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(1)
    dist.barrier()
    raise ValueError("mine")


def test_nothing_is_said_to_be_recorded_where_nothing_can_be(ranks: Ranks, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    often = {"COLLECTRACE_STALL_AFTER": "0.3", "COLLECTRACE_HEARTBEAT": "0.1"}
    env = ON | often | {"COLLECTRACE_LOG_DIR": str(blocker / "logs")}
    ran = ranks.run(_stalls_and_raises, env=env, exits=(1, 1))
    for rank in range(2):
        first, *rest = _lines(ran.output(rank))
        assert first.startswith(f"collectrace: cannot write {blocker}/logs/pending/")
        assert first.endswith(
            "set log_dir (COLLECTRACE_LOG_DIR) to a folder that can be written to."
        )
        assert not any("recording to" in line or "Why:" in line for line in rest)
    assert any("has been in barrier" in line for line in _lines(ran.output(0)))

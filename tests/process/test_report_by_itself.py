"""The verdict without asking: a hang or a crash is explained on standard error by one rank."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from collectrace.log_folder import LOOK, QUIET, TOLD
from tests.support.apart import PATIENCE, ROOT, Apart
from tests.support.real_ranks import Ran, Ranks

HEAD = "collectrace has compared the ranks:"

BEGIN = f"""
import datetime, os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
import torch, torch.distributed as dist
import collectrace
collectrace.enable()
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
"""

# Rank 1 meets the others with another call.
HANGS = """
for step in range(10):
    loss = torch.tensor([float("nan") if step == 3 and rank == 1 else 1.0])
    if loss.isfinite():
        dist.all_reduce(loss)
    dist.barrier()
"""

# On a busy machine the verdict takes its time.
PATIENT = """
import collectrace.tracer.life.reporter as reporter
reporter._TO_TELL = 200.0
"""

RAISES = """
for step in range(10):
    if step == 5 and rank == 1:
        time.sleep(1)
        raise ValueError("no sample 37")
    dist.all_reduce(torch.ones(1))
"""


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COLLECTRACE")}
    return kept | {"COLLECTRACE_LOG_DIR": str(folder / "logs"), "OMP_NUM_THREADS": "1"}


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def marks(folder: Path, kind: str) -> list[str]:
    return sorted(file.name for file in folder.rglob(f"verdict.*.{kind}"))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"^\[rank\d+\]: ?", "", text, flags=re.MULTILINE))


def stalls(folder: Path, rank: int) -> int:
    [file] = folder.rglob(f"rank{rank:05}.jsonl")
    return file.read_text().count('"kind":"stall"')


def shared(folder: Path, script: str, world: int = 2, **options: object) -> Apart:
    """Ranks without a launcher, in one folder."""
    options = {"online": 0, "log_dir": folder / "logs", "heartbeat": 0.5, **options}
    return Apart(folder, BEGIN + script, world, **options)


def test_a_hang_is_explained_once_and_nobody_asks_any_more(tmp_path: Path) -> None:
    with shared(tmp_path, HANGS, 3, stall_after=2) as ranks:
        ranks.wait_for(lambda: marks(tmp_path, TOLD))
        [rank] = (rank for rank in range(3) if HEAD in ranks.said(rank))
        said = ranks.said(rank)
        assert said.count(HEAD) == 1
        lines = [line for line in said.splitlines() if line.startswith(f"[rank{rank}]:")]
        assert re.search(
            r"error\[CT102\] rank 1 skipped all_reduce \(train.py:\d+\)",
            plain("\n".join(lines)),
        )
        assert any("false on rank 1" in line for line in lines)
        [run] = (tmp_path / "logs").glob("2*")
        assert lines[-1] == f"[rank{rank}]: more: python -m collectrace align {run}"
        # On a busy machine ranks may stall twice before the verdict.
        asked = [ranks.said(rank).count("To see why, run: ") for rank in range(3)]
        assert sum(asked) <= sum(stalls(run, rank) for rank in range(3))
        # Each rank stalls again, and has nothing to say.
        ranks.wait_for(lambda: all(stalls(run, rank) >= 3 for rank in range(3)))
        assert [ranks.said(rank).count("To see why, run: ") for rank in range(3)] == asked
        assert marks(tmp_path, LOOK) == ["verdict.0001.look"]


def test_an_exception_that_ends_one_rank_is_explained(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BEGIN + PATIENT + RAISES)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         "train.py"], cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.count(HEAD) == 1
    assert "rank 1 raised ValueError (train.py:" in plain(done.stdout)
    assert "[rank1]: ValueError: no sample 37" in done.stdout
    assert "rank 1 ended with ValueError" not in done.stdout, "nobody is to ask"


def test_one_whose_files_are_moved_from_a_spool_is_explained(tmp_path: Path) -> None:
    with shared(tmp_path, PATIENT + RAISES, 3, spool="on") as ranks:
        assert ranks.ranks[1].wait(PATIENCE) == 1
        said = "".join(map(ranks.said, range(3)))
        assert said.count(HEAD) == 1
        assert "rank 1 raised ValueError (train.py:" in plain(said)


@pytest.mark.slow
def test_an_exception_of_all_ranks_needs_no_verdict(tmp_path: Path) -> None:
    script = f"""{PATIENT}
dist.all_reduce(torch.ones(1))
raise ValueError("bad option")
"""
    with shared(tmp_path, script, 3) as ranks:
        assert [one.wait(PATIENCE) for one in ranks.ranks] == [1, 1, 1]
        for rank in range(3):
            assert HEAD not in ranks.said(rank)
            assert "ValueError: bad option" in ranks.said(rank)
            assert f"rank {rank} ended with ValueError. To see why, run: " in ranks.said(rank)
        assert marks(tmp_path, TOLD) == []


@pytest.mark.slow
def test_a_rank_of_multiprocessing_that_raises_is_explained(tmp_path: Path) -> None:
    script = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
import torch, torch.distributed as dist, torch.multiprocessing as mp
import collectrace

def train(rank, port):
    collectrace.enable()
    {PATIENT.strip().replace(chr(10), "; ")}
    os.environ |= {{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        time.sleep(1)
        raise LookupError("no sample 37")
    dist.all_reduce(torch.ones(1))

if __name__ == "__main__":
    mp.spawn(train, (sys.argv[1],), 2)
"""
    from tests.support.apart import free_port

    (tmp_path / "train.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "train.py", str(free_port())], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count(HEAD) == 1
    assert "rank 1 raised LookupError" in plain(done.stderr)
    assert "LookupError: no sample 37" in done.stderr.rpartition(HEAD)[2]


DIES = """
import collectrace.tracer.life.reporter as reporter
reporter._TO_TAKE_OVER = 5.0
def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)
group = dist.new_group([0, 1])
if rank == 2:
    reporter.AlignerProcess = dies
    time.sleep(600)
for _ in range(60):
    dist.all_reduce(torch.zeros(1), group=group)
    time.sleep(0.1)
dist.broadcast(torch.zeros(1), 0, group=group) if rank else dist.barrier(group=group)
"""


@pytest.mark.slow
def test_another_rank_takes_over_from_one_that_dies(tmp_path: Path) -> None:
    # Rank 2 stalls first, by itself.
    with shared(tmp_path, DIES, 3, stall_after=3) as ranks:
        ranks.wait_for(lambda: HEAD in ranks.said(0) + ranks.said(1))
        assert ranks.ranks[2].wait(PATIENCE) == -signal.SIGKILL
        ranks.wait_for(lambda: marks(tmp_path, TOLD))
        assert marks(tmp_path, LOOK) == ["verdict.0001.look", "verdict.0002.look"]
        assert marks(tmp_path, TOLD) == ["verdict.0002.told"]
        assert (ranks.said(0) + ranks.said(1)).count(HEAD) == 1


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    with shared(tmp_path, HANGS, stall_after=1, report=0) as ranks:
        ranks.wait_for(
            lambda: all(ranks.said(rank).count("To see why, run: ") >= 3 for rank in range(2))
        )
        assert HEAD not in ranks.said(0) + ranks.said(1)
        assert marks(tmp_path, "*") == []


def test_ranks_that_compare_notes_explain_it_once(tmp_path: Path) -> None:
    with shared(tmp_path, HANGS, stall_after=1, online=1) as ranks:
        ranks.wait_for(lambda: "the whole report: " in ranks.said(0) + ranks.said(1))
        [run] = (tmp_path / "logs").glob("2*")
        ranks.wait_for(lambda: all(stalls(run, rank) >= 4 for rank in range(2)))
        assert HEAD not in ranks.said(0) + ranks.said(1)
        assert marks(tmp_path, LOOK) == []


@pytest.mark.slow
def test_where_each_rank_has_a_folder_of_its_own_nothing_is_read(tmp_path: Path) -> None:
    with Apart(tmp_path, BEGIN + HANGS, online=0, heartbeat=0.5, stall_after=1) as ranks:
        ranks.wait_for(
            lambda: all(ranks.said(rank).count("To see why, run: ") >= 3 for rank in range(2))
        )
        assert marks(tmp_path, "*") == []


WATCHED = {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.scandir", "os.listdir"}


def _trains() -> list[str]:
    seen: list[str] = []

    def watch(event: str, given: tuple[Any, ...]) -> None:
        # A late import looks into the folders that it searches.
        if event in WATCHED and not {*map(str, given)} & {*sys.path_importer_cache}:
            seen.append(event)

    sys.addaudithook(watch)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    until = time.monotonic() + 3  # ten heartbeats
    stop = torch.zeros(1)
    while not stop:
        model(torch.ones(2, 4)).sum().backward()
        stop = torch.tensor([float(time.monotonic() > until)])
        dist.all_reduce(stop)
    return seen


def test_a_healthy_job_starts_no_process_and_reads_nothing(ranks: Ranks) -> None:
    ran = ranks.run(_trains, 2, env={"COLLECTRACE_REPORT": "1", "COLLECTRACE_STALL_AFTER": "60"})
    for rank in range(2):
        assert ran.result(rank) == []
        assert ran.output(rank) == ""
    assert marks(ran.logs, "*") == []


def _evaluates(until: str) -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        logs = Path(os.environ["COLLECTRACE_LOG_DIR"])
        while not list(logs.glob(f"2*/{until}")):
            time.sleep(0.1)
    dist.barrier()


def evaluated(ranks: Ranks, until: str, stall_after: float) -> Ran:
    env = {"COLLECTRACE_REPORT": "1", "COLLECTRACE_STALL_AFTER": str(stall_after)}
    return ranks.run(_evaluates, 3, until, env=env, timeout=PATIENCE)


def test_a_slow_evaluation_is_no_error(ranks: Ranks) -> None:
    # What is read after 6 s is an error to ``align``.
    ran = evaluated(ranks, f"verdict.0001.{QUIET}", 6.0)
    assert marks(ran.logs, TOLD) == []
    assert not any(HEAD in ran.output(rank) for rank in range(3))


@pytest.mark.slow
def test_one_that_lasts_eight_times_as_long_is(ranks: Ranks) -> None:
    ran = evaluated(ranks, f"verdict.*.{TOLD}", 1.0)
    assert "".join(map(ran.output, range(3))).count(HEAD) == 1


CLOSED = {
    "closed": "sys.stderr.close()",
    "its descriptor is closed": "os.close(2)",
    "nobody reads it": "r, w = os.pipe(); os.dup2(w, 2); os.close(r)",
    "a pipe that is full": """
r, w = os.pipe()
os.set_blocking(w, False)
try:
    while True:
        os.write(w, bytes(4096))
except BlockingIOError:
    os.set_blocking(w, True)
os.dup2(w, 2)
sys.stderr = open(os.devnull, "w")
""",
}


@pytest.mark.parametrize("how", CLOSED)
def test_a_standard_error_that_takes_nothing_holds_nobody_up(tmp_path: Path, how: str) -> None:
    with shared(tmp_path, CLOSED[how] + RAISES) as ranks:
        assert ranks.ranks[1].wait(PATIENCE) == 1
        assert ranks.ranks[0].wait(PATIENCE) in (1, -signal.SIGABRT)


PARENT = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from collectrace.tracer.life.aligner_process import AlignerProcess
started = AlignerProcess(
    "report_by_itself", [sys.argv[1], "1", "0", str(os.getpid()), "50", "60"]
)
print(started._process.pid, flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.mark.slow
def test_a_look_does_not_outlive_its_job_for_long(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        mark = tmp_path / f"verdict.0001.{LOOK}"
        mark.touch()
        os.utime(mark, (0, 0))
        wait_for(lambda: mark.stat().st_mtime > 0)  # it is on
        assert Path(f"/proc/{child}").exists()
    wait_for(lambda: not _runs(child))


def _runs(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False

"""A file that cannot be written: training goes on, and what was lost is told, counted, dated."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist

from collectrace.align import align
from collectrace.errors import DamagedRecord
from collectrace.findings import Alignment
from collectrace.records import Alive, Call, Checkpoint, Exit, Group, Header, Record, decode
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.switch import current
from tests.support import rank_file_checks
from tests.support.real_ranks import Ran, Ranks

CALLS: Final = 60


def work(calls: int = CALLS) -> None:
    """Right results, whatever becomes of the record."""
    for n in range(calls):
        tensor = torch.full((3,), float(n + dist.get_rank()))
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2.0 * n + 1] * 3


def writer() -> Writer:
    return recorder().writer


def recorder() -> Recorder:
    session = current()
    assert session is not None
    assert session.recorder is not None
    return session.recorder


def until(condition: Callable[[], Any]) -> None:
    """The watchdog has found it out; how soon is the machine's business."""
    while not condition():
        time.sleep(0.05)


def lines(ran: Ran, rank: int) -> tuple[list[Record], int]:
    """A rank's records of all its segments, and how many lines are no record."""
    found: list[Record] = []
    damaged = 0
    for path in sorted(ran.logs.glob(f"2*/rank{rank:05}*.jsonl"), key=segment):
        for line in path.read_bytes().split(b"\n"):
            try:
                record = decode(line) if line else None
            except DamagedRecord:
                damaged += 1
            else:
                found += [] if record is None else [record]
    return found, damaged


def segment(path: Path) -> int:
    return int(path.stem.partition(".")[2] or 0)


def check_loss(ran: Ran, rank: int, calls: int = 3 * CALLS) -> list[int]:
    """The loss of a rank is whole, told once and counted; which calls are missing."""
    records, damaged = lines(ran, rank)
    assert damaged <= 1
    held = [record for record in records if isinstance(record, Call)]
    missing = sorted(set(range(1, calls + 1)) - {call.seq for call in held})
    assert len(held) + len(missing) == calls, "no call is there twice"
    [end] = [record for record in records if isinstance(record, Exit)]
    assert end.dropped >= len(missing) > 0
    assert (end.calls, end.failures) == (calls, 0)
    told = [line for line in ran.output(rank).splitlines() if "cannot write" in line]
    assert len(told) == 1, ran.output(rank)
    # As soon as writing works: before the first call that is there again, and as it stood then.
    back = next(i for i, r in enumerate(records) if isinstance(r, Call) and r.seq > missing[-1])
    found = [r for r in records[:back] if isinstance(r, Checkpoint) and r.dropped]
    assert found[-1].dropped >= len(missing)
    stands = max((row[2], row[3]) for row in found[-1].streams)
    assert stands[0] == missing[-1]
    return missing


def check_verdict(ran: Ran, ranks_lost: int = 1) -> Alignment:
    """The aligner says what is lost, and blames nobody for it."""
    alignment = align(ran.logs)
    assert alignment.evidence.dropped >= ranks_lost
    found = [f for f in alignment.findings if f.kind != "straggler"]  # a busy machine's
    assert not [f for f in found if f.severity == "error" or f.suspects]
    assert alignment.status in ("aligned", "unknown")
    return alignment


# -- a full disk ----------------------------------------------------------------------------


def file_sizes_are_limited() -> None:
    """Rank 1's disk is full for a while, as far as it can tell."""
    work()
    if dist.get_rank() == 1:
        size = writer().path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
    work()
    if dist.get_rank() == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        until(lambda: writer().fd >= 0)
    work()


def test_a_full_disk_for_one_rank(ranks: Ranks) -> None:
    ran = ranks.run(file_sizes_are_limited)
    missing = check_loss(ran, 1)
    assert missing == list(range(CALLS + 1, 2 * CALLS + 1))
    # Digests went on: the ranks agree again on each row behind the loss.
    last = [[r for r in lines(ran, rank)[0] if isinstance(r, Call)][-1] for rank in (0, 1)]
    assert last[0].digest == last[1].digest
    alignment = check_verdict(ran)
    assert alignment.evidence.dropped == lines(ran, 1)[0][-1].dropped  # type: ignore[attr-defined]


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A small file system of its own."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", ",".join(("size=128k", *options)), "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def disk_fills(folder: str) -> None:
    """Both ranks fill the disk they share; then somebody makes room."""
    work()
    ballast = Path(folder, f"ballast{dist.get_rank()}")
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    dist.barrier()
    work(CALLS * 5)
    ballast.unlink()
    until(lambda: writer().fd >= 0)
    work()


def test_a_full_file_system(ranks: Ranks, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk:
        logs = disk / "logs"
        ran = ranks.run(disk_fills, 2, str(disk), env={"COLLECTRACE_LOG_DIR": str(logs)})
        shutil.copytree(logs, ran.logs)
    for rank in range(2):
        check_loss(ran, rank, 7 * CALLS + 1)
    check_verdict(ran, 2)


# -- folders that are not there -------------------------------------------------------------


def folder_goes(folder: str) -> None:
    """Deleted in the middle of it, and the working directory with it."""
    os.chdir(folder)
    work()
    with recorder().lock:  # else a heartbeat that falls into the calls finds it out at once
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(folder)
        dist.barrier()
        work(CALLS - 2)
    until(writer().path.exists)
    work()


def test_a_folder_that_is_deleted(ranks: Ranks, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    ran = ranks.run(folder_goes, 2, str(gone), env={"COLLECTRACE_LOG_DIR": str(gone / "logs")})
    shutil.copytree(gone / "logs", ran.logs)
    for rank in range(2):
        missing = check_loss(ran, rank)
        assert missing == list(range(1, 2 * CALLS + 1))
        records, _ = lines(ran, rank)
        assert isinstance(records[0], Header)
        assert [r.group for r in records if isinstance(r, Group)] == ["0", "0"]
    check_verdict(ran, 2)


def folder_comes(blocker: str, command: list[str]) -> None:
    """Nothing can be written until something is out of the way."""
    assert writer().fd < 0
    work()
    dist.barrier()
    if dist.get_rank() == 0 and command:
        subprocess.run(command, check=True)
    elif dist.get_rank() == 0:
        Path(blocker).unlink()
    until(lambda: writer().fd >= 0)
    work()
    work(CALLS - 1)


def test_a_file_in_the_folders_place(ranks: Ranks, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.write_text("mine")
    ran = ranks.run(folder_comes, 2, str(logs), [], env={"COLLECTRACE_LOG_DIR": str(logs)})
    shutil.copytree(logs, ran.logs)
    for rank in range(2):
        assert check_loss(ran, rank) == list(range(1, CALLS + 2))
    check_verdict(ran, 2)


def test_a_read_only_file_system(ranks: Ranks, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "ro") as disk:
        again = ["mount", "-o", "remount,rw", str(disk)]
        ran = ranks.run(folder_comes, 2, "", again, env={"COLLECTRACE_LOG_DIR": str(disk)})
        shutil.copytree(disk, ran.logs, dirs_exist_ok=True)
    for rank in range(2):
        assert check_loss(ran, rank) == list(range(1, CALLS + 2))
    check_verdict(ran, 2)


# -- rotation -------------------------------------------------------------------------------

MAX_BYTES: Final = 400_000
MANY: Final = 3000


def many(one_more: bool) -> None:
    dist.all_reduce(torch.ones(5))
    dist.new_group([0, 1])
    for n in range(MANY):
        dist.all_reduce(torch.ones(2 + n % 3))
    if one_more and dist.get_rank() == 1:
        dist.all_reduce(torch.ones(9), async_op=True)
        os._exit(0)


@pytest.mark.parametrize("one_more", [pytest.param(False, marks=pytest.mark.slow), True])
def test_rotation_keeps_the_first_and_the_newest(one_more: bool, ranks: Ranks) -> None:
    ran = ranks.run(many, 2, one_more, env={"COLLECTRACE_MAX_BYTES": str(MAX_BYTES)})
    for rank in range(2):
        files = sorted(ran.logs.glob(f"2*/rank{rank:05}*.jsonl"), key=segment)
        numbers = [segment(file) for file in files]
        assert numbers[0] == 0
        assert numbers[1:] == list(range(numbers[1], numbers[-1] + 1))
        gone = numbers[1] - 1
        assert gone > 0
        assert MAX_BYTES // 2 < sum(file.stat().st_size for file in files) <= MAX_BYTES
        for number, file in zip(numbers, files, strict=True):
            read = rank_file_checks.read(file)
            assert not read.torn
            assert read.header.segment == number
            assert read.header.run == file.parent.name
            assert len(read.groups()) == 2
        last = list(rank_file_checks.read(files[-1]).of(Checkpoint))
        assert (last[0].rotated, last[-1].rotated) == (gone, gone)
        rows = {tuple(row[:2]): row for row in last[0].streams}
        first = rank_file_checks.read(files[-1]).calls[0]
        assert rows["0", "cpu"][2] == first.seq - 1
    alignment = align(ran.logs)
    errors = [f for f in alignment.findings if f.severity == "error"]
    if one_more:
        assert [(f.kind, f.seq) for f in errors] == [("missing_call", MANY + 2)]
    else:
        assert errors == []


# -- init that never ends -------------------------------------------------------------------


def meets_nobody() -> None:
    os.environ["WORLD_SIZE"] = "2"
    dist.init_process_group("gloo")


def test_a_rank_that_waits_for_the_others_for_ever(ranks: Ranks) -> None:
    ran = ranks.run(meets_nobody, 1, init=False, limit=3, exits=(None,))
    [log] = ran.files
    assert log.path.parent.name == "pending"
    assert (log.header.run, log.header.rank, log.header.world_size) == (None, 0, 2)
    assert [(g.phase, g.site) for g in log.of(Group)] == [
        ("asked", f"{__file__}:{meets_nobody.__code__.co_firstlineno + 2}")
    ]
    assert log.of(Alive)[-1].in_[0].what == "group"
    alignment = align(ran.logs)
    assert alignment.exit_status in (1, 3)
    assert alignment.evidence.missing_ranks == (1,)


# -- signal handlers ------------------------------------------------------------------------


def interrupted() -> Any:
    """A handler that issues collectives of its own, at any moment of the main program."""
    mine = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
    seen = []

    def handler(*_: object) -> None:
        seen.append(1)
        dist.broadcast(torch.ones(1), dist.get_rank(), group=mine)
        # Again only now: where a call takes longer than that, it would never end.
        signal.setitimer(signal.ITIMER_REAL, 0.0007)

    signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGUSR1, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0007)
    for n in range(1500):
        dist.all_reduce(torch.ones(2))
        if n % 50 == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
    # One that has come already sets the timer again.
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return len(seen)


def test_handlers_that_interrupt_the_tracer(ranks: Ranks) -> None:
    ran = ranks.run(interrupted)
    files = rank_file_checks.read_run(ran.logs, 2)
    for rank, file in enumerate(files):
        assert not file.torn
        assert (file.exit.failures, file.exit.dropped) == (0, 0)
        # A handler that interrupts one between its number and its line is written first.
        calls = sorted(file.calls, key=lambda call: call.seq)
        rank_file_checks.check_chain(
            rank_file_checks.RankFile([*file.of(Header), *file.of(Group), *calls], False)
        )
        handled = [call for call in calls if call.op == "broadcast"]
        assert len(handled) == ran.result(rank) > 30
        assert len(calls) == 1500 + len(handled)
        assert {call.site for call in handled if call.site} == {
            f"{__file__}:{interrupted.__code__.co_firstlineno + 7}"
        }
    assert align(ran.logs).status == "aligned"


# -- names ----------------------------------------------------------------------------------


def in_an_odd_folder(folder: str) -> None:
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/not\xffutf-8\n"))
    odd.mkdir(exist_ok=True)
    os.chdir(odd)
    source = compile("import torch.distributed as dist; dist.barrier()", odd / "a.py", "exec")
    exec(source)


def test_paths_that_are_not_utf_8(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(in_an_odd_folder, 2, str(tmp_path))
    for rank in range(2):
        [call] = ran.calls(rank)
        assert call.site == f"{tmp_path}/not?utf-8\n/a.py:1"
    assert align(ran.logs).status == "aligned"

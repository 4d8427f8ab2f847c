"""A log folder whose file system stops answering does not hold the job, and loses no record."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist

from collectrace.align import align
from collectrace.records import Header, decode
from collectrace.tracer.life import mover, spool
from collectrace.tracer.switch import current
from tests.support.real_ranks import Ran, Ranks, read_log
from tests.support.stopping_mount import StoppingMount, mounted

STEPS: Final = 200
PATIENCE: Final = 120.0


def holds_no_rank(folder: Path) -> bool:
    """Whether no rank file is left below a folder, from which a process of its own removes them."""
    try:
        return not any(folder.rglob("rank*"))
    except FileNotFoundError:  # a folder went while it was looked at
        return False


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def have_calls() -> bool:
    """Whether a part of both ranks' records was moved."""
    paths = [*Path(os.environ["COLLECTRACE_LOG_DIR"]).glob("2*/rank*.jsonl")]
    return len(paths) == 2 and all(map(read_calls, paths))


def steps(server: int = 0, stop: int = -1, go_on: int = -1) -> str:
    """Train, and return where this rank's spool lies; in some steps, send a signal to a process."""
    for n in range(STEPS):
        if server and dist.get_rank() == 0 and n in (stop, go_on):
            if n == stop:
                until(have_calls)
            os.kill(server, signal.SIGSTOP if n == stop else signal.SIGCONT)
        tensor = torch.full((3,), float(n + dist.get_rank()))
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2.0 * n + 1] * 3
        time.sleep(0.005)
    session = current()
    if session is None or session.recorder is None or session.recorder.writer.spool is None:
        return ""
    return str(session.recorder.writer.spool.folder)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[StoppingMount]:
    with mounted(tmp_path) as found:
        yield found


@pytest.fixture(autouse=True)
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for spools."""
    folder = tmp_path / "local"
    folder.mkdir()
    return folder


def on(mount: StoppingMount, local: Path, **more: str) -> dict[str, str]:
    return {"COLLECTRACE_LOG_DIR": str(mount.folder / "logs"), "TMPDIR": str(local), **more}


def files(folder: Path) -> dict[str, bytes]:
    """What lies below a folder, without the numbers of the files."""
    inode = re.compile(rb'"inode":\d+ *')
    return {
        str(path.relative_to(folder)): inode.sub(b"", path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def is_aligned(folder: Path) -> bool:
    found = align(folder)
    return found.status == "aligned" and found.world_size == 2 and found.exit_status == 0


def test_a_file_system_that_stops_and_goes_on(
    ranks: Ranks, mount: StoppingMount, local: Path
) -> None:
    ran = ranks.run(steps, 2, mount.server, 50, 150, env=on(mount, local))
    assert "does not answer" not in ran.output(0) + ran.output(1)
    assert is_aligned(mount.behind / "logs")
    for rank in range(2):
        [path] = (mount.behind / "logs").glob(f"2*/rank{rank:05}.jsonl")
        log = read_log(path)
        assert len(log.calls) == STEPS
        assert log.exit is not None
        assert log.header.inode == (mount.folder / path.relative_to(mount.behind)).stat().st_ino
        assert str(log.header.spool).startswith(ran.result(rank))
    until(lambda: holds_no_rank(local))


def test_a_file_system_that_never_answers_again(
    ranks: Ranks, mount: StoppingMount, local: Path, tmp_path: Path
) -> None:
    ran = ranks.run(steps, 2, mount.server, 50, env=on(mount, local))
    assert mount.is_stopped, "training came to its end all the same, and so did the processes"
    told = " ".join((ran.output(0) + ran.output(1)).split())
    folder = Path(ran.result()).parent
    assert (
        told.count(f"To read what lies on this machine: python -m collectrace align {folder}") == 2
    )
    assert is_aligned(folder)
    # What was moved names the spool, in which the aligner finds the rest.
    moved = tmp_path / "moved"
    shutil.copytree(mount.behind / "logs", moved)
    sizes = [(path.stat().st_size, len(read_calls(path))) for path in moved.glob("2*/rank*.jsonl")]
    assert len(sizes) == 2
    assert all(0 < calls < STEPS for _, calls in sizes)
    assert is_aligned(moved)
    whole: dict[str, bytes] = {}
    for rank in range(2):
        whole |= files(Path(ran.result(rank)))
    mount.go_on()
    until(lambda: holds_no_rank(local))
    del whole[mover.OVER]
    assert files(mount.behind / "logs") == whole


def read_calls(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if line.startswith(b'{"kind":"call"')]


def hangs_in_a_write(server: int) -> bool:
    """Record to the file system itself, until a write hangs."""
    spool._LOCAL = spool._LOCAL | {"fuse", "fuse.bindfs"}  # type: ignore[misc]
    dist.init_process_group("gloo")
    session = current()
    assert session is not None
    assert session.recorder is not None
    writer = session.recorder.writer
    assert writer.spool is None
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    found = threading.Event()

    def stop_and_go() -> None:
        # The watchdog may be the first to write, and then cannot see that a write hangs. Pauses
        # of one length could keep time with its heartbeat, so that it is always the first.
        for pause in itertools.cycle((1.0, 0.4, 1.7)):
            if found.is_set():
                break
            os.kill(server, signal.SIGSTOP)
            time.sleep(5)
            os.kill(server, signal.SIGCONT)
            time.sleep(pause)

    stopping = threading.Thread(target=stop_and_go)
    if dist.get_rank() == 0:
        stopping.start()
    for _ in itertools.count():
        state = torch.tensor([float(writer.spool is not None)])
        dist.all_reduce(state)
        if state.item():
            break
    for _ in range(10):
        dist.all_reduce(torch.ones(1))
    found.set()
    if dist.get_rank() == 0:
        stopping.join()
    moved = writer.spool is not None
    dist.destroy_process_group()
    return moved


def test_a_spool_takes_over_once_a_write_hangs(
    ranks: Ranks, mount: StoppingMount, local: Path
) -> None:
    ran = ranks.run(
        hangs_in_a_write,
        2,
        mount.server,
        init=False,
        env=on(mount, local, COLLECTRACE_STALL_AFTER="60"),
    )
    logs = mount.behind / "logs"
    assert is_aligned(logs)
    spooled = [rank for rank in range(2) if ran.result(rank)]
    assert spooled
    for rank in spooled:
        first, second = sorted(logs.glob(f"2*/rank{rank:05}*.jsonl"), key=lambda p: len(p.name))
        headers = [decode(path.read_bytes().splitlines()[0]) for path in (first, second)]
        assert all(isinstance(header, Header) for header in headers)
        assert [getattr(header, "spool", None) is None for header in headers] == [True, False]


def records(ran: Ran) -> list[list[Any]]:
    """What each file of a run holds, without times and what only this run can have."""
    own = ("t", "wall", "pid", "inode", "spool", "cwd", "run", "ns", "bytes", "since", "argv")
    return [
        [log.path.name]
        + [
            [(type(r).__name__, {k: v for k, v in fields(r) if k not in own})]
            for r in log.records
            if type(r).__name__ in ("Header", "Group", "Call", "Stack", "Exit")
        ]
        for log in ran.files
    ]


def fields(record: object) -> list[tuple[str, Any]]:
    return [(name, getattr(record, name)) for name in type(record).__dataclass_fields__]  # type: ignore[attr-defined]


def test_it_records_what_a_direct_run_records(ranks: Ranks, local: Path) -> None:
    direct, spooled = (
        ranks.run(steps, env={"COLLECTRACE_SPOOL": how, "TMPDIR": str(local)})
        for how in ("off", "on")
    )
    assert not direct.result()
    assert spooled.result()
    assert records(spooled) == records(direct)
    texts = [sorted(path.name for path in ran.logs.rglob("*.py")) for ran in (direct, spooled)]
    assert texts[0] == texts[1]


def dies() -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        for _ in range(100):
            dist.send(torch.ones(1), 0)
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(100):
        dist.recv(torch.ones(1), 1)
    dist.recv(torch.ones(1), 1)


def test_the_records_of_a_killed_rank_arrive(ranks: Ranks, local: Path) -> None:
    ran = ranks.run(
        dies, env={"COLLECTRACE_SPOOL": "on", "TMPDIR": str(local)}, exits=(1, -signal.SIGKILL)
    )
    until(lambda: holds_no_rank(local))
    assert len(read_log(next(ran.logs.glob("2*/rank00001.jsonl"))).calls) == 101
    [finding] = [finding for finding in align(ran.logs).findings if finding.suspects]
    assert finding.suspects == (1,)
    assert "SIGKILL" in str(finding) or "died" in str(finding) or "ended" in str(finding)

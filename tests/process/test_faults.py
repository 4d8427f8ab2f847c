"""Faults around a job in training: the same parameters as untraced, and losses that are told.

What the tracer's own failures do is in ``test_failures``, what its file meets in ``test_writer``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from collectrace.align import align
from collectrace.records import Exit
from collectrace.tracer.switch import current
from tests.process.test_writer import lines
from tests.support import trainings
from tests.support.preloaded import fail_writes, move_clocks, preloaded
from tests.support.real_ranks import Ran, Ranks
from tests.zoo.runner import Server

STEPS: Final = 4
CALLS: Final = 300
"""All-reduces of a step: enough for a segment of the file."""


def step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> float:
    """One step of training, and what goes beside it."""
    rank = dist.get_rank()
    batch = next(trainings.batches(rank + seed, 1))
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    total = torch.zeros(1)
    for n in range(CALLS):
        one = torch.full((1 + n % 3,), float(n + rank))
        dist.all_reduce(one)
        total += one.sum()
    work = dist.all_reduce(total, async_op=True)
    assert work is not None
    work.wait()
    if rank:
        dist.send(total, 0)
    else:
        dist.recv(total, 1)
    dist.barrier()
    return total.item()


def trains(fault: str, folder: str) -> Any:
    """The parameters after some steps, of which those in the middle see the fault."""
    model = DistributedDataParallel(trainings.net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = [step(model, optimizer, 0)]
    with FAULTS[fault](Path(folder)) if dist.get_rank() == 1 else contextlib.nullcontext():
        losses += [step(model, optimizer, n) for n in range(1, STEPS)]
    losses.append(step(model, optimizer, STEPS))
    return losses, trainings.state(model)


# -- faults -------------------------------------------------------------------------------------


@contextmanager
def descriptors_run_out(_: Path) -> Iterator[None]:
    taken = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    there = len([*Path("/proc/self/fd").iterdir()])
    resource.setrlimit(resource.RLIMIT_NOFILE, (there + 5, limits[1]))
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    yield
    for fd in taken:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@contextmanager
def permission_is_lost(_: Path) -> Iterator[None]:
    os.seteuid(65534)
    yield
    os.seteuid(0)


@contextmanager
def the_folder_is_replaced(folder: Path) -> Iterator[None]:
    logs = Path(os.environ["COLLECTRACE_LOG_DIR"])
    if logs.exists():
        logs.rename(folder / "elsewhere")
    logs.write_text("a file")
    yield
    logs.unlink()


@contextmanager
def standard_error_is_closed(_: Path) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    os.close(2)
    yield
    os.dup2(kept, 2)
    os.close(kept)


@contextmanager
def signals_come(_: Path) -> Iterator[None]:
    """A timer of the program's, every half millisecond, and a signal of faulthandler's.

    Of the thread that it interrupts: where faulthandler reads other threads, which go on meanwhile,
    a program of Python alone dies of it within seconds (3.11, ``dump_traceback_later`` as well).
    """
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(len(seen)))
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - it is held open
        faulthandler.enable(nowhere)
        faulthandler.register(signal.SIGUSR1, nowhere, all_threads=False)
        over = threading.Event()

        def storm() -> None:
            while not over.wait(0.002):
                os.kill(os.getpid(), signal.SIGUSR1)

        thread = threading.Thread(target=storm)
        thread.start()
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        over.set()
        thread.join()
        faulthandler.unregister(signal.SIGUSR1)
        faulthandler.disable()
    signal.signal(signal.SIGALRM, before)
    assert len(seen) > 10


@contextmanager
def garbage_is_collected(_: Path) -> Iterator[None]:
    """All the time, with a callback of the program's that makes more of it."""

    def callback(*_: object) -> None:
        cycle: list[Any] = []
        cycle.append(cycle)

    before = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(20, 2, 2)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(callback)


def _child(n: int) -> NoReturn:
    """Ends in one of several ways, without a word."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if n % 4 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if n % 4 == 1:
        os._exit(0)
    if n % 4 == 2:
        raise ValueError("of the child")
    sys.exit(3)


@contextmanager
def it_forks(_: Path) -> Iterator[None]:
    """From the main thread, and from another while the main one is in collectives."""
    over = threading.Event()
    children: list[int] = []

    def fork(n: int) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                _child(n)
            finally:
                os._exit(1)
        children.append(pid)

    def forks() -> None:
        for n in range(20):
            if over.wait(0.02):
                break
            fork(n)

    for n in range(4):
        fork(n)
    thread = threading.Thread(target=forks)
    thread.start()
    yield
    over.set()
    thread.join()
    for child in children:
        os.waitpid(child, 0)
    assert len(children) > 4


@contextmanager
def its_file_is_closed(folder: Path) -> Iterator[None]:
    """The program closes all numbers from some on, and then a file of its own gets one of them."""
    session = current()
    if session is None or session.recorder is None:
        yield
        return
    fd = session.recorder.writer.fd
    os.close(fd)
    with (folder / "theirs").open("w") as theirs:
        os.dup2(theirs.fileno(), fd)
        yield
        written = (folder / "theirs").read_bytes()
        assert written.count(b"\n") < CALLS, "no line more once that was noticed"
        os.close(fd)


@contextmanager
def writes_fail(_: Path) -> Iterator[None]:
    """With EIO, as on a disk that breaks."""
    logs = Path(os.environ["COLLECTRACE_LOG_DIR"])
    fail_writes(logs, 100, sys.maxsize)
    yield
    fail_writes(logs, 0, 0)


@contextmanager
def some_writes_fail(_: Path) -> Iterator[None]:
    """And are tried again soon, with what comes first in a file among them."""
    logs = Path(os.environ["COLLECTRACE_LOG_DIR"])
    fail_writes(logs, 50, 52)
    yield
    fail_writes(logs, 0, 0)


HOURS: Final = 3600.0


@contextmanager
def the_wall_clock_jumps(_: Path) -> Iterator[None]:
    """Back and forth, at any moment, and at last back for good."""
    over = threading.Event()

    def jumps() -> None:
        n = 0
        while not over.wait(0.01):
            move_clocks(wall=(-3 * HOURS, 5 * HOURS, 100 * HOURS, -0.5)[n % 4])
            n += 1

    thread = threading.Thread(target=jumps)
    thread.start()
    yield
    over.set()
    thread.join()
    move_clocks(wall=-7 * HOURS)


@contextmanager
def the_clocks_jump_forward(_: Path) -> Iterator[None]:
    """Both, between two calls: in one, torch itself would see its time limit pass."""
    move_clocks(wall=3 * HOURS, monotonic=3 * HOURS)
    yield
    move_clocks(wall=9 * HOURS, monotonic=9 * HOURS)


@contextmanager
def the_clocks_jump_back(_: Path) -> Iterator[None]:
    move_clocks(wall=-3 * HOURS, monotonic=-3 * HOURS)
    yield
    move_clocks()


FAULTS: Final[dict[str, Any]] = {
    fault.__name__: fault
    for fault in (
        descriptors_run_out, permission_is_lost, the_folder_is_replaced, standard_error_is_closed,
        signals_come, garbage_is_collected, it_forks, its_file_is_closed, writes_fail,
        some_writes_fail, the_wall_clock_jumps, the_clocks_jump_forward, the_clocks_jump_back,
    )
}  # fmt: skip

ENV: Final = {"COLLECTRACE_MAX_BYTES": "400000", "COLLECTRACE_STALL_AFTER": "600"}


def warned(ran: Ran, rank: int) -> list[str]:
    return [line for line in ran.output(rank).splitlines() if line.strip()]


QUICK: Final = {
    "permission_is_lost", "standard_error_is_closed", "its_file_is_closed", "writes_fail",
    "the_wall_clock_jumps",
}  # fmt: skip
PRELOADED: Final = {
    "writes_fail", "some_writes_fail", "the_wall_clock_jumps", "the_clocks_jump_forward",
    "the_clocks_jump_back",
}  # fmt: skip


@pytest.fixture(scope="module")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with preloaded(tmp_path_factory.mktemp("shim")) as server:
        yield server


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in sorted(FAULTS.keys() - PRELOADED)
    ],
)
def test_training_goes_on(fault: str, ranks: Ranks, tmp_path: Path) -> None:
    goes_on(fault, ranks, tmp_path)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in sorted(PRELOADED)
    ],
)
def test_training_goes_on_where_the_system_fails(
    fault: str, shimmed: Server, tmp_path: Path
) -> None:
    goes_on(fault, Ranks(shimmed, tmp_path), tmp_path)


def goes_on(fault: str, ranks: Ranks, tmp_path: Path) -> None:
    bare = ranks.run(trains, 2, fault, str(tmp_path), trace=False)
    ran = ranks.run(trains, 2, fault, str(tmp_path), env=ENV)
    for rank in range(2):
        assert ran.result(rank) == bare.result(rank)
        assert warned(bare, rank) == []
        said = warned(ran, rank)
        assert len(said) <= 1, said
        assert all("cannot write" in line for line in said)
    alignment = align(ran.logs)
    assert [f for f in alignment.findings if f.severity == "error"] == []
    assert [f.kind for f in alignment.findings if f.suspects] in ([], ["straggler"])
    lost: list[int] = []
    for rank in range(2):
        [end] = [record for record in lines(ran, rank)[0] if isinstance(record, Exit)]
        assert (end.calls, end.failures) == ((CALLS + 5) * (STEPS + 1), 0)
        lost.append(end.dropped)
    assert alignment.evidence.dropped == sum(lost)
    if max(lost) > 1:  # digests may still prove that all agreed
        assert any(": lost " in f.headline for f in alignment.findings)


def goes_on_alone(fault: str, folder: str) -> None:
    """Rank 0 issues one call more in the end than rank 1, which meets the fault."""
    rank = dist.get_rank()
    for _ in range(20):
        dist.all_reduce(torch.ones(2))
    is_met = rank == 1 and fault in FAULTS
    with FAULTS[fault](Path(folder)) if is_met else contextlib.nullcontext():
        for _ in range(50):
            dist.all_reduce(torch.ones(2))
    if rank == 0:
        with contextlib.suppress(RuntimeError):
            dist.broadcast(torch.ones(2), 0)


@pytest.mark.parametrize(
    "fault",
    [
        "the_wall_clock_jumps",
        pytest.param("the_clocks_jump_forward", marks=pytest.mark.slow),
        pytest.param("the_clocks_jump_back", marks=pytest.mark.slow),
        pytest.param("some_writes_fail", marks=pytest.mark.slow),
    ],
)
def test_what_is_wrong_is_found_all_the_same(fault: str, shimmed: Server, tmp_path: Path) -> None:
    ranks = Ranks(shimmed, tmp_path)
    clean = verdict(ranks.run(goes_on_alone, 2, "none", str(tmp_path), env=ENV))
    assert clean[1:] == [("missing_call", 71, (0,))]
    found = verdict(ranks.run(goes_on_alone, 2, fault, str(tmp_path), env=ENV))
    # Where the lines at the end are lost it cannot be known.
    assert found == clean or (fault == "some_writes_fail" and found == ["unknown"])


def verdict(ran: Ran) -> list[Any]:
    """The status, and what each error is."""
    alignment = align(ran.logs)
    errors = [f for f in alignment.findings if f.severity == "error"]
    return [alignment.status, *((f.kind, f.seq, f.suspects) for f in errors)]

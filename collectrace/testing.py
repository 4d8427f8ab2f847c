"""Test that the ranks of a program issue the same collectives.

    from collectrace.testing import assert_aligned, assert_ranks_align

    def train(rank: int, steps: int) -> None: ...          # as for torch.multiprocessing.spawn

    def test_training_stays_aligned(tmp_path):
        assert_ranks_align(train, 4, tmp_path, args=(20,))  # real processes, gloo, this machine

    def test_last_night(log_dir):
        assert_aligned(log_dir)                             # logs that are already there

The message of a failure begins with the finding and carries the whole report. Torch is imported by
the ranks, not by this module.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Collection, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from operator import methodcaller
from pathlib import Path
from typing import Any, Final

from collectrace import words
from collectrace.config import Config
from collectrace.errors import CollectraceError, LogError
from collectrace.findings import Alignment, Kind, is_proven
from collectrace.printable import clean

__all__ = ["assert_aligned", "assert_ranks_align"]

_WIDTH: Final = 100
_HOST: Final = "127.0.0.1"

_GRACE: Final = 3.0
"""Seconds that ranks have to end by themselves after an error, so that they can raise."""

_STALLED: Final = 4
"""A call stalls after this part of the limit, so that a rank's stack is recorded before its end."""

_HIDDEN: Final = methodcaller("errisinstance", (AssertionError, CollectraceError))
"""pytest leaves frames of this module out of the traceback of a failure, and of no other error."""

_Error = tuple[Kind, int | None, tuple[int, ...]]


def assert_aligned(log_dir: Path | str, **options: Any) -> Alignment:
    """Fail unless every rank of the latest run issued the same collectives.

    Args:
        log_dir: as for ``python -m collectrace align``.
        options: as of :func:`collectrace.align.align`: ``run``, ``full``, ``group``, ``strict``.

    Raises:
        AssertionError: the run diverged or hung, or its logs cannot show that it did not; with
            ``strict``, or there is a warning. The text is the report.
        LogError: the logs cannot be used at all.

    """
    __tracebackhide__ = _HIDDEN
    from collectrace.align import align

    alignment = align(log_dir, **options)
    if alignment.exit_status:
        raise AssertionError(_message(_headline(alignment), alignment))
    return alignment


def assert_ranks_align(
    function: Callable[..., object],
    world_size: int,
    log_dir: Path | str,
    *,
    args: Sequence[Any] = (),
    timeout: float = 120.0,
) -> Alignment:
    """Run ``function(rank, *args)`` on real gloo processes of this machine, and fail unless they
    stayed aligned and finished.

    The default process group is there when the function begins, and destroyed after it. Ranks that
    still run are killed once one has failed, or what they called or wait for proves an error.

    Args:
        function: a function that a spawned process can import.
        world_size: how many ranks, 1 or more.
        log_dir: a folder of the test's own, such as ``tmp_path``.
        args: what the function gets after its rank; picklable.
        timeout: seconds until ranks that still run are killed, and their logs are read as they are.

    Raises:
        AssertionError: as :func:`assert_aligned`; or a rank did not end well.
        CollectraceError: there is no rank, or the function does not take its arguments, or they
            cannot be given to another process.

    """  # noqa: D205 - one sentence, and a long one
    __tracebackhide__ = _HIDDEN
    from collectrace.align import align

    _check(function, world_size, args)
    folder = Path(log_dir)
    earlier = {run.name for run in folder.iterdir()} if folder.is_dir() else set()
    bad = _run(function, world_size, folder, earlier, tuple(args), timeout)
    try:
        alignment = align(folder)
    except LogError as problem:
        raise AssertionError(f"{bad or 'no rank recorded anything'}: {problem}") from None
    if alignment.run in earlier:
        raise AssertionError(f"{bad or 'the ranks ended well'}, and none recorded anything")
    if alignment.exit_status == 1 or (alignment.exit_status and not bad):
        raise AssertionError(_message(_headline(alignment), alignment))
    if bad:
        raised = next((one for one in alignment.findings if one.kind == "raised"), None)
        said = f"{clean(raised.cause)} ({bad})" if raised is not None else bad
        raise AssertionError(_message(said, alignment))
    return alignment


def _check(function: Callable[..., object], world_size: int, args: Sequence[Any]) -> None:
    """Check what each rank would only find after it has started.

    Raises:
        CollectraceError: what to change.

    """
    if world_size < 1:
        raise CollectraceError(f"world_size is {world_size}. Give the number of ranks, 1 or more.")
    with contextlib.suppress(ValueError):  # no signature: a function in C
        signature = inspect.signature(function)
        try:
            signature.bind(0, *args)
        except TypeError as problem:
            name = getattr(function, "__name__", "the function")
            raise CollectraceError(
                f"{name}(rank, *args) does not fit {name}{signature}: {problem}. Change args=."
            ) from None


def _message(first: str, alignment: Alignment) -> str:
    """Return the message of the failure. pytest uses its first line as the summary."""
    return f"{first}\n\n{_report(alignment)}"


def _headline(alignment: Alignment) -> str:
    told = "".join(f": {finding.headline}" for finding in alignment.findings[:1])
    return clean(f"{alignment.outcome}{told}")


def _report(alignment: Alignment) -> str:
    from rich.console import Console

    from collectrace.report import terminal

    text = io.StringIO()
    terminal.render(alignment, Console(file=text, width=_WIDTH, color_system=None))
    return text.getvalue()


def _run(
    function: Callable[..., object],
    world_size: int,
    log_dir: Path,
    earlier: Collection[str],
    args: tuple[Any, ...],
    timeout: float,
) -> str:
    """Run the ranks, and return what was wrong with their ends, or nothing.

    ``earlier``: runs that were in the folder before.
    """
    __tracebackhide__ = _HIDDEN
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # documented

    # Not in rank 0, so that the port is known before the ranks start, and outlives them.
    store = TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    stall_after = min(Config.from_environment().stall_after, timeout / _STALLED)
    options = {"log_dir": log_dir, "stall_after": stall_after}
    processes = [
        context.Process(
            target=_rank, args=(function, rank, world_size, store.port, options, args), daemon=True
        )
        for rank in range(world_size)
    ]
    ranks = _Ranks(processes, time.monotonic() + timeout)
    try:
        for process in processes:
            process.start()
        _watch(log_dir, earlier, ranks)
        return ranks.ended()
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise CollectraceError(
            f"the function or its args cannot be sent to other processes: {problem}. Define the "
            "function with def at the top level of a module, and pass plain values."
        ) from None
    finally:
        ranks.kill()


class _Ranks:
    """The processes of the ranks; also the stop flag of the follower."""

    def __init__(self, processes: Sequence[BaseProcess], deadline: float) -> None:
        self._processes = processes
        self._deadline = deadline

    def is_set(self) -> bool:
        """Return whether all have ended, one has failed, or no time is left."""
        has_failed = any(process.exitcode for process in self._processes)
        return has_failed or not self._running() or time.monotonic() >= self._deadline

    def wait(self, timeout: float) -> bool:
        """Return as soon as another one has ended, or after ``timeout`` seconds."""
        left = max(0.0, min(timeout, self._deadline - time.monotonic()))
        wait([process.sentinel for process in self._running()], left)
        return self.is_set()

    def ended(self) -> str:
        """Kill those that do not end by themselves, and return what was wrong with the ends."""
        until = min(self._deadline, time.monotonic() + _GRACE)
        while self._running() and time.monotonic() < until:
            self.wait(until - time.monotonic())
        is_late = time.monotonic() >= self._deadline
        killed = self.kill()
        failed = [
            f"rank {rank} {_end(process.exitcode)}"
            for rank, process in enumerate(self._processes)
            if process.exitcode and process not in killed
        ]
        how = "did not end in time" if is_late else "was killed after the logs proved an error"
        ranks = words.ranks(n for n, process in enumerate(self._processes) if process in killed)
        return ", ".join(failed) or (f"{ranks} {how}" if killed else "")

    def kill(self) -> list[BaseProcess]:
        """Kill those that run, and return them.

        All are stopped before the first one ends, so that none raises over a lost connection.
        """
        running = self._running()
        for ending in (signal.SIGSTOP, signal.SIGKILL):
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid or 0, ending)
        for process in running:
            process.join()
        return running

    def _running(self) -> list[BaseProcess]:
        return [process for process in self._processes if process.is_alive()]


def _end(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"


def _watch(log_dir: Path, earlier: Collection[str], ranks: _Ranks) -> None:
    """Look at the logs until they prove an error, or there is nothing more to wait for.

    A slow rank proves nothing, because it may still arrive. An error must be in two looks.
    """
    from collectrace.align.follow import INTERVAL, Follower

    before: set[_Error] = set()
    while not ranks.is_set():
        found: set[_Error] = set()
        # A follower looks no further once it has an error, be it proven or not.
        with contextlib.suppress(LogError):
            for seen in Follower(log_dir).looks(ranks):
                found = set() if seen is None or seen.run in earlier else _proven(seen)
        if found & before:
            return
        before = found
        ranks.wait(INTERVAL)


def _proven(alignment: Alignment) -> set[_Error]:
    return {
        (one.kind, one.seq, one.suspects)
        for one in alignment.findings
        if one.severity == "error" and (is_proven(one) or one.kind == "deadlock")
    }


def _rank(
    function: Callable[..., object],
    rank: int,
    world_size: int,
    port: int,
    options: dict[str, Any],
    args: tuple[Any, ...],
) -> None:
    """Run one rank, in its own process."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size))
    import torch.distributed as dist
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # documented

    import collectrace

    collectrace.enable(**options, report=False)  # the test's message is the report
    store = TCPStore(_HOST, port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    function(rank, *args)
    with contextlib.suppress(ValueError):  # the function did it
        dist.destroy_process_group()

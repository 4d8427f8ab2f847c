"""For a project's own test suite: that its ranks issue the same collectives, before a cluster does.

    from collectrace.testing import assert_aligned, assert_ranks_align

    def train(rank: int, steps: int) -> None: ...          # as for torch.multiprocessing.spawn

    def test_training_stays_aligned(tmp_path):
        assert_ranks_align(train, 4, tmp_path, args=(20,))  # real processes, gloo, this machine

    def test_last_night(log_dir):
        assert_aligned(log_dir)                             # logs that are already there

What fails carries the whole report as its text. Torch is imported by the ranks, not by this module.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from collectrace.findings import Alignment

__all__ = ["assert_aligned", "assert_ranks_align"]

_WIDTH: Final = 100
_HOST: Final = "127.0.0.1"


def assert_aligned(log_dir: Path | str, **options: Any) -> Alignment:
    """Fails unless every rank of the latest run issued the same collectives.

    Args:
        log_dir: as for ``python -m collectrace.align``.
        options: as of :func:`collectrace.align.align`: ``run``, ``full``, ``group``, ``strict``.

    Raises:
        AssertionError: the run diverged or hung, or its logs cannot show that it did not; with
            ``strict``, or there is a warning. The text is the report.
        LogError: the logs cannot be used at all.

    """
    from collectrace.align import align

    alignment = align(log_dir, **options)
    if alignment.exit_status:
        raise AssertionError(f"\n{_report(alignment)}")
    return alignment


def assert_ranks_align(
    function: Callable[..., object],
    world_size: int,
    log_dir: Path | str,
    *,
    args: Sequence[Any] = (),
    timeout: float = 120.0,
) -> Alignment:
    """Runs ``function(rank, *args)`` on real gloo processes of this machine, and fails unless they
    stayed aligned and finished.

    The default process group is there when the function begins, and destroyed after it.

    Args:
        function: a function that a spawned process can import.
        world_size: how many ranks.
        log_dir: a folder of the test's own, such as ``tmp_path``.
        args: what the function gets after its rank; picklable.
        timeout: seconds until ranks that still run are killed, and their logs are read as they are.

    Raises:
        AssertionError: as :func:`assert_aligned`; or a rank did not end well.

    """  # noqa: D205 - one sentence, and a long one
    ended = _run(function, world_size, Path(log_dir), tuple(args), timeout)
    alignment = assert_aligned(log_dir)
    bad = [f"rank {rank} {how}" for rank, how in enumerate(ended) if how]
    if bad:
        raise AssertionError(f"{', '.join(bad)}\n\n{_report(alignment)}")
    return alignment


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
    args: tuple[Any, ...],
    timeout: float,
) -> list[str]:
    """Per rank what was wrong with its end, or nothing."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # documented

    # Here and not in rank 0: the port is known before a rank starts, and outlives all of them.
    store = TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(
            target=_rank, args=(function, rank, world_size, store.port, log_dir, args), daemon=True
        )
        for rank in range(world_size)
    ]
    deadline = time.monotonic() + timeout
    try:
        for process in processes:
            process.start()
        return [_end(process, deadline) for process in processes]
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()


def _end(process: BaseProcess, deadline: float) -> str:
    process.join(max(0.0, deadline - time.monotonic()))
    if process.exitcode is None:
        process.kill()
        process.join()
        return "did not end in time"
    if process.exitcode < 0:
        return f"was killed by signal {-process.exitcode}"
    return f"exited with status {process.exitcode}" if process.exitcode else ""


def _rank(
    function: Callable[..., object],
    rank: int,
    world_size: int,
    port: int,
    log_dir: Path,
    args: tuple[Any, ...],
) -> None:
    """One rank, in a process of its own."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size))
    import torch.distributed as dist
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # documented

    import collectrace

    collectrace.enable(log_dir=log_dir, report=False)  # the test's message is the report
    store = TCPStore(_HOST, port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    function(rank, *args)
    with contextlib.suppress(ValueError):  # the function did it
        dist.destroy_process_group()

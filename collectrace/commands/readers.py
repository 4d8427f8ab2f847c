"""Who reads the rank files: this process, more processes of this machine, or a Dask cluster."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from typing import Any, Final

from collectrace.commands import arguments as common
from collectrace.errors import CollectraceError

_TIMEOUT: Final = 30
"""Seconds to wait for the scheduler of a cluster."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare how many processes read, or which cluster does."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--jobs", type=common.from_one, default=1, metavar="N",
        help="processes that read the rank files (default: 1)",
    )  # fmt: skip
    who.add_argument(
        "--dask", metavar="ADDRESS",
        help="let the workers of this Dask scheduler read the rank files, such as 10.0.0.1:8786",
    )  # fmt: skip


@contextlib.contextmanager
def opened(arguments: Namespace) -> Iterator[Executor | None]:
    """Yield the executor that the arguments name; None: this process reads.

    Raises:
        CollectraceError: there is no such cluster, or its workers were lost.

    """
    if arguments.dask is not None:
        with _dask(arguments.dask) as executor:
            yield executor
    elif arguments.jobs > 1:
        import multiprocessing

        context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
        with ProcessPoolExecutor(arguments.jobs, context) as pool:
            try:
                yield pool
            except BrokenExecutor:
                raise CollectraceError(
                    "a process that read the logs was killed, perhaps for its memory. Use fewer "
                    "with --jobs."
                ) from None
    else:
        yield None


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client, KilledWorker
        from distributed.comm.core import CommClosedError
    except ImportError:
        raise CollectraceError(
            "--dask needs distributed, which is not installed: pip install 'collectrace[dask]'"
        ) from None
    try:
        client: Any = Client(address, timeout=_TIMEOUT, set_as_default=False)  # type: ignore[no-untyped-call] # distributed has no types
    except (OSError, ValueError) as problem:
        raise CollectraceError(
            f"--dask {address}: no scheduler answers there ({problem}). Start one by "
            "`dask scheduler`, and name its address."
        ) from None
    with client:
        try:
            yield client.get_executor(pure=False)
        except KilledWorker as problem:
            raise CollectraceError(
                f"--dask {address}: workers died while they read the logs ({problem}). Give them "
                "more memory."
            ) from None
        except CommClosedError as problem:
            raise CollectraceError(
                f"--dask {address}: the cluster closed the connection ({problem}). Check that its "
                "scheduler runs, and try again."
            ) from None

"""Find the first collective at which the ranks of a torch.distributed job diverge.

::

    import collectrace; collectrace.enable()     # at the top of a script
    python -m collectrace align logs/            # after it hung
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

from collectrace.version import __version__

__all__ = ["__version__", "disable", "enable", "on_finding", "step", "trace"]


def enable(
    log_dir: str | PathLike[str] | None = None,
    *,
    max_bytes: int | str | None = None,
    heartbeat: float | str | None = None,
    stall_after: float | str | None = None,
    max_failures: int | str | None = None,
    spool: str | bool | None = None,
    sources: str | bool | None = None,
    values: str | bool | None = None,
    omit: str | Iterable[str] | None = None,
    shared: bool | str | None = None,
    library: str | Iterable[str | PathLike[str]] | None = None,
    announce: bool | str | None = None,
    native: bool | str | None = None,
    keep_runs: int | str | None = None,
    report: bool | str | None = None,
    online: bool | str | None = None,
    on_divergence: str | None = None,
) -> None:
    """Record every collective that this process and its children issue.

    Call it once, before or after ``init_process_group``. If tracing is on already, it only warns
    about options that it ignores. The arguments are those of :class:`collectrace.config.Config`, in
    any form that the variables take, such as ``"64M"``. Missing ones come from ``COLLECTRACE_*``
    variables, or from the defaults. Imports torch.

    Does nothing if the variable ``COLLECTRACE`` is 0: so a job can run untraced as it is.

    Raises nothing. If an option cannot be used, or this torch cannot be traced, it logs one line of
    warning, changes nothing, and the job runs untraced.
    """
    given = {
        "log_dir": log_dir,
        "max_bytes": max_bytes,
        "heartbeat": heartbeat,
        "stall_after": stall_after,
        "max_failures": max_failures,
        "spool": spool,
        "sources": sources,
        "values": values,
        "omit": omit,
        "shared": shared,
        "library": library,
        "announce": announce,
        "native": native,
        "keep_runs": keep_runs,
        "report": report,
        "online": online,
        "on_divergence": on_divergence,
    }
    try:
        _enable({name: value for name, value in given.items() if value is not None})
    except Exception as problem:  # noqa: BLE001 - whatever it is, the job goes on
        from collectrace.errors import not_traced

        not_traced(problem)


def _enable(given: dict[str, Any]) -> None:
    import os

    from collectrace.config import SWITCH, Config, is_switched_on

    if os.environ.get(SWITCH) and not is_switched_on(os.environ):
        return
    config = Config.from_environment(**given)
    from collectrace.tracer import torch_api

    torch_api.check()
    from collectrace.tracer import switch

    switch.enable(config, asked=given.keys())


def disable() -> None:
    """Stop recording, close the file, and remove every patch."""
    _disable()


def _disable(problem: BaseException | None = None) -> None:
    import sys

    switch = sys.modules.get("collectrace.tracer.switch")
    if switch is None:
        return
    try:
        switch.disable(problem)
    except Exception as failure:  # noqa: BLE001 - whatever it is, the job goes on
        from collectrace.errors import not_traced

        not_traced(failure, "not switched off in full")


def step() -> None:
    """Mark the beginning of a step of the job: a request, a batch, an iteration.

    The next calls carry its ordinal, and findings name "step 4127". Use it in jobs in which neither
    DDP's forward nor an optimizer marks a step: serving, generation, loops that step an optimizer
    now and then. If DDP is used, its forwards still count. Does nothing if tracing is off, and
    never communicates.
    """
    import sys

    switch = sys.modules.get("collectrace.tracer.switch")
    if switch is not None:
        switch.step()


def on_finding(callback: Callable[[dict[str, Any]], object]) -> None:
    """Register a function to call when the job has diagnosed an error; see ``online``.

    It runs on the rank that made the diagnosis, in a separate thread. Its argument is what
    ``--json`` writes, as a dictionary. What it raises is counted and suppressed.
    """
    from collectrace.tracer.online.listeners import listeners

    listeners.append(callback)


@contextmanager
def trace(
    log_dir: str | PathLike[str] | None = None, **options: float | str | None
) -> Iterator[None]:
    """Record what happens inside the ``with`` block; options as in :func:`enable`.

    If tracing is on already, it changes nothing and leaves tracing on.
    """
    import sys

    known = sys.modules.get("collectrace.tracer.switch")
    was_on = known is not None and known.current() is not None
    enable(log_dir, **options)  # type: ignore[arg-type]
    if was_on:
        yield
        return
    try:
        yield
    except BaseException as problem:
        _disable(problem)
        raise
    disable()

"""A progress bar on a terminal, while logs are read."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self, TextIO

from rich import progress
from rich.console import Console

from collectrace.report import layout

_PATIENCE: Final = 1.0
"""Seconds before the bar appears: most logs are read by then."""


class ProgressBar:
    """A bar on ``stream`` that appears after a second and is removed at the end.

    Call it with the work done and the total, in the same unit.
    """

    def __init__(self, stream: TextIO) -> None:
        self._began = time.monotonic()
        self._task = progress.TaskID(0)
        self._bar = progress.Progress(
            progress.TextColumn("reading logs"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
            console=layout.seen(Console(file=stream)),
            transient=True,
        )

    def __call__(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` is finished."""
        if not self._bar.live.is_started:
            if time.monotonic() - self._began < _PATIENCE:
                return
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

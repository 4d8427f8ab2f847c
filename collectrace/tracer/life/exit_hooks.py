"""Hooks on a process's exit: how it ends goes into the record while it still can."""

from __future__ import annotations

import atexit
import multiprocessing.util
import sys
from types import TracebackType
from typing import Any, Final, Protocol

from collectrace import records
from collectrace.tracer.record import sites
from collectrace.tracer.record.scopes import now
from collectrace.tracer.tap.wire import Undo

_MAX_TEXT: Final = 2000
"""Characters of an exception's text, or of what ``sys.exit`` was given, that are written down."""


class ExitListener(Protocol):
    """The receiver of the process's exit."""

    live: bool
    """False: it is to be told nothing any more."""

    def finish(self, last: records.Exit) -> None:
        """The process ends, in the way that this record says."""

    def issued_since(self, t: int) -> bool:
        """Whether a call was issued after ``t``, ns."""


class ExitHooks:
    """Hooks on a normal exit, on an uncaught exception, and, through a patch, on ``sys.exit``."""

    def __init__(self, listener: ExitListener) -> None:
        self._listener = listener
        self._last: records.Exit | None = None
        """What is known of the exit so far."""
        self._sys_exit_t = 0
        """When ``sys.exit`` was called last, ns."""

    def install(self) -> Undo:
        """Set ``sys.excepthook`` and an ``atexit`` function; the undo takes both back."""
        previous = sys.excepthook

        def excepthook(
            kind: type[BaseException], value: BaseException, traceback: TracebackType | None
        ) -> None:
            if self._listener.live:
                self.note_exception(value, traceback)
                # Before torch's own shutdown, which may hang on what just went wrong.
                self.at_end()
            previous(kind, value, traceback)

        sys.excepthook = excepthook
        atexit.register(self.at_end)

        def undo() -> None:
            if sys.excepthook is excepthook:
                sys.excepthook = previous
            atexit.unregister(self.at_end)

        return undo

    def watch_child(self) -> None:
        """Have the exit of a child of multiprocessing noticed, which does not run ``atexit``.

        A forked one ends with ``os._exit`` once its finalizers have run
        (multiprocessing/popen_fork.py and process.py, Python 3.11).
        """
        if multiprocessing.process.parent_process() is not None:
            multiprocessing.util.Finalize(None, self._at_end_of_child, exitpriority=-100)

    def _at_end_of_child(self) -> None:
        # A finalizer runs on the way out of run(): what that raised is still being handled.
        problem = sys.exc_info()[1]
        if problem is not None and self._listener.live:
            self.note_exception(problem, problem.__traceback__)
        self.at_end()

    def note_exception(self, value: BaseException, traceback: TracebackType | None) -> None:
        """Note the exception that ends the process, and its traceback."""
        # torch.multiprocessing turns an exception into sys.exit(1) (torch/multiprocessing/spawn.py,
        # _wrap; torch 2.13): then that exception counts.
        if isinstance(value, SystemExit):
            if not value.code or not isinstance(value.__context__, Exception):
                self.note_sys_exit(value.code)
                return
            value = value.__context__
            traceback = value.__traceback__
        self._last = records.Exit(
            reason="exception",
            error=type(value).__name__,
            message=str(value)[:_MAX_TEXT],
            site=sites.of_traceback(traceback),
        )

    def note_sys_exit(self, code: Any) -> None:
        """Note that ``sys.exit`` was called, with ``code``: the status, a text, or None."""
        number = code if isinstance(code, int) else int(code is not None)
        words = None if code is None or isinstance(code, int) else str(code)[:_MAX_TEXT]
        self._last = records.Exit(reason="finished", code=number, message=words)
        self._sys_exit_t = now()

    def at_end(self) -> None:
        """The process ends: report how, as far as it is known."""
        last, self._last = self._last, None
        was_caught = self._listener.issued_since(self._sys_exit_t)
        if last is None or (last.reason == "finished" and was_caught):
            # sys.exit was not called, or it was caught: calls were issued after it.
            last = records.Exit(reason="finished")
        self._listener.finish(last)

"""How a process ends, told by itself while it still can."""

from __future__ import annotations

import atexit
import multiprocessing.util
import sys
from types import TracebackType
from typing import Any, Protocol

from collectrace import records
from collectrace.tracer.record import sites
from collectrace.tracer.record.scopes import now
from collectrace.tracer.tap.wire import Undo

_MAX_TEXT = 2000


class ExitListener(Protocol):
    """Who is told of the process's end."""

    live: bool

    def finish(self, last: records.Exit) -> None:
        """The process ends like this."""

    def issued_since(self, t: int) -> bool:
        """Whether a call was issued after ``t``."""


class ExitHooks:
    """Hears of a normal end, an uncaught exception and ``sys.exit``."""

    def __init__(self, session: ExitListener) -> None:
        self._session = session
        self._last: records.Exit | None = None
        self._called = 0
        """When sys.exit was called."""

    def install(self) -> Undo:
        """Listen; the undo stops it."""
        previous = sys.excepthook

        def excepthook(
            kind: type[BaseException], value: BaseException, traceback: TracebackType | None
        ) -> None:
            if self._session.live:
                self.exception(value, traceback)
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
        """A child of multiprocessing leaves without running ``atexit``."""
        if multiprocessing.process.parent_process() is not None:
            multiprocessing.util.Finalize(None, self._at_end_of_child, exitpriority=-100)

    def _at_end_of_child(self) -> None:
        # Called on the way out of run(): what it raised is still being handled.
        problem = sys.exc_info()[1]
        if problem is not None and self._session.live:
            self.exception(problem, problem.__traceback__)
        self.at_end()

    def exception(self, value: BaseException, traceback: TracebackType | None) -> None:
        """This is what the process dies of."""
        # torch.multiprocessing turns an exception into sys.exit(1).
        if isinstance(value, SystemExit):
            if not value.code or not isinstance(value.__context__, Exception):
                self.exit_code(value.code)
                return
            value = value.__context__
            traceback = value.__traceback__
        self._last = records.Exit(
            reason="exception",
            error=type(value).__name__,
            message=str(value)[:_MAX_TEXT],
            site=sites.of_traceback(traceback),
        )

    def exit_code(self, code: Any) -> None:
        """``sys.exit`` was called with this."""
        number = code if isinstance(code, int) else int(code is not None)
        words = None if code is None or isinstance(code, int) else str(code)[:_MAX_TEXT]
        self._last = records.Exit(reason="finished", code=number, message=words)
        self._called = now()

    def at_end(self) -> None:
        """Write the last line."""
        last, self._last = self._last, None
        if last is None or (last.reason == "finished" and self._session.issued_since(self._called)):
            # No sys.exit, or one that was caught.
            last = records.Exit(reason="finished")
        self._session.finish(last)

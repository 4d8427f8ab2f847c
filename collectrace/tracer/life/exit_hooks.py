"""Hooks on a process's exit: how it ends goes into the record while it still can."""

from __future__ import annotations

import atexit
import multiprocessing.popen_fork
import multiprocessing.util
import sys
import threading
import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, Protocol

from collectrace import records
from collectrace.tracer.life.telling import tell
from collectrace.tracer.record import sites
from collectrace.tracer.record.scopes import now
from collectrace.tracer.tap.wire import Undo
from collectrace.tracer.user_objects import cause_of, context_of, is_a, traceback_of, type_name
from collectrace.tracer.user_text import safe_attribute, safe_text
from collectrace.tracer.values.value_records import ValueRecords

_MAX_CAUSE: Final = 500
_MOST_CAUSES: Final = 4
"""Exceptions before the one that ended the process: how many, and characters of their texts."""


_MOST_FRAMES: Final = 30
"""Of an interrupt, the innermost ones. Values and exit must fit into the last 32 KiB of a file."""

_BOOTSTRAP: Final[CodeType] = multiprocessing.process.BaseProcess._bootstrap.__code__  # type: ignore[attr-defined]
_LAUNCH: Final[CodeType] = multiprocessing.popen_fork.Popen._launch.__code__  # type: ignore[attr-defined]
"""Where a child's run() is called, and where the child is begun and ended."""


class ExitListener(Protocol):
    """The receiver of the process's exit."""

    values: ValueRecords | None
    """Reads what the variables of the program hold; None: there is no run."""
    live: bool
    """False: it is to be told nothing any more."""
    rank: int | None
    """Global rank; None: not known."""

    @property
    def folder(self) -> Path | None:
        """Where the record of the run in progress lies; None: there is none."""

    def finish(self, last: records.Exit) -> None:
        """The process ends, in the way that this record says."""

    def explain(self, last: records.Exit) -> bool:
        """Begin to find out why the process ends so; false: a person is to ask for it."""

    def linger(self) -> bool:
        """Wait for a moment for what is left to do; false: a person is to ask why it ended so."""

    def issued_since(self, t: int) -> bool:
        """Whether a call was issued after ``t``, ns."""

    def thread_raised(self, value: BaseException) -> bool:
        """An exception ends the calling thread. False: it is none that has issued a call."""


class ExitHooks:
    """Hooks on a normal exit, on an uncaught exception, and, through a patch, on ``sys.exit``."""

    def __init__(self, listener: ExitListener) -> None:
        self._listener = listener
        self._last: records.Exit | None = None
        """What is known of the exit so far."""
        self._sys_exit_t = 0
        """When ``sys.exit`` was called last, ns."""
        self._handled: records.Exit | None = None
        """The exception that was being handled when ``sys.exit`` was called, as an exit by it."""
        self._is_leaving = False
        """The end was reported; what takes a moment is left for when its traceback was printed."""
        self._unexplained: tuple[records.Exit, Path | None] | None = None
        """An end whose reason is being found out, and where its record lies."""
        self._is_child = False
        """This is a child of multiprocessing."""
        self._of_thread: records.Exit | None = None
        """The exception that ended a thread that had issued calls: what the process makes of it
        is not to be seen, and it may end as if nothing had been."""

    def install(self) -> Undo:
        """Set both excepthooks and an ``atexit`` function; the undo takes all of them back."""
        previous = sys.excepthook
        previous_of_thread = threading.excepthook

        def excepthook(
            kind: type[BaseException], value: BaseException, traceback: TracebackType | None
        ) -> None:
            # `threading` calls it too, where its own hook has failed: no process ends of that.
            if not self._listener.live or not _is_main_thread():
                previous(kind, value, traceback)
                return
            folder = self._listener.folder
            # Before torch's own shutdown, which may hang on what just went wrong.
            last = self._end_by(value, traceback)
            try:
                previous(kind, value, traceback)
            finally:
                self._ask_why(last, folder)  # no wait: torch's hook holds the traceback back

        def thread_excepthook(args: threading.ExceptHookArgs) -> None:
            value = args.exc_value
            if self._listener.live and value is not None:
                if self._listener.thread_raised(value):
                    self._of_thread = _exit(value, args.exc_traceback)
                self._read_values(value, args.exc_traceback)
            previous_of_thread(args)

        sys.excepthook = excepthook
        threading.excepthook = thread_excepthook
        atexit.register(self._at_exit)

        def undo() -> None:
            if sys.excepthook is excepthook:
                sys.excepthook = previous
            if threading.excepthook is thread_excepthook:
                threading.excepthook = previous_of_thread
            atexit.unregister(self._at_exit)

        return undo

    def watch_child(self) -> None:
        """Have the exit of a child of multiprocessing noticed, which does not run ``atexit``.

        A forked one ends with ``os._exit`` once its finalizers have run
        (multiprocessing/popen_fork.py and process.py, Python 3.11 to 3.14).
        """
        if multiprocessing.process.parent_process() is not None:
            self._is_child = True
            multiprocessing.util.Finalize(None, self._at_end_of_child, exitpriority=-100)
            self._watch_printing()

    def _end_by(self, value: BaseException, traceback: TracebackType | None) -> records.Exit:
        """Report that an exception ends the process, and return what is reported."""
        try:
            self.note_exception(value, traceback)
            return self.at_end()
        except BaseException:
            # Ctrl-C once more. It must not hide why the process ends.
            self._last = records.Exit(reason="exception", error=type_name(value))
            return self.at_end()

    def _watch_printing(self) -> None:
        """Have what run() raises noticed where it is printed, since all else forgets it.

        Up to Python 3.12 the finalizers run while it is being handled; since 3.13 they run later,
        from ``atexit`` (multiprocessing/process.py, ``BaseProcess._bootstrap``).
        """
        original = traceback.print_exc

        def print_exc(*args: Any, **options: Any) -> None:
            problem = sys.exc_info()[1]
            by = sys._getframe(1).f_code
            if problem is not None and by is _BOOTSTRAP and self._listener.live:
                self.note_exception(problem, traceback_of(problem))
            original(*args, **options)
            if by is _BOOTSTRAP and self._is_leaving:
                self._leave()

        traceback.print_exc = print_exc

    def _at_end_of_child(self) -> None:
        problem = sys.exc_info()[1]
        folder = self._listener.folder
        if self._listener.live:
            if problem is not None:
                self.note_exception(problem, traceback_of(problem))
            elif self._last is None and (code := _status_of_child()):
                self.note_sys_exit(code)
        self._ask_why(self.at_end(), folder)
        if problem is None or is_a(problem, SystemExit):
            self._leave()  # else its traceback is printed first

    def _ask_why(self, last: records.Exit, folder: Path | None) -> None:
        """Begin to find out why the process ends so, or say how to ask."""
        self._is_leaving = True
        if self._listener.explain(last):
            self._unexplained = last, folder
        else:
            _tell_user(last, self._listener.rank, folder)

    def _leave(self) -> None:
        """Wait for what takes a moment, and say how to ask why the process ended, if nobody knows.

        Only once its traceback was printed: the process may be killed meanwhile.
        """
        unexplained, self._unexplained = self._unexplained, None
        self._is_leaving = False
        if not self._listener.linger() and unexplained is not None:
            last, folder = unexplained
            _tell_user(last, self._listener.rank, folder)

    def note_exception(self, value: BaseException, traceback: TracebackType | None) -> None:
        """Note the exception that ends the process, and its traceback."""
        # torch.multiprocessing turns an exception into sys.exit(1) (torch/multiprocessing/spawn.py,
        # _wrap; torch 2.13): then that exception counts.
        if is_a(value, SystemExit):
            # Of one that has no status to be read the interpreter makes its text, and 1.
            code, handled = safe_attribute(value, "code", value), context_of(value)
            if not _status(code) or not is_a(handled, Exception):
                self.note_sys_exit(code)
                return
            value, traceback = handled, traceback_of(handled)
        self._last = _exit(value, traceback)
        self._read_values(value, traceback)

    def _read_values(self, value: BaseException, traceback: TracebackType | None) -> None:
        """Write what the functions held that an exception came through, which ends the thread."""
        if self._listener.values is not None:
            self._listener.values.of_exception(value, traceback)

    def note_sys_exit(self, code: Any, caller: FrameType | None = None) -> None:
        """Note that ``sys.exit`` was called, with ``code``: the status, a text, or None.

        ``caller``: the frame that called it, where that is known.
        """
        number = _status(code)
        words = None if code is None or is_a(code, int) else safe_text(code)
        site, *through = sites.users_above(caller) or [""]
        self._last = records.Exit(
            reason="finished", code=number, message=words, site=site or None, through=through
        )
        self._sys_exit_t = now()
        handled = sys.exc_info()[1]
        if is_a(handled, Exception):
            self._handled = _exit(handled, traceback_of(handled))

    def _at_exit(self) -> None:
        self.at_end()
        if self._listener.live:
            self._leave()

    def at_end(self) -> records.Exit:
        """The process ends: report how, as far as it is known, and return that."""
        last, self._last = self._last, None
        was_caught = self._listener.issued_since(self._sys_exit_t)
        if last is None or (last.reason == "finished" and was_caught):
            # sys.exit was not called, or it was caught: calls were issued after it.
            last = records.Exit(reason="finished")
        if self._is_child and last.code and self._handled is not None:
            last = self._handled  # as note_exception has it, where the SystemExit is seen
        if last.reason == "finished" and self._of_thread is not None:
            last, self._of_thread = self._of_thread, None
        self._listener.finish(last)
        return last


def _status(code: object) -> int:
    """Return the status that the process ends with, given what ``sys.exit`` was given."""
    if not is_a(code, int):
        return int(code is not None)
    number = int.__index__(code)
    return number if number.bit_length() < _BITS else -1


_BITS: Final = 64
"""Of a number from which on the interpreter takes -1 in its place."""


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _status_of_child() -> int | None:
    """With which status the child of multiprocessing is about to end; None: that is not to be seen.

    Its parent's ``Popen._launch`` has it in hand (multiprocessing/popen_fork.py, Python 3.13).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _LAUNCH:
        if frame.f_code is _BOOTSTRAP:
            return None  # it is not decided
        frame = frame.f_back
    code = None if frame is None else frame.f_locals.get("code")
    return code if is_a(code, int) else None


def _tell_user(last: records.Exit, rank: int | None, folder: Path | None) -> None:
    """Say on standard error how to ask why an exception ended the process."""
    if folder is None or last.reason != "exception":
        return
    interrupted = last.is_interrupt
    tell(rank, "was interrupted" if interrupted else f"ended with {last.error}", folder)


def _exit(value: BaseException, traceback: TracebackType | None) -> records.Exit:
    return records.Exit(
        reason="exception",
        error=type_name(value),
        message=safe_text(value),
        site=sites.of_traceback(traceback),
        through=sites.through(traceback),
        causes=[
            f"{type_name(cause)}: {safe_text(cause, _MAX_CAUSE)}"
            for cause in islice(_causes(value), _MOST_CAUSES)
        ],
        # Any other exception says by itself what went wrong. An interrupt says nothing but where.
        frames=sites.frames(traceback, _MOST_FRAMES) if is_a(value, KeyboardInterrupt) else None,
    )


def _causes(value: BaseException) -> Iterator[BaseException]:
    """What an exception was raised from, or while that was handled, as a traceback shows it."""
    seen = {id(value)}
    while (cause := cause_of(value)) is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        value = cause

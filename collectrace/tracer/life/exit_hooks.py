"""Hooks on a process's exit, which record how it ends."""

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
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.tap.wire import Undo
from collectrace.tracer.user_objects import cause_of, context_of, is_a, traceback_of, type_name
from collectrace.tracer.user_text import safe_attribute, safe_text
from collectrace.tracer.values.value_records import ValueRecords

_MAX_CAUSE: Final = 500
_MOST_CAUSES: Final = 4
"""The causes of the exception that ended the process: their number, and characters of each."""


_MOST_FRAMES: Final = 30
"""Innermost frames of an interrupt. Values and exit must fit into the last 32 KiB of a file."""

_BOOTSTRAP: Final[CodeType] = multiprocessing.process.BaseProcess._bootstrap.__code__  # type: ignore[attr-defined]
_LAUNCH: Final[CodeType] = multiprocessing.popen_fork.Popen._launch.__code__  # type: ignore[attr-defined]
"""The functions that call a child's run(), and that begin and end the child."""


class ExitListener(Protocol):
    """The receiver of the process's exit."""

    recorder: Recorder | None
    """Records the run in progress; None: there is none."""
    values: ValueRecords | None
    """Reads the values of the program's variables; None: there is no run."""
    live: bool
    """False: the hooks must not call it any more."""
    rank: int | None
    """Global rank; None: not known."""

    def finish(self, last: records.Exit) -> None:
        """Record that the process ends as ``last`` says."""

    def explain(self, last: records.Exit) -> bool:
        """Start to diagnose why the process ends; return False if the user must run the aligner."""

    def linger(self) -> bool:
        """Wait a moment for unfinished work; return whether the reason was printed."""


class ExitHooks:
    """Hooks on a normal exit, on uncaught exceptions, and, through a patch, on ``sys.exit``."""

    def __init__(self, listener: ExitListener) -> None:
        self._listener = listener
        self._last: records.Exit | None = None
        """What is known about the exit so far."""
        self._sys_exit_t = 0
        """When ``sys.exit`` was called last, ns."""
        self._handled: records.Exit | None = None
        """The exception that was being handled when ``sys.exit`` was called, as an exit."""
        self._is_leaving = False
        """Whether the end was recorded, and waiting is put off until the traceback is printed."""
        self._unexplained: tuple[records.Exit, Path | None] | None = None
        """An end that is being diagnosed, and the folder of its record."""
        self._is_child = False
        """Whether this is a child of multiprocessing."""
        self._of_thread: records.Exit | None = None
        """The exception that ended a thread with calls. The process may still end normally, as
        its own exit does not show the exception."""

    def install(self) -> Undo:
        """Set both excepthooks and an ``atexit`` function; return the undo."""
        previous = sys.excepthook
        previous_of_thread = threading.excepthook

        def excepthook(
            kind: type[BaseException], value: BaseException, traceback: TracebackType | None
        ) -> None:
            # `threading` calls it too, if its own hook has failed; that ends no process.
            is_main = threading.get_ident() == threading.main_thread().ident
            if not self._listener.live or not is_main:
                previous(kind, value, traceback)
                return
            folder = self._folder
            # Before torch's own shutdown, which may hang on what just went wrong.
            last = self._end_by(value, traceback)
            try:
                previous(kind, value, traceback)
            finally:
                self._ask_why(last, folder)  # without waiting: torch's hook delays the traceback

        def thread_excepthook(args: threading.ExceptHookArgs) -> None:
            value = args.exc_value
            if self._listener.live and value is not None:
                if self._thread_raised(value):
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
        """Notice the exit of a child of multiprocessing, which does not run ``atexit``.

        A forked child ends with ``os._exit`` once its finalizers have run
        (multiprocessing/popen_fork.py and process.py, Python 3.11 to 3.14).
        """
        if multiprocessing.process.parent_process() is not None:
            self._is_child = True
            multiprocessing.util.Finalize(None, self._at_end_of_child, exitpriority=-100)
            self._watch_printing()

    @property
    def _folder(self) -> Path | None:
        """Return the folder of the current run's record; None: there is none."""
        recorder = self._listener.recorder
        return None if recorder is None else recorder.writer.folder

    def _thread_raised(self, value: BaseException) -> bool:
        """Record that an exception ends this thread; return whether it has issued a call."""
        recorder = self._listener.recorder
        if recorder is None:
            return False
        has_issued = bool(local.state.call_t)
        recorder.left_by(value, records.THREAD if has_issued else records.OTHER_THREAD)
        return has_issued

    def _end_by(self, value: BaseException, traceback: TracebackType | None) -> records.Exit:
        """Record that an exception ends the process, and return the record."""
        try:
            self.note_exception(value, traceback)
            return self.at_end()
        except BaseException:
            # A second Ctrl-C must not hide why the process ends.
            self._last = records.Exit(reason="exception", error=type_name(value))
            return self.at_end()

    def _watch_printing(self) -> None:
        """Notice an exception of run() when it is printed, as it is not available later.

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
        folder = self._folder
        if self._listener.live:
            if problem is not None:
                self.note_exception(problem, traceback_of(problem))
            elif self._last is None and (code := _status_of_child()):
                self.note_sys_exit(code)
        self._ask_why(self.at_end(), folder)
        if problem is None or is_a(problem, SystemExit):
            self._leave()  # otherwise the traceback must be printed first

    def _ask_why(self, last: records.Exit, folder: Path | None) -> None:
        """Start to diagnose why the process ends, or print how to do so."""
        self._is_leaving = True
        if self._listener.explain(last):
            self._unexplained = last, folder
        else:
            _tell_user(last, self._listener.rank, folder)

    def _leave(self) -> None:
        """Wait for the diagnosis; if there is none, print the command that explains the end.

        Call it after the traceback was printed: the process may be killed while it waits.
        """
        unexplained, self._unexplained = self._unexplained, None
        self._is_leaving = False
        if not self._listener.linger() and unexplained is not None:
            last, folder = unexplained
            _tell_user(last, self._listener.rank, folder)

    def note_exception(self, value: BaseException, traceback: TracebackType | None) -> None:
        """Note the exception that ends the process, and its traceback."""
        # torch.multiprocessing turns an exception into sys.exit(1) (torch/multiprocessing/spawn.py,
        # _wrap; torch 2.13). Then that exception is recorded.
        if is_a(value, SystemExit):
            # Without a readable status, the interpreter prints the exception and exits with 1.
            code, handled = safe_attribute(value, "code", value), context_of(value)
            if not _status(code) or not is_a(handled, Exception):
                self.note_sys_exit(code)
                return
            value, traceback = handled, traceback_of(handled)
        self._last = _exit(value, traceback)
        self._name_parameters(self._last)
        self._read_values(value, traceback)

    def _name_parameters(self, last: records.Exit) -> None:
        """Add the names of parameters that an exception of DDP has by index."""
        if (recorder := self._listener.recorder) is not None:
            try:
                last.parameters = recorder.models.without_gradient(last.message or "")
            except Exception as problem:
                recorder.count_failure(problem, "name parameters")

    def _read_values(self, value: BaseException, traceback: TracebackType | None) -> None:
        """Record the variables of the functions that an uncaught exception passed through."""
        if self._listener.values is not None:
            self._listener.values.of_exception(value, traceback)

    def note_sys_exit(self, code: Any, caller: FrameType | None = None) -> None:
        """Note that ``sys.exit`` was called, with ``code``: the status, a text, or None.

        ``caller``: the frame that called it, if known.
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
        """Record how the process ends, as far as it is known, and return the record."""
        last, self._last = self._last, None
        recorder = self._listener.recorder
        was_caught = recorder is not None and recorder.last_t > self._sys_exit_t
        if last is None or (last.reason == "finished" and was_caught):
            # sys.exit was not called, or it was caught: calls were issued after it.
            last = records.Exit(reason="finished")
        if self._is_child and last.code and self._handled is not None:
            last = self._handled  # as in note_exception, which sees the SystemExit
        if last.reason == "finished" and self._of_thread is not None:
            last, self._of_thread = self._of_thread, None
        self._listener.finish(last)
        return last


def _status(code: object) -> int:
    """Return the process's exit status for an argument of ``sys.exit``."""
    if not is_a(code, int):
        return int(code is not None)
    number = int.__index__(code)
    return number if number.bit_length() < _BITS else -1


_BITS: Final = 64
"""The interpreter exits with -1 if a number has this many bits or more."""


def _status_of_child() -> int | None:
    """Return the status with which the child of multiprocessing is about to end; None: unknown.

    ``Popen._launch`` has it in a variable (multiprocessing/popen_fork.py, Python 3.13).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _LAUNCH:
        if frame.f_code is _BOOTSTRAP:
            return None  # it is not decided yet
        frame = frame.f_back
    code = None if frame is None else frame.f_locals.get("code")
    return code if is_a(code, int) else None


def _tell_user(last: records.Exit, rank: int | None, folder: Path | None) -> None:
    """Print on standard error which command explains why an exception ended the process."""
    if folder is None or last.reason != "exception":
        return
    tell(rank, "was interrupted" if last.is_interrupt else f"ended with {last.error}", folder)


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
        # Other exceptions explain themselves. Of an interrupt, only the place is informative.
        frames=sites.frames(traceback, _MOST_FRAMES) if is_a(value, KeyboardInterrupt) else None,
    )


def _causes(value: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions that a traceback shows as causes of this one, the nearest first."""
    seen = {id(value)}
    while (cause := cause_of(value)) is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        value = cause

"""Stacks of all threads, written by signal handlers in C when Python cannot run any more.

Three things end or stop a process without giving its threads a turn. For each of them one of
faulthandler's handlers, which need no GIL, writes every thread's Python stack to a file:

- a call into C that holds the GIL: a timer of the kernel, set again and again by the watchdog,
  goes off when the watchdog has had no turn for too long (a dead man's switch). Its signal goes
  to the watchdog's own thread, so no system call of another thread is interrupted, and
  ``faulthandler.dump_traceback_later``, of which a process has only one, stays the user's.
- SIGTERM, from a launcher or a scheduler. The handler chains: the process dies, or the user's
  own handler runs, exactly as it would have.
- a fatal error: C++ ``terminate`` (gloo's answer to a size mismatch), a segmentation fault.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import signal
from pathlib import Path
from typing import Final

from collectrace import dumps
from collectrace.config import PATHS
from collectrace.dumps import Dump
from collectrace.tracer.record import lines
from collectrace.tracer.record.writer import open_to_append

_CLOCK_MONOTONIC: Final = 1
_SIGEV_THREAD_ID: Final = 4
_SIGACTION: Final = 256
"""Bytes that hold a ``struct sigaction``, which is smaller everywhere."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _SigEvent(ctypes.Structure):
    # struct sigevent of Linux: 64 bytes, the thread id first in its union.
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("tid", ctypes.c_int),
        ("padding", ctypes.c_byte * 44),
    )


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Time), ("value", _Time))


class DeadMansSwitch:
    """A timer that sends a signal to one thread unless it is set again in time.

    ``native_id`` is the thread's id in the kernel. See timer_create(2), SIGEV_THREAD_ID.

    Raises:
        OSError: the kernel gives no timer.
    """

    def __init__(self, signum: int, native_id: int) -> None:
        self._timer = ctypes.c_void_p()
        event = _SigEvent(None, signum, _SIGEV_THREAD_ID, native_id)
        if _libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)):
            raise OSError(ctypes.get_errno(), "timer_create")

    def set(self, seconds: float) -> None:
        """Go off after this time, unless set again before; 0: never."""
        value = _Time(int(seconds), int(seconds % 1 * 1e9))
        _libc.timer_settime(self._timer, 0, ctypes.byref(_Timer(_Time(), value)), None)

    def remove(self) -> None:
        """Give the timer back."""
        _libc.timer_delete(self._timer)


class StackDumps:
    """The two files beside a rank's own that the handlers write to.

    ``rank00000.stacks.txt`` holds the stacks of a process whose GIL is held (when it is free again
    they move to the rank file), ``rank00000.ends.txt`` those at SIGTERM, or at a fatal error, which
    is named in the first line. :func:`collectrace.dumps.parse` reads both.
    """

    def __init__(self, rank_file: Path) -> None:
        self._paths = [rank_file.with_suffix(f".{name}.txt") for name in ("stacks", "ends")]
        self._files: list[int] = []
        """Descriptors, in the order of the paths."""
        self._handlers: dict[int, int] = {}
        """Per signal the address of the handler that faulthandler has installed."""
        self._enabled = False
        """Whether it was we who called ``faulthandler.enable``."""
        self.signum: int | None = None
        """The signal that has the stacks written; None where none was free."""

    def open(self) -> None:
        """Open the files and register the handlers, but for those that the user has."""
        try:
            self._files = [_open(path) for path in self._paths]
        except OSError:
            return  # the rank file has the same trouble, and says so
        stacks, ends = self._files
        self.signum = _free_signal()
        if self.signum is not None:
            self._register(self.signum, stacks, chain=False)
        if _handler(_action(signal.SIGTERM)) not in self._handlers.values():
            self._register(signal.SIGTERM, ends, chain=True)
        if not faulthandler.is_enabled():
            faulthandler.enable(ends)
            self._enabled = True

    def _register(self, signum: int, fd: int, *, chain: bool) -> None:
        try:
            faulthandler.register(signum, fd, all_threads=True, chain=chain)
        except (RuntimeError, OSError, ValueError):
            return
        self._handlers[signum] = _handler(_action(signum))

    def collect(self) -> Dump | None:
        """What was written while the GIL was held; None: nothing. The file is emptied."""
        if not self._files:
            return None
        fd = self._files[0]
        size = os.fstat(fd).st_size
        if size == 0:
            return None
        text = os.pread(fd, size, 0).decode(errors="replace")
        os.ftruncate(fd, 0)
        return dumps.parse(text)

    def close(self) -> None:
        """Take the handlers off, and remove the files that are empty."""
        self.unregister()
        for path in self._paths:
            try:
                if path.stat().st_size == 0:
                    path.unlink()
            except OSError:
                continue

    def unregister(self) -> None:
        """Take the handlers off, and close the files; a forked child must do no more.

        Handlers that the user has put in their place since stay.
        """
        for signum, ours in self._handlers.items():
            action = _action(signum)
            faulthandler.unregister(signum)
            if _handler(action) != ours:
                _libc.sigaction(signum, action, None)
        if self._enabled and any(
            hasattr(held, "fileno") for held in gc.get_referents(faulthandler)
        ):
            # It holds a file of the user's, and does not say what for: perhaps they have enabled it
            # too, and to disable it would be to disable theirs. Should it still write to our
            # descriptor, that goes to standard error from now on.
            with contextlib.suppress(OSError):  # there may be no standard error
                os.dup2(2, self._files.pop(), inheritable=False)
        elif self._enabled:
            faulthandler.disable()
        for fd in self._files:
            try:
                os.close(fd)
            except OSError:
                continue
        self._files, self._handlers, self._enabled, self.signum = [], {}, False, None


def _open(path: Path) -> int:
    """Open a file that handlers write to, or one without a name if paths are left out.

    They write paths as they are. What is collected loses them before it is recorded; what a process
    that dies has not collected is lost.
    """
    if PATHS in lines.omitted():
        return os.memfd_create(path.name, os.MFD_CLOEXEC)
    return open_to_append(path)


def _free_signal() -> int | None:
    # Of the real-time signals one that nobody handles; not from either end, which glibc and others
    # use.
    for signum in range(signal.SIGRTMIN + 7, signal.SIGRTMAX - 2):
        if _handler(_action(signum)) == signal.SIG_DFL:
            return signum
    return None


def _action(signum: int) -> ctypes.Array[ctypes.c_char]:
    """What the kernel holds: Python knows nothing of handlers that were installed from C."""
    action = ctypes.create_string_buffer(_SIGACTION)
    _libc.sigaction(signum, None, action)
    return action


def _handler(action: ctypes.Array[ctypes.c_char]) -> int:
    # On Linux the handler is its first member.
    return ctypes.c_size_t.from_buffer(action).value

"""Stacks of all threads, written by signal handlers in C when Python cannot run any more.

Three things end or stop a process so that no Python code can run. For each of them a handler of
faulthandler, which needs no GIL, writes every thread's Python stack to a file:

- A call into C holds the GIL. The watchdog resets a kernel timer regularly (a dead man's switch).
  If the watchdog cannot run for too long, the timer sends a signal to the watchdog's thread, which
  interrupts no system call of another thread. ``faulthandler.dump_traceback_later`` is not used:
  a process has only one, and the user may need it.
- SIGTERM, from a launcher or a scheduler. The handler chains: afterwards the process dies, or the
  user's handler runs, as without the tracer.
- A fatal error: C++ ``terminate`` (by gloo after a size mismatch), or a segmentation fault.
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
"""Bytes for a ``struct sigaction``, which is smaller on all systems."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _SigEvent(ctypes.Structure):
    # struct sigevent of Linux: 64 bytes; the thread id is the first member of its union.
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
    """A timer that sends a signal to one thread unless it is reset in time.

    ``native_id`` is the thread's id in the kernel. See timer_create(2), SIGEV_THREAD_ID.

    Raises:
        OSError: the timer cannot be created.
    """

    def __init__(self, signum: int, native_id: int) -> None:
        self._timer = ctypes.c_void_p()
        event = _SigEvent(None, signum, _SIGEV_THREAD_ID, native_id)
        if _libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)):
            raise OSError(ctypes.get_errno(), "timer_create")

    def set(self, seconds: float) -> None:
        """Send the signal after this time, unless reset before; 0: never."""
        value = _Time(int(seconds), int(seconds % 1 * 1e9))
        _libc.timer_settime(self._timer, 0, ctypes.byref(_Timer(_Time(), value)), None)

    def remove(self) -> None:
        """Delete the timer."""
        _libc.timer_delete(self._timer)


class StackDumps:
    """The two files beside a rank file to which the handlers write.

    ``rank00000.stacks.txt`` holds the stacks while a call holds the GIL. Later they move to the
    rank file. ``rank00000.ends.txt`` holds the stacks at SIGTERM, or at a fatal error, which its
    first line names. :func:`collectrace.dumps.parse` reads both.
    """

    def __init__(self, rank_file: Path) -> None:
        self._paths = [rank_file.with_suffix(f".{name}.txt") for name in ("stacks", "ends")]
        self._files: list[int] = []
        """Descriptors, in the order of the paths."""
        self._handlers: dict[int, int] = {}
        """By signal, the address of the handler that faulthandler has installed."""
        self._enabled = False
        """Whether the tracer called ``faulthandler.enable``."""
        self.signum: int | None = None
        """The signal that writes the stacks; None: no signal was free."""

    def open(self) -> None:
        """Open the files, and register the handlers that the user has not registered."""
        try:
            self._files = [_open(path) for path in self._paths]
        except OSError:
            return  # writing the rank file fails, too, and logs a warning
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
        """Return the stacks that were written while the GIL was held, and empty the file."""
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
        """Unregister the handlers, and remove the files that are empty."""
        self.unregister()
        for path in self._paths:
            with contextlib.suppress(OSError):
                if path.stat().st_size == 0:
                    path.unlink()

    def unregister(self) -> None:
        """Unregister the handlers, and close the files. A forked child must not do more.

        Handlers by which the user has replaced them meanwhile are kept.
        """
        for signum, ours in self._handlers.items():
            action = _action(signum)
            faulthandler.unregister(signum)
            if _handler(action) != ours:
                _libc.sigaction(signum, action, None)
        if self._enabled and any(
            hasattr(held, "fileno") for held in gc.get_referents(faulthandler)
        ):
            # faulthandler holds a file of the user, perhaps because the user has enabled it, too.
            # Disabling it would disable that. If it still writes to our descriptor, the text goes
            # to standard error from now on.
            with contextlib.suppress(OSError):  # there may be no standard error
                os.dup2(2, self._files.pop(), inheritable=False)
        elif self._enabled:
            faulthandler.disable()
        for fd in self._files:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._files, self._handlers, self._enabled, self.signum = [], {}, False, None


def _open(path: Path) -> int:
    """Open a file for the handlers; if paths are omitted from the record, one without a name.

    Handlers cannot omit paths. The paths are removed when the stacks are collected. If the process
    dies before that, the stacks are lost.
    """
    if PATHS in lines.omitted():
        return os.memfd_create(path.name, os.MFD_CLOEXEC)
    return open_to_append(path)


def _free_signal() -> int | None:
    # A real-time signal that nobody handles. Those at both ends are used by glibc and others.
    for signum in range(signal.SIGRTMIN + 7, signal.SIGRTMAX - 2):
        if _handler(_action(signum)) == signal.SIG_DFL:
            return signum
    return None


def _action(signum: int) -> ctypes.Array[ctypes.c_char]:
    """Return the kernel's ``struct sigaction``: Python does not know handlers installed in C."""
    action = ctypes.create_string_buffer(_SIGACTION)
    _libc.sigaction(signum, None, action)
    return action


def _handler(action: ctypes.Array[ctypes.c_char]) -> int:
    # On Linux the handler is the first member.
    return ctypes.c_size_t.from_buffer(action).value

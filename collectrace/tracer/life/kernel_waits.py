"""Read from the kernel what the threads and children of a stalled process are in.

Everything is read from ``/proc``, without a debugger and without privileges. Parts that cannot be
read are left out: other systems, sandboxes and security modules hide different parts. A read of
``/proc`` or of a file's inode may block, so a separate thread reads, and is abandoned after a
second.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from collectrace.records import KernelWait
from collectrace.tracer.life import proc
from collectrace.tracer.user_text import safe_attribute, thread_name
from collectrace.tracer.values.plain import attributes_of
from collectrace.tracer.values.variables import may_read, variables

_WITHIN: Final = 1.0
"""Seconds that all reads together may take."""

_MOST_THREADS: Final = 16
_MOST_CHILDREN: Final = 32
_MOST_OTHERS: Final = 8
"""Processes that are recorded as the other end of a pipe."""
_MOST_FRAMES: Final = 12
"""Innermost frames of a thread that are searched for the name of a lock file."""
_STANDARD: Final = 2
"""The last of the standard descriptors, which a process inherits."""
_WITH_PATH: Final = {
    "open": 0, "stat": 0, "lstat": 0, "mkdir": 0, "unlink": 0, "rename": 0, "openat": 1,
    "newfstatat": 1, "statx": 1, "mkdirat": 1, "unlinkat": 1, "renameat2": 1,
}  # fmt: skip
"""System calls with a path, and the index of that argument."""

_WRITES: Final = frozenset({"write", "writev"})
_LOCKS: Final = frozenset({"flock", "fcntl"})

_LOCK_FILES: Final = (
    (re.compile(r"/filelock/.*\.py$"), ("lock_filename",)),
    (re.compile(r"/torch/utils/file_baton\.py$"), ("self", "lock_file_path")),
)
"""Libraries that poll a lock file (filelock 3.0.12 to 4.3, torch 2.13): a pattern of their source
files, and the variable with the lock's path."""


class KernelWaits:
    """Reads what a stalled process waits in."""

    def __init__(self) -> None:
        self._looker: threading.Thread | None = None

    def look(self) -> tuple[list[KernelWait], list[KernelWait]]:
        """Return the waits of this process's threads, and of its children."""
        if self._looker is not None and self._looker.is_alive():
            return [], []  # it hangs, and a second one would hang, too
        look = _Look()
        self._looker = threading.Thread(target=look.run, name="collectrace looks", daemon=True)
        self._looker.start()
        self._looker.join(_WITHIN)
        return [*look.threads], [*look.children]


class _Look:
    """One reading of everything. Other threads may use what it has found so far at any time."""

    def __init__(self) -> None:
        self.threads: list[KernelWait] = []
        self.children: list[KernelWait] = []
        self._until = time.monotonic() + _WITHIN
        self._locks: list[re.Match[str]] | None = None

    def run(self) -> None:
        """Read all threads and children; after a failure, keep what was found."""
        with contextlib.suppress(Exception):
            for name, ident, native_id in _python_threads():
                wait = self._wait(f"/proc/self/task/{native_id}")
                wait.thread = name
                self._add_lock_file(wait, ident)
                self.threads.append(wait)
            for pid in _children():
                wait = self._wait(f"/proc/{pid}")
                wait.pid = pid
                wait.name, wait.state = proc.name_and_state(pid)
                if wait.state == "Z":
                    wait.call = None  # a zombie is in no call
                self.children.append(wait)

    def _wait(self, task: str) -> KernelWait:
        """Return what a thread, or a child's main thread, waits in."""
        wait = KernelWait()
        text = proc.read(f"{task}/wchan").strip()
        wait.wchan = text if text not in ("", "0") else None
        call = proc.call(proc.read(f"{task}/syscall"))
        if call is None:
            return wait
        wait.call = call.name
        is_own = task.startswith("/proc/self")
        process = "/proc/self" if is_own else task
        with contextlib.suppress(OSError, ValueError, struct.error):
            descriptor = proc.descriptor(call, is_own=is_own)
            if call.name == "wait4":
                wait.child = proc.signed(call.arguments[0])
            elif call.name == "waitid":
                wait.child = call.arguments[1]
            elif call.name in _WITH_PATH and is_own:
                wait.file = proc.text_at(call.arguments[_WITH_PATH[call.name]])
            elif descriptor is not None:
                wait.file = str(Path(f"{process}/fd/{descriptor}").readlink())[: proc.LONGEST]
                self._add_other_end(wait, call.name, process, descriptor)
            if call.name in _LOCKS:
                pid = os.getpid() if is_own else int(task.rpartition("/")[2])
                wait.holder = self._holder_before(pid, f"{process}/fdinfo/{descriptor}")
        return wait

    def _add_other_end(self, wait: KernelWait, call: str, process: str, descriptor: int) -> None:
        """Add the peer of a socket, or the processes that hold the other end of a pipe."""
        kind, _, inode = (wait.file or "").rstrip("]").partition(":[")
        if kind == "socket":
            wait.peer = proc.peer(inode)
        elif kind == "pipe" and descriptor > _STANDARD:
            info = proc.read(f"{process}/fdinfo/{descriptor}")
            writes = call in _WRITES or (call in proc.POLLS and proc.is_for_writing(info))
            wait.others = self._at_other_end(wait.file or "", writes=not writes)

    def _at_other_end(self, link: str, *, writes: bool) -> list[int] | None:
        """Return other processes that hold an end of a pipe; None: not all could be read.

        A pipe is inherited. So processes of other users cannot hold it. Neither can processes that
        are older and hidden, such as the first one of a container, except for the parent.
        """
        found = []
        me, user = os.getpid(), os.getuid()
        began = proc.began("self")
        for process in Path("/proc").iterdir():
            name = process.name
            if time.monotonic() > self._until:
                return None
            if not name.isdigit() or int(name) == me:
                continue
            try:
                is_own = process.stat().st_uid == user
                if is_own and proc.holds_end(str(process), link, writes=writes):
                    found.append(int(name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            except OSError:
                if int(name) == os.getppid() or proc.began(name) >= began:
                    return None
        return sorted(found)[:_MOST_OTHERS]

    def _add_lock_file(self, wait: KernelWait, ident: int) -> None:
        """Add the lock file that a library polls, and the process that holds it."""
        path = _polled(sys._current_frames().pop(ident, None))
        if path is None:
            return
        wait.file, wait.lock = path[: proc.LONGEST], True
        with contextlib.suppress(OSError):
            status = Path(path).stat()
            device = os.major(status.st_dev), os.minor(status.st_dev)
            for line in self._all_locks():
                held = int(line["major"], 16), int(line["minor"], 16)
                if not line["waits"] and int(line["inode"]) == status.st_ino and held == device:
                    wait.holder = proc.process(line)

    def _holder_before(self, pid: int, info: str) -> int | None:
        """Return the process that holds the lock for which a process waits."""
        inode = re.search(r"^ino:\s+(\d+)", proc.read(info), re.MULTILINE)
        holders: dict[str, int | None] = {}
        for line in self._all_locks():
            if not line["waits"]:
                holders[line["number"]] = proc.process(line)
            elif int(line["pid"]) == pid and inode is not None and inode[1] == line["inode"]:
                return holders.get(line["number"])
        return None

    def _all_locks(self) -> list[re.Match[str]]:
        if self._locks is None:
            lines = proc.read("/proc/locks").splitlines()
            self._locks = [found for line in lines if (found := proc.LOCK.match(line))]
        return self._locks


# -- threads and children ------------------------------------------------------------------------


def names() -> dict[int, str]:
    """Return the recorded name of each thread by its identifier, the main thread first.

    The tracer's threads are left out.
    """
    known = dict(threading._active)  # type: ignore[attr-defined]
    named = {ident: thread_name(thread) for ident, thread in known.items()}
    idents = sorted(sys._current_frames(), key=lambda i: i != threading.main_thread().ident)
    return {
        ident: f"{named.get(ident, 'native')} ({ident})"
        for ident in idents
        if not named.get(ident, "").startswith("collectrace")
    }


def _python_threads() -> Iterator[tuple[str, int, int]]:
    """Yield the names (as in a stall's stacks), identifiers and kernel ids of threads."""
    known = dict(threading._active)  # type: ignore[attr-defined]
    for ident, name in [*names().items()][:_MOST_THREADS]:
        native_id = safe_attribute(known.get(ident), "native_id")
        if ident == threading.main_thread().ident:
            native_id = os.getpid()  # after a fork, Python 3.11 still has the parent's id
        if type(native_id) is int:
            yield name, ident, native_id


def _children() -> list[int]:
    """Return the process ids of this process's children, of all its threads."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, proc.read(f"{task}/children").split())
    return sorted(found)[:_MOST_CHILDREN]


def _polled(frame: FrameType | None) -> str | None:
    """Return the lock file that a thread polls, by its innermost frames; None: it polls none."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        for file, (name, *attribute) in _LOCK_FILES:
            if not file.search(frame.f_code.co_filename):
                continue
            references = sys.getrefcount(frame)  # in a separate line: an argument would count
            if not may_read(frame, references, 0):
                continue
            for _, x in variables(frame, [name]) or ():
                value = (attributes_of(x) or {}).get(attribute[0]) if attribute else x
                if type(value) is str:
                    return str(Path(value).absolute())
        frame = frame.f_back
    return None

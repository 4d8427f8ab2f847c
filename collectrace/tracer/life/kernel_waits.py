"""What the kernel says of the threads and children of a process that stalls: facts, no verdicts.

Everything is read from ``/proc``, of the process itself where that is enough. Nothing is attached,
nothing needs a privilege, and what cannot be read is left out: other systems, sandboxes and
security modules hide different parts of it. A read of ``/proc`` or of a file's inode may block, so
all are made in a thread of their own, which is given up after a second.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from collectrace.records import KernelWait
from collectrace.tracer.user_text import safe_attribute, thread_name
from collectrace.tracer.values.plain import attributes_of
from collectrace.tracer.values.variables import may_read, variables

_WITHIN: Final = 1.0
"""Seconds that all reads may take together."""

_MOST_THREADS: Final = 16
_MOST_CHILDREN: Final = 32
_MOST_OTHERS: Final = 8
"""Processes that are named as the other end of a pipe."""
_MOST_FRAMES: Final = 12
"""Frames of a thread in which the name of a lock file is looked for, the innermost ones."""
_STANDARD: Final = 2
"""The last of the descriptors that whoever started the process may have given it."""
_MOST_BYTES: Final = 4 << 20
_LONGEST: Final = 1000
"""Characters of a path."""
_PATH_MAX: Final = 4096

_NUMBERS: Final = """
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, fsync 74 82,
    fdatasync 75 83, ftruncate 77 46, getdents64 217 61, ioctl 16 29, flock 73 32, fcntl 72 25,
    connect 42 203, accept 43 202, accept4 288 242, sendto 44 206, sendmsg 46 211,
    recvfrom 45 207, recvmsg 47 212, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72,
    epoll_wait 232 -, epoll_pwait 281 22, open 2 -, openat 257 56, stat 4 -, lstat 6 -,
    newfstatat 262 79, statx 332 291, mkdir 83 -, mkdirat 258 34, unlink 87 -, unlinkat 263 35,
    rename 82 -, renameat2 316 276, wait4 61 260, waitid 247 95, futex 202 98, nanosleep 35 101,
    clock_nanosleep 230 115, sched_yield 24 124
"""
"""System calls and their numbers on x86_64 and aarch64 (arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h of Linux)."""

_MACHINES: Final = ("x86_64", "aarch64")


def _names() -> Mapping[str, str]:
    if platform.machine() not in _MACHINES or sys.maxsize < 1 << 32:
        return {}
    column = 1 + _MACHINES.index(platform.machine())
    rows = [row.split() for row in _NUMBERS.split(",")]
    return {row[column]: row[0] for row in rows}


_CALLS: Final = _names()
"""Names by number, on this machine."""

_WITH_FILE: Final = frozenset(
    {"read", "write", "readv", "writev", "pread64", "pwrite64", "fsync", "fdatasync", "ftruncate",
     "getdents64", "ioctl", "flock", "fcntl", "connect", "accept", "accept4", "sendto", "sendmsg",
     "recvfrom", "recvmsg"}
)  # fmt: skip
"""Calls whose first argument is a file descriptor."""

_WITH_PATH: Final = {
    "open": 0, "stat": 0, "lstat": 0, "mkdir": 0, "unlink": 0, "rename": 0, "openat": 1,
    "newfstatat": 1, "statx": 1, "mkdirat": 1, "unlinkat": 1, "renameat2": 1,
}  # fmt: skip
"""Calls with a path, and which of their arguments it is."""

_POLLS: Final = frozenset({"poll", "ppoll"})
_WRITES: Final = frozenset({"write", "writev"})
_LOCKS: Final = frozenset({"flock", "fcntl"})

_LOCK_FILES: Final = (
    (re.compile(r"/filelock/.*\.py$"), ("lock_filename",)),
    (re.compile(r"/torch/utils/file_baton\.py$"), ("self", "lock_file_path")),
)
"""Libraries that look for a lock again and again, by their files, and the variable of theirs that
holds its path (filelock 3.0.12 to 4.3, torch 2.13)."""

_LOCK: Final = re.compile(
    r"(?P<number>\d+):(?P<waits>(?:\s+->)*)\s+\w+\s+\w+\s+\w+\s+(?P<pid>-?\d+)\s+"
    r"(?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+):(?P<inode>\d+)\s"
)
"""A line of ``/proc/locks``: one that waits stands behind the one that holds, with its number."""


class _Call(NamedTuple):
    """A system call that a thread is in."""

    name: str
    arguments: tuple[int, ...] = ()


class KernelWaits:
    """Looks at this process when it stalls."""

    def __init__(self) -> None:
        self._looker: threading.Thread | None = None

    def look(self) -> tuple[list[KernelWait], list[KernelWait]]:
        """Return what the threads of this process are in, and what its children are in."""
        if self._looker is not None and self._looker.is_alive():
            return [], []  # it hangs, as it would again
        look = _Look()
        self._looker = threading.Thread(target=look.run, name="collectrace looks", daemon=True)
        self._looker.start()
        self._looker.join(_WITHIN)
        return [*look.threads], [*look.children]


class _Look:
    """One look at everything; what has been found so far is there at any time."""

    def __init__(self) -> None:
        self.threads: list[KernelWait] = []
        self.children: list[KernelWait] = []
        self._until = time.monotonic() + _WITHIN
        self._locks: list[re.Match[str]] | None = None

    def run(self) -> None:
        """Look at all threads and children; a failure ends it, and leaves what was found."""
        with contextlib.suppress(Exception):
            for name, ident, native_id in _python_threads():
                wait = self._wait(f"/proc/self/task/{native_id}")
                wait.thread = name
                self._add_lock_file(wait, ident)
                self.threads.append(wait)
            for pid in _children():
                wait = self._wait(f"/proc/{pid}")
                wait.pid = pid
                wait.name, wait.state = _name_and_state(pid)
                self.children.append(wait)

    def _wait(self, task: str) -> KernelWait:
        """Return what a thread, or a child's main thread, is in."""
        wait = KernelWait()
        text = _read(f"{task}/wchan").strip()
        wait.wchan = text if text not in ("", "0") else None
        call = _call(_read(f"{task}/syscall"))
        if call is None:
            return wait
        wait.call = call.name
        is_own = task.startswith("/proc/self")
        process = "/proc/self" if is_own else task
        with contextlib.suppress(OSError, ValueError, struct.error):
            descriptor = _descriptor(call, is_own=is_own)
            if call.name == "wait4":
                wait.child = _signed(call.arguments[0])
            elif call.name == "waitid":
                wait.child = call.arguments[1]
            elif call.name in _WITH_PATH and is_own:
                wait.file = _text_at(call.arguments[_WITH_PATH[call.name]])
            elif descriptor is not None:
                wait.file = str(Path(f"{process}/fd/{descriptor}").readlink())[:_LONGEST]
                self._add_other_end(wait, call.name, process, descriptor)
            if call.name in _LOCKS:
                pid = os.getpid() if is_own else int(task.rpartition("/")[2])
                wait.holder = self._holder_before(pid, f"{process}/fdinfo/{descriptor}")
        return wait

    def _add_other_end(self, wait: KernelWait, call: str, process: str, descriptor: int) -> None:
        """Add to whom a socket is connected, or which processes hold the other end of a pipe."""
        kind, _, inode = (wait.file or "").rstrip("]").partition(":[")
        if kind == "socket":
            wait.peer = _peer(inode)
        elif kind == "pipe" and descriptor > _STANDARD:
            info = _read(f"{process}/fdinfo/{descriptor}")
            writes = call in _WRITES or (call in _POLLS and _is_for_writing(info))
            wait.others = self._at_other_end(wait.file or "", writes=not writes)

    def _at_other_end(self, link: str, *, writes: bool) -> list[int] | None:
        """Return other processes that hold an end of a pipe; None: not all could be asked.

        A pipe is inherited. So processes of other users are none of them, nor are those that are
        older than this one and hidden from it, such as the first process of a container; its parent
        may be.
        """
        found = []
        me, user = os.getpid(), os.getuid()
        began = _began("self")
        for entry in os.scandir("/proc"):
            if time.monotonic() > self._until:
                return None
            if not entry.name.isdigit() or int(entry.name) == me:
                continue
            try:
                if entry.stat().st_uid == user and _holds(entry.path, link, writes=writes):
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            except OSError:
                if int(entry.name) == os.getppid() or _began(entry.name) >= began:
                    return None
        return sorted(found)[:_MOST_OTHERS]

    def _add_lock_file(self, wait: KernelWait, ident: int) -> None:
        """Add the lock for which a library looks again and again, and who holds it."""
        path = _polled(sys._current_frames().pop(ident, None))
        if path is None:
            return
        wait.file, wait.lock = path[:_LONGEST], True
        with contextlib.suppress(OSError):
            status = Path(path).stat()
            device = os.major(status.st_dev), os.minor(status.st_dev)
            for line in self._all_locks():
                held = int(line["major"], 16), int(line["minor"], 16)
                if not line["waits"] and int(line["inode"]) == status.st_ino and held == device:
                    wait.holder = _process(line)

    def _holder_before(self, pid: int, info: str) -> int | None:
        """Return the process that holds the lock for which a process waits."""
        inode = re.search(r"^ino:\s+(\d+)", _read(info), re.MULTILINE)
        holders: dict[str, int | None] = {}
        for line in self._all_locks():
            if not line["waits"]:
                holders[line["number"]] = _process(line)
            elif int(line["pid"]) == pid and inode is not None and inode[1] == line["inode"]:
                return holders.get(line["number"])
        return None

    def _all_locks(self) -> list[re.Match[str]]:
        if self._locks is None:
            lines = _read("/proc/locks").splitlines()
            self._locks = [found for line in lines if (found := _LOCK.match(line))]
        return self._locks


# -- what is looked at ---------------------------------------------------------------------------


def names() -> dict[int, str]:
    """Return what a record calls each thread but the tracer's own, the main thread first."""
    known = dict(threading._active)  # type: ignore[attr-defined]
    named = {ident: thread_name(thread) for ident, thread in known.items()}
    idents = sorted(sys._current_frames(), key=lambda i: i != threading.main_thread().ident)
    return {
        ident: f"{named.get(ident, 'native')} ({ident})"
        for ident in idents
        if not named.get(ident, "").startswith("collectrace")
    }


def _python_threads() -> Iterator[tuple[str, int, int]]:
    """Return the names as in a stall's stacks, identifiers, and kernel's numbers of threads."""
    known = dict(threading._active)  # type: ignore[attr-defined]
    for ident, name in [*names().items()][:_MOST_THREADS]:
        native_id = safe_attribute(known.get(ident), "native_id")
        if type(native_id) is int:
            yield name, ident, native_id


def _children() -> list[int]:
    """Return the children of this process, those of all its threads."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, _read(f"{task}/children").split())
    return sorted(found)[:_MOST_CHILDREN]


def _name_and_state(pid: int) -> tuple[str | None, str | None]:
    """Return name and state of a process, by ``/proc/PID/stat``."""
    head, _, rest = _read(f"/proc/{pid}/stat").rpartition(")")
    return head.partition("(")[2] or None, rest[1:2] or None


def _began(pid: str) -> int:
    """Return when a process began, in ticks since the machine did."""
    parts = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(parts[19]) if len(parts) > 19 else 0


def _polled(frame: FrameType | None) -> str | None:
    """Return the lock file for which a thread looks again and again, by its innermost frames."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        for file, (name, *attribute) in _LOCK_FILES:
            if not file.search(frame.f_code.co_filename):
                continue
            references = sys.getrefcount(frame)  # by itself: an argument beside it would count
            if not may_read(frame, references, 0):
                continue
            for _, x in variables(frame, [name]) or ():
                value = (attributes_of(x) or {}).get(attribute[0]) if attribute else x
                if type(value) is str:
                    return str(Path(value).absolute())
        frame = frame.f_back
    return None


# -- how the kernel puts it ----------------------------------------------------------------------


def _read(path: str) -> str:
    """Return the text of a file of ``/proc``; empty if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            parts, left = [], _MOST_BYTES
            while left > 0 and (part := file.read(left)):
                parts.append(part)
                left -= len(part)
            return b"".join(parts).decode(errors="replace")
    except OSError:
        return ""


def _call(text: str) -> _Call | None:
    """Return the call of a line of ``/proc/PID/syscall``: ``running``, or number and arguments."""
    parts = text.split()
    if not parts or parts[0] == "-1":  # it is in the kernel, and in no call: a page is read
        return _Call("page fault") if parts else None
    if parts[0] == "running":
        return _Call("running")
    numbers = tuple(int(part, 16) for part in parts[1:7])
    return _Call(_CALLS.get(parts[0], parts[0]), numbers)


def _signed(number: int) -> int | None:
    """Return a process's number; None for "any child"."""
    number &= 0xFFFFFFFF
    return number if 0 < number < 1 << 31 else None


def _descriptor(call: _Call, *, is_own: bool) -> int | None:
    """Return the file descriptor that a call is about: of several the first."""
    if call.name in _WITH_FILE:
        return call.arguments[0] & 0xFFFFFFFF
    if call.name in _POLLS and is_own and call.arguments[1]:
        descriptor: int = struct.unpack("i", _memory(call.arguments[0], 4))[0]
        return descriptor
    return None


def _memory(address: int, size: int) -> bytes:
    """Return bytes of this process. Unlike a pointer, the file fails where there is nothing."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        return os.pread(memory.fileno(), size, address)


def _text_at(address: int) -> str | None:
    page = 4096 - address % 4096
    text = _memory(address, min(page, _PATH_MAX))
    if b"\0" not in text:
        text += _memory(address + page, _PATH_MAX - page)
    return text.partition(b"\0")[0].decode(errors="replace")[:_LONGEST] or None


def _holds(process: str, link: str, *, writes: bool) -> bool:
    """Whether a process has an end of a pipe open."""
    for opened in Path(f"{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed
            if str(opened.readlink()) != link:
                continue
            if _is_for_writing(_read(f"{process}/fdinfo/{opened.name}")) == writes:
                return True
    return False


def _is_for_writing(info: str) -> bool:
    found = re.search(r"^flags:\s+[0-7]*([0-7])$", info, re.MULTILINE)
    return found is not None and int(found[1]) & os.O_ACCMODE != os.O_RDONLY


def _process(lock: re.Match[str]) -> int | None:
    """Return the process of a lock; a lock of an open file has none."""
    return int(lock["pid"]) if int(lock["pid"]) > 0 else None


def _peer(inode: str) -> str | None:
    """Return the address that a TCP socket is connected to, ``10.0.0.1:29500``."""
    for name in ("tcp", "tcp6"):
        for line in _read(f"/proc/self/net/{name}").splitlines()[1:]:
            parts = line.split()
            if len(parts) > 9 and parts[9] == inode:
                address, _, port = parts[2].partition(":")
                return _address(address, int(port, 16))
    return None


def _address(text: str, port: int) -> str:
    # Each 32-bit word is in the machine's byte order (net/ipv4/tcp_ipv4.c, get_tcp4_sock).
    words = [int(text[n : n + 8], 16) for n in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    if len(words) == 1:
        return f"{socket.inet_ntop(socket.AF_INET, packed)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]:{port}"

"""Read facts about processes and threads from ``/proc`` (Linux, ``man 5 proc``)."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import platform
import re
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_MOST_BYTES: Final = 4 << 20

LONGEST: Final = 1000
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
"""System calls with a file descriptor as their first argument."""

POLLS: Final = frozenset({"poll", "ppoll"})
LOCK: Final = re.compile(
    r"(?P<number>\d+):(?P<waits>(?:\s+->)*)\s+\w+\s+\w+\s+\w+\s+(?P<pid>-?\d+)\s+"
    r"(?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+):(?P<inode>\d+)\s"
)
"""A line of ``/proc/locks``: a waiting lock follows the one that is held, and has its number."""


class Call(NamedTuple):
    """A system call that a thread is in."""

    name: str
    arguments: tuple[int, ...] = ()


def name_and_state(pid: int) -> tuple[str | None, str | None]:
    """Return name and state of a process, by ``/proc/PID/stat``."""
    head, _, rest = read(f"/proc/{pid}/stat").rpartition(")")
    return head.partition("(")[2] or None, rest[1:2] or None


def began(pid: str) -> int:
    """Return when a process began, in clock ticks after the machine's start; 0: unknown."""
    parts = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(parts[19]) if len(parts) > 19 else 0


def read(path: str) -> str:
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


def call(text: str) -> Call | None:
    """Parse the text of ``/proc/PID/syscall``; None: it is empty."""
    parts = text.split()
    if not parts or parts[0] == "-1":  # in the kernel without a call: a page is being read
        return Call("page fault") if parts else None
    if parts[0] == "running":
        return Call("running")
    numbers = tuple(int(part, 16) for part in parts[1:7])
    return Call(_CALLS.get(parts[0], parts[0]), numbers)


def is_in_write(descriptor: int) -> bool:
    """Return whether a thread of this process is in a write to this descriptor."""
    with contextlib.suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            found = call(read(f"{thread}/syscall"))
            if found is not None and found.name == "write" and found.arguments[0] == descriptor:
                return True
    return False


def signed(number: int) -> int | None:
    """Return the process id in a register; None for "any child"."""
    number &= 0xFFFFFFFF
    return number if 0 < number < 1 << 31 else None


def descriptor(call: Call, *, is_own: bool) -> int | None:
    """Return the file descriptor of a call, the first if it has several; None: it has none."""
    if call.name in _WITH_FILE:
        return call.arguments[0] & 0xFFFFFFFF
    if call.name in POLLS and is_own and call.arguments[1]:
        number: int = struct.unpack("i", _memory(call.arguments[0], 4))[0]
        return number
    return None


def _memory(address: int, size: int) -> bytes:
    """Return bytes of this process's memory. For a bad address the read fails, without a crash."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        return os.pread(memory.fileno(), size, address)


def text_at(address: int) -> str | None:
    """Return the C string at an address of this process, such as the path of a call."""
    page = 4096 - address % 4096
    text = _memory(address, min(page, _PATH_MAX))
    if b"\0" not in text:
        text += _memory(address + page, _PATH_MAX - page)
    return text.partition(b"\0")[0].decode(errors="replace")[:LONGEST] or None


def holds_end(process: str, link: str, *, writes: bool) -> bool:
    """Return whether a process has an end of a pipe open; ``writes``: the end for writing."""
    for opened in Path(f"{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed
            if str(opened.readlink()) != link:
                continue
            if is_for_writing(read(f"{process}/fdinfo/{opened.name}")) == writes:
                return True
    return False


def is_for_writing(info: str) -> bool:
    """Return whether a descriptor is open for writing, by ``/proc/PID/fdinfo``."""
    found = re.search(r"^flags:\s+[0-7]*([0-7])$", info, re.MULTILINE)
    return found is not None and int(found[1]) & os.O_ACCMODE != os.O_RDONLY


def process(lock: re.Match[str]) -> int | None:
    """Return the process id of a lock; None for a lock of an open file description."""
    return int(lock["pid"]) if int(lock["pid"]) > 0 else None


def peer(inode: str) -> str | None:
    """Return the address that a TCP socket is connected to, ``10.0.0.1:29500``."""
    for name in ("tcp", "tcp6"):
        for line in read(f"/proc/self/net/{name}").splitlines()[1:]:
            parts = line.split()
            if len(parts) > 9 and parts[9] == inode:
                address, _, port = parts[2].partition(":")
                return _address(address, int(port, 16))
    return None


def _address(text: str, port: int) -> str:
    # Each 32-bit word is in the machine's byte order (net/ipv4/tcp_ipv4.c, get_tcp4_sock).
    words = [int(text[n : n + 8], 16) for n in range(0, len(text), 8)]
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    mapped = address.ipv4_mapped if address.version == 6 else address
    return f"{mapped}:{port}" if mapped else f"[{address}]:{port}"

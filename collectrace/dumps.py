"""Read what faulthandler writes: the stacks of all threads, even if another thread holds the GIL.

The tracer makes faulthandler write them beside a rank file: ``rank00000.stacks.txt`` (the GIL is
held) and ``rank00000.ends.txt`` (SIGTERM, or a fatal error). The aligner reads those that the
tracer did not copy into the rank file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

MAIN: Final = "MainThread"
"""Python's name of the main thread."""

_THREAD: Final = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*?)\])? ")
_FRAME: Final = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
_FATAL: Final = re.compile(r"Fatal Python error: (.*)")

_MAX_THREADS: Final = 256
_MAX_FRAMES: Final = 200


@dataclass(slots=True)
class Dump:
    """The last dump of a file."""

    fatal: str | None = None
    """What the process died of, such as ``Aborted``; None: the dump was only requested."""
    stacks: dict[str, list[str]] = field(default_factory=dict)
    """Per thread ``path:line function``, innermost last; the main thread is ``MainThread``."""


def of_main(stacks: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the stack of the main thread; empty: there is none."""
    return next((frames for name, frames in stacks.items() if name.startswith(MAIN)), ())


def own(frames: Sequence[str]) -> list[str]:
    """Return the frames outside installed packages, Python's library and the tracer."""
    return [f for f in frames if not any(part in f for part in _NOT_OWN)]


def within(frames: Sequence[str]) -> str:
    """Return the frame called by the innermost of :func:`own`, without the tracer's, if any."""
    known = own(frames)
    if not known:
        return ""
    inner = len(frames) - frames[::-1].index(known[-1])
    return next((frame for frame in frames[inner:] if TRACER not in frame), "")


def is_joining(frames: Sequence[str]) -> bool:
    """Return whether a thread with this stack waits for another's result or end."""
    return any(_JOINS.search(frame) for frame in frames[-_INNERMOST:])


_JOINS: Final = re.compile(
    r"concurrent/futures/_base\.py:\d+ (result|exception|wait)$"
    r"|/threading\.py:\d+ (join|_wait_for_tstate_lock)$"
)
"""Frames in which a thread waits for another's result or end (CPython 3.10 to 3.14)."""

_INNERMOST: Final = 4
"""How many of the innermost frames are searched: only a lock or a condition is below."""

TRACER: Final = "/collectrace/tracer/"
"""Part of the path of the tracer's own frames."""

_NOT_OWN: Final = ("/site-packages/", "/lib/python", TRACER, "<frozen ")


def parse(text: str) -> Dump | None:
    """Return the last dump in a file; None: there is none.

    faulthandler names threads by address and writes the main thread, the oldest, last (CPython,
    Python/traceback.c, ``_Py_DumpTracebackThreads``).
    """
    dump = Dump()
    threads: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if (fatal := _FATAL.match(line)) is not None:
            dump, threads = Dump(fatal=fatal[1]), []
        elif (thread := _THREAD.match(line)) is not None:
            threads.append((thread[1], []))
        elif (frame := _FRAME.match(line)) is not None and threads:
            frames = threads[-1][1]
            if len(frames) < _MAX_FRAMES:
                frames.append(f"{frame[1]}:{frame[2]} {frame[3]}")
    if not threads:
        return dump if dump.fatal is not None else None
    main, frames = threads.pop()
    dump.stacks[MAIN] = frames[::-1]
    for n, (address, frames) in enumerate(reversed(threads[-_MAX_THREADS:]), 1):
        if address == main:
            # This is the main thread of an earlier dump, and the fatal error came before it.
            return Dump(stacks=dump.stacks)
        dump.stacks[f"thread {n}"] = frames[::-1]
    return dump

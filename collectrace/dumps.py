"""What faulthandler writes: the stacks of all threads, from C, whoever holds the GIL.

The tracer has them written beside a rank file, as ``rank00000.stacks.txt`` (the GIL is held) and
``rank00000.ends.txt`` (SIGTERM, or a fatal error); what is not collected into the rank file
itself is read by the aligner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_THREAD: Final = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*?)\])? ")
_FRAME: Final = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
_FATAL: Final = re.compile(r"Fatal Python error: (.*)")

_MAX_THREADS: Final = 256
_MAX_FRAMES: Final = 200


@dataclass(slots=True)
class Dump:
    """The last dump of a file."""

    fatal: str | None = None
    """What the process died of, such as ``Aborted``; None where it was only asked."""
    stacks: dict[str, list[str]] = field(default_factory=dict)
    """Per thread ``path:line function``, innermost last; the main thread is ``MainThread``."""


def parse(text: str) -> Dump | None:
    """The last dump in a file; None where there is none.

    faulthandler names threads by address and writes the main one last, being the oldest
    (CPython, Python/traceback.c, ``_Py_DumpTracebackThreads``).
    """
    dump: Dump | None = None
    threads: dict[str, list[str]] = {}
    frames: list[str] = []
    for line in text.splitlines():
        if (fatal := _FATAL.match(line)) is not None:
            dump, threads = Dump(fatal=fatal[1]), {}
        elif (thread := _THREAD.match(line)) is not None:
            if dump is None or thread[1] in threads:
                dump, threads = Dump(), {}
            frames = threads[thread[1]] = []
        elif (frame := _FRAME.match(line)) is not None and len(frames) < _MAX_FRAMES:
            frames.append(f"{frame[1]}:{frame[2]} {frame[3]}")
    if dump is None or not threads:
        return dump
    *others, main = list(threads.values())[-_MAX_THREADS:]
    dump.stacks = {f"thread {n}": frames[::-1] for n, frames in enumerate(others, 1)}
    dump.stacks["MainThread"] = main[::-1]
    return dump

"""Which frames of a thread are read: the user's."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Final, NamedTuple

from collectrace.tracer.record.owners import USER, classify
from collectrace.tracer.values.variables import may_read

MOST_FRAMES: Final = 24
"""Of the user's code, the innermost ones."""

_MOST_WALKED: Final = 1000
"""Frames looked at: for each that runs Python makes an object."""


class Level(NamedTuple):
    """A frame, as it was found."""

    frame: FrameType
    lasti: int
    """Offset of the instruction that it was at."""
    may_read: bool
    """Whether its variables may be read."""
    may_move: bool
    """Whether another thread may run on in it."""


@dataclass(slots=True)
class FoundStack:
    """The frames of one thread that are read, innermost first."""

    users: list[Level] = field(default_factory=list)
    left_out: int = 0
    """Frames of the user's that were seen beyond the limit."""

    def add(self, level: Level) -> None:
        """Take a frame that lies around those before."""
        if classify(level.frame.f_code) == USER:
            if len(self.users) < MOST_FRAMES:
                self.users.append(level)
            else:
                self.left_out += 1


def of_thread(innermost: FrameType, held: Mapping[int, int]) -> FoundStack:
    """Return the stack of another thread, which may be running.

    ``held``: how many references the tracer itself has to a frame, by the frame's ``id``. No
    variable of the caller may hold the frame.
    """
    found = FoundStack()
    frame: FrameType | None = innermost
    del innermost
    for _ in range(_MOST_WALKED):
        if frame is None:
            break
        references = sys.getrefcount(frame)  # by itself: an argument beside it would count
        may = may_read(frame, references, held.get(id(frame), 0))
        found.add(Level(frame, frame.f_lasti, may, may_move=True))
        frame = frame.f_back
    return found


def of_traceback(traceback: TracebackType | None) -> FoundStack:
    """Return the stack that an exception came through, and what called it, in this thread."""
    found = FoundStack()
    if traceback is None:
        return found
    around = traceback.tb_frame.f_back
    last = deque[Level](maxlen=_MOST_WALKED)
    while traceback is not None:
        frame = traceback.tb_frame
        last.append(Level(frame, traceback.tb_lasti, may_read=True, may_move=False))
        traceback = traceback.tb_next
    for level in reversed(last):
        found.add(level)
    while around is not None and len(last) < _MOST_WALKED:
        level = Level(around, around.f_lasti, may_read=True, may_move=False)
        last.append(level)
        found.add(level)
        around = around.f_back
    return found

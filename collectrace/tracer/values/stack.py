"""Choose the frames of a thread to read: the user's."""

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
"""The innermost frames of the user's code."""

_MOST_WALKED: Final = 1000
"""Frames that are read at most: Python creates an object for each running frame."""


class Level(NamedTuple):
    """A frame, as it was found."""

    frame: FrameType
    lasti: int
    """Offset of the instruction that it was at."""
    may_read: bool
    """Whether its variables may be read."""
    may_move: bool
    """Whether another thread may keep running in it."""


@dataclass(slots=True)
class FoundStack:
    """The frames of one thread that are read, innermost first."""

    users: list[Level] = field(default_factory=list)
    left_out: int = 0
    """Frames of the user beyond the limit."""

    def add(self, level: Level) -> None:
        """Add the next outer frame, if it is the user's."""
        if classify(level.frame.f_code) == USER:
            if len(self.users) < MOST_FRAMES:
                self.users.append(level)
            else:
                self.left_out += 1


def of_thread(innermost: FrameType, held: Mapping[int, int]) -> FoundStack:
    """Return the stack of another thread, which may be running.

    ``held``: the number of the tracer's references to a frame, by the frame's ``id``. The caller
    must not keep the frame in a variable.
    """
    found = FoundStack()
    frame: FrameType | None = innermost
    del innermost
    for _ in range(_MOST_WALKED):
        if frame is None:
            break
        references = sys.getrefcount(frame)  # in a separate line: an argument would count
        may = may_read(frame, references, held.get(id(frame), 0))
        found.add(Level(frame, frame.f_lasti, may, may_move=True))
        frame = frame.f_back
    return found


def of_traceback(traceback: TracebackType | None) -> FoundStack:
    """Return the stack that an exception passed through, and its callers, in this thread."""
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

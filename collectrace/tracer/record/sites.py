"""Which lines of the user's code a call comes from, and which of libraries stand between.

Every collective pays for the walk over the stack. So a stack that was seen before is found by
its frames alone, one dictionary look-up for each, and all else is worked out once.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NamedTuple, Protocol

from collectrace.tracer.guard import is_users
from collectrace.tracer.record.owners import (
    LIBRARY,
    TORCH,
    USER,
    classify,
    set_libraries,
    torch_codes,
)

MOST_FRAMES: Final = 8
"""Of the user's code, in a stack."""

_MOST_LIBRARY_FRAMES: Final = 24
"""Of libraries, between and above the user's frames. A training loop that has called the user's
code is one of them: what it decided by lies in its own code."""

_MOST_AROUND: Final = 4
"""Frames of the user's code around the line that raised."""

_MOST_WALKED: Final = 200
"""Frames looked at. From a callback of Lightning's to the line that calls ``fit`` there are 40."""

_MOST_NODES: Final = 20_000
"""Frames of all stacks remembered, some 5 MB. Programs that generate code without end reach it,
and start over."""

_THREAD: Final = threading.Thread.run.__code__.co_filename
_BEGINNERS: Final = {_THREAD, BaseProcess.run.__code__.co_filename}
"""Files whose functions a thread or process begins with. In a forked process the frames of its
parent lie above."""

_NO_STEPS: Final = (".__call__", ".__enter__", ".__exit__")
"""Ends of names that say nothing about what a library is about."""


class UserLine(NamedTuple):
    """A line of the user's code that a frame is at."""

    site: str
    """``path:line``."""
    function: str
    """The qualified name of the function, as in ``Trainer.step``."""
    first_line: int
    """Where the function begins, its decorators included."""


class LibraryLine(NamedTuple):
    """A line of a library's code that a frame is at."""

    inside: int
    """How many of the user's frames lie further inside."""
    site: str
    """``path:line``."""
    function: str
    """The qualified name of the function."""


class Place:
    """Where calls come from: the frames of a stack that count.

    These are, innermost first, those of the user's code and of libraries. There is one object for
    all stacks that are equal in them, and it is part of the key by which a call's template is
    found.
    """

    __slots__ = ("_continued", "frames", "is_open")

    def __init__(self, frames: tuple[tuple[CodeType, int], ...], *, is_open: bool) -> None:
        self.frames = frames
        """Code object and offset of the instruction of each."""
        self.is_open = is_open
        """No frame of the user's program called the outermost one: the thread may say where it was
        given its work."""
        self._continued: dict[Place, Place] = {}

    @property
    def is_direct(self) -> bool:
        """Whether the user's own code called torch, and no library between."""
        return bool(self.frames) and classify(self.frames[0][0]) == USER

    def continued(self, outer: Place) -> Place:
        """The place of such frames with those of ``outer`` above them."""
        if not self.frames or not outer.frames:
            return outer if outer.frames else self
        found = self._continued.get(outer)
        if found is None:
            found = Place(self.frames + outer.frames, is_open=False)
            self._continued[outer] = found
        return found

    def user_lines(self) -> list[UserLine]:
        """The user's frames, innermost first."""
        found = [
            UserLine(line(code, lasti), code.co_qualname, code.co_firstlineno)
            for code, lasti in self.frames
            if classify(code) == USER
        ]
        return found[:MOST_FRAMES]

    def library_lines(self) -> list[LibraryLine]:
        """The frames of libraries, innermost first."""
        found: list[LibraryLine] = []
        inside = 0
        for code, lasti in self.frames:
            if classify(code) == USER:
                inside += 1
            else:
                found.append(LibraryLine(inside, line(code, lasti), code.co_qualname))
        return found[:_MOST_LIBRARY_FRAMES]

    def path(self) -> list[str]:
        """The functions of libraries below the user's innermost frame, outermost first.

        Not those that stand in a function themselves: they are what decorators make.
        """
        found: list[str] = []
        for code, _ in self.frames:
            if classify(code) == USER:
                break
            name = code.co_qualname
            if "<" not in name and not name.endswith(_NO_STEPS) and [name] != found[-1:]:
                found.append(name)
        return found[::-1]


NOWHERE: Final = Place((), is_open=True)


class Lender(Protocol):
    """A thread, for whose calls code that runs elsewhere may answer."""

    def lent(self) -> Place:
        """Where the thread was given its work; NOWHERE: that is not known."""


class _Node:
    """A frame at an instruction, with certain frames below it: what is known above it."""

    __slots__ = ("above", "code", "lasti", "others", "place")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti
        self.above: _Node | None = None
        """The first that was seen; None: the walk ends with this frame."""
        self.others: dict[int, _Node] = {}
        """All that were seen, by their addresses."""
        self.place: Place | None = None
        """Of the stack that ends with this frame; None: none does."""


class _Seen:
    """The stacks that were seen, and their places."""

    def __init__(self) -> None:
        self.innermost: dict[int, _Node] = {}
        """By the address of the instruction that a frame is at. The bytecode of a function lies
        inside its code object (CPython 3.11 to 3.14, Include/cpython/code.h), so that no two
        have equal addresses while the nodes keep both."""
        self._nodes = 0
        self._places: dict[Any, Place] = {}
        """By their frames."""

    def learn(self, innermost: FrameType) -> Place:
        """Work out the place of a stack, and remember it."""
        if self._nodes + _MOST_WALKED > _MOST_NODES:
            self.forget()
        frame: FrameType | None = innermost
        while frame is not None and classify(frame.f_code) == TORCH:
            frame = frame.f_back  # as the walk does, once their code is known
        node: _Node | None = None
        counted: list[tuple[CodeType, int]] = []
        left, left_around, walked, is_open = MOST_FRAMES, _MOST_LIBRARY_FRAMES, 0, False
        while left and walked < _MOST_WALKED:
            if frame is None:
                is_open = True
                break
            code, lasti = frame.f_code, frame.f_lasti
            node = self._node(node, code, lasti)
            owner = classify(code)
            if owner == USER or (owner == LIBRARY and (left == MOST_FRAMES or left_around > 0)):
                counted.append((code, lasti))
                left_around -= owner == LIBRARY
            if owner == USER:
                # What runs a module, an import or a notebook, calls nothing.
                left = 0 if code.co_name == "<module>" else left - 1
            elif code.co_filename in _BEGINNERS:
                is_open = left == MOST_FRAMES or code.co_filename == _THREAD
                break
            frame = frame.f_back
            walked += 1
        place = NOWHERE
        if counted:
            # Not by the code objects: equal ones are the same to a dictionary.
            key = (*((id(code), lasti) for code, lasti in counted), is_open)
            place = self._places.setdefault(key, Place(tuple(counted), is_open=is_open))
        if node is not None:
            if frame is None and node.above is None:
                node.above = _NONE  # first: without it the place would do for longer stacks too
            node.place = place
        return place

    def forget(self) -> None:
        """Start over."""
        self.innermost.clear()
        self._places.clear()
        self._nodes = 0

    def _node(self, below: _Node | None, code: CodeType, lasti: int) -> _Node:
        """The node above another, or of an innermost frame."""
        address = id(code) + lasti
        siblings = self.innermost if below is None else below.others
        found = siblings.get(address)
        if found is None:
            found = siblings[address] = _Node(code, lasti)
            self._nodes += 1
        if below is not None and (below.above is None or below.above is _NONE):
            below.above = found
        return found


_NONE: Final = _Node(_Node.__init__.__code__, -1)
"""Stands above a frame that no other was seen above."""

_seen: Final = _Seen()
_innermost: Final = _seen.innermost


def have_libraries(folders: Iterable[Path]) -> None:
    """Know the code in these folders for a library's from now on, in stacks seen before, too."""
    set_libraries(folders)
    _seen.forget()


def find(frame: FrameType | None, thread: Lender | None = None) -> Place:
    """The place of a call on a stack: among ``frame``, its innermost, and its callers.

    That of a thread goes on where ``thread`` was given its work.
    """
    if frame is None:
        return NOWHERE if thread is None else thread.lent()
    # Nearly always it is a frame that counts, and a known one.
    node = _innermost.get(id(frame.f_code) + frame.f_lasti)
    if node is None:
        skipped = torch_codes
        while id(frame.f_code) in skipped:
            frame = frame.f_back
            if frame is None:
                return NOWHERE if thread is None else thread.lent()
        node = _innermost.get(id(frame.f_code) + frame.f_lasti)
    innermost = frame
    place: Place | None = None
    while node is not None:
        above = node.above
        if above is None:
            place = node.place
            break
        frame = frame.f_back
        if frame is None:
            place = node.place
            break
        # Nearly always it is the first that was seen there.
        if frame.f_code is above.code and frame.f_lasti == above.lasti:
            node = above
        else:
            node = node.others.get(id(frame.f_code) + frame.f_lasti)
    if place is None:
        place = _seen.learn(innermost)
    if place.is_open and thread is not None:
        return place.continued(thread.lent())
    return place


def line(code: CodeType, lasti: int) -> str:
    """``path:line`` of an instruction, given by its offset ``lasti``; the path is absolute."""
    number = code.co_firstlineno
    for start, end, candidate in code.co_lines():
        if start <= lasti < end and candidate is not None:
            number = candidate
            break
    return _told(code, number)


def _told(code: CodeType, number: int) -> str:
    path = code.co_filename
    if not path.startswith("<"):
        # A script started as `python train.py` has a relative name on some versions.
        try:
            path = os.path.abspath(path)
        except OSError as problem:  # the working directory was deleted
            if is_users(problem):
                raise
    return f"{path}:{number}"


def resolve(place: Place) -> tuple[str | None, str | None]:
    """``site`` and ``via`` of a place, as in a ``call`` record.

    Without a frame of the user's the innermost of a library stands in its place.
    """
    via: str | None = None
    for code, lasti in place.frames:
        if classify(code) == USER:
            return line(code, lasti), via
        via = via or line(code, lasti)
    return via, None


def public_function(frame: FrameType | None) -> str | None:
    """The outermost public function of distributed_c10d.py between the user's code and ``frame``.

    None where there is none.
    """
    name: str | None = None
    while frame is not None and classify(frame.f_code) == TORCH:
        code = frame.f_code
        if code.co_filename.endswith("distributed_c10d.py") and not code.co_name.startswith("_"):
            name = code.co_name
        frame = frame.f_back
    return name


def here(depth: int = 1) -> tuple[str | None, str | None]:
    """``site`` and ``via`` of the line that the calling thread is in.

    The walk begins ``depth`` frames above the caller of this function: it may leave out frames
    that are known to be the tracer's.
    """
    return resolve(place_here(depth + 1))


def place_here(depth: int = 1) -> Place:
    """The place that the calling thread is in, likewise."""
    return find(sys._getframe(depth + 1))


def of_traceback(traceback: TracebackType | None, caller: FrameType | None = None) -> str | None:
    """``path:line`` of a traceback's innermost user frame, else of its innermost outside torch.

    Where there is nothing but torch, of the user's line that ``caller`` comes from, else of the
    innermost of all.
    """
    best: str | None = None
    whose = TORCH
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if (kind := classify(code)) >= whose:
            best, whose = _told(code, traceback.tb_lineno), kind
        traceback = traceback.tb_next
    if whose == TORCH and caller is not None:
        return resolve(find(caller))[0] or best
    return best


def through(traceback: TracebackType | None) -> list[str]:
    """``path:line`` of the user's frames around the innermost one of a traceback, nearest first.

    At most four.
    """
    found = deque[str](maxlen=_MOST_AROUND + 1)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if classify(code) == USER:
            found.append(_told(code, traceback.tb_lineno))
        traceback = traceback.tb_next
    return list(found)[-2::-1]


def frames(traceback: TracebackType | None, most: int) -> list[str]:
    """Return ``path:line function`` of a traceback's innermost frames, innermost last."""
    found = deque[str](maxlen=most)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found.append(f"{_told(code, traceback.tb_lineno)} {code.co_name}")
        traceback = traceback.tb_next
    return list(found)


def users_above(frame: FrameType | None) -> list[str]:
    """``path:line`` of the user's frames that are being run from one on, the nearest first.

    At most five.
    """
    found: list[str] = []
    while frame is not None and len(found) <= _MOST_AROUND:
        if classify(frame.f_code) == USER:
            found.append(_told(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found

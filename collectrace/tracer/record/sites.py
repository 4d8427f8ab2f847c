"""Find the lines of the user's code that a call comes from, and those of libraries in between.

Every collective pays for the walk over the stack. So a known stack is found by its frames alone,
with one comparison or look-up for each. Everything else is computed once per stack.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from traceback import walk_tb
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
"""Frames of the user's code in a stack."""

_MOST_LIBRARY_FRAMES: Final = 24
"""Frames of libraries between and above the user's. A library's training loop is one of them: its
code contains the conditions that decide about calls."""

_MOST_AROUND: Final = 4
"""Frames of the user's code around the line that raised."""

_MOST_WALKED: Final = 200
"""Frames that are read. Between a callback of Lightning and the call of ``fit`` there are 40."""

_MOST_NODES: Final = 20_000
"""Frames of all remembered stacks, some 5 MB. Programs that keep generating code reach it; then all
stacks are forgotten."""

_THREAD: Final = threading.Thread.run.__code__.co_filename
_BEGINNERS: Final = {_THREAD, BaseProcess.run.__code__.co_filename}
"""Files with the functions in which a thread or process begins. In a forked process, the frames of
its parent are above."""

_NO_STEPS: Final = (".__call__", ".__enter__", ".__exit__")
"""Ends of names that do not describe what a library does."""


class UserLine(NamedTuple):
    """A line of the user's code that a frame is at."""

    site: str
    """``path:line``."""
    function: str
    """The qualified name of the function, as in ``Trainer.step``."""
    first_line: int
    """The line where the function begins, with its decorators."""


class LibraryLine(NamedTuple):
    """A line of a library's code that a frame is at."""

    inside: int
    """How many of the user's frames are further inside."""
    site: str
    """``path:line``."""
    function: str
    """The qualified name of the function."""


class Place:
    """The origin of calls: the frames of the user's code and of libraries, innermost first.

    All stacks with equal such frames share one object. It is part of the key by which a call's
    template is found.
    """

    __slots__ = ("_continued", "frames", "is_open")

    def __init__(self, frames: tuple[tuple[CodeType, int], ...], *, is_open: bool) -> None:
        self.frames = frames
        """The code object and the offset of the instruction of each."""
        self.is_open = is_open
        """Whether the stack ends without a caller in the user's program. Then the line that gave
        the thread its work continues it."""
        self._continued: dict[Place, Place] = {}

    @property
    def is_direct(self) -> bool:
        """Return whether the user's code called torch, without a library in between."""
        return bool(self.frames) and classify(self.frames[0][0]) == USER

    def continued(self, outer: Place) -> Place:
        """Return the place with these frames and those of ``outer`` above them."""
        if not self.frames or not outer.frames:
            return outer if outer.frames else self
        found = self._continued.get(outer)
        if found is None:
            found = Place(self.frames + outer.frames, is_open=False)
            self._continued[outer] = found
        return found

    def user_lines(self) -> list[UserLine]:
        """Return the user's frames, innermost first."""
        found = [
            UserLine(line(code, lasti), code.co_qualname, code.co_firstlineno)
            for code, lasti in self.frames
            if classify(code) == USER
        ]
        return found[:MOST_FRAMES]

    def library_lines(self) -> list[LibraryLine]:
        """Return the frames of libraries, innermost first."""
        found: list[LibraryLine] = []
        inside = 0
        for code, lasti in self.frames:
            if classify(code) == USER:
                inside += 1
            else:
                found.append(LibraryLine(inside, line(code, lasti), code.co_qualname))
        return found[:_MOST_LIBRARY_FRAMES]

    def path(self) -> list[str]:
        """Return the functions of libraries below the user's innermost frame, outermost first.

        Nested functions are left out, as decorators create them.
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
    """A thread that may have got its work from another thread."""

    def lent(self) -> Place:
        """Return the place that gave the thread its work; NOWHERE: it is unknown."""


class _Node:
    """A frame at an instruction, with certain frames below it, and the frames seen above it."""

    __slots__ = ("above", "code", "lasti", "others", "place")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti
        self.above: _Node | None = None
        """The first one seen; None: the walk ends with this frame."""
        self.others: dict[int, _Node] = {}
        """All that were seen, by the addresses of their instructions."""
        self.place: Place | None = None
        """The place of the stack that ends with this frame; None: none does."""


class _Seen:
    """The stacks seen so far, and their places."""

    def __init__(self) -> None:
        self.innermost: dict[int, _Node] = {}
        """By the address of the instruction that a frame is at. The bytecode of a function is
        inside its code object (CPython 3.11 to 3.14, Include/cpython/code.h). So no two have equal
        addresses while the nodes keep both code objects alive."""
        self._nodes = 0
        self._places: dict[Any, Place] = {}
        """By their frames."""

    def learn(self, innermost: FrameType) -> Place:
        """Compute the place of a stack, remember it and return it."""
        if self._nodes + _MOST_WALKED > _MOST_NODES:
            self.forget()
        frame: FrameType | None = innermost
        while frame is not None and classify(frame.f_code) == TORCH:
            frame = frame.f_back  # as in `find`, which skips known code of torch
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
                # Nothing above a module counts: its code is run by an import or a notebook.
                left = 0 if code.co_name == "<module>" else left - 1
            elif code.co_filename in _BEGINNERS:
                is_open = left == MOST_FRAMES or code.co_filename == _THREAD
                break
            frame = frame.f_back
            walked += 1
        place = NOWHERE
        if counted:
            # By ids: a dictionary does not distinguish equal code objects.
            key = (*((id(code), lasti) for code, lasti in counted), is_open)
            place = self._places.setdefault(key, Place(tuple(counted), is_open=is_open))
        if node is not None:
            if frame is None and node.above is None:
                node.above = _NONE  # set first, or the place would also match longer stacks
            node.place = place
        return place

    def forget(self) -> None:
        """Forget all stacks."""
        self.innermost.clear()
        self._places.clear()
        self._nodes = 0

    def _node(self, below: _Node | None, code: CodeType, lasti: int) -> _Node:
        """Return the node above another, or of an innermost frame."""
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
"""The node above a frame without a caller."""

_seen: Final = _Seen()
_innermost: Final = _seen.innermost


def have_libraries(folders: Iterable[Path]) -> None:
    """Classify the code in these folders as a library's from now on, also in known stacks."""
    set_libraries(folders)
    _seen.forget()


def find(frame: FrameType | None, thread: Lender | None = None) -> Place:
    """Return the place of a call on the stack with the innermost frame ``frame``.

    If it is open, it continues at the place that gave ``thread`` its work.
    """
    if frame is None:
        return NOWHERE if thread is None else thread.lent()
    # Nearly always the frame is a known one of the user or a library.
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
        # Nearly always it is the first frame that was seen there.
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
    """Return ``path:line`` of the instruction at the offset ``lasti``; the path is absolute."""
    number = code.co_firstlineno
    for start, end, candidate in code.co_lines():
        if start <= lasti < end and candidate is not None:
            number = candidate
            break
    return _site(code, number)


def _site(code: CodeType, number: int) -> str:
    return f"{absolute(code.co_filename)}:{number}"


def absolute(path: str) -> str:
    """Return the path of a code object's file as it is recorded everywhere.

    A script that was started as `python ../train.py` has a relative name on some versions.
    """
    if path.startswith("<"):
        return path
    try:
        return os.path.abspath(path)
    except OSError as problem:  # the working directory was deleted
        if is_users(problem):
            raise
        return path


def resolve(place: Place) -> tuple[str | None, str | None]:
    """Return ``site`` and ``via`` of a place, as in a ``call`` record.

    Without a frame of the user, ``site`` is the innermost frame of a library.
    """
    via: str | None = None
    for code, lasti in place.frames:
        if classify(code) == USER:
            return line(code, lasti), via
        via = via or line(code, lasti)
    return via, None


def public_function(frame: FrameType | None) -> str | None:
    """Return the outermost public function of torch.distributed that leads to ``frame``.

    Only functions of distributed_c10d.py below the user's code count; None: there is none.
    """
    name: str | None = None
    while frame is not None and classify(frame.f_code) == TORCH:
        code = frame.f_code
        if code.co_filename.endswith("distributed_c10d.py") and not code.co_name.startswith("_"):
            name = code.co_name
        frame = frame.f_back
    return name


def here(depth: int = 1) -> tuple[str | None, str | None]:
    """Return ``site`` and ``via`` of the line that the calling thread is at.

    The walk begins ``depth`` frames above the caller of this function, to skip frames of the
    tracer.
    """
    return resolve(place_here(depth + 1))


def place_here(depth: int = 1) -> Place:
    """Return the place of the calling thread; ``depth`` as in :func:`here`."""
    return find(sys._getframe(depth + 1))


def of_traceback(traceback: TracebackType | None, caller: FrameType | None = None) -> str | None:
    """Return ``path:line`` of a traceback's innermost frame of the user, or else of a library.

    If all frames are torch's, it is the user's line that leads to ``caller``, or else the innermost
    frame of all.
    """
    best: str | None = None
    whose = TORCH
    for frame, number in walk_tb(traceback):
        if (kind := classify(frame.f_code)) >= whose:
            best, whose = _site(frame.f_code, number), kind
    if whose == TORCH and caller is not None:
        return resolve(find(caller))[0] or best
    return best


def through(traceback: TracebackType | None) -> list[str]:
    """Return ``path:line`` of the user's frames around a traceback's innermost, nearest first.

    There are at most four.
    """
    users = (step for step in walk_tb(traceback) if classify(step[0].f_code) == USER)
    found = deque(users, maxlen=_MOST_AROUND + 1)
    return [_site(frame.f_code, number) for frame, number in list(found)[-2::-1]]


def frames(traceback: TracebackType | None, most: int) -> list[str]:
    """Return ``path:line function`` of a traceback's innermost frames, innermost last."""
    found = deque(walk_tb(traceback), maxlen=most)
    return [f"{_site(frame.f_code, number)} {frame.f_code.co_name}" for frame, number in found]


def users_above(frame: FrameType | None) -> list[str]:
    """Return ``path:line`` of the user's frames among a frame and its callers, nearest first.

    There are at most five.
    """
    found: list[str] = []
    while frame is not None and len(found) <= _MOST_AROUND:
        if classify(frame.f_code) == USER:
            found.append(_site(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found

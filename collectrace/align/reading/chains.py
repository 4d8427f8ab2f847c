"""The callers of a run's calls, from the user's stack frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

Place = tuple[str, str]
"""A function: its file and its name, as frames name them."""


@dataclass(frozen=True, slots=True)
class Chains:
    """The functions and callers in the stacks of all calls."""

    callers: Mapping[Place, set[str]] = field(default_factory=dict)
    """By function, the lines (``path:line``) that were seen to call it."""

    lines: Mapping[Place, set[str]] = field(default_factory=dict)
    """By function, its own lines through which calls were made."""


def of(stacks: Iterable[Sequence[str]]) -> Chains:
    """Collect the functions and callers in stacks of ``path:line function``, innermost first.

    A text of another form, such as a call's line alone, is ignored.
    """
    callers: dict[Place, set[str]] = {}
    lines: dict[Place, set[str]] = {}
    for frames in stacks:
        for n, frame in enumerate(frames):
            function = place(frame)
            if not function[1]:
                continue
            lines.setdefault(function, set()).add(site(frame))
            if n + 1 < len(frames):
                callers.setdefault(function, set()).add(site(frames[n + 1]))
    return Chains(callers, lines)


def parts(frame: str) -> tuple[str, str]:
    """Split a frame into ``path:line`` and the function, which is empty if the frame has none.

    A path may contain spaces, and a function's name has none.
    """
    at, _, name = frame.rpartition(" ")
    is_place = at.rpartition(":")[2].isdigit()
    return (at, name) if is_place else (frame, "")


def site(frame: str) -> str:
    """Return the ``path:line`` of a frame."""
    return parts(frame)[0]


def file(frame: str) -> str:
    """Return the file of a frame."""
    return site(frame).rpartition(":")[0]


def line(frame: str) -> int:
    """Return the line number of a frame; 0 if it is not known."""
    return split(site(frame))[1]


def split(at: str | None) -> tuple[str, int]:
    """Split ``path:line`` into file and number; 0 if the number is damaged."""
    path, _, digits = (at or "").rpartition(":")
    return path, number(digits)


def number(text: str) -> int:
    """Return a line number; 0 if the text is damaged."""
    # A log may hold anything: int() takes no superscripts, and only so many digits.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def function(frame: str) -> str:
    """Return the function of a frame; empty at the level of a module."""
    name = parts(frame)[1]
    return "" if name.startswith("<") else name


def method(frame: str) -> str:
    """Return the last part of its function's name: ``forward`` of ``Net.forward``."""
    return function(frame).rpartition(".")[2]


def outermost_apart(one: Sequence[str], two: Sequence[str]) -> tuple[str, str]:
    """Return the outermost frames that differ in two stacks, innermost first; empty if none do."""
    common = shared(one, two)
    if common == min(len(one), len(two)):
        return "", ""
    return one[-1 - common], two[-1 - common]


def ways(stacks: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the frames of each stack, innermost first, up to the first that differs.

    Each frame appears once: recursion of another depth makes no difference. Calls from different
    lines differ in that line alone, calls through one function in the line that called it.
    """
    found = [tuple(dict.fromkeys(frames)) for frames in stacks]
    alike = takewhile(lambda frames: len(set(frames)) == 1, zip(*found, strict=False))
    length = sum(1 for _ in alike) + 1
    return tuple(frames[:length] for frames in found)


def shared(one: Sequence[object], two: Sequence[object]) -> int:
    """Count the outermost frames that two stacks, innermost first, have in common.

    A stack may also list something else for each frame, such as its function.
    """
    pairs = zip(reversed(one), reversed(two), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def beside(stack: Sequence[str], other: Sequence[str], common: int) -> str:
    """Return the frame of a stack just inside ``common`` shared outer frames; empty if none."""
    is_inside = len(stack) > common and shared(stack, other) >= common
    return stack[-1 - common] if is_inside else ""


def place(frame: str) -> Place:
    """Return the function of a frame, with its file."""
    return file(frame), function(frame)


def scope(frame: str) -> Place:
    """Return file and function of a frame, with Python's ``<module>`` for module level."""
    return file(frame), parts(frame)[1]

"""Who called whom on the way to the calls of a run: by the user's frames above them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

Place = tuple[str, str]
"""A function: its file and its name, as frames give them."""


@dataclass(frozen=True, slots=True)
class Chains:
    """What the stacks above all calls have in common."""

    callers: Mapping[Place, set[str]] = field(default_factory=dict)
    """Per function the lines, as ``path:line``, that were seen to call it."""

    lines: Mapping[Place, set[str]] = field(default_factory=dict)
    """Per function the lines of its own through which calls came."""

    uses: Mapping[str, set[str]] = field(default_factory=dict)
    """Per file the lines of other files that were seen to call a function of it."""


def of(stacks: Iterable[Sequence[str]]) -> Chains:
    """What stacks tell; each is of ``path:line function``, innermost first.

    What is no such frame, as where a log has a call's line only, tells nothing.
    """
    callers: dict[Place, set[str]] = {}
    lines: dict[Place, set[str]] = {}
    uses: dict[str, set[str]] = {}
    for frames in stacks:
        for n, frame in enumerate(frames):
            function = place(frame)
            if not function[1]:
                continue
            lines.setdefault(function, set()).add(site(frame))
            if n + 1 < len(frames):
                caller = frames[n + 1]
                callers.setdefault(function, set()).add(site(caller))
                if file(caller) != function[0]:
                    uses.setdefault(function[0], set()).add(site(caller))
    return Chains(callers, lines, uses)


def site(frame: str) -> str:
    """``path:line`` of a frame."""
    return frame.partition(" ")[0]


def file(frame: str) -> str:
    """The file of a frame."""
    return site(frame).rpartition(":")[0]


def line(frame: str) -> int:
    """The number of the line of a frame; 0: not known."""
    return split(site(frame))[1]


def split(at: str | None) -> tuple[str, int]:
    """File and number of a line, given as ``path:line``; 0: it is damaged."""
    path, _, digits = (at or "").rpartition(":")
    return path, number(digits)


def number(text: str) -> int:
    """The number of a line; 0: it is damaged."""
    # A log may say anything: int() takes no superscripts, and only so many digits.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def function(frame: str) -> str:
    """The function of a frame; empty at the level of a module."""
    name = frame.partition(" ")[2]
    return "" if name.startswith("<") else name


def method(frame: str) -> str:
    """The last part of its function's name: ``forward`` of ``Net.forward``."""
    return function(frame).rpartition(".")[2]


def outermost_apart(one: Sequence[str], two: Sequence[str]) -> tuple[str, str]:
    """Of two stacks, innermost first, the outermost frames that differ; empty where none do."""
    common = shared(one, two)
    if common == min(len(one), len(two)):
        return "", ""
    return one[-1 - common], two[-1 - common]


def ways(stacks: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Of stacks, innermost first, the frames up to the first that is not the same in all.

    Each frame once: how deep a function has called itself makes no other way. Calls from different
    lines differ in that line alone, those through one function in the line that called it.
    """
    found = [tuple(dict.fromkeys(frames)) for frames in stacks]
    alike = takewhile(lambda frames: len(set(frames)) == 1, zip(*found, strict=False))
    length = sum(1 for _ in alike) + 1
    return tuple(frames[:length] for frames in found)


def shared(one: Sequence[object], two: Sequence[object]) -> int:
    """How many of their outermost frames two stacks, innermost first, have in common.

    Or of what else is given for each frame, such as its function.
    """
    pairs = zip(reversed(one), reversed(two), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def beside(stack: Sequence[str], other: Sequence[str], common: int) -> str:
    """The frame of a stack right within so many that it shares with another; empty: it does not."""
    is_inside = len(stack) > common and shared(stack, other) >= common
    return stack[-1 - common] if is_inside else ""


def place(frame: str) -> Place:
    """The function of a frame, with its file."""
    return file(frame), function(frame)


def scope(frame: str) -> Place:
    """The same, with the name that Python gives to what is no function: ``<module>``."""
    return file(frame), frame.partition(" ")[2]

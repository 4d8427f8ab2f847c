"""Convert stack frames of records to the frames that ``code`` reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collectrace.align.code.files import Frame
from collectrace.align.code.program import Stack
from collectrace.records import FrameValues


def parse_stack(frames: Iterable[str]) -> Stack:
    """Return the frames of a ``stack`` record, innermost first."""
    return tuple(Frame.parse(frame) for frame in frames if " " in frame)


def insert_libraries(stack: Stack, lines: Sequence[str]) -> Stack:
    """Return a user stack with the library frames of its record inserted."""
    found: list[list[Frame]] = [[] for _ in range(len(stack) + 1)]
    for one in lines:
        inside, _, frame = one.partition(" ")
        if inside.isascii() and inside.isdigit() and len(inside) < 3:
            found[min(int(inside), len(stack))].append(Frame.parse(frame))
    users: list[list[Frame]] = [*([frame] for frame in stack), []]
    return tuple(frame for both in zip(found, users, strict=True) for one in both for frame in one)


def parse_values(functions: Iterable[FrameValues]) -> Stack:
    """Return the frames of a ``values`` record."""
    return tuple(Frame.parse(one.frame, one.first_line) for one in functions)


def parse_sites(sites: Iterable[str]) -> Stack:
    """Return frames for ``path:line`` sites with unknown functions."""
    return tuple(Frame.parse(f"{site} ") for site in sites if site)

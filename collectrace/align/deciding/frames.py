"""Stack frames of records, as the code's reader takes them."""

from __future__ import annotations

from collections.abc import Iterable

from collectrace.align.code.files import Frame
from collectrace.align.code.program import Stack
from collectrace.records import FrameValues


def of_stack(frames: Iterable[str]) -> Stack:
    """Return the frames of a ``stack`` record, innermost first."""
    return tuple(Frame.parse(frame) for frame in frames if " " in frame)


def of_values(functions: Iterable[FrameValues]) -> Stack:
    """Return the frames of a ``values`` record."""
    return tuple(Frame.parse(one.frame, one.first_line) for one in functions)


def of_sites(sites: Iterable[str]) -> Stack:
    """Return frames of which only ``path:line`` is known: they are in whichever function."""
    return tuple(Frame.parse(f"{site} ") for site in sites if site)

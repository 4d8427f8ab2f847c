"""A message of no elements that is awaited, and may be left out where it would be sent."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import numel


def note(sides: Sequence[tuple[Side, Call]]) -> str:
    """That a rank waits to receive nothing, a sentence; empty: none does."""
    for side, call in sides:
        if call.op == "recv" and numel(call.shape) == [0]:
            return (
                f"What {words.ranks(side.ranks)} waits to receive is empty "
                f"({words.tensors(call)}): where one end leaves out what is empty, the other must "
                "leave it out as well."
            )
    return ""

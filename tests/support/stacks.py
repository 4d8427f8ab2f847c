"""The user's frames above the calls of a synthetic run."""

from __future__ import annotations

from typing import Any

from collectrace.records import Stack
from tests.support.synthetic import Rank


class Stacks:
    """Gives the calls of ranks their frames, each stack recorded once per rank."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[str, ...]], int] = {}

    def at(self, rank: Rank, *frames: str) -> dict[str, Any]:
        """Fields of a call of a rank that frames led to, ``path:line function``, innermost first.

        For where a stack has to be known, not the line alone.
        """
        key = rank.rank, frames
        if key not in self._known:
            self._known[key] = len(self._known) + 1
            rank.record(Stack(stack=self._known[key], frames=list(frames)))
        return {"site": frames[0].partition(" ")[0], "stack": self._known[key]}

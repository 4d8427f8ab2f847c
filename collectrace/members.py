"""The members of process groups: one object for equal ones, and how a line writes many of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, SupportsIndex

MOST: Final = 1_000_000
"""Members that a group can have: beyond it a number is damage."""

_MOST_KEPT: Final = 4096
"""Groups of which the members are kept, once they were worked out from their ranges."""

NUMBERS: Final = 3
"""How many numbers a range is written with."""

Range = tuple[int, int, int]
"""First member, last member and the step between two; in group order: a step may be negative."""


class Members(tuple[int, ...]):
    """Ranks in group order. To ask for one, or for the hash, does not look at all of them."""

    @cached_property
    def unique(self) -> Members:
        """The same, each rank once."""
        return self if len(self._places) == len(self) else Members(self._places)

    @cached_property
    def _places(self) -> dict[int, int]:
        places: dict[int, int] = {}
        for place, rank in enumerate(self):
            places.setdefault(rank, place)
        return places

    @cached_property
    def _hash(self) -> int:
        return tuple.__hash__(self)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list):
            other = tuple(other)
        return self is other or tuple.__eq__(self, other) is True

    def __contains__(self, rank: object) -> bool:
        return rank in self._places

    def index(self, rank: Any, start: SupportsIndex = 0, stop: SupportsIndex | None = None) -> int:
        """Return the place of a rank in the group.

        Raises:
            ValueError: it is no member.

        """
        place = self._places.get(rank)
        if place is None or start or stop is not None:
            return super().index(rank, start, len(self) if stop is None else stop)
        return place

    def __reduce__(self) -> tuple[Any, ...]:
        return Members, (tuple(self),)


def ranges(ranks: Sequence[int]) -> list[Range]:
    """Return the ranges that make up these ranks, in their order."""
    found: list[list[int]] = []
    for rank in ranks:
        run = found[-1] if found else None
        if run is not None and run[0] == run[1]:
            if rank != run[0]:
                run[1:] = rank, rank - run[0]
                continue
        elif run is not None and rank == run[1] + run[2]:
            run[1] = rank
            continue
        found.append([rank, rank, 1])
    return [(first, last, step) for first, last, step in found]


@lru_cache(_MOST_KEPT)
def of_ranges(those: tuple[Range, ...]) -> Members:
    """Return the members that these ranges make up; the same object for equal ranges.

    Raises:
        ValueError: they are no ranges, or of too many ranks.

    """
    parts = [range(first, last + (1 if step > 0 else -1), step) for first, last, step in those]
    if sum(map(len, parts)) > MOST:
        raise ValueError("too many members")
    return Members(rank for part in parts for rank in part)

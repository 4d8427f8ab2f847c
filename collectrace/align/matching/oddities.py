"""Find calls that pair but look odd: hints, not proof.

Shapes that differ with equal counts mix values up. Call sites in swapped order reduce one quantity
with another. Gradients of two models that meet are proof if their models are known. None of this is
part of a digest, so it takes a full scan.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Literal, NamedTuple

from collectrace.align.matching.matchers import Stretch, differing
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import LOOK_BACK, RankLog, StreamKey
from collectrace.align.reading.vocabulary import Appearance
from collectrace.findings import LineOfRanks, OtherLines
from collectrace.ops import ROOTED
from collectrace.roles import UNKNOWN, USER

_WINDOW: Final = 16
"""Rows within which two call sites can be swapped."""

_MAX_PATTERNS: Final = 4096
"""Pairs of rows that are examined; sites that never repeat are not swapped."""


class Oddity(NamedTuple):
    """A row, what differs in it, and whether call sites are swapped there."""

    row: int
    attribute: Literal["role", "shape", "model"]
    swapped: bool = False


class Scan(NamedTuple):
    """The differences between calls that pair."""

    oddities: list[Oddity]
    """The first row of each kind."""
    other_lines: OtherLines | None
    """The user's own calls that agree and come from different lines; None: there are none.

    Rooted calls do not count: their ranks do different things."""


def scan(stream: StreamKey, logs: Mapping[int, RankLog], stretches: Sequence[Stretch]) -> Scan:
    """Find differences between ranks in stretches of rows with calls that pair."""
    found: dict[str, Oddity] = {}
    first: OtherLines | None = None
    count = 0
    known: dict[tuple[int, ...], _Row] = {}
    for start, stop, ranks in stretches:
        columns, starts = [], []
        for rank in ranks:
            rows, shift = logs[rank].rows(stream)
            columns.append(rows.appearance)
            starts.append(rows.position(start - shift))
        appearances = logs[ranks[0]].rows(stream)[0].vocabulary.appearances
        swaps = _Swaps()
        for i, ids in differing(columns, starts, stop - start + 1):
            row = known.get(ids)
            if row is None:
                row = known[ids] = _row([appearances[n] for n in ids])
            if not swaps.found:
                if row.shapes_differ:
                    found.setdefault("shape", Oddity(start + i, "shape"))
                swapped = swaps.add(i, row)
                if swapped is not None and (
                    _are_made_in_turn(columns, starts, swapped, i)
                    or (_are_of_two_threads(row) and _are_made_alike(columns, starts, swapped, i))
                ):
                    swaps.found = True
                    found.setdefault("swap", Oddity(start + swapped, "role", swapped=True))
            if row.models_differ:
                found.setdefault("model", Oddity(start + i, "model"))
            if row.lines_differ:
                count += 1
                first = first or _other_lines(stream, start + i, ranks, row)
    return Scan(sorted(found.values()), first and replace(first, count=count))


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """The calls of ranks at a row with differences; equal rows share one object."""

    appearances: Sequence[Appearance]
    shapes_differ: bool
    models_differ: bool
    """Gradients of two known models meet."""
    lines_differ: bool
    """The user's own calls meet from different lines, or through such."""
    ways: tuple[tuple[str, ...], ...]
    """Per rank, as returned by ``chains.ways``."""


def _row(those: Sequence[Appearance]) -> _Row:
    ways = chains.ways([seen.where for seen in those])
    is_own = all(seen.role == USER and seen.op not in ROOTED and seen.site for seen in those)
    return _Row(
        those,
        shapes_differ=len({_dimensions(seen.shape) for seen in those}) > 1,
        models_differ=len({seen.model for seen in those} - {0}) > 1,
        lines_differ=is_own and len(set(ways)) > 1,
        ways=ways,
    )


def _dimensions(shape: str) -> tuple[str, ...]:
    """Return the lists of a shape without dimensions of size one, which move no element."""
    return tuple(part for part in _PARTS.findall(shape) if part != "1")


_PARTS: Final = re.compile(r"[][]|\d+")


def _other_lines(stream: StreamKey, seq: int, ranks: Sequence[int], row: _Row) -> OtherLines:
    by_site: dict[str, list[int]] = {}
    for rank, seen, way in zip(ranks, row.appearances, row.ways, strict=True):
        by_site.setdefault(chains.site(way[-1]) or seen.site, []).append(rank)
    lines = tuple(LineOfRanks(ranks=tuple(those), site=site) for site, those in by_site.items())
    return OtherLines(group=stream.group, count=1, seq=seq, lines=lines)


class _Swaps:
    """Searches a stretch for two rows in which ranks swap the calls of two lines."""

    def __init__(self) -> None:
        self.found = False
        self._recent: deque[tuple[int, _Row]] = deque(maxlen=_WINDOW)
        self._compared: set[tuple[_Row, _Row]] = set()

    def add(self, at: int, row: _Row) -> int | None:
        """Return the earlier row with the same calls swapped; None if there is none."""
        for before, earlier in self._recent:
            pair = (earlier, row)
            is_new = pair not in self._compared and len(self._compared) < _MAX_PATTERNS
            if at - before < _WINDOW and is_new:
                self._compared.add(pair)
                if _swapped(earlier, row):
                    self._recent.append((at, row))
                    return before
        self._recent.append((at, row))
        return None


def _are_of_two_threads(row: _Row) -> bool:
    """Return whether the main thread of one rank met another thread of another."""
    return len({seen.beside for seen in row.appearances}) > 1


def _are_made_alike(
    columns: Sequence[Sequence[int]], starts: Sequence[int], before: int, after: int
) -> bool:
    """Return whether all ranks make two calls equally often, and never repeat the rarer one.

    If a rank made one call instead of the other, it would make it more often than other ranks.
    """
    two = {columns[0][starts[0] + at] for at in (before, after)}
    counts = set()
    for column, start in zip(columns, starts, strict=True):
        around = column[max(0, start + before - LOOK_BACK) : start + after + LOOK_BACK]
        made = Counter(one for one in around if one in two)
        rare = min(two, key=lambda one: made[one])
        runs = [len(list(run)) for one, run in groupby(around) if one == rare]
        if max(runs, default=0) > 1:
            return False
        counts.add(tuple(sorted(made.items())))
    return len(counts) == 1


def _are_made_in_turn(
    columns: Sequence[Sequence[int]], starts: Sequence[int], before: int, after: int
) -> bool:
    """Return whether ranks with two calls in opposite order alternate them about equally.

    Calls of two branches, of which each iteration takes one, do not alternate. A rank that takes
    one branch now and the other later has swapped nothing.
    """
    for column, start in zip(columns, starts, strict=True):
        two = column[start + before], column[start + after]
        if two[0] == two[1]:
            continue
        around = column[max(0, start + before - LOOK_BACK) : start + after + LOOK_BACK]
        made = [one for one in around if one in two]
        runs = [len(list(run)) for _, run in groupby(made)]
        if abs(made.count(two[0]) - made.count(two[1])) > 1 or max(runs) > _MOST_IN_A_ROW:
            return False
    return True


_MOST_IN_A_ROW: Final = 2
"""Repetitions of one of two alternating calls, if one pair is swapped."""


def _swapped(before: _Row, after: _Row) -> bool:
    """Return whether two ranks issue calls in opposite order, by the lines that they come through.

    Calls of one function from two lines count as two.
    """
    # Rooted calls: ranks do different things, and so from different lines.
    if any(
        appearance.role not in (USER, UNKNOWN) or appearance.op in ROOTED or not appearance.site
        for appearance in (*before.appearances, *after.appearances)
    ):
        return False
    orders = {(a, b) for a, b in zip(before.ways, after.ways, strict=True) if a != b}
    return any((b, a) in orders for a, b in orders)

"""Rows whose bytes and meaning agree and that look odd all the same: hints, not proof.

Shapes that differ where counts agree mix values up. Call sites in swapped order reduce one
quantity with another. Gradients of one model that meet those of another are proof where it is
known whose they are. None of this is part of a digest, so it takes a full scan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from collectrace.align.matching.matchers import Stretch, differing
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.align.reading.rows import Rows
from collectrace.align.reading.vocabulary import Appearance
from collectrace.findings import LineOfRanks, OtherLines
from collectrace.ops import ROOTED
from collectrace.roles import UNKNOWN, USER

_WINDOW: Final = 16
"""Rows within which two call sites can have changed places."""

_MAX_PATTERNS: Final = 4096
"""Pairs of rows looked at closely; sites that never repeat are no swap anyway."""


class Oddity(NamedTuple):
    """A row, what differs in it, and whether call sites are swapped there."""

    row: int
    attribute: Literal["role", "shape", "model"]
    swapped: bool = False


def oddities(
    stream: StreamKey, logs: Mapping[int, RankLog], stretches: Sequence[Stretch]
) -> list[Oddity]:
    """The first row of each kind, among rows whose calls pair."""
    found: dict[str, Oddity] = {}
    for start, stop, ranks in stretches:
        all_rows, starts = [], []
        for rank in ranks:
            rows, shift = logs[rank].rows(stream)
            all_rows.append(rows)
            starts.append(rows.position(start - shift))
        shape, swap = _appearances(all_rows, starts, stop - start + 1)
        if shape is not None:
            found.setdefault("shape", Oddity(start + shape, "shape"))
        if swap is not None:
            found.setdefault("swap", Oddity(start + swap, "role", swapped=True))
        model = _other_model(all_rows, starts, stop - start + 1)
        if model is not None:
            found.setdefault("model", Oddity(start + model, "model"))
    return sorted(found.values())


def other_lines(
    stream: StreamKey, logs: Mapping[int, RankLog], stretches: Sequence[Stretch]
) -> OtherLines | None:
    """How many of the user's own calls agree and come from different lines; None: not one.

    Not the rooted ones: there ranks do different things.
    """
    count = 0
    first: tuple[int, list[str], tuple[int, ...]] | None = None
    apart: dict[tuple[int, ...], bool] = {}
    for start, stop, ranks in stretches:
        columns, starts = [], []
        for rank in ranks:
            rows, shift = logs[rank].rows(stream)
            columns.append(rows.appearance)
            starts.append(rows.position(start - shift))
        appearances = logs[ranks[0]].rows(stream)[0].vocabulary.appearances
        for i, row in differing(columns, starts, stop - start + 1):
            if row not in apart:
                apart[row] = _are_apart([appearances[n] for n in row])
            if apart[row]:
                count += 1
                if first is None:
                    sites = [appearances[n].site for n in row]
                    first = start + i, sites, ranks
    if first is None:
        return None
    seq, sites, ranks = first
    lines = tuple(
        LineOfRanks(
            ranks=tuple(r for r, other in zip(ranks, sites, strict=True) if other == site),
            site=site,
        )
        for site in dict.fromkeys(sites)
    )
    return OtherLines(group=stream.group, count=count, seq=seq, lines=lines)


def _are_apart(those: Sequence[Appearance]) -> bool:
    is_own = all(seen.role == USER and seen.op not in ROOTED and seen.site for seen in those)
    return is_own and len({seen.where for seen in those}) > 1


def _appearances(
    all_rows: Sequence[Rows], starts: Sequence[int], length: int
) -> tuple[int | None, int | None]:
    """The first position where shapes differ, and the first whose sites a later one swaps."""
    appearances = all_rows[0].vocabulary.appearances
    shape: int | None = None
    recent: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=_WINDOW)
    compared: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for i, row in differing([rows.appearance for rows in all_rows], starts, length):
        those = [appearances[n] for n in row]
        if shape is None and len({appearance.shape for appearance in those}) > 1:
            shape = i
        for j, earlier in recent:
            pair = (earlier, row)
            if i - j < _WINDOW and pair not in compared and len(compared) < _MAX_PATTERNS:
                compared.add(pair)
                if _swapped([appearances[n] for n in earlier], those):
                    return shape, j
        recent.append((i, row))
    return shape, None


def _swapped(before: Sequence[Appearance], after: Sequence[Appearance]) -> bool:
    """Whether two ranks issue the calls of two lines in opposite order."""
    # Where there is a root ranks do different things, and so from different lines.
    if any(
        appearance.role not in (USER, UNKNOWN) or appearance.op in ROOTED or not appearance.site
        for appearance in (*before, *after)
    ):
        return False
    orders = {(a.site, b.site) for a, b in zip(before, after, strict=True) if a.site != b.site}
    return any((b, a) in orders for a, b in orders)


def _other_model(all_rows: Sequence[Rows], starts: Sequence[int], length: int) -> int | None:
    """The first position where gradients meet that are known to be of two models."""
    appearances = all_rows[0].vocabulary.appearances
    for i, row in differing([rows.appearance for rows in all_rows], starts, length):
        if len({appearances[n].model for n in row} - {0}) > 1:
            return i
    return None

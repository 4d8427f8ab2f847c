"""Whole iterations in which some ranks made no call, where every iteration looks alike.

Nothing fails then until the end. The forwards of DDP, or the batches of a DataLoader, count them.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace.align.causes.situation import Situation
from collectrace.align.matching import parting
from collectrace.align.reading.evidence import RankLog
from collectrace.records import Call

_BACK: Final = 4000
"""Calls of a stream before the finding that are looked at."""


@dataclass(frozen=True, slots=True)
class Slip:
    """Since when one rank is ahead of another by whole iterations."""

    ahead: int
    behind: int
    skipped: tuple[int, ...]
    """Iterations in which the one ahead made no call, and the other did."""
    call: Call
    """The other's first call in them."""
    since: int
    """When the one ahead had made its last call before them, ns of its clock."""
    until: int
    """When it made the next one."""
    since_behind: int
    """When the other had made its last call before them."""
    unit: str
    """``iteration`` or ``batch``: what counts them."""


def slip(situation: Situation) -> Slip | None:
    """Return the first iterations that the suspects skipped; None: they did not."""
    case, candidate = situation.case, situation.candidate
    stream, seq, suspects = candidate.stream, candidate.seq, situation.suspects
    if stream is None or seq is None or not suspects:
        return None
    members = case.comparison.streams.get(stream, ())
    other = next((rank for rank in members if rank not in suspects), None)
    mine, theirs = case.log(suspects[0]), case.log(other) if other is not None else None
    if other is None or mine is None or theirs is None:
        return None
    if not all(
        log.scanned and not parting.has_lost(log) and not log.joins for log in (mine, theirs)
    ):
        return None
    rows = [log.calls(stream, max(1, seq - _BACK), seq) for log in (mine, theirs)]
    for unit in ("iteration", "batch"):
        counts = [
            _counted(log, calls, unit) for log, calls in zip((mine, theirs), rows, strict=True)
        ]
        n = _first_apart(*counts)
        if n is None:
            continue
        own, right = counts[0], counts[1]
        made = set(own)
        skipped = tuple(
            sorted({k for k in right if k is not None and right[n] <= k < own[n]} - made)
        )  # type: ignore[operator]
        call, later = rows[1][n], rows[0][n]
        if not skipped or skipped[0] != right[n] or call is None or later is None:
            continue
        since, since_behind = (
            one.t if n and (one := calls[n - 1]) is not None else 0 for calls in rows
        )
        return Slip(suspects[0], other, skipped, call, since, later.t, since_behind, unit)
    return None


def _first_apart(own: Sequence[int | None], right: Sequence[int | None]) -> int | None:
    """Return the first row since which one is always ahead of the other."""
    start = end = min(len(own), len(right))
    while start and own[start - 1] != right[start - 1]:
        start -= 1
    if start == end or own[start] is None or right[start] is None:
        return None
    return start if (own[start] or 0) > (right[start] or 0) else None


def _counted(log: RankLog, calls: Sequence[Call | None], unit: str) -> list[int | None]:
    """Return the iteration of each call, or the batch in which it was made."""
    if unit == "iteration":
        return [call.iteration if call is not None else None for call in calls]
    if len({batch.loader for batch in log.batches}) != 1:
        return []
    got = [batch.t for batch in log.batches if not batch.end]
    return [bisect(got, call.t) if call is not None else None for call in calls]

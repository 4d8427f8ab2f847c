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
        own, right = (
            _counted(log, calls, unit) for log, calls in zip((mine, theirs), rows, strict=True)
        )
        n = _first_apart(own, right)
        if n is None:
            continue
        skipped = tuple(sorted({k for k in right if right[n] <= k < own[n]} - {*own}))
        call, later = rows[1][n], rows[0][n]
        if not skipped or skipped[0] != right[n] or call is None or later is None:
            continue
        since, since_behind = (
            one.t if n and (one := calls[n - 1]) is not None else 0 for calls in rows
        )
        return Slip(suspects[0], other, skipped, call, since, later.t, since_behind, unit)
    return None


def _first_apart(own: Sequence[int], right: Sequence[int]) -> int | None:
    """Return the first row since which one is always ahead of the other."""
    start = end = min(len(own), len(right))
    while start and own[start - 1] != right[start - 1]:
        start -= 1
    return start if start < end and own[start] > right[start] >= 0 else None


def _counted(log: RankLog, calls: Sequence[Call | None], unit: str) -> list[int]:
    """Return the iteration of each call, or the batch in which it was made; -1: not known."""
    if unit == "iteration":
        numbers = (call.iteration if call is not None else None for call in calls)
        return [-1 if n is None else n for n in numbers]
    if len({batch.loader for batch in log.batches}) != 1:
        return []
    got = [batch.t for batch in log.batches if not batch.end]
    return [bisect(got, call.t) if call is not None else -1 for call in calls]

"""A whole round that some ranks left out, where every round looks alike.

Nothing fails then until the end. The unit of work that calls belong to (a forward of DDP, a step of
the optimizer) tells where the rank slipped.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from collectrace import words
from collectrace.align.diagnosis import decided, ways_told
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import parting
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.records import Call


@dataclass(frozen=True, slots=True)
class Slip:
    """The row since which the suspects are ahead of the others by whole rounds."""

    seq: int
    skipped: tuple[int, ...]
    """Rounds in which the suspects made no call, and the others did."""
    unit: Literal["iteration", "batch"]
    """What counts them: DDP or the optimizer; or the one DataLoader that the ranks ask."""
    rank: int
    call: Call
    """The others' first call in them, on one of them."""


@once
def slip(case: Case, candidate: Candidate) -> Slip | None:
    """Where the suspects left out whole rounds; None: they did not, or it is not known.

    Inside ``join()`` iterations differ by right.
    """
    suspects, stream, seq = candidate.suspects, candidate.stream, candidate.seq
    if stream is None or seq is None or not suspects:
        return None
    members = case.comparison.streams.get(stream, ())
    other = next((rank for rank in members if rank not in suspects), None)
    if other is None:
        return None
    mine, theirs = case.log(suspects[0]), case.log(other)
    if mine is None or theirs is None or not _is_told(mine) or not _is_told(theirs):
        return None
    units: tuple[tuple[Literal["iteration", "batch"], _Counter], ...] = (
        ("iteration", _iterations),
        ("batch", _batches),
    )
    for unit, count in units:
        own, right = (count(log, stream, seq) for log in (mine, theirs))
        found = _skipped(own, right)
        call = case.call(other, stream, found[0] + 1) if found is not None else None
        if found is not None and call is not None:
            return Slip(found[0] + 1, found[1], unit, other, call)
    return None


_Counter = Callable[[RankLog, StreamKey, int], Sequence[int]]
"""The round that each of a rank's rows before one belongs to."""


def _skipped(own: Sequence[int], right: Sequence[int]) -> tuple[int, tuple[int, ...]] | None:
    """Since which row one is ahead of the other, and what it has left out; None: it is not."""
    start = end = min(len(own), len(right))
    while start and own[start - 1] != right[start - 1]:
        start -= 1
    if start == end or own[start] < right[start] or right[start] < 0:
        return None
    made = {*own}  # not by all numbers between: a damaged log may hold any
    skipped = tuple(sorted({n for n in right if right[start] <= n < own[start]} - made))
    return (start, skipped) if skipped and skipped[0] == right[start] else None


def _is_told(log: RankLog) -> bool:
    return log.scanned and not parting.has_lost(log) and not log.joins


def _iterations(log: RankLog, stream: StreamKey, before: int) -> Sequence[int]:
    rows, shift = log.rows(stream)
    return rows.iteration[: rows.position(before - shift)]


def _batches(log: RankLog, stream: StreamKey, before: int) -> Sequence[int]:
    """By when the rank got the batches of its one DataLoader, counted over all passes."""
    got = [batch.t for batch in log.batches if not batch.end]
    if len({batch.loader for batch in log.batches}) != 1 or before > _MOST_ROWS:
        return ()
    return [bisect(got, call.t) if call else -1 for call in log.calls(stream, 1, before)]


_MOST_ROWS: Final = 50_000


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """The round that was left out, and why nothing failed before."""
    found = slip(case, candidate)
    if found is None or candidate.cause is not None:
        return None
    who = words.ranks(candidate.suspects)
    number = words.listed([str(n) for n in found.skipped[:3]])
    many = {"iteration": ("iteration", "iterations"), "batch": ("batch", "batches")}[found.unit]
    issued = named(case, found.rank, found.call)
    stack = case.stack(found.rank, found.call)
    condition = decided.of_round(case, (found.rank,), found.call, stack)
    ways = ways_told.of_round(case, stack)
    why = (condition.cause if condition is not None else "") + (
        ways.cause if ways is not None else decided.skipped_by(case.code, stack)
    )
    fixes = [one.fix for one in (condition, ways) if one is not None]
    whole = (
        "Let every rank issue the collectives of every round: where a batch must be left out (a "
        "loss that is not finite, an error that is caught), let all ranks agree on it first (an "
        "all_reduce of a flag), or go through the round with zeros."
    )
    return Reason(
        f"{words.upper(who)} skipped {many[len(found.skipped) > 1]} {number}: it issued no "
        f"collective in it, and the others issued {issued}, call {found.seq}.{why} Since then "
        "each of its rounds has met the one before it of the others; they look alike, so nothing "
        f"failed before call {candidate.seq}.",
        "\n".join([whole, *fixes]),
    )

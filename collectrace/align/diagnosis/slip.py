"""A whole round that some ranks left out, where every round looks alike.

Nothing fails then until the end. The unit of work that calls belong to (a forward of DDP, a step of
the optimizer) tells where the rank slipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collectrace import words
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import parting
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.records import Call


@dataclass(frozen=True, slots=True)
class Slip:
    """The row since which the suspects are ahead of the others by whole iterations."""

    seq: int
    skipped: tuple[int, ...]
    """Iterations in which the suspects made no call, and the others did."""
    rank: int
    call: Call
    """The others' first call in them, on one of them."""


@once
def slip(case: Case, candidate: Candidate) -> Slip | None:
    """Where the suspects left out whole iterations; None: they did not, or it is not known.

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
    own, right = (_iterations(log, stream, seq) for log in (mine, theirs))
    start = min(len(own), len(right))
    while start and own[start - 1] != right[start - 1]:
        start -= 1
    if start == min(len(own), len(right)) or own[start] < right[start] or right[start] < 0:
        return None
    skipped = tuple(n for n in range(right[start], own[start]) if n not in own and n in right)
    call = case.call(other, stream, start + 1)
    if not skipped or skipped[0] != right[start] or call is None:
        return None
    return Slip(start + 1, skipped, other, call)


def _is_told(log: RankLog) -> bool:
    return log.scanned and not parting.has_lost(log) and not log.joins


def _iterations(log: RankLog, stream: StreamKey, before: int) -> Sequence[int]:
    rows, shift = log.rows(stream)
    return rows.iteration[: rows.position(before - shift)]


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """The round that was left out, and why nothing failed before."""
    found = slip(case, candidate)
    if found is None or candidate.cause is not None:
        return None
    who = words.ranks(candidate.suspects)
    number = words.listed([str(n) for n in found.skipped[:3]])
    many = "iteration" if len(found.skipped) == 1 else "iterations"
    issued = f"{words.name(found.call)}{words.at(found.call)}"
    return Reason(
        f"{words.upper(who)} skipped {many} {number}: it issued no collective in it, and the "
        f"others issued {issued}, call {found.seq}. Since then each of its rounds has met the one "
        f"before it of the others; they look alike, so nothing failed before call "
        f"{candidate.seq}.",
        "Let every rank issue the collectives of every round: where a batch must be left out (a "
        "loss that is not finite, an error that is caught), let all ranks agree on it first (an "
        "all_reduce of a flag), or go through the round with zeros.",
    )

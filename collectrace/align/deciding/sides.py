"""Two ranks of a finding: the last call that they had in common, and what each did next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collectrace.align.code.between import Finished, Raised, Side
from collectrace.align.code.program import Stack
from collectrace.align.deciding import frames, timeline
from collectrace.align.deciding.endings import ending
from collectrace.align.deciding.timeline import Entry
from collectrace.align.diagnosis.slip import slip
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.parted import parted
from collectrace.align.reading.evidence import GroupConflict, RankLog, StreamKey
from collectrace.records import Call, Group


class End(NamedTuple):
    """A rank, and the call at which it is one side of a finding; None: it did not make it."""

    rank: int
    call: Call | Group | None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides, and what of the record lies between them."""

    one: Side
    two: Side
    made: tuple[Sequence[Entry], Sequence[Entry]]
    """The calls of either, in the order of its program, up to the last one that both made."""

    @property
    def ranks(self) -> tuple[int, int]:
        """The two ranks."""
        return self.one.rank, self.two.rank


def pair(case: Case, candidate: Candidate) -> Pair | None:
    """Return the two sides of a finding; None: the log does not show what they did."""
    ends = _ends(case, candidate)
    if ends is None:
        return None
    logs = [case.log(end.rank) for end in ends]
    one, two = logs
    if one is None or two is None:
        return None
    calls = [_before(log, end) for log, end in zip((one, two), ends, strict=True)]
    at = _last_common(*calls)
    found: list[Side] = []
    for end, log, made, last in zip(ends, (one, two), calls, at, strict=True):
        following = _next(case, log, end, made[last + 1 :])
        if following is None:
            return None
        stack = frames.of_stack(made[last].stack) if last >= 0 else ()
        found.append(Side(end.rank, stack, following))
    first, second = (made[: last + 1] for made, last in zip(calls, at, strict=True))
    return Pair(found[0], found[1], (first, second))


def _ends(case: Case, candidate: Candidate) -> tuple[End, End] | None:
    """Return a rank of either side, with the first call in which the sides differ."""
    first = slip(case, candidate)
    if first is not None and candidate.stream is not None:
        ahead = candidate.suspects[0]
        call = case.call(ahead, candidate.stream, first.seq)
        return End(first.rank, first.call), End(ahead, call)
    earlier = parted(case, candidate)
    if earlier is not None:
        (one, two), (mine, theirs) = earlier.ranks, earlier.calls
        return End(one, mine), End(two, theirs)
    if isinstance(candidate.source, GroupConflict):
        asked = [End(ranks[0], group) for ranks, group in candidate.source.variants if ranks]
        return (asked[0], asked[-1]) if len(asked) > 1 else None
    sides = sorted((side for side in candidate.sides if side.ranks), key=lambda s: len(s.ranks))
    if len(sides) < 2:
        return None
    return End(sides[0].ranks[0], sides[0].call), End(sides[-1].ranks[0], sides[-1].call)


def _before(log: RankLog, end: End) -> list[Entry]:
    """Return the calls of a rank before the one of an end, of the thread that made it."""
    beside = isinstance(end.call, Call) and end.call.thread is not None
    t = end.call.t if end.call is not None else None
    return [one for one in timeline.before(log, t) if one.beside == beside]


def _last_common(one: Sequence[Entry], two: Sequence[Entry]) -> tuple[int, int]:
    """Return the positions of the last call that both ranks made; -1: there is none.

    That is a call of a stream of both. Calls from the same lines that both made after it count,
    too, in whichever group.
    """
    places = {(call.key, call.seq): n for n, call in enumerate(two)}
    first = second = -1
    for n in range(len(one) - 1, -1, -1):
        call = one[n]
        there = places.get((call.key, call.seq), -1)
        if isinstance(call.key, StreamKey) and there >= 0:
            first, second = n, there
            break
    while first + 1 < len(one) and second + 1 < len(two):
        if one[first + 1].place != two[second + 1].place:
            break
        first, second = first + 1, second + 1
    return first, second


def _next(
    case: Case, log: RankLog, end: End, made: Sequence[Entry]
) -> Stack | Finished | Raised | None:
    """Return what a rank did next: its call of the end, else another one, else how it ended."""
    if end.call is not None:
        stack = frames.of_stack(case.stack(end.rank, end.call))
        return stack or frames.of_sites([end.call.site or ""]) or None
    if made:
        return frames.of_stack(made[0].stack) or None
    return ending(case.standings[log.rank])

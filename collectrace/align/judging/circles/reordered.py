"""A rank that went through the messages of an exchange in another order than each time before."""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.circles.left_alone import awaits, is_to_another
from collectrace.align.judging.own_exchange import keeps_order, left_own_order
from collectrace.align.judging.own_round import LeftRound, kept_round, left_own_round
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading.evidence import ChannelKey


class Reordered(NamedTuple):
    """The one of a circle of messages that changed its order, where all others kept theirs."""

    left: LeftRound
    others: tuple[int, ...]
    """The rest of the circle; or, of one of two, a pair that exchanged the same as ever."""
    is_turn: bool = False
    """It received of the other where it had sent to it first."""

    @property
    def rank(self) -> int:
        """Who changed its order."""
        return self.left.rank


@once
def reordered(case: Case, candidate: Candidate) -> Reordered | None:
    """Who of a circle of messages alone has put one first that came later in each exchange.

    Another waits for the one that it put off. Who merely serves its peers in whatever order they
    come has no order to leave; nor has who may have been told another one.
    """
    return _among_several(case, candidate) or _of_two(case, candidate)


def _among_several(case: Case, candidate: Candidate) -> Reordered | None:
    cycle = candidate.cycle
    ranks = tuple(edge.waiting.rank for edge in cycle)
    if len({*ranks}) < CAN_OUTVOTE or any(edge.waiting.channel is None for edge in cycle):
        return None
    found = [left for rank in ranks if (left := left_own_order(case, rank)) is not None]
    others = tuple(sorted({*ranks} - {left.rank for left in found}))
    if len(found) != 1 or not all(keeps_order(case, rank) for rank in others):
        return None
    (left,) = found
    if announced.was_told(case, left.rank):
        return None
    is_awaited = awaits(cycle, left) and not is_to_another(case, left)
    return Reordered(left, others) if is_awaited else None


def _of_two(case: Case, candidate: Candidate) -> Reordered | None:
    """Who of two that each receive of the other had sent first in every round before.

    Others exchange from the same lines in this round, too, in the order of each before; and nobody
    else left its round. Else both may have been to change.
    """
    cycle, group = candidate.cycle, candidate.group
    if len(cycle) != 2 or group is None:
        return None
    for edge, back in (cycle, cycle[::-1]):
        awaited, rank = edge.waiting.channel, back.waiting.rank
        left = left_own_round(case, rank)
        if awaited is None or left is None or left.key != awaited or awaited.source != rank:
            continue
        swapped = awaited._replace(source=awaited.destination, destination=rank)
        if back.waiting.channel != swapped or left.extra or left.skipped > 1:
            continue
        others = [one for one in group.ranks if one != rank]
        if left.rounds < habit.ENOUGH or announced.was_told(case, rank):
            continue
        if not all(case.standings[one].waiting and kept_round(case, one) for one in others):
            continue
        frames, pair = case.stack(rank, left.usual), {rank, edge.waiting.rank}
        alike = _met_in_order(case, frames, awaited, edge.waiting.seq or 0)
        if alike and not {*alike} & pair:
            return Reordered(left, alike, is_turn=True)
    return None


def _met_in_order(
    case: Case, frames: tuple[str, ...], channel: ChannelKey, seq: int
) -> tuple[int, ...]:
    """Two ranks whose message of a number from some lines has met already; else none."""
    for log in case.evidence.logs.values():
        for key, last in log.last_channel_seq.items():
            other = case.log(key.destination)
            is_kin = (key.group, key.tag) == (channel.group, channel.tag) and key != channel
            if not is_kin or key.source != log.rank or last < seq or other is None:
                continue
            call = log.channel_call(key, seq)
            came = other.last_channel_seq.get(key, 0) >= seq
            if came and call is not None and case.stack(log.rank, call) == frames:
                return tuple(sorted((key.source, key.destination)))
    return ()

"""Ranks that exchange messages in pairs, and each works out its partner by itself.

Partners that change from one exchange to the next (drawn at random, or by a rule) must be mutual:
whom a rank names must name it. Of each rank the n-th exchange is compared, not the messages that
met: a rank that is one draw ahead meets others by chance for a while.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call

_FEW: Final = 2
"""Ranks that have no choice."""


@dataclass(frozen=True, slots=True)
class Unpaired:
    """The first exchange in which some rank's partner names another."""

    before: int
    """Exchanges of each rank before it, all mutual."""
    behind: int
    """Exchanges behind it that are mutual, all there are, if the odd one has left one out there; 0:
    it need not have, or another partner in this one would do as well."""
    names: Mapping[int, int]
    """By rank, the partner it names."""
    calls: Mapping[int, Call]
    """By rank, the first message of it."""
    odd: int
    """The one rank that need have named another for all to be mutual."""
    instead: int
    """Whom that would be."""


@once
def unpaired(case: Case, candidate: Candidate) -> Unpaired | None:
    """Where the partners of a group were not mutual any more, as they had been, by one rank.

    None: they were, or that takes several.
    """
    source, group = candidate.source, candidate.group
    if group is None or len(group.ranks) <= _FEW:
        return None
    if candidate.cycle:
        if all(edge.waiting.channel is None for edge in candidate.cycle):
            return None
    elif not isinstance(source, ChannelIssue) or source.attribute != "absent":
        return None
    exchanges: dict[int, Sequence[Exchange]] = {}
    for rank in group.ranks:
        log = case.log(rank)
        found = _exchanges(log, group.name) if log is not None else None
        if found is None:
            return None
        exchanges[rank] = found
    return _first_odd(case, exchanges)


@dataclass(slots=True)
class Exchange:
    """What a rank sent to one other and received of it, in as many messages each way."""

    peer: int
    channel: ChannelKey
    seq: int
    """The first message's channel, and number in it."""
    phase: int
    """Collectives of the group before it."""
    ahead: int = 0
    """Messages sent more than received; below 0: received more."""


def _exchanges(log: RankLog, group: str) -> list[Exchange] | None:
    """A rank's messages of a group as exchanges, the last perhaps unfinished.

    None where they are not: messages of another come between, or some go one way only.
    """
    if not programs.is_whole(log):
        return None
    made = sorted(
        (offset, seq, channel)
        for channel in log.last_channel_seq
        if channel.group == group
        for offset, seq in zip(*_places(log, channel), strict=True)
    )
    collectives = sorted(
        offset for key in log.last_seq if key.group == group for offset in log.rows(key)[0].offset
    )
    found: list[Exchange] = []
    for offset, seq, channel in made:
        sends = channel.source == log.rank
        peer = channel.destination if sends else channel.source
        if peer < 0:
            return None
        if not found or not found[-1].ahead:
            found.append(Exchange(peer, channel, seq, bisect_left(collectives, offset)))
        if found[-1].peer != peer:
            return None
        found[-1].ahead += 1 if sends else -1
    return found


def _places(log: RankLog, channel: ChannelKey) -> tuple[Sequence[int], Sequence[int]]:
    rows = log.channel_rows(channel)
    return rows.offset, rows.seq


def _first_odd(case: Case, exchanges: Mapping[int, Sequence[Exchange]]) -> Unpaired | None:
    for n in range(min(map(len, exchanges.values()))):
        here = {rank: found[n] for rank, found in exchanges.items()}
        if _are_of_one_step(here):
            continue
        names = {rank: one.peer for rank, one in here.items()}
        ways = ((rank, peer) for rank in names if (peer := _repaired(names, rank)) is not None)
        odd, instead = next(ways, (-1, -1))  # there is never more than one such rank
        if odd < 0:
            return None
        behind = _behind_left_out(exchanges, n, odd)
        known = n if n >= habit.ENOUGH else n + behind
        varied = any(
            len({e.peer for e in (found if behind else found[:n])}) > 1
            for found in exchanges.values()
        )
        if known < habit.ENOUGH or not varied or len({one.phase for one in here.values()}) > 1:
            return None
        calls = {rank: _call(case, rank, one) for rank, one in here.items()}
        known_calls = {rank: call for rank, call in calls.items() if call is not None}
        return Unpaired(n, behind, names, known_calls, odd, instead)
    return None


def _are_of_one_step(exchanges: Mapping[int, Exchange]) -> bool:
    """Whether partners name each other, between the same collectives of all."""
    return len({one.phase for one in exchanges.values()}) == 1 and all(
        one.peer in exchanges and exchanges[one.peer].peer == rank
        for rank, one in exchanges.items()
    )


def _behind_left_out(exchanges: Mapping[int, Sequence[Exchange]], n: int, odd: int) -> int:
    """How many exchanges are of one step each, all there are, if a rank has left out its n-th.

    0 where some are not; or where they are, too, if it only named another partner in that one.
    """
    others = {rank: found[n + 1 :] for rank, found in exchanges.items() if rank != odd}
    left_out, misnamed = (
        [
            _are_of_one_step(dict(zip((*others, odd), step, strict=True)))
            for step in zip(*others.values(), exchanges[odd][begin:], strict=False)
        ]
        for begin in (n, n + 1)
    )
    return len(left_out) if all(left_out) and not all(misnamed) else 0


def _call(case: Case, rank: int, exchange: Exchange) -> Call | None:
    log = case.log(rank)
    return log.channel_call(exchange.channel, exchange.seq) if log is not None else None


def _repaired(names: Mapping[int, int], rank: int) -> int | None:
    """Whom a rank would have to name for all to be mutual, if that is all it takes; else None."""
    for peer in (one for one, named in names.items() if named == rank):
        changed = {**names, rank: peer}
        if peer != rank and all(changed.get(p) == r for r, p in changed.items()):
            return peer
    return None

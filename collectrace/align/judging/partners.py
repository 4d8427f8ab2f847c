"""Ranks that exchange messages in pairs, and each compute their partner.

Partners that change from exchange to exchange (at random, or by a rule) must be mutual: a rank's
partner must name that rank. The n-th exchanges of all ranks are compared, not the messages that
met, because a rank that is one draw ahead meets others by chance for a while.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call

_FEW: Final = 2
"""Ranks of a group without a choice of partners."""


@dataclass(frozen=True, slots=True)
class Unpaired:
    """The first exchange in which some rank's partner names another rank."""

    before: int
    """Exchanges of each rank before it, all mutual."""
    behind: int
    """Exchanges behind it, if all are mutual provided that ``odd`` skipped one here. 0 if not, or
    if another partner in this one explains them too."""
    names: Mapping[int, int]
    """The partner that each rank names, by rank."""
    calls: Mapping[int, Call]
    """The first message of the exchange, by rank."""
    odd: int
    """The only rank that can make all partners mutual by naming another."""
    instead: int
    """The partner that ``odd`` should have named."""


@once
def unpaired(case: Case, candidate: Candidate) -> Unpaired | None:
    """Return the first exchange in which partners are not mutual because of one rank.

    None if all are mutual, or if it takes several ranks to explain.
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
    """Messages between a rank and one peer, equally many in each direction."""

    peer: int
    channel: ChannelKey
    seq: int
    """Channel of the first message, and its number there."""
    phase: int
    """Collectives of the group before it."""
    ahead: int = 0
    """Messages sent minus messages received."""


def _exchanges(log: RankLog, group: str) -> list[Exchange] | None:
    """Return a rank's messages of a group as exchanges, the last possibly incomplete.

    None if they are none: messages with another peer are in between, or one direction is missing.
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
    rows = log.rows(channel)[0]
    return rows.offset, rows.seq


def _first_odd(case: Case, exchanges: Mapping[int, Sequence[Exchange]]) -> Unpaired | None:
    for n in range(min(map(len, exchanges.values()))):
        here = {rank: found[n] for rank, found in exchanges.items()}
        if _are_mutual(here):
            continue
        names = {rank: one.peer for rank, one in here.items()}
        single = [rank for rank, peer in names.items() if names.get(peer) != rank]
        ways = [(odd, peer) for odd, peer in permutations(single[:3], 2) if names[peer] == odd]
        if len(single) != 2 or len(ways) != 1:
            return None  # more than one rank must have another partner
        [(odd, instead)] = ways
        behind = _mutual_after_skip(exchanges, n, odd)
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


def _are_mutual(exchanges: Mapping[int, Exchange]) -> bool:
    return len({one.phase for one in exchanges.values()}) == 1 and all(
        one.peer in exchanges and exchanges[one.peer].peer == rank
        for rank, one in exchanges.items()
    )


def _mutual_after_skip(exchanges: Mapping[int, Sequence[Exchange]], n: int, odd: int) -> int:
    """Return the number of exchanges after the n-th if all are mutual once ``odd`` skipped one.

    0 if some are not mutual, or if they are also mutual without the skip.
    """
    others = {rank: found[n + 1 :] for rank, found in exchanges.items() if rank != odd}
    left_out, misnamed = (
        [
            _are_mutual(dict(zip((*others, odd), step, strict=True)))
            for step in zip(*others.values(), exchanges[odd][begin:], strict=False)
        ]
        for begin in (n, n + 1)
    )
    return len(left_out) if all(left_out) and not all(misnamed) else 0


def _call(case: Case, rank: int, exchange: Exchange) -> Call | None:
    return case.call(rank, exchange.channel, exchange.seq)

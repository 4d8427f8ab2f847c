"""A message that one end asks for, where the other has gone on to the collective behind the round.

Between two collectives of one line lies a round. Where both ends of a channel had made as many
messages in each round before, one that is wanted now, when the other end has closed its round, is
one too many, or was left out: it is not to come behind the collective.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit, programs
from collectrace.align.matching.programs import Key
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.records import Call

SOME: Final = 2
"""Rounds before, to say how the messages came out in each."""


class UnevenRound(NamedTuple):
    """A round that two ranks do not agree about."""

    rank: int
    """Who waits in a message."""
    other: int
    """Who waits in the collective."""
    channel: ChannelKey
    call: Call
    """The message that the one waits in."""
    behind: Call
    """The collective that the other waits in."""
    mine: int
    """Messages of the channel that the one made in this round, that one included."""
    theirs: int
    """Those that the other made."""
    back: int | None
    """Messages the other way in this round, at both ends, where in each round before there were
    as many each way; None: there were not, or the ends do not agree."""
    rounds: int
    """Before, in which both ends made as many; at least ``SOME``."""
    gives_first: bool
    """In those the one never made more of the channel than had gone the other way till then."""

    @property
    def left(self) -> int | None:
        """Who of the two alone made more, or less, than went the other way; None: not known.

        Who waits is in the midst of its round: to have made too many tells only of one that never
        made more than had gone the other way before.
        """
        if self.back is None or self.rounds < habit.ENOUGH:
            return None
        too_many, too_few = self.mine > self.back, self.theirs != self.back
        if too_many == too_few or (too_many and not self.gives_first):
            return None
        return self.rank if too_many else self.other


@once
def uneven_round(case: Case, candidate: Candidate) -> UnevenRound | None:
    """The first edge of a circle from a message to a collective behind the round; else None."""
    return along_circle(case, candidate, _of_edge)


def out_of_balance(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The one of two ranks that alone left what had been so in each round; else nobody."""
    found = uneven_round(case, candidate)
    return (found.left,) if found is not None and found.left is not None else ()


def _of_edge(case: Case, edge: Edge, after: Edge) -> UnevenRound | None:
    one, two = edge.waiting, after.waiting
    logs = case.log(one.rank), case.log(two.rank)
    channel, stream = one.channel, two.stream
    if channel is None or channel.source < 0 or stream is None or None in (one.seq, two.seq):
        return None
    mine, theirs = logs
    if (
        mine is None
        or theirs is None
        or not (programs.is_whole(mine) and programs.is_whole(theirs))
    ):
        return None
    call, behind = (
        mine.channel_call(channel, one.seq or 0),
        case.call(two.rank, stream, two.seq or 0),
    )
    if call is None or behind is None:
        return None
    ends = closings(theirs, stream, behind)
    reverse = channel._replace(source=channel.destination, destination=channel.source)
    counts = [per_round(log, c, stream, ends) for c in (channel, reverse) for log in (mine, theirs)]
    if any(count is None for count in counts):
        return None
    here, there, back_here, back_there = (count or [] for count in counts)
    rounds = len(ends)
    if rounds < SOME or here[:-1] != there[:-1] or not any(here[:-1]):
        return None
    balanced = back_here == back_there and back_here[:-1] == here[:-1]
    both = zip(mine.channel_rows(reverse).offset, mine.channel_rows(channel).offset, strict=False)
    gives_first = all(back < made for back, made in islice(both, sum(here[:-1])))
    return UnevenRound(
        one.rank, two.rank, channel, call, behind, here[-1], there[-1],
        back_here[-1] if balanced else None, rounds, gives_first,
    )  # fmt: skip


def closings(log: RankLog, stream: StreamKey, behind: Call) -> list[int]:
    """The rows of a stream that closed the rounds before, by the line of the one that does now."""
    rows, shift = log.rows(stream)
    known = rows.vocabulary.appearances
    return [
        seq + shift
        for seq, appearance in zip(rows.seq, rows.appearance, strict=True)
        if seq + shift < behind.seq
        and (known[appearance].op, known[appearance].site) == (behind.op, behind.site)
    ]


def per_round(log: RankLog, key: Key, stream: StreamKey, ends: Sequence[int]) -> list[int] | None:
    """How many calls of a stream or channel a rank made in each round, the present one last.

    None where it did not come to the end of one of those before.
    """
    rows, shift = log.rows(stream)
    offsets = dict(zip(rows.seq, rows.offset, strict=True))
    bounds = [offsets.get(seq - shift) for seq in ends]
    if None in bounds:
        return None
    made = list(announced.rows_of(log, key).offset)
    places = [0, *(bisect_left(made, bound or 0) for bound in bounds), len(made)]
    return [stop - start for start, stop in pairwise(places)]

"""A message that a rank left out once, though each time before and since it came in its turn.

Where the messages of two ranks look all alike nothing fails there: the next one is taken for it,
and so on, until the last that is asked for never comes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.may_be_told import may_be_told, may_have_told
from collectrace.align.judging.own_round import kept_round, program_of
from collectrace.align.matching import habit
from collectrace.align.matching.programs import Program
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import ChannelKey
from collectrace.records import Call


class LeftOnce(NamedTuple):
    """Where a rank went on without a message that it had always made there."""

    rank: int
    waiter: int
    """Who has made one message more of the channel, and waits in it."""
    due: Call
    """The message, as the rank made it the time before."""
    before: Call
    behind: Call
    """What it called where it left the message out, and always calls before it and behind."""
    times: int
    """How often it made the message in this turn."""


@once
def left_once(case: Case, candidate: Candidate) -> LeftOnce | None:
    """Who of a circle made one message less than is asked for, at one place that is known.

    Neither was it told to leave it out, nor has it ever told the other end of anything, as far as
    is seen. And no rank of the group has ever left out another so: it may be a plan of all.
    """
    ranks = {edge.waiting.rank for edge in candidate.cycle}
    for edge in candidate.cycle:
        found = _of_edge(case, edge)
        if found is not None and found.rank in ranks:
            others = ranks - {found.rank, found.waiter}
            is_alone = all(kept_round(case, one) for one in others) and _is_only_gap(case, edge)
            return found if is_alone else None
    return None


def _is_only_gap(case: Case, edge: Edge) -> bool:
    """Whether all other messages of the group were made each time, as far as is seen."""
    programs = [program_of(case, rank) for rank in case.comparison.groups[edge.waiting.group].ranks]
    return not any(
        program is None
        or any(
            _gap(program, key) is not None
            for key in program.keys
            if isinstance(key, ChannelKey) and key != edge.waiting.channel
        )
        for program in programs
    )


def _of_edge(case: Case, edge: Edge) -> LeftOnce | None:
    channel, waiter = edge.waiting.channel, edge.waiting.rank
    if channel is None or channel.source < 0:
        return None
    rank = channel.source + channel.destination - waiter
    mine, theirs = program_of(case, rank), program_of(case, waiter)
    if mine is None or theirs is None or rank == waiter:
        return None
    counts = [program.log.last_channel_seq.get(channel, 0) for program in (mine, theirs)]
    if counts[0] < habit.ENOUGH or counts[1] != counts[0] + 1:
        return None
    at = _gap(mine, channel)
    if at is None or not _is_made_each_time(theirs, channel):
        return None
    last = max((n for n in mine.places(channel) if n < at), default=None)
    if last is None:
        return None
    due, before, behind = (mine.call(n) for n in (last, at - 1, at))
    if due is None or before is None or behind is None:
        return None
    if len({call.thread for call in (due, before, behind)}) > 1:
        return None  # calls of several threads have no order to leave
    if may_be_told(case, mine, due, behind, waiter) or may_have_told(mine.log, behind, waiter):
        return None
    return LeftOnce(rank, waiter, due, before, behind, counts[0])


def _gap(program: Program, channel: ChannelKey) -> int | None:
    """The one place at which a rank went from what comes before a message to what comes behind.

    None where it did so more often, or where the message does not stand between the same two. None
    where it has not made the message since: it may be that there was to be no more of them.
    """
    steps = program.steps
    made = program.places(channel)
    ends = {(steps[n - 1], steps[n + 1]) for n in made if 0 < n < len(steps) - 1}
    if len({steps[n] for n in made}) != 1 or len(ends) != 1:
        return None
    ((before, behind),) = ends
    if steps[made[0]] in (before, behind):
        return None
    after = [n for n in range(1, len(steps)) if steps[n - 1] == before and n not in {*made}]
    is_one = len(after) == 1 and after[0] < made[-1] and steps[after[0]] == behind
    return after[0] if is_one else None


def _is_made_each_time(program: Program, channel: ChannelKey) -> bool:
    """Whether a rank exchanged the same messages between any two of a channel, and some others."""
    made = program.places(channel)
    between = {
        tuple(
            program.steps[n]
            for n in range(one, then)
            if isinstance(program.keys[program.sources[n]], ChannelKey)
        )
        for one, then in pairwise(made)
    }
    return len(between) == 1 and len(between.pop()) > 1

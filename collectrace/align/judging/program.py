"""Which rank left the program that its like went on with, where that led to a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.matching.deviations import Deviation
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.records import Call

_LATEST: Final = 16
"""A rank's last calls, among which it may have left its own round."""

_ENOUGH: Final = 3
"""Ranks of which two can outvote one."""


@once
def deviation(case: Case, candidate: Candidate) -> Deviation | None:
    """How ranks left their program in a stream (channel) of a candidate, at its row or before."""
    source = candidate.source
    places: list[tuple[StreamKey | ChannelKey | None, int]]
    if isinstance(source, Divergence):
        places = [(source.stream, source.seq)]
    elif isinstance(source, ChannelIssue):
        places = [(source.channel, source.seq)]
    elif isinstance(source, tuple):
        waits = [edge.waiting for edge in source]
        places = [(w.channel or w.stream, w.seq or 0) for w in waits]
    else:
        return None
    return next(
        (
            one
            for one in case.deviations
            for rows in one.rows.values()
            for key, seq in places
            if key is not None and seq >= rows.get(key, seq + 1)
        ),
        None,
    )


def out_of_program(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that left it; none where that is not known."""
    found = deviation(case, candidate)
    return found.ranks if found is not None else ()


class LeftRound(NamedTuple):
    """Where a rank left the round that it had repeated."""

    rank: int
    made: Call
    usual: Call
    """What it had called there in every round before."""
    extra: int
    """How many calls it made before it went on with its round; 0: it did not go on with it."""
    row: int
    """How many such calls in a row this one was; 1 where it called something else before."""


def left_own_round(case: Case, rank: int) -> LeftRound | None:
    """What a rank called last out of its own round, as it had never done after such a round.

    None where it went on with its round, or had repeated none. That proves nothing against it: a
    round may change.
    """
    log = case.log(rank)
    if log is None or not programs.is_whole(log):
        return None
    groups = case.comparison.groups
    program = programs.read(log, groups, case.dimensions, programs.Steps(), finished=False)
    if program is None:
        return None
    steps = list(program.steps)
    for at in range(max(0, len(steps) - _LATEST), len(steps)):
        place = habit.expected(steps, at)
        if place is None or steps[place] == steps[at] or _ended_so(steps, place, at) > 1:
            continue
        made, usual = program.call(at), program.call(place)
        if made is None or usual is None:
            return None
        ahead = steps[place:]
        lengths = range(1, len(steps) - at)
        extra = next((n for n in lengths if steps[at + n :] == ahead[: len(steps) - at - n]), 0)
        row = next((n for n in range(1, at + 1) if steps[at - n] != steps[at]), at + 1)
        return LeftRound(rank, made, usual, extra, row)
    return None


@once
def left_alone(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The one rank of a circle of messages that left its round where all others chose to keep it.

    Who waits in a send has chosen; who waits in a receive may only have got nothing. With two
    ranks it is one against one: that proves nothing.
    """
    source, group = candidate.source, candidate.group
    if not isinstance(source, tuple) or group is None or len(group.ranks) < _ENOUGH:
        return ()
    if any(edge.waiting.channel is None for edge in source):
        return ()
    left = [rank for rank in group.ranks if left_own_round(case, rank) is not None]
    if len(left) != 1 or left[0] not in {edge.waiting.rank for edge in source}:
        return ()
    others = [case.standings[rank] for rank in group.ranks if rank != left[0]]
    chose = all(
        standing.log is not None
        and programs.is_whole(standing.log)
        and any(w.channel is not None and w.channel.source == w.rank for w in standing.waiting)
        for standing in others
    )
    return tuple(left) if chose else ()


@once
def short_sender(case: Case, candidate: Candidate) -> LeftRound | None:
    """The one rank of all that left its own round, and sent less than its like to who waits for it.

    In a circle that ends at a receive from any rank, to which at least three ranks have sent, and
    all others equally often. Of two it is not known how many each was to send.
    """
    source, group = candidate.source, candidate.group
    if not isinstance(source, tuple) or group is None:
        return None
    awaited = [c for edge in source if (c := edge.waiting.channel) is not None and c.source < 0]
    if not awaited:
        return None
    left = [found for rank in group.ranks if (found := left_own_round(case, rank)) is not None]
    if len(left) != 1 or not all(case.standings[rank].waiting for rank in group.ranks):
        return None
    for channel in awaited:
        ways = case.sent_to_any(channel)
        sent = {rank: case.evidence.logs[rank].last_channel_seq[ways[rank]] for rank in ways}
        mine = sent.pop(left[0].rank, 0)
        if len(sent) >= _ENOUGH - 1 and len(set(sent.values())) == 1 and mine < max(sent.values()):
            return left[0]
    return None


def _ended_so(steps: Sequence[int], place: int, at: int) -> int:
    """How often the round before ``at`` was followed by what followed it there."""
    length = at - place
    round_ = steps[place:at]
    return sum(
        step == steps[at] and steps[n - length : n] == round_
        for n, step in enumerate(steps)
        if n >= length
    )

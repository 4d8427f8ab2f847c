"""A rank that did not come to a collective to which all others came, and is at its next message.

As a stage of a pipeline that has nothing to log, and is in the next step. One of the others waits
for it there, and is to take its message. That it did not go astray is told by others that exchange
nothing with the rank, and came to the same call out of rounds of their own, as new to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import left_own_round, program_of
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.matching.programs import Program
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.records import Call


class StayedAway(NamedTuple):
    """Who alone is not in a collective of its group."""

    rank: int
    message: Call
    """In which it waits instead."""
    row: Call
    """The collective, as ``maker`` made it."""
    maker: int
    """The other end of the message."""
    others: tuple[int, ...]
    """All others of the group, who wait there."""
    apart: tuple[int, ...]
    """Those of them that exchange messages with others of them, and none with it."""


@once
def stayed_away(case: Case, candidate: Candidate) -> StayedAway | None:
    """The one rank of a circle of two that is missing in a collective, and is at a message.

    The collective is one that nobody has made before: of one that has its place in the round it
    may be that another came to it too early, past that message.
    """
    return along_circle(case, candidate, _of_edges) if len(candidate.cycle) == 2 else None


def _of_edges(case: Case, edge: Edge, after: Edge) -> StayedAway | None:
    rank, maker = edge.waiting.rank, after.waiting.rank
    channel, stream, row = edge.waiting.channel, after.waiting.stream, after.waiting.seq
    if channel is None or channel.source < 0 or stream is None or row is None:
        return None
    members = case.comparison.groups[stream.group].ranks
    others = tuple(one for one in members if one != rank)
    mine = program_of(case, rank)
    theirs = {one: program for one in others if (program := program_of(case, one)) is not None}
    if mine is None or len(theirs) < len(others) or len(members) < CAN_OUTVOTE:
        return None
    if mine.log.last_seq.get(stream, 0) != row - 1 or left_own_round(case, rank) is not None:
        return None
    if not all(_is_there(case, program, stream, row) for program in theirs.values()):
        return None
    apart = tuple(
        one for one, program in theirs.items() if _peers(program) and rank not in _peers(program)
    )
    call = case.call(maker, stream, row)
    message = mine.log.channel_call(channel, edge.waiting.seq or 0)
    if not apart or call is None or message is None or call.thread != message.thread:
        return None
    ways = {frames_of(case, one, made) for one in others if (made := case.call(one, stream, row))}
    if len(ways) > 1 or not is_within(case, frames_of(case, rank, message), ways.pop()):
        return None
    return StayedAway(rank, message, call, maker, others, apart)


def frames_of(case: Case, rank: int, call: Call) -> tuple[str, ...]:
    """The user's frames above a call; its line, where they are not known."""
    return case.stack(rank, call) or (call.site or "",)


def is_within(case: Case, message: Sequence[str], row: Sequence[str]) -> bool:
    """Whether each loop around a message is around a collective as well, by their frames.

    Behind a loop of messages it may be that the others have left that too early.
    """
    loops = case.loops(message)
    return bool(loops) and {*loops} <= {*case.loops(row)}


def _is_there(case: Case, program: Program, stream: StreamKey, row: int) -> bool:
    """Whether a rank waits in a row of a stream, and in nothing else, as it never had before.

    It came there from the end of its round, or in the midst of one that it had kept so far.
    """
    waiting = [(one.stream, one.seq) for one in case.standings[program.rank].waiting]
    *steps, last = program.steps
    place = habit.expected(steps, len(steps) - 1) if steps else None
    is_kept = place is not None and steps[place] == steps[-1]
    return waiting == [(stream, row)] and last not in steps and is_kept


def _peers(program: Program) -> set[int]:
    """With whom a rank has exchanged messages."""
    ends = {end for key in program.keys if isinstance(key, ChannelKey) for end in key[2:4]}
    return ends - {program.rank}

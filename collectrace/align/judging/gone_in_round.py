"""A rank that finished in the midst of its round, without the message that all others wait for.

As where who decides leaves the loop before it has told the others. All of them had come with it to
a collective of the round, behind which the message was due, and which gave none of them anything:
what it gave the one is what it left by.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from collectrace import ops
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import kept_round, program_of
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading import chains, statements
from collectrace.align.reading.bindings import assignments
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.records import Call


class GoneInRound(NamedTuple):
    """Who left its round by finishing."""

    rank: int
    usual: Call
    """The message that it had made there in every round before, at its latest."""
    last: Call
    """Its last call: a collective to which all came."""
    waiters: tuple[int, ...]
    """All others of the group, each of which waits for a message of it."""
    rounds: int
    """Equal rounds before, as far as was looked; at least ``habit.ENOUGH``."""


@once
def gone_in_round(case: Case, candidate: Candidate) -> GoneInRound | None:
    """The rank that finished without a message, though its round had always led to that; or None.

    The message stands behind its last call, in the same turn of the loop, by the order of the lines
    in the function in which it made both.
    """
    issue = candidate.source
    if not isinstance(issue, ChannelIssue) or issue.attribute != "absent":
        return None
    rank = issue.channel.source if issue.send is None else issue.channel.destination
    standing, program = case.standings.get(rank), program_of(case, rank)
    if standing is None or standing.state != "finished" or standing.disabled or program is None:
        return None
    steps = program.steps
    place = habit.expected(steps, len(steps))
    waiters = tuple(one for one in issue.group.ranks if one != rank)
    if place is None or len(waiters) + 1 < CAN_OUTVOTE:
        return None
    rounds = habit.agreeing(steps, place, len(steps)) // (len(steps) - place) + 1
    due, usual = program.keys[program.sources[place]], program.call(place)
    last, stream = program.call(len(steps) - 1), program.keys[program.sources[-1]]
    if not isinstance(due, ChannelKey) or not isinstance(stream, StreamKey):
        return None
    if rounds < habit.ENOUGH or usual is None or last is None or usual.thread != last.thread:
        return None
    if last.op not in ops.TO_ROOT or last.root != rank or not _left_by(case, rank, usual, last):
        return None
    row = program.log.last_seq[stream]
    if not all(_waits_for(case, one, rank, stream, row) for one in waiters):
        return None
    own = due.source == rank, issue.channel.source == rank
    if own[0] != own[1] or not _is_behind(case, rank, usual, last):
        return None
    return GoneInRound(rank, usual, last, waiters, rounds)


def _waits_for(case: Case, one: int, rank: int, stream: StreamKey, row: int) -> bool:
    """Whether a rank waits for a message of another as in every round, behind one collective."""
    log, standing = case.log(one), case.standings.get(one)
    if log is None or standing is None or len(standing.waiting) != 1 or not programs.is_whole(log):
        return False
    channel = standing.waiting[0].channel
    is_of_both = channel is not None and {channel.source, channel.destination} == {one, rank}
    return is_of_both and log.last_seq.get(stream, 0) == row and kept_round(case, one)


def _left_by(case: Case, rank: int, usual: Call, last: Call) -> bool:
    """Whether a way past a call is by what came of another in the function that calls both.

    A loop that ends by its count may be known to everybody.
    """
    there, here = chains.outermost_apart(case.stack(rank, usual), case.stack(rank, last))
    lines = case.statements(chains.site(here))[-1:]
    given = {name for line in lines for name, _ in assignments(statements.code_of(line))}
    for text in case.ways(chains.site(there)):
        leaves, way = statements.way_of(text)
        names = {*_NAME.findall(statements.code_of(way))}
        is_of_last = statements.number_of(way) == chains.line(here) or bool(given & names)
        if is_of_last and leaves in ("break", "return"):
            return True
    return False


_NAME: Final = re.compile(r"[\w.]+")


def _is_behind(case: Case, rank: int, usual: Call, last: Call) -> bool:
    """Whether a call stands behind another, in one function that calls both."""
    stacks = case.stack(rank, usual), case.stack(rank, last)
    there, here = chains.outermost_apart(*stacks)
    if not here or chains.scope(here) != chains.scope(there):
        return False
    return chains.line(here) < chains.line(there)

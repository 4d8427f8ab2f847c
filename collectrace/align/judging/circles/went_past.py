"""A rank that alone did not come to what all others of its group went on to, new to them all.

As the one that is alone on its node, where the others reduce within theirs first: their leaders
wait for it, and it waits for them all in a later call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import along_circle, waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.circles.fewer_visits import in_round
from collectrace.align.judging.own_round import program_of, stacks_of
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.records import Call


class WentPast(NamedTuple):
    """Where all others of a group are, and one is not."""

    rank: int
    others: tuple[int, ...]
    """At least two."""
    frame: str
    """The line by which all of them came where they wait, and nobody ever did before."""
    due: Call
    """The first call that one of them, ``maker``, made by that line."""
    maker: int
    behind: Call
    """The call of the group in which the rank waits for the others."""
    since: Call
    """The last call of the group that all made, as the rank did."""


@once
def went_past(case: Case, candidate: Candidate) -> WentPast | None:
    """Who of a circle alone went past what all others of the group are in; else None."""
    return along_circle(case, candidate, _of_edge)


def _of_edge(case: Case, edge: Edge, after: Edge) -> WentPast | None:
    """Of who is waited for in a collective by another, and waits for it in one of a group."""
    rank, outer, row = after.waiting.rank, after.waiting.stream, after.waiting.seq
    if edge.waiting.stream is None or outer is None or row is None or row < 2:
        return None
    info = case.comparison.groups.get(outer.group)
    members = info.ranks if info is not None else ()
    others = tuple(one for one in members if one != rank)
    logs = in_round(case, members, outer, range(row - 1, row + 1))
    if len(members) < CAN_OUTVOTE or len(logs) < len(members):
        return None
    if any(logs[one].last_seq[outer] != row - 1 for one in others if outer in logs[one].last_seq):
        return None
    behind, since = case.call(rank, outer, row), case.call(rank, outer, row - 1)
    if behind is None or since is None:
        return None
    if announced.may_be_told_since(logs[rank], case.comparison.groups, since, behind):
        return None
    waits = [waited_for(case, wait) for one in others for wait in case.standings[one].waiting]
    if len(waits) != len(others) or any(c is None or c.thread != behind.thread for c in waits):
        return None
    frame = _new_to_all(case, logs, rank, outer, row - 1)
    due = _first_by(case, edge.waiting.rank, outer, row - 1, frame) if frame else None
    if not frame or due is None:
        return None
    return WentPast(rank, others, frame, due, edge.waiting.rank, behind, since)


def _new_to_all(
    case: Case, logs: Mapping[int, RankLog], rank: int, outer: StreamKey, row: int
) -> str:
    """The outermost line by which all but a rank came where they wait, and nobody before a row."""
    calls = {one: waited_for(case, case.standings[one].waiting[0]) for one in logs if one != rank}
    stacks = [case.stack(one, call) for one, call in calls.items() if call is not None]
    common = stacks[0][len(stacks[0]) - min(chains.shared(stacks[0], one) for one in stacks) :]
    known = {frame for stack in stacks_of(case, rank) for frame in stack}
    for one, log in logs.items():
        last = case.call(one, outer, row)
        if last is None:
            return ""
        known |= _frames(announced.between(log, end=announced.offset_of(log, last) + 1))
    return next((frame for frame in reversed(common) if frame not in known), "")


def _frames(told: Iterable[announced.Told]) -> set[str]:
    return {frame for one in told for frame in one.where}


def _first_by(case: Case, rank: int, outer: StreamKey, row: int, frame: str) -> Call | None:
    """The first call that a rank made by a line since a row."""
    program = program_of(case, rank)
    if program is None or outer not in program.keys:
        return None
    begin = next((n for n in program.places(outer) if program.rows[n] == row), len(program.rows))
    made = (program.call(n) for n in range(begin + 1, len(program.rows)))
    return next((c for c in made if c is not None and frame in case.stack(rank, c)), None)

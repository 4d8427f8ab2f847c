"""A call of a group within a larger one that one rank alone left out, and went on to that one.

As where the leader of one node goes past what leaders share, or the first rank of a node does not
release its others. The others of the group wait for it there, and it waits for them all in the
call behind the round. Two ways prove who departed: it had made that call at the same turn of its
own each time before, and all others went on as they ever had; or in each sister group the rank in
its place came to it in this round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from collectrace.align.judging import announced, sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.circles.fewer_visits import in_round
from collectrace.align.judging.own_round import program_of
from collectrace.align.judging.uneven_round import closings, per_round
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.matching.programs import Program
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.findings import GroupInfo
from collectrace.records import Call

_MOST: Final = 16
"""Calls in a row that may be left out."""


class LeftTurn(NamedTuple):
    """A rank's own turn that it left: what it went by, and what it had always called there."""

    before: Call
    made: Call
    """What it called instead: ``LeftInner.behind``, or what comes before that."""
    calls: int
    """That it left out; at least one."""
    follows: bool
    """Whether what was left out had always followed ``before``; else it had preceded ``made``."""
    times: int
    """Before; at least ``habit.ENOUGH``."""


class LeftInner(NamedTuple):
    """A call of an inner group that one rank alone left out."""

    rank: int
    due: Call
    """The call: its own of an earlier turn, or what the rank in its place of a sister made."""
    behind: Call
    """The call of the larger group in which it waits."""
    others: tuple[int, ...]
    """Of the inner group: all of them made it."""
    turn: LeftTurn | None
    sisters: tuple[GroupInfo, ...] = ()
    """The groups of the kind in which all made theirs, where there is no turn."""
    like: int | None = None
    """Who made ``due`` in the first of those."""


class _Stand(NamedTuple):
    """Where all are: the round behind the latest of ``ends``, some within it, some at its end."""

    rank: int
    inner: StreamKey
    info: GroupInfo
    """Of the inner group."""
    row: int
    """Of the inner group: who waits is in it."""
    outer: StreamKey
    behind: Call
    ends: Sequence[int]
    program: Program
    logs: Mapping[int, RankLog]
    """Of the outer group."""


@once
def left_inner(case: Case, candidate: Candidate) -> LeftInner | None:
    """Who of a circle of collectives alone left out one of an inner group; else None."""
    for stand in _stands(case, candidate.cycle):
        found = _by_turns(case, stand) or _by_sisters(case, stand)
        if found is not None and not _may_be_told(case, stand):
            return found
    return None


def _stands(case: Case, cycle: Sequence[Edge]) -> Iterator[_Stand]:
    """The edges from an inner group to one who is in a later call of a larger one."""
    groups = case.comparison.groups
    for edge, after in pairwise((*cycle, *cycle[:1])):
        inner, row, rank = edge.waiting.stream, edge.waiting.seq, after.waiting.rank
        outer, last = after.waiting.stream, after.waiting.seq
        if inner is None or outer is None or row is None or last is None:
            continue
        info, around = groups.get(inner.group), groups.get(outer.group)
        if info is None or around is None or not {*info.ranks} < {*around.ranks}:
            continue
        program, behind = program_of(case, rank), case.call(rank, outer, last)
        if program is None or behind is None or len(around.ranks) <= CAN_OUTVOTE:
            continue
        ends = closings(program.log, outer, behind)
        logs = in_round(case, around.ranks, outer, range(max(ends, default=last), last + 1))
        others = [log for one, log in logs.items() if one in info.ranks and one != rank]
        is_alone = others and all(log.last_seq.get(inner, 0) == row for log in others)
        if ends and is_alone and program.log.last_seq.get(inner, 0) == row - 1:
            yield _Stand(rank, inner, info, row, outer, behind, ends, program, logs)


def _may_be_told(case: Case, stand: _Stand) -> bool:
    """Whether a rank may have gone by what came to it in this round, or ended the one before."""
    since = case.call(stand.rank, stand.outer, stand.ends[-1])
    groups = case.comparison.groups
    return announced.may_be_told_since(stand.program.log, groups, since, stand.behind)


def _others(stand: _Stand) -> tuple[int, ...]:
    return tuple(rank for rank in stand.info.ranks if rank != stand.rank)


# -- by what each had done before --------------------------------------------------------------


def _by_turns(case: Case, stand: _Stand) -> LeftInner | None:
    """Who went on once as it never had, past calls of the inner group that it had always made."""
    for rank in stand.logs:
        program = program_of(case, rank)
        if program is None or (rank != stand.rank and _news(program, stand)):
            return None
    news, program = _news(stand.program, stand), stand.program
    if len(news) != 1 or program.call(len(program.steps) - 1) != stand.behind:
        return None
    (at,) = news
    gap = _gap(program, at, stand.inner)
    before, made = program.call(at - 1), program.call(at)
    if gap is None or before is None or made is None:
        return None
    place, calls, follows, times = gap
    due = program.call(place)
    if due is None or len({one.thread for one in (before, made, due, stand.behind)}) > 1:
        return None  # calls of several threads have no order
    turn = LeftTurn(before, made, calls, follows, times)
    return LeftInner(stand.rank, due, stand.behind, _others(stand), turn)


def _news(program: Program, stand: _Stand) -> list[int]:
    """Where a rank, in this round, went from a step to one that had never come behind it.

    Behind the end of the first round nothing had come before: there a step is new if it was never
    made.
    """
    steps, sources, rows = program.steps, program.sources, program.rows
    which, end = program.keys.index(stand.outer), stand.ends[-1]
    places = (n for n in range(len(steps)) if sources[n] == which and rows[n] == end)
    begin = next(places, len(steps))
    known, seen = {*steps[: begin + 1]}, {*pairwise(steps[: begin + 1])}
    left = {one for one, _ in seen}
    return [
        at
        for at in range(begin + 1, len(steps))
        if (steps[at - 1], steps[at]) not in seen
        and (steps[at - 1] in left or steps[at] not in known)
    ]


def _gap(program: Program, at: int, inner: StreamKey) -> tuple[int, int, bool, int] | None:
    """What a rank had always called between two steps, or behind the first, or before the second.

    Returns:
        The latest place of the first of these calls, how many they are, whether they follow the
        first step, and how often they did what they always do; None: there is nothing of the kind.

    """
    steps, which = program.steps, program.keys.index(inner) if inner in program.keys else -1
    seen = {*pairwise(steps[:at])}
    for follows, step in ((True, steps[at - 1]), (False, steps[at])):
        runs = []
        for n in range(at - 1 if follows else at):
            if steps[n] == step:
                ahead = range(n + 1, at) if follows else range(n - 1, -1, -1)
                runs.append(_run(program, ahead[:_MOST], which))
        gaps = {tuple(steps[n] for n in run) for run in runs}
        if len(runs) < habit.ENOUGH or len(gaps) != 1 or not 0 < len(runs[-1]) < _MOST:
            continue
        first, last = min(runs[-1]), max(runs[-1])
        joint = (steps[last], steps[at]) if follows else (steps[at - 1], steps[first])
        if joint in seen:
            return first, len(runs[-1]), follows, len(runs)
    return None


def _run(program: Program, ahead: Sequence[int], which: int) -> list[int]:
    """The first of some places that hold calls of one stream."""
    stop = next((n for n, at in enumerate(ahead) if program.sources[at] != which), len(ahead))
    return list(ahead[:stop])


# -- by groups of the kind ---------------------------------------------------------------------


def _by_sisters(case: Case, stand: _Stand) -> LeftInner | None:
    """Who alone of all groups of a kind made less, where the rank in its place of each came.

    All others came as often, from the same lines as those in their places.
    """
    known = [one for one in sisters.of(case, stand.info) if one.name != stand.info.name]
    members = [rank for info in (*known, stand.info) for rank in info.ranks]
    is_apart = len({*members}) == len(members) and {*members} <= {*stand.logs}
    if not known or not is_apart:
        return None
    made = per_round(stand.program.log, stand.inner, stand.outer, stand.ends)
    if made is None:
        return None
    *before, now = made
    at = stand.info.ranks.index(stand.rank)
    due: dict[int, set[object]] = {}
    for info in (stand.info, *known):
        stream = stand.inner._replace(group=info.name)
        for n, rank in enumerate(info.ranks):
            if rank == stand.rank:
                continue
            theirs = per_round(stand.logs[rank], stream, stand.outer, stand.ends)
            call = case.call(rank, stream, stand.row)
            if call is None or theirs != [*before, now + 1] or call.thread != stand.behind.thread:
                return None
            due.setdefault(n, set()).add((call.op, call.site, case.stack(rank, call)))
    if any(len(places) > 1 for places in due.values()):
        return None
    like = known[0].ranks[at]
    call = case.call(like, stand.inner._replace(group=known[0].name), stand.row)
    if call is None:
        return None
    others = _others(stand)
    return LeftInner(stand.rank, call, stand.behind, others, None, tuple(known), like)

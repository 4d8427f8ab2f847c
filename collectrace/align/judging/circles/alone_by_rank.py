"""A rank that alone, by its rank, came to what all ranks of its messages had come to together.

As the last stage of a pipeline that runs the schedule once more, to look at its outputs, while all
others are in the barrier behind.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import stacks_of
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains, code_lines, statements
from collectrace.align.reading.evidence import ChannelKey
from collectrace.records import Call

_OF_SEVERAL: Final = re.compile(r"[<>%&]|!=|\bnot\b|\bin\b")
_IS_GIVEN: Final = re.compile(r"\bis not None\b")
"""Whether there is something, which every rank may find."""
_LATEST: Final = 64
"""Messages before that are looked at."""


class AloneByRank(NamedTuple):
    """Who is in a message to which the other end cannot come."""

    rank: int
    others: tuple[int, ...]
    """All others of the group, which are in a collective; at least two."""
    call: Call
    """The message."""
    frame: str
    """The line of its caller, to which no other rank ever came."""
    line: str
    """The condition around it, which asks for the rank, as ``number text``."""


@once
def alone_by_rank(case: Case, candidate: Candidate) -> AloneByRank | None:
    """The one of a circle that a condition on its rank led into an exchange alone; else None."""
    cycle = candidate.cycle
    if len(cycle) != 2:
        return None
    for edge, back in (cycle, cycle[::-1]):
        if edge.waiting.channel is not None and back.waiting.stream is not None:
            return _of_edge(case, edge, back)
    return None


def _of_edge(case: Case, edge: Edge, back: Edge) -> AloneByRank | None:
    rank, channel, call = edge.waiting.rank, edge.waiting.channel, waited_for(case, edge.waiting)
    group = case.comparison.groups[back.waiting.group]
    others = tuple(one for one in group.ranks if one != rank)
    if channel is None or call is None or len(group.ranks) < CAN_OUTVOTE or rank not in group.ranks:
        return None
    place = back.waiting.stream, back.waiting.seq
    if not all(place in [(w.stream, w.seq) for w in case.standings[r].waiting] for r in others):
        return None
    frames = case.stack(rank, call)
    known = {frame for one in others for stack in stacks_of(case, one) for frame in stack}
    new = [n for n, frame in enumerate(frames) if frame not in known]
    if len(new) != 1 or not new[0]:
        return None
    (depth,) = new
    line = _condition(case, frames[depth])
    function = chains.scope(frames[depth - 1])
    if line is None or not _met_by_one_line(case, channel, call, function):
        return None
    if _may_be_met(case, chains.site(frames[depth]), line, function[1].rpartition(".")[2], known):
        return None
    return AloneByRank(rank, others, call, frames[depth], line)


def _condition(case: Case, frame: str) -> str | None:
    """The innermost condition around a line, where it asks for one rank.

    None where it lets several in, of which one may not have come by something else; or where it has
    another arm: what is there may be the other end.
    """
    site = chains.site(frame)
    line = next(reversed(statements.branches(case.statements(site))), "")
    code = statements.code_of(line)
    if not code.startswith("if ") or _OF_SEVERAL.search(_IS_GIVEN.sub("", code)):
        return None
    if not statements.tells_ranks_apart(case.spelled_out(site, line)):
        return None
    return (
        None
        if code_lines.is_fork(case.code, site, line) or _has_another(case, site, line)
        else line
    )


def _has_another(case: Case, site: str, line: str) -> bool:
    """Whether the function asks for the rank outside of a condition as well: for the other end."""
    source = case.code.lines(chains.split(site)[0])
    return any(
        statements.tells_ranks_apart(case.spelled_out(site, f"{n} {source[n - 1].strip()}"))
        for n in _beside(case, site, line)
    )


def _may_be_met(case: Case, site: str, line: str, name: str, known: Collection[str]) -> bool:
    """Whether the function calls another by a line outside of a condition to which nobody came."""
    file, _ = chains.split(site)
    lines = {*_beside(case, site, line)}
    calls = [one for one in case.code.spans(file).calls if one.name == name and one.first in lines]
    came = {chains.site(frame) for frame in known}
    return any(f"{file}:{one.first}" not in came for one in calls)


def _beside(case: Case, site: str, line: str) -> Iterator[int]:
    """The lines of the function around a site, but for a condition and what is under it."""
    file, at = chains.split(site)
    source, spans, number = (
        case.code.lines(file),
        case.code.spans(file),
        statements.number_of(line),
    )
    around = [(first, last) for first, last in spans.functions if first <= at <= last]
    begin, end = max(around, default=(1, len(source)))
    within = [(first, last) for head, _, first, last in spans.blocks if head == number]
    for n in range(begin, min(end, len(source)) + 1):
        if n != number and not any(first <= n <= last for first, last in within):
            yield n


def _met_by_one_line(
    case: Case, channel: ChannelKey, call: Call, function: tuple[str, str]
) -> bool:
    """Whether both ends of each message before were made in one function, called by one line."""
    logs = case.log(channel.source), case.log(channel.destination)
    if call.seq <= habit.ENOUGH or logs[0] is None or logs[1] is None:
        return False
    for seq in range(max(1, call.seq - _LATEST), call.seq):
        ends = [log.channel_call(channel, seq) for log in logs if log is not None]
        stacks = [
            case.stack(rank, end)
            for rank, end in zip((channel.source, channel.destination), ends, strict=True)
            if end is not None
        ]
        callers = {_caller(stack, function) for stack in stacks}
        if len(stacks) != len(logs) or len(callers) != 1 or None in callers:
            return False
    return True


def _caller(stack: Sequence[str], function: tuple[str, str]) -> str | None:
    """The line that called a function, by a stack; None: it is not in there."""
    for inner, outer in pairwise(stack):
        if chains.scope(inner) == function:
            return outer
    return None

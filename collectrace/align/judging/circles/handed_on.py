"""A rank that took a message from one and did not hand it on to another, as it did each other one.

As a stage of a pipeline that drops a microbatch by what is in it: who sends to it and who waits for
it agree on the number, and have to do with each other through it alone.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from collectrace.align.judging import announced, choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.may_be_told import BUFFER, may_be_told, may_have_told, share
from collectrace.align.judging.own_round import kept_round, program_of
from collectrace.align.matching import habit
from collectrace.align.matching.programs import Program
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import statements
from collectrace.align.reading.bindings import assignments
from collectrace.align.reading.evidence import ChannelKey
from collectrace.records import Call


class HandedOn(NamedTuple):
    """Where a rank went on without handing on what it had got."""

    rank: int
    source: int
    """Whom it got it from."""
    waiter: int
    """Who waits for it, and has asked for as many as the rank got."""
    due: Call
    """The message, as the rank made it the time before."""
    behind: Call
    """What it called instead."""
    times: int
    """How many it handed on: each but this one."""


@once
def handed_on(case: Case, candidate: Candidate) -> HandedOn | None:
    """Who of a circle kept to itself one of the messages that it hands on; None: nobody is known.

    All others of the circle kept to their rounds, and so did who sent it.
    """
    for edge in candidate.cycle:
        found = _of_edge(case, edge)
        if found is not None:
            others = {e.waiting.rank for e in candidate.cycle} - {found.rank} | {found.source}
            return found if all(kept_round(case, one) for one in others) else None
    return None


def _of_edge(case: Case, edge: Edge) -> HandedOn | None:
    channel, waiter = edge.waiting.channel, edge.waiting.rank
    if channel is None or channel.destination != waiter:
        return None
    rank = channel.source
    mine, theirs = program_of(case, rank), program_of(case, waiter)
    if mine is None or theirs is None:
        return None
    ways = [one for one in mine.keys if isinstance(one, ChannelKey) and one.destination == waiter]
    if ways != [channel]:
        return None  # what it sends else may tell how many there are
    if len({*mine.log.channel_rows(channel).meaning}) != 1 or announced.may_be_by_store(case):
        return None  # one may hold what was kept
    sent, asked = (one.log.last_channel_seq.get(channel, 0) for one in (mine, theirs))
    if sent < habit.ENOUGH or asked != sent + 1:
        return None
    found = _kept_back(mine, channel)
    if found is None:
        return None
    at, source = found
    last = max((n for n in mine.places(channel) if n < at), default=None)
    if last is None:
        return None
    due, got, behind = (mine.call(n) for n in (last, at, at + 1))
    if due is None or got is None or behind is None:
        return None
    if len({call.thread for call in (due, got, behind)}) > 1:
        return None  # calls of several threads have no order to leave
    if may_be_told(case, mine, due, behind, waiter) or may_have_told(mine.log, behind, waiter):
        return None
    if share(case, source, waiter, rank) or not _is_by_content(case, rank, due, got, behind):
        return None
    return HandedOn(rank, source, waiter, due, behind, sent)


def _kept_back(program: Program, channel: ChannelKey) -> tuple[int, int] | None:
    """The one message that a rank got and did not hand on at once; and of whom.

    Behind it it got the next one, and handed that on: so it neither sent it elsewhere, nor had come
    to the end of a row.
    """
    steps, made = program.steps, program.places(channel)
    taken = {steps[n - 1] for n in made if n}
    if len({steps[n] for n in made}) != 1 or len(taken) != 1 or not made[0]:
        return None
    intake = program.keys[program.sources[made[0] - 1]]
    if not isinstance(intake, ChannelKey) or intake.destination != program.rank:
        return None
    if intake.source in (channel.destination, program.rank) or intake.source < 0:
        return None
    (step,) = taken
    got = [n for n, one in enumerate(steps) if one == step]
    kept = [n for n in got if n + 1 not in {*made}]
    if len(kept) != 1 or len(got) != program.log.last_channel_seq.get(intake):
        return None
    is_between = got[-1] > kept[0] and steps[kept[0] + 1] == step
    return (kept[0], intake.source) if is_between else None


def _is_by_content(case: Case, rank: int, due: Call, got: Call, behind: Call) -> bool:
    """Whether what leads past a message reads what had just come, or what was made of that."""
    past = choices.of_call(case, case.stack(rank, due), case.stack(rank, behind))
    read = {name for line in past or () for name in statements.names(statements.code_of(line))}
    for line in case.assigned(due.site):
        given = assignments(line.split(" ", 2)[-1])
        values = [ast.unparse(value) for name, value in given if name in read]
        read |= {name for value in values for name in statements.names(value)}
    lines = case.statements(got.site)[-1:]
    return bool(read & {name for line in lines for name in BUFFER.findall(line)})

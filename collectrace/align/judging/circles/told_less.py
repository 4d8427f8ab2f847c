"""Whether a rank may rightly have come to a line less often than others: told so, or by its part.

Who was told to do less is not to blame for it, whoever told it; nor who goes by its own number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Final

from collectrace import ops
from collectrace.align.judging import announced
from collectrace.align.judging.case import Case
from collectrace.align.judging.may_be_told import may_be_told
from collectrace.align.matching.programs import Program
from collectrace.align.reading import chains, statements
from collectrace.align.reading.bindings import assignments
from collectrace.align.reading.evidence import ChannelKey
from collectrace.records import Call
from collectrace.signature import numel

Frames = tuple[str, ...]
"""The user's frames above a call, innermost first."""


def is_told_less(
    case: Case, program: Program, calls: tuple[Call, Call], since: Call, where: Frames
) -> bool:
    """Whether a rank may have gone past a message, to what it called instead, as it was told.

    By whoever sent it something; by numbers that came to it from another line in this round, or
    that it told; by a collective of this round, its head included; or by one that ever gave each
    rank numbers of its own.
    """
    log, groups = program.log, case.comparison.groups
    begin, end = (announced.offset_of(log, call) for call in (since, calls[1]))
    for told in announced.between(log, begin - 1, end):
        if isinstance(told.key, ChannelKey):
            is_one = numel(told.call.shape) == [1]
            if told.where != where and (is_one or announced.carries_numbers(told.call)):
                return True
        elif _may_tell_each(told, groups[told.key.group].ranks):
            return True
    if any(_gives_numbers(told) for told in announced.between(log, -1, end)):
        return True
    if _reads_exchange(case, where):
        return True
    senders = {key.source for key in log.last_channel_seq if key.destination == program.rank}
    return any(may_be_told(case, program, *calls, one) for one in sorted(senders))


def _reads_exchange(case: Case, where: Frames) -> bool:
    """Whether a way past a line reads what the function gave that made the message there."""
    function = chains.function(where[0]).rpartition(".")[2]
    for site in map(chains.site, where[1:]):
        ways = (statements.way_of(way)[1] for way in case.ways(site))
        read = {name for way in ways for name in statements.names(statements.code_of(way))}
        given = (line.split(" ", 2)[-1] for line in case.assigned(site))
        read |= {
            word
            for text in given
            for name, value in assignments(text)
            if name in read
            for word in statements.names(ast.unparse(value))
        }
        if function in read:
            return True
    return False


def _may_tell_each(told: announced.Told, ranks: Sequence[int]) -> bool:
    """Whether a collective may tell each rank something else: it holds as much as there are ranks.

    Or whole numbers, of which one may be the rank that is meant.
    """
    call = told.call
    if call.op in ops.BARRIERS or not announced.may_tell(told, ranks):
        return False
    is_small = call.op == "all_reduce" and sum(numel(call.shape)) < len(ranks)
    return announced.carries_numbers(call) or not is_small


def _gives_numbers(told: announced.Told) -> bool:
    """Whether a collective gave each rank what may be numbers of its own."""
    is_dealt = told.call.op == "scatter" or told.call.op in (*ops.ALL_TO_ALL, "reduce_scatter")
    return is_dealt and announced.carries_numbers(told.call)


def is_its_part(case: Case, where: Frames) -> bool:
    """Whether who comes to a line, or how often, goes by its number and what else changes."""
    return any(
        _BY_RANK.search(statements.code_of(case.spelled_out(site, line)))
        for site in map(chains.site, where)
        for line in (
            *case.statements(site)[:-1],
            *(statements.way_of(way)[1] for way in case.ways(site)),
        )
    )


_BY_RANK: Final = re.compile(
    r"\b(?:\w*rank|get_rank\(\))\b(?:\s*[-+*/%]|\s*[<>]=?(?!\s*\d)|\s*[!=]=\s*[a-z]|,|\s+in\b)"
    r"|^for\b[^:]{0,200}\bin\b[^:]{0,200}rank\b"
)
"""Of a condition or a loop: not one that compares the rank with what is always the same."""

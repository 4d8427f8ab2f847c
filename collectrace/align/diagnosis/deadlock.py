"""Ranks that wait for each other: a circle of calls, of messages, or of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import by_framework, out_of_step, program, refused, sisters
from collectrace.align.diagnosis.wording import Wording
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.program import deviation
from collectrace.align.ranks.waitgraph import Edge


def explain(case: Case, candidate: Candidate) -> Wording:
    """One circle in words."""
    source = candidate.source
    assert isinstance(source, tuple)
    wording = refused.explain(case, candidate)
    if wording is not None:
        return wording
    steps = [_edge(case, edge) for edge in source]
    again = sisters.reason(case, candidate)
    if again is not None:
        return Wording(_circle(case, source), again.cause, again.fix)
    left, reason = deviation(case, candidate), program.reason(case, candidate)
    if left is not None and reason is not None:
        waits = f"{reason.cause} So they wait for each other: {'; '.join(steps)}."
        headline = (
            program.told(case, left, short=True)
            if candidate.cause is None
            else _circle(case, source)
        )
        return Wording(headline, waits, reason.fix)
    messages = [edge for edge in source if edge.waiting.channel is not None]
    if messages:
        told = out_of_step.reason(case, candidate, source, f"{words.upper('; '.join(steps))}.")
        if told is not None:
            return Wording(_circle(case, source), told.cause, told.fix)
    cause = (
        f"{words.upper('; '.join(steps))}. Each is right by itself; together they wait for ever."
        f"{out_of_step.first_time(case, source)}"
    )
    if len(messages) == len(source):
        fix = by_framework.of_messages(case, out_of_step.awaited(case, source)) or _messages(source)
    elif messages:
        one = messages[0].waiting
        cause += " Some wait in a message, some in a collective."
        fix = (
            f"Finish the exchange before the collective, or after it, on every rank alike: move "
            f"the {one.op} of rank {one.rank}{words.at_site(one.site)}, or the collective."
        )
    else:
        one_line = len({(e.waiting.op, e.waiting.site) for e in source}) == 1
        first, last = (_what(case, edge) for edge in (source[0], source[-1]))
        order = (
            f"enter the groups in the same order on every rank; moving one call is enough: rank "
            f"{source[0].waiting.rank} issues {last} before {first}."
        )
        groups = len({edge.waiting.group for edge in source})
        if one_line:
            cause += f" It is one line, and the ranks give it {groups} different groups."
            fix = f"Pass the same group on every rank, if one is meant.\nElse {order}"
        else:
            cause += (
                f" They entered {groups} groups in different orders, or one of them has left out a "
                "call before."
            )
            fix = (
                f"{words.upper(order)}\n"
                "Or, if one of these calls was meant for the other group, pass that.\n"
                "Or, if a branch has left out a call on one of them, make it on every rank."
            )
    return Wording(_circle(case, source), cause, fix)


def _circle(case: Case, cycle: Sequence[Edge]) -> str:
    """The headline: which ranks wait for each other, and in what."""
    who = words.ranks(edge.waiting.rank for edge in cycle)
    how = "for each other" if len(cycle) == 2 else "in a circle"
    sites = {edge.waiting.site for edge in cycle}
    at = words.at_site(sites.pop()) if len(sites) == 1 else None
    does = [_what(case, edge) if at is None else _call_of(case, edge) for edge in cycle]
    if at is not None and len(set(does)) == 1:
        return f"{who} wait {how} in {does[0]}{at}"
    told = [f"rank {e.waiting.rank} in {what}" for e, what in zip(cycle, does, strict=True)]
    more = f" and {len(told) - _MOST_SHOWN} more" if len(told) > _MOST_SHOWN else ""
    return f"{who} wait {how}: {', '.join(told[:_MOST_SHOWN])}{more}{', all' + at if at else ''}"


_MOST_SHOWN: Final = 3


def _edge(case: Case, edge: Edge) -> str:
    """``rank 0 waits in all_reduce of group tp at train.py:9 for rank 1``."""
    behind = ", whose device has not come to it" if edge.queued else ""
    return (
        f"rank {edge.waiting.rank} waits in {_what(case, edge)} for rank {edge.target[0]}{behind}"
    )


def _what(case: Case, edge: Edge) -> str:
    """``all_reduce of group tp at train.py:9``."""
    return _call_of(case, edge) + words.at_site(edge.waiting.site)


def _call_of(case: Case, edge: Edge) -> str:
    """``all_reduce of group tp``; of a message ``recv``."""
    w = edge.waiting
    info = case.comparison.groups.get(w.group)
    of = f" of {words.group(info)}" if info is not None and w.channel is None else ""
    return f"{w.op or 'a call'}{of}"


def _messages(cycle: Sequence[Edge]) -> str:
    """The fix of a circle of messages: the two calls of one rank in the other order."""
    first = cycle[0].waiting
    other = "send" if first.op == "recv" else "recv"
    return (
        f"Turn one of them round: rank {first.rank} issues its {other} before its "
        f"{first.op}{words.at_site(first.site)}, and nobody waits any longer.\n"
        "Better, let all pass both to batch_isend_irecv([P2POp(isend, ...), P2POp(irecv, ...)]), "
        "which cannot block like this."
    )

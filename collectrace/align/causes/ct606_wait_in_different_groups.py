"""Ranks wait for each other in different groups: one skipped a call, or the orders differ.

What it means
    Two ranks are in collectives of different groups, and each waits for the other to join. If a
    rank skipped a collective or made an extra one, the finding says so. Otherwise each call is
    valid by itself, and the ranks entered the groups in opposite order.

Example
    ::

        if tokens:
            dist.all_to_all_single(out, x, group=experts)   # skipped on one rank
        dist.all_reduce(loss)                               # where it waits for the others

Not to be confused with
    CT102, if all calls are of one group. CT604, if all calls are from one line.

How to fix it
    Let every rank of the group make the call, with zeros or an empty tensor if it has nothing to
    send. Or decide together to skip it. Enter groups in the same order on every rank.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import deciders, departed, departed_words, remedies, wait_cycle
from collectrace.align.causes.departed import Departed
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.waitgraph import Cycle


def find(situation: Situation) -> Departed | Cycle | None:
    """Return how a rank departed, or else the cycle, if every wait is for a collective."""
    cycle = situation.candidate.cycle
    if not cycle or any(edge.waiting.stream is None for edge in cycle):
        return None
    return departed.find(situation) or cycle


def words(situation: Situation, found: Departed | Cycle) -> Words:
    """Return the words for ranks that wait in different groups."""
    if isinstance(found, Departed):
        return departed_words.describe(situation, found)
    who = words_.ranks(edge.waiting.rank for edge in found)
    first, last = (wait_cycle.describe_wait(situation, edge) for edge in (found[0], found[-1]))
    names = [one.partition(" (")[0] for one in (first, last)]
    # Without a departure, no statement separated two iterations of one rank.
    is_own = situation.pair is not None and situation.pair.is_of_one_rank
    decision = None if is_own else departed_words.deciding_statement(situation)
    why: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    if decision is not None:
        why = deciders.reasons(situation, [decision, *deciders.rest(situation, decision)])
        fixes = remedies.fixes(situation, decision)[:1]
    return Words(
        f"{who} entered groups in different orders: {names[0]}, {names[1]}",
        (*why[:2], wait_cycle.waits(situation)),
        (
            *fixes,
            "Enter the groups in the same order on every rank and in every branch: here, let rank "
            f"{found[0].waiting.rank} call {last} before {first}.",
            "Or make the call in a group of the ranks that reach it, or pass the other group.",
        ),
    )

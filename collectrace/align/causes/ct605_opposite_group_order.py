"""Ranks entered two groups in opposite order, and wait for each other.

What it means
    Each call is valid by itself. One rank is in a collective of a group, another rank in that of
    another group, and each waits for the other to join. Nothing shows that one of them skipped a
    call.

Example
    ::

        if rank == 0:
            dist.barrier()                       # of all ranks
        dist.broadcast(x, src=0, group=pair)     # rank 1 is here first

Not to be confused with
    CT606, if a rank departed from the calls that it made before. CT604, if it is one line.

How to fix it
    Enter the groups in the same order on every rank.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import deciders, departed_words, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.waitgraph import Cycle


def find(situation: Situation) -> Cycle | None:
    """Return the cycle, if every wait in it is for a collective."""
    cycle = situation.candidate.cycle
    is_of_collectives = all(edge.waiting.stream is not None for edge in cycle)
    return cycle if cycle and is_of_collectives else None


def words(situation: Situation, found: Cycle) -> Words:
    """Return the words for groups that were entered in opposite order."""
    who = words_.ranks(edge.waiting.rank for edge in found)
    first, last = (wait_cycle.what(situation, edge) for edge in (found[0], found[-1]))
    names = [one.partition(" (")[0] for one in (first, last)]
    # Nobody departed, so that nothing decided between the iterations of one rank.
    is_own = situation.pair is not None and situation.pair.is_of_one_rank
    decision = None if is_own else departed_words.decider(situation)
    why: tuple[str, ...] = ()
    fixes: list[str] = []
    if decision is not None:
        why = deciders.reasons(situation, [decision, *deciders.rest(situation, decision)])
        fixes += deciders.fixes(situation, decision)[:1]
    order = (
        f"Enter the groups in the same order on every rank: let rank {found[0].waiting.rank} call "
        f"{last} before {first}."
    )
    of_those = "Or make the call in a group of the ranks that reach it, or pass the other group."
    return Words(
        f"{who} entered groups in different orders: {names[0]}, {names[1]}",
        (*why[:2], wait_cycle.waits(situation)),
        (*fixes, f"Or e{order[1:]}" if fixes else order, of_those),
    )

"""Ranks exchange messages in pairs, and a rank named a partner that does not name it.

What it means
    Partners change from one exchange to the next, and each rank computes its own. Partners must
    name each other. One rank chose another partner, or skipped an exchange and has been ahead
    since.

Example
    ::

        partner = pairs[random.randrange(len(pairs))]   # drawn on each rank
        exchange(partner)

Not to be confused with
    CT705, if the peer is wrong from the beginning.

How to fix it
    Compute the same pairs on every rank, or let one rank draw them and broadcast them.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import deciders, departed_words, phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.partners import Unpaired, unpaired

_MOST = 8
"""Ranks whose partners are listed."""


def find(situation: Situation) -> Unpaired | None:
    """Return the first exchange in which partners do not name each other."""
    found = unpaired(situation.case, situation.candidate)
    if found is None or {*situation.suspects} - {found.odd}:
        return None
    return found


def words(situation: Situation, found: Unpaired) -> Words:
    """Return the words for partners that do not name each other."""
    number = words_.ordinal(found.before + 1)
    names = [
        f"rank {rank} names rank {peer}"
        f"{phrases.line(found.calls[rank].site if rank in found.calls else None)}"
        for rank, peer in list(found.names.items())[:_MOST]
    ]
    told = f"In the {number} exchange partners are not mutual: {words_.listed(names)}."
    waits = wait_cycle.waits(situation)
    first = departed_words.deciding_statement(situation)
    if found.behind:
        headline = f"rank {found.odd} skipped its {number} exchange, with rank {found.instead}"
        told += f" With that one more, all {found.behind} exchanges after it would be mutual."
    else:
        headline = f"rank {found.odd} named another partner in its {number} exchange"
        told += f" All would be mutual if rank {found.odd} named rank {found.instead}."
    fixes: tuple[str, ...] = (
        "Compute the same pairs on every rank. If they are drawn, use one torch.Generator with "
        "one seed, from which nothing else draws. Or let one rank draw and broadcast them.",
        "If they follow from the number of the round, count it alike on every rank.",
    )
    if found.behind:
        take_part = (
            f"Or let rank {found.odd} exchange with its partner in every iteration, also if it has "
            "nothing new."
        )
        fixes = (*(departed_words.agree_first(situation, first) if first else ()), take_part)
    why = deciders.reasons(situation, [first])[:1] if first and found.behind else ()
    return Words(headline, (told, *why, waits)[:3], fixes)

"""A rank made the same calls as the others, in another order.

What it means
    Each call is valid. In another order, the calls meet calls of the other ranks with a different
    purpose. If operation and size happen to match, torch raises no error and the results are wrong.

Example
    ::

        if rank == 0:
            dist.all_reduce(loss); dist.all_reduce(accuracy)
        else:
            dist.all_reduce(accuracy); dist.all_reduce(loss)

Not to be confused with
    CT106, if a loop over a collection gives the order. CT102, if a call is missing.

How to fix it
    Make the calls in the same order on every rank.
"""

from __future__ import annotations

from collectrace import words as said
from collectrace.align.causes import collectives, deciders, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.departures import Departure, What


def find(situation: Situation) -> Departure | None:
    """Return the calls that were made in another order."""
    found = situation.departure
    return found if found is not None and found.what is What.SWAPPED else None


def words(situation: Situation, found: Departure) -> Words:
    """Return the words for calls in another order."""
    first = next(iter(deciders.ranked(situation)), None)
    why = [f"The ranks make the same {len(found.calls)} calls in different orders."]
    where = ""
    if first is not None:
        why += [deciders.what_it_did(situation, first)]
        where = f": see {deciders.quoted(first)}"
    which = said.listed(list(dict.fromkeys(map(phrases.call, found.calls))))
    return Words(
        collectives.headline(situation), tuple(why),
        (f"Make {which} in the same order on every rank{where}.",),
    )  # fmt: skip

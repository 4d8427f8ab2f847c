"""A rank destroyed its process groups to form the job anew, and the others did not.

What it means
    ``init_process_group()`` returns when every rank of the new job has called it. The other ranks
    are still in the old one, and wait there.

Example
    ::

        if loss.isnan():            # only on rank 1
            dist.destroy_process_group()
            dist.init_process_group(store=fresh)    # waits for the others

Not to be confused with
    CT103, if the rank was done because a loop had ended.

How to fix it
    Decide together, then end the job on every rank and form it anew on every rank.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import deciders, phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that left the job."""
    found = waited_for.those(situation, "finished")
    return found if found and all(map(detail.rejoins, found)) else None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that left the job to form it anew."""
    who, here = text.ranks(waited_for.numbers(found)), situation.candidate.present
    decided = deciders.ranked(situation)[:1]
    return Words(
        phrases.fitting(
            f"{who} {detail.rejoins(found[0])} alone",
            f"{who} destroyed its process groups to form the job anew, alone",
        ),
        (
            f"{text.upper(who)} {detail.rejoins(found[0])}, which returns when every rank has "
            "called it.",
            f"{text.upper(text.ranks(here))} had not left the job, and "
            f"{text.verb(here, 'waits', 'wait')} in {waited_for.call(situation)}.",
            *(deciders.what_it_did(situation, one) for one in decided),
        ),
        (
            "End the job on all ranks together: agree first (all_reduce of a flag with MAX), then "
            "call destroy_process_group() and init_process_group() on every rank."
            + "".join(f" Decide so at {deciders.quoted(one)}." for one in decided),
        ),
    )

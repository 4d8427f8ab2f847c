"""A rank did not reach a call, because it waits in another one.

What it means
    The rank went on to another call, of another group or in another thread, and waits there for
    ranks that wait for it. The logs do not show which statement led it there.

Example
    ::

        if not disk_is_full:        # only rank 1 goes on
            dist.barrier(savers)    # the others wait here
        dist.all_reduce(loss)       # rank 1 waits here

Not to be confused with
    CT101 to CT106, if a statement is known that decided. CT301, if the rank is in no call.

How to fix it
    Make the same calls on every rank, in the same order over all groups.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.standing import Standing


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that wait in another call, or whose wait there failed."""
    absent = set(situation.candidate.absent)
    those = waited_for.those(situation, "blocked", "raised")
    return tuple(one for one in those if one.rank in absent and one.waiting) or None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that wait elsewhere."""
    who, call = text.ranks(waited_for.numbers(found)), waited_for.call(situation)
    first = found[0].waiting[0]
    there = f"{first.op or 'another call'}{phrases.line(first.site)}"
    waits = text.verb(found, "waits", "wait")
    groups = situation.case.comparison.groups
    of = f" of {text.group(groups[first.group])}" if first.group in groups else ""
    return Words(
        phrases.fitting(
            f"{who} skipped {call} and {waits} in {there}",
            f"{who} skipped {call} and went on to another call",
            f"{who} {waited_for.missed(situation)}",
        ),
        tuple(filter(None, (
            f"{text.upper(who)} {waits} in {there}{of}, and did not make {call}."
            f" {waited_for.waiting(situation)}",
            "The logs do not show which statement led it there.",
        ))),
        (
            f"Make {call} on every rank, or on none, in the same order with the calls of all other "
            "groups. A rank that has nothing to send takes part with an empty tensor.",
        ),
        waited_for.chain(situation),
    )  # fmt: skip

"""A rank gave up waiting for something outside of all collectives.

What it means
    It waited for a key of the store, a server or a file that another rank was to provide, while the
    others waited for the rank in a collective.

Example
    ::

        store.wait([f"step{step}"])     # rank 2 waits for a key that nobody sets
        dist.all_reduce(loss)           # the others wait here

Not to be confused with
    CT302, if the exception has another reason. CT301, if the rank still waits.

How to fix it
    Look at what the rank waited for. Set it before the rank that sets it reaches its next
    collective.
"""

from __future__ import annotations

from collectrace import exceptions
from collectrace import words as text
from collectrace.align.causes import ct302_raised_exception as raised
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.standing import Standing


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that gave up, or lost a connection, outside of collectives."""
    found = raised.find(situation)
    if found is None or not all(map(_gave_up, found)):
        return None
    return found


def _gave_up(one: Standing) -> bool:
    return one.lost_peer or exceptions.gave_up(one.message)


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that gave up outside of collectives."""
    who, missed = text.ranks(waited_for.numbers(found)), waited_for.missed(situation)
    at = raised.line(found[0])
    return Words(
        phrases.fitting(
            f"{who} gave up waiting{at} and {missed}",
            f"{who} {missed}: it waited{at}",
            f"{who} {missed}",
        ),
        (
            f"{raised.each(found)}{raised.through(found[0])}.",
            f"{text.upper(who)} waited there for something that is in no collective, while the "
            f"others waited for it in {waited_for.call(situation)}.",
        ),
        (
            f"Look at what {who} waited for{at}: a key of the store that no rank sets under that "
            "name, a server, or a file of another rank.",
            "If another rank sets it, let it do so before its next collective.",
        ),
        waited_for.chain(situation),
    )

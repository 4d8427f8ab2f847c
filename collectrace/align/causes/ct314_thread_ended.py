"""An exception ended a thread of a rank, and the rank waits for what the thread was to do.

What it means
    An exception in a thread ends only that thread. The main thread goes on, until it needs what the
    thread was to give, or the others need a call that the thread was to make.

Example
    ::

        threading.Thread(target=produce).start()    # raises on rank 1
        batch = batches.get()       # rank 1 waits here for ever
        dist.all_reduce(loss)       # the others wait here

Not to be confused with
    CT302, if the exception ended the rank. CT301, if all threads of the rank still run.

How to fix it
    Fix what ended the thread. Hand its exception to the thread that waits for it.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import exceptions
from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.standing import Standing
from collectrace.records import Raised


class Ended(NamedTuple):
    """A rank, and what ended its threads, the latest last."""

    standing: Standing
    threads: tuple[Raised, ...]


def find(situation: Situation) -> tuple[Ended, ...] | None:
    """Return the ranks of which a thread ended by an exception of its own."""
    found = []
    for one in waited_for.those(situation, "busy", "running", "silent"):
        known = one.log.threads_ended if one.log is not None else ()
        own = tuple(r for r in known if not exceptions.blames_peers(r.error, r.message))
        if own:
            found.append(Ended(one, own))
    return tuple(found) or None


def words(situation: Situation, found: tuple[Ended, ...]) -> Words:
    """Return the words for ranks of which a thread ended."""
    who, missed = text.ranks(one.standing.rank for one in found), waited_for.missed(situation)
    first, last = found[0], found[0].threads[-1]
    error = text.exception(last.error, last.message) + phrases.line(last.site)
    place = waited_for.place(first.standing)
    return Words(
        phrases.fitting(
            f"{who} {missed}: {last.error} ended its thread {last.thread}",
            f"{who} {missed}: its thread {last.thread} had ended",
            f"{who} waits for its thread {last.thread}, which {last.error} ended",
        ),
        tuple(filter(None, (
            f"Thread {last.thread} of rank {first.standing.rank} had ended before, by the "
            f"exception {error}.",
            f"Rank {first.standing.rank} was at {place}." if place else "",
            waited_for.last_calls(situation, [one.standing for one in found]),
        ))),
        (
            f"Fix the exception that ended the thread{phrases.line(last.site)}.",
            "Hand the exception of the thread to whoever waits for it, or wait with a timeout, so "
            "that the rank fails and the launcher ends the job.",
        ),
    )  # fmt: skip

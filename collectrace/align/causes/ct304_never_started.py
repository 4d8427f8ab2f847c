"""A rank left no file, and the others wait for it.

What it means
    The rank never started, has not come so far, is not traced, or its file was lost. Which of these
    it is, the files of the others do not show.

Example
    ::

        time.sleep(600)             # rank 1 prepares its data
        dist.init_process_group()   # the others give up here

Not to be confused with
    CT301, if the rank has a file and is busy. CT918, if nothing proves that the rank is to blame.

How to fix it
    Look at the launcher: did the process start? Call ``init_process_group`` before long work.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading.evidence import GroupConflict


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks without a file."""
    return waited_for.those(situation, "missing") or None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks without a file."""
    who, missed = text.ranks(waited_for.numbers(found)), waited_for.missed(situation)
    they, source = text.verb(found, "it", "they"), situation.candidate.source
    fix = (
        f"Look at the launcher's output for {who}: did the process start, and which host is it on?"
    )
    early = (
        f"Let every rank call {waited_for.creation(source)} at the same point, before work that "
        "takes long on some ranks only, or give it a longer timeout."
        if isinstance(source, GroupConflict)
        else "If its file is on another host, collect the files of every host."
    )
    return Words(
        phrases.fitting(f"{who} {missed}: {they} left no file", f"{who} {missed}"),
        (
            f"{text.upper(who)} never started, {text.verb(found, 'has', 'have')} not come so "
            f"far, or {text.verb(found, 'its file was', 'their files were')} lost."
            f" {waited_for.waiting(situation)}",
        ),
        (early, fix) if isinstance(source, GroupConflict) else (fix, early),
    )

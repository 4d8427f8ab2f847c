"""Ranks had not reached a call when the logs end, and that proves nothing.

What it means
    In a healthy job that is killed or examined while it runs, ranks are one call apart. The others
    had not waited long enough to call it a hang.

Example
    ::

        dist.all_reduce(loss)       # Ctrl-C: rank 0 is here, rank 1 one line above

Not to be confused with
    CT302, if the others had waited longer than ever before.

How to fix it
    If the job hangs here, wait for more than a minute, then align its logs again.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging import patience
from collectrace.align.matching.comparison import ChannelIssue


def find(situation: Situation) -> int | None:
    """Return how long the others had waited, ns."""
    return patience.waited(situation.case, situation.candidate)


def words(situation: Situation, found: int) -> Words:
    """Return the words for ranks that were still on their way."""
    absent = situation.candidate.absent
    who = text.ranks(absent) if absent else "some ranks"
    is_message = isinstance(situation.candidate.source, ChannelIssue)
    did_not = "made the other end of" if is_message else "reached"
    call = waited_for.call(situation)
    return Words(
        phrases.fitting(
            f"{who} had not {did_not} {call} when the logs end", f"{who} had not come yet"
        ),
        (
            f"The others had waited {text.seconds(found)} at most.",
            "A healthy job that is stopped, or looked at while it runs, has ranks one call apart: "
            "this proves nothing.",
        ),
        (
            "If the job hung here, let it hang for longer than a minute before you stop it, then "
            "align its logs again.",
        ),
    )

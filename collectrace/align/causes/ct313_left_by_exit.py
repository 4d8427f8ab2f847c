"""A rank left by ``sys.exit()`` in the middle of its program, and the others wait for it.

What it means
    ``sys.exit()`` raises SystemExit, which nobody reports. A signal handler that calls it ends the
    rank wherever it is, as if all was done.

Example
    ::

        def on_sigterm(signum, frame):
            save()
            sys.exit(0)             # only rank 1 got the signal

Not to be confused with
    CT302, if it raised an error.

How to fix it
    Note there that the rank is to end, and let all ranks decide by that in the same step.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that left by sys.exit()."""
    those = waited_for.those(situation, "finished")
    return tuple(one for one in those if detail.left_by_exit(one)) or None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that left by sys.exit()."""
    who, missed = text.ranks(waited_for.numbers(found)), waited_for.missed(situation)
    sites = dict.fromkeys(text.site(one.exit.site) for one in found if one.exit and one.exit.site)
    there = text.listed([*sites])
    left = [f"rank {one.rank} left by {detail.left_by_exit(one)}" for one in found]
    return Words(
        phrases.fitting(
            f"{who} left by sys.exit() ({there}) and {missed}",
            f"{who} left by sys.exit() ({there})",
        ),
        (
            f"{text.upper('; '.join(left[: waited_for.MOST]))}.",
            waited_for.waiting(situation),
        ),
        (
            f"Do not leave alone at {there}: note there that the rank is to end, and let all ranks "
            "decide by that in the same step (all_reduce of the flag with MAX).",
        ),
    )

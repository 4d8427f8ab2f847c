"""A function of torch raised on some ranks only, and the program caught it and went on.

What it means
    The call had no effect on these ranks, or half of it: a list was not filled, some collectives of
    it were not made. From here on their calls or tensors differ from those of the others.

Example
    ::

        try:
            dist.broadcast_object_list(plan, src=0, group=half)     # ValueError on ranks 2-3
        except ValueError:
            log("keeping the old plan")

Not to be confused with
    CT306, if the call was refused and the rank is one call behind. CT104, if the program's own code
    raised.

How to fix it
    Fix the call that raised. Share an error flag before the ranks go on.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import caught, phrases
from collectrace.align.causes import ct302_absent_rank as absent_rank
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.records import Raised

_NO_FUNCTIONS = ("batch", "thread", "other thread")
"""What ``Raised.what`` may say beside the function of torch that raised."""


def find(situation: Situation) -> dict[int, Raised] | None:
    """Return what functions of torch raised, by rank."""
    found = caught.caught(situation)
    torchs = {
        rank: one
        for rank, one in found.items()
        if not caught.is_handled(one) and one.what not in _NO_FUNCTIONS
    }
    return torchs or None


def words(situation: Situation, found: dict[int, Raised]) -> Words:
    """Return the words for an error of torch's that was caught."""
    who, first = text.ranks(found), next(iter(found.values()))
    others = [rank for rank in situation.candidate.ranks if rank not in found]
    at = phrases.line(first.site)
    now = [
        f"{text.ranks(side.ranks)} {phrases.did(call) if len(side.ranks) == 1 else 'called'} "
        f"{phrases.call(call)} with {text.tensors(call)}".removesuffix(" with ")
        for side, call in situation.called
    ]
    return Words(
        phrases.fitting(
            f"{who} caught {first.error} in {first.what}{at} and went on, {text.ranks(others)} did "
            "not",
            f"{who} caught {first.error} in {first.what}{at} and went on",
            f"{who} caught {first.error} in {first.what} and went on",
        ),
        (
            caught.sentence(found),
            f"It was caught there, and nothing was raised on {text.ranks(others)}.",
            *((f"After it {text.listed(now)}.",) if now else ()),
        ),
        (
            *(hint.fix for hint in absent_rank.hints(one.message for one in found.values())),
            f"Fix what raised {first.error}{at}.",
            "If a rank may fail alone, do not go on after the exception there: let it end the "
            "rank, or share an error flag with all ranks (all_reduce with MAX).",
        ),
    )

"""A rank raised an exception and ended, and the others wait for it.

What it means
    The exception is the fault. What the other ranks report, a timeout or a lost connection, only
    follows from it.

Example
    ::

        if labels is None:
            raise ValueError("batch 2 has no labels")   # only on rank 1
        dist.all_reduce(loss)       # the others wait here

Not to be confused with
    CT104, if the rank caught the exception. CT317, if it returned early before, and so skipped
    calls already.

How to fix it
    Fix what raised. If a rank may fail alone, share an error flag before the next collective.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.standing import Standing, failure


class Hint(NamedTuple):
    """What a text of torch's own tells about the error."""

    pattern: re.Pattern[str]
    why: str
    fix: str


_HINTS: Final = (
    Hint(
        re.compile("process group.*init|init.*process group", re.IGNORECASE),
        "The process group was gone, or had never been made, when the call was made.",
        "Call destroy_process_group() once on every rank, after its last collective.",
    ),
    Hint(
        re.compile(r"Global rank \d+ is not part of group\b"),
        "src= and dst= name a rank of the whole job.",
        "The rank that src= or dst= names is not part of group: pass a member, as "
        "get_global_rank(group, 0) returns it, or its place in the group as group_src= or "
        "group_dst=.",
    ),
    Hint(
        re.compile("finished reduction in the prior iteration"),
        "Parameters of the model took no part in the loss, so DDP waited for their gradients.",
        "Let every parameter take part in the loss on every rank, or construct DDP with "
        "find_unused_parameters=True.",
    ),
)  # fmt: skip
"""torch 2.13, distributed_c10d.py, and reducer.cpp."""


_LONGEST: Final = 60
"""Characters of an exception's type that a headline can hold."""


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that raised by themselves, not because others let them down."""
    waits = set(situation.candidate.present)
    those = waited_for.those(situation, "raised")
    return tuple(one for one in those if not one.by_peers and one.rank not in waits) or None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that raised."""
    who, missed = text.ranks(waited_for.numbers(found)), waited_for.missed(situation)
    known = hints(one.message for one in found)
    error, at = _error(found[0]), line(found[0])
    return Words(
        phrases.fitting(f"{who} raised {error}{at} and {missed}", f"{who} raised {error}{at}"),
        (
            f"{each(found)}{through(found[0])}.",
            *(hint.why for hint in known),
            waited_for.waiting(situation),
        ),
        (
            *(hint.fix for hint in known),
            f"Fix what raised on {who}{at}.",
            "If a rank may fail alone, share an error flag with all ranks before the next "
            "collective (all_reduce with MAX), or let the launcher end the job.",
        ),
        waited_for.chain(situation),
    )


def hints(messages: Iterable[str]) -> list[Hint]:
    """Return what torch's own texts tell about errors, one at most."""
    said = list(messages)
    return [hint for hint in _HINTS if any(map(hint.pattern.search, said))][:1]


def _error(one: Standing) -> str:
    end = one.exit
    if end is None:
        return "an exception"
    return text.brief(failure(end).error, _LONGEST) if end.error else f"SystemExit({end.code})"


def line(one: Standing) -> str:
    """Return `` (train.py:19)``, where a rank raised."""
    end = one.exit
    if end is None:
        return ""
    return phrases.line(failure(end).site if end.error else end.site)


def each(found: tuple[Standing, ...]) -> str:
    """Return ``Ranks 1-2 raised ValueError: no labels (train.py:19)``."""
    said: dict[str, list[int]] = {}
    for one in found:
        end = one.exit
        error = text.exception(failure(end).error, failure(end).text) if end and end.error else ""
        after = f", after {text.brief(end.causes[0])}" if end and end.causes else ""
        said.setdefault(f"{error or _error(one)}{line(one)}{after}", []).append(one.rank)
    parts = [f"{text.ranks(ranks)} raised {what}" for what, ranks in said.items()]
    more = len(parts) - waited_for.MOST
    return text.upper("; ".join(parts[: waited_for.MOST])) + (
        f"; and {more} more" if more > 0 else ""
    )


def through(one: Standing) -> str:
    """Return ``, called at train.py:30, reached from train.py:44``."""
    end = one.exit
    if end is None or not end.through or failure(end).site != end.site:
        return ""
    called, *around = map(text.site, end.through)
    return f", called at {called}" + (f", reached from {around[0]}" if around else "")

"""A rank reached a call when the others had given up waiting.

What it means
    The others waited until their timeout, raised, and left. When the rank came, nobody was there to
    answer. So all ranks made the call, and it failed all the same.

Example
    ::

        prepare(shard)              # 11 minutes on rank 1
        dist.all_reduce(loss)       # the others gave up after 10

Not to be confused with
    CT301, if the rank never came. CT309, if all ranks came in time.

How to fix it
    Find out what keeps the rank so long, or raise the timeout.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import lagging, phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.candidate import IncompleteRow


def find(situation: Situation) -> IncompleteRow | None:
    """Return the call that some ranks reached too late."""
    source = situation.candidate.source
    return source if isinstance(source, IncompleteRow) and source.late else None


def words(situation: Situation, found: IncompleteRow) -> Words:
    """Return the words for ranks that were late."""
    late = sorted(found.late)
    who, others = text.ranks(late), [rank for rank in found.calls if rank not in found.late]
    by, call = text.seconds(max(found.late.values())), waited_for.call(situation)
    return Words(
        phrases.fitting(
            f"{who} reached {call} {by} late, after the others had given up",
            f"{who} reached {call} {by} late",
        ),
        (
            f"{text.upper(text.ranks(others))} waited there in vain; when {who} came, nobody was "
            "left to answer.",
            *(lagging.before(situation, found, rank) for rank in late[:1]),
            *lagging.gave_up_before(situation, found, others),
        ),
        (
            f"Find out what keeps {who} so long before this call: work that only some ranks do, or "
            "that takes longer there. Move it out of the loop, or give it to all ranks.",
            "If the work is meant to take long, raise the timeout of init_process_group.",
        ),
        lagging.notes(situation),
    )

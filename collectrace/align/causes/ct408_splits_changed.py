"""The ranks exchanged the sizes of an all_to_all, and one of them then used others.

What it means
    Every rank told the others how much it will send. On one rank something changed the sizes after
    that: rows over a capacity or duplicates were dropped, or the received sizes were reordered.

Example
    ::

        dist.all_to_all_single(theirs, counts)
        rows = drop_duplicates(rows)    # fewer than counts say
        dist.all_to_all_single(out, rows, theirs.tolist(), sizes(rows))

Not to be confused with
    CT407, if the ranks did not exchange the sizes.

How to fix it
    Drop before the sizes are exchanged, and pass on the exchanged sizes unchanged.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, splits
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.exchanged import Exchanged, exchanged
from collectrace.align.matching.comparison import Divergence


def find(situation: Situation) -> Exchanged | None:
    """Return the exchange of sizes in the call before."""
    return exchanged(situation.case, situation.candidate)


def words(situation: Situation, found: Exchanged) -> Words:
    """Return the words for sizes that changed after they had been exchanged."""
    source = situation.candidate.source
    assert isinstance(source, Divergence)
    there = phrases.line(found.call.site)
    before = "" if found.shuffled else " Drop rows before the sizes are exchanged, not after."
    return Words(
        splits.headline(situation, source),
        (
            splits.listed(situation, source),
            "The ranks had exchanged the split sizes in the call before, "
            f"{phrases.call(found.call)}.",
            _changed(found),
        ),
        (
            f"Pass on the split sizes unchanged that were exchanged{there}: as input_split_sizes "
            f"what was sent there, as output_split_sizes what was received.{before}",
        ),
    )


def _changed(found: Exchanged) -> str:
    if found.shuffled is not None:
        rank, total = found.shuffled.rank, found.shuffled.total
        return (
            f"Rank {rank} expects as many elements in all as it is sent, {total:,}, but from other "
            "ranks: its output split sizes are those of another call, or in another order."
        )
    parts = [
        f"rank {rank} sends {change.sent} in all, and not {change.expected} as in each of the "
        f"{change.times} calls before"
        for rank, change in found.changed.items()
    ]
    if not parts:
        return "One side changed them after that: what it sends, or what it expects."
    return f"{text.upper('; '.join(parts))}: it changed its split sizes after the exchange."

"""The sizes of an all_to_all do not fit pair by pair.

What it means
    What rank i sends to rank j is not what rank j expects from rank i. The totals may agree all the
    same, so nothing is noticed before the data moves.

Example
    ::

        dist.all_to_all_single(out, rows, output_split_sizes=awaited, input_split_sizes=[3, 1, 2])

Not to be confused with
    CT408, if the sizes were exchanged in the call before, and changed since.

How to fix it
    Exchange the sizes first, and use what was received.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import arguments, splits
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import Divergence


def find(situation: Situation) -> Divergence | None:
    """Return the call whose sizes do not fit."""
    source = situation.candidate.source
    if not isinstance(source, Divergence) or not source.bad_pairs:
        return None
    return source if arguments.are_one_call(situation) else None


def words(situation: Situation, found: Divergence) -> Words:
    """Return the words for sizes that do not fit."""
    reason, fix = _why(situation, found)
    return Words(
        splits.headline(situation, found),
        (splits.listed(situation, found), reason, *arguments.why(situation)),
        (
            *fix,
            splits.RULE if not fix else f"Or, if the sizes may differ: {text.lower(splits.RULE)}",
        ),
    )


def _why(situation: Situation, source: Divergence) -> tuple[str, tuple[str, ...]]:
    if arguments.all_usual(situation):
        return (
            "Each rank has made this call with all of these sizes before, so the ranks seem to "
            "make these calls in another order, or some skipped one.",
            ("Make these calls in the same order on every rank: order them by a name or an index "
             "that all ranks share.",),
        )  # fmt: skip
    equal = splits.part_sizes(source)
    if len(equal) > 1:
        listed = text.listed([f"{n} on {text.ranks(ranks)}" for n, ranks in equal.items()])
        return (
            f"Each rank sends, and expects, equal parts: {listed}.",
            ("Give all ranks tensors of the same size: the same data in the same order, or agree "
             "on the size first (all_reduce with MAX) and pad to it.",),
        )  # fmt: skip
    return "The totals may agree all the same, so nothing is noticed before the data moves.", ()

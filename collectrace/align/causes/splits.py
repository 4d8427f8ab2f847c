"""Sizes of an all_to_all that do not fit pair by pair."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.causes import arguments, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.matching.comparison import Divergence

RULE: Final = (
    "Exchange the sizes first (all_to_all_single of the counts) and use what was received: "
    "input_split_sizes[j] on rank i must equal output_split_sizes[i] on rank j."
)

_MOST: Final = 3
"""Pairs that are listed."""


def pair(source: Divergence, sender: int, receiver: int) -> tuple[int, int]:
    """Return how many elements a rank sends another, and how many that expects."""
    one, other = source.calls.get(sender), source.calls.get(receiver)
    members = source.group.ranks
    sent = one.splits[0][members.index(receiver)] if one is not None and one.splits else 0
    awaited = other.splits[1][members.index(sender)] if other is not None and other.splits else 0
    return sent, awaited


def headline(situation: Situation, source: Divergence) -> str:
    """Return the first pair that does not fit; that of a suspect, if there is one."""
    who = set(situation.suspects)
    pairs = sorted(source.bad_pairs, key=lambda one: (one[0] not in who, one[1] not in who))
    sender, receiver = pairs[0]
    sent, awaited = pair(source, sender, receiver)
    call = situation.called[0][1]
    whom = "itself" if sender == receiver else f"rank {receiver}"
    return phrases.fitting(
        f"rank {sender} sends {whom} {words.counted(sent, 'element')}, and {whom} expects "
        f"{awaited}, in {phrases.call(call)}",
        f"rank {sender} sends {whom} {words.counted(sent, 'element')} instead of {awaited}, in "
        f"{phrases.call(call)}",
        f"rank {sender} sends {whom} {words.counted(sent, 'element')} instead of {awaited}",
    )


def listed(situation: Situation, source: Divergence) -> str:
    """Return who sends how much to whom, and what is expected; one sentence."""
    parts = []
    for sender, receiver in source.bad_pairs[:_MOST]:
        sent, awaited = pair(source, sender, receiver)
        whom = "itself and" if sender == receiver else f"rank {receiver}, which"
        parts.append(
            f"rank {sender} sends {words.counted(sent, 'element')} to {whom} expects {awaited}"
        )
    more = len(source.bad_pairs) - len(parts)
    rest = f"; and {words.counted(more, 'more pair')}" if more > 0 else ""
    where = arguments.place(situation)
    return f"The split sizes of {where} do not fit pair by pair: {'; '.join(parts)}{rest}."


def part_sizes(source: Divergence) -> dict[int, list[int]]:
    """Return which ranks cut into equal parts of which size; empty if one has unequal parts."""
    found: dict[int, list[int]] = {}
    for rank, call in source.calls.items():
        sizes = {n for part in (call.splits or () if call is not None else ()) for n in part}
        if len(sizes) != 1:
            return {}
        found.setdefault(sizes.pop(), []).append(rank)
    return found

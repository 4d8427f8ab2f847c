"""The split sizes of an all_to_all do not match between two ranks.

What it means
    Rank i sends another number of elements to rank j than rank j expects. The totals may match, so
    nothing fails before the data is transferred. Often the ranks had exchanged the sizes, and one
    changed them afterwards: it dropped duplicates, or rows over a capacity.

Example
    ::

        dist.all_to_all_single(theirs, counts)
        rows = drop_duplicates(rows)    # fewer than counts say
        dist.all_to_all_single(out, rows, theirs.tolist(), sizes(rows))

Not to be confused with
    CT403, if the tensors of a call that has no splits differ in size.

How to fix it
    Exchange the sizes first, and use the received sizes unchanged. Drop rows before the exchange.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collectrace import words as text
from collectrace.align.causes import arguments, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.exchanged import Exchanged, size_exchange
from collectrace.align.matching.comparison import Divergence

_MOST: Final = 3
"""Pairs that are listed."""


class Found(NamedTuple):
    """The call with sizes that do not match, and the exchange of sizes before it."""

    source: Divergence
    before: Exchanged | None


def find(situation: Situation) -> Found | None:
    """Return the call with sizes that do not match."""
    source = situation.candidate.source
    if not isinstance(source, Divergence) or not source.bad_pairs:
        return None
    before = size_exchange(situation.case, situation.candidate)
    return Found(source, before) if before or arguments.are_one_call(situation) else None


def words(situation: Situation, found: Found) -> Words:
    """Return the words for sizes that do not match."""
    source, before = found
    suspects, call = {*situation.suspects}, situation.called[0][1]
    pairs = sorted(source.bad_pairs, key=lambda one: not suspects.intersection(one))
    equal = _equal_parts(source)
    # With equal parts the whole tensor differs, and one pair shows that.
    sizes = [_sizes(source, *pair) for pair in pairs[: 1 if equal else _MOST]]
    more = len(pairs) - len(sizes)
    rest = f"; and {text.counted(more, 'more pair')}" if more > 0 else ""
    said = (
        f"The split sizes of {arguments.place(situation)} do not fit pair by pair: "
        f"{'; '.join(sizes)}{rest}."
    )
    headline = phrases.fitting(f"{sizes[0]}, in {phrases.call(call)}", sizes[0])
    if before is not None:
        told = f"The ranks had exchanged them in the call before, {phrases.call(before.call)}."
        decided = arguments.why(situation) if arguments.sure(situation) else ()
        why = (said, _changed(before), *decided) if decided else (said, told, _changed(before))
        return Words(headline, why, (_unchanged(before),))
    if not equal and _are_own(source):
        return Words(headline, (said, _OWN), (_RULE,))
    parts = f"Each rank sends equal parts: {equal}." if equal else ""
    fixes = (*((_EQUAL,) if equal else ()), _RULE, *arguments.fixes(situation))
    return Words.of(headline, (said, parts, *arguments.why(situation)), fixes)


_EQUAL: Final = (
    "Give all ranks tensors of the same size: the same data in the same order, or agree on the "
    "size first (all_reduce with MAX) and pad to it."
)
_OWN: Final = "Each rank expects the sizes that it sends itself: they were not exchanged."
_RULE: Final = (
    "Exchange the sizes first (all_to_all_single of the counts) and use what was received: "
    "input_split_sizes[j] on rank i must equal output_split_sizes[i] on rank j."
)


def _sizes(source: Divergence, sender: int, receiver: int) -> str:
    """Return ``rank 1 sends 3 elements to rank 0, which expects 2``."""
    one, other, members = source.calls[sender], source.calls[receiver], source.group.ranks
    sent = one.splits[0][members.index(receiver)] if one and one.splits else 0
    awaited = other.splits[1][members.index(sender)] if other and other.splits else 0
    count = text.counted(sent, "element")
    if sender == receiver:
        return f"rank {sender} sends {count} to itself, and expects {awaited}"
    return f"rank {sender} sends {count} to rank {receiver}, which expects {awaited}"


def _equal_parts(source: Divergence) -> str:
    """Return ``6 on ranks 0,2 and 8 on rank 1``; empty if a rank has unequal parts."""
    found: dict[int, list[int]] = {}
    for rank, call in source.calls.items():
        sizes = {n for part in (call.splits or () if call is not None else ()) for n in part}
        if len(sizes) != 1:
            return ""
        found.setdefault(sizes.pop(), []).append(rank)
    return text.listed([f"{n} on {text.ranks(ranks)}" for n, ranks in found.items()])


def _are_own(source: Divergence) -> bool:
    """Whether every rank expects the sizes that it sends, which differ between the ranks."""
    sizes = [call.splits for call in source.calls.values() if call is not None and call.splits]
    return len(sizes) == len(source.calls) and all(sent == awaited for sent, awaited in sizes)


def _unchanged(before: Exchanged) -> str:
    drop = "" if before.shuffled else " Drop rows before the sizes are exchanged, not after."
    return (
        f"Pass on the split sizes unchanged that were exchanged{phrases.line(before.call.site)}: "
        f"as input_split_sizes what was sent there, as output_split_sizes what was received.{drop}"
    )


def _changed(before: Exchanged) -> str:
    if before.shuffled is not None:
        rank, total = before.shuffled.rank, before.shuffled.total
        return (
            f"Rank {rank} expects as many elements in all as it is sent, {total:,}, but from other "
            "ranks: its output split sizes are those of another call, or in another order."
        )
    parts = [
        f"rank {rank} sends {change.sent} in all, and not {change.expected} as in each of the "
        f"{change.times} calls before"
        for rank, change in before.changed.items()
    ]
    if not parts:
        return "One side changed them after that: what it sends, or what it expects."
    return f"{text.upper('; '.join(parts))}: it changed its split sizes after the exchange."

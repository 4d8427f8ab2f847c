"""One call got tensors with different numbers of rows: the last batch of a rank is smaller.

What it means
    The tensor has a row for each sample. The DataLoader of one rank had fewer samples left for its
    last batch.

Example
    ::

        for x in DataLoader(data, batch_size=8):    # 61 samples on rank 1
            dist.all_reduce(model(x))

Not to be confused with
    CT403, if the sizes differ for another reason. CT204, if a rank has fewer batches.

How to fix it
    Drop the ragged batch, pad it, or use a list collective that takes uneven pieces.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Side
from collectrace.signature import is_user

_SEVERAL = 2


def find(situation: Situation) -> str | None:
    """Return who is at its last batch, in words; empty: nobody is known to be."""
    made = situation.called
    calls = [call for _, call in made]
    if not all(map(is_user, calls)) or not arguments.differ_in_first_only(calls):
        return None
    if not arguments.are_one_call(situation):
        return None
    least = min(made, key=lambda one: one[1].shape or ())[0]
    last = _last_batch(situation, least)
    others = [_last_batch(situation, side) for side, _ in made if side is not least]
    if last and (not any(others) or arguments.before(situation, text.tensors)):
        was = text.verb(least.ranks, "was at the last of its", "were at the last of their")
        return f"{text.ranks(least.ranks)} {was} {last:,} batches"
    loads = any(log.batches for log in situation.case.evidence.logs.values())
    is_size = len(calls[0].shape or ()) < _SEVERAL and str(calls[0].dtype).startswith("int")
    return "" if loads and not is_size and not any(call.reduce_op for call in calls) else None


def _last_batch(situation: Situation, side: Side) -> int:
    """Return how many batches a rank's loader has, if it is at the last; else 0."""
    log, call = situation.case.log(side.ranks[0]), side.call
    seen = [one for one in log.batches if call and one.t < call.t] if log is not None else []
    if not seen or seen[-1].end:
        return 0
    own = (one for one in reversed(seen) if one.loader == seen[-1].loader)
    length = next((one.length for one in own if one.length is not None), None)
    return length if length is not None and length == seen[-1].batch >= _SEVERAL else 0


def words(situation: Situation, found: str) -> Words:
    """Return the words for a ragged batch."""
    at = f": {found}" if found else " (mostly the last)"
    return Words(
        arguments.headline(situation, text.tensors),
        (
            f"The {arguments.place(situation)} got tensors of different sizes: "
            f"{arguments.listed(situation, text.sized)}.",
            f"Only the first dimension differs, as with a ragged batch{at}.",
            *arguments.why(situation),
        ),
        (
            "Drop the ragged batch: DataLoader(drop_last=True).",
            "Or pad the tensors to the same size.",
            "Or collect uneven pieces: exchange the sizes first, and use the list form of "
            "all_gather.",
        ),
        arguments.before(situation, text.tensors),
        undecided=arguments.is_undecided(situation),
    )

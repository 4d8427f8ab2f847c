"""One call got tensors of different sizes on different ranks.

What it means
    All ranks reached the call, and one passed more or fewer elements. Backends fail, hang, or
    write beyond what was meant.

Example
    ::

        kept = losses[mask]         # 3 elements on rank 1, 4 on the others
        dist.all_reduce(kept)

Not to be confused with
    CT404, if the last batch of a loader is smaller. CT411, if only the shape differs. CT413, if the
    ranks are at different elements of a sequence.

How to fix it
    Pass tensors of the same size on every rank, or exchange the sizes first.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.ops import canonical_op
from collectrace.signature import counts, is_user


def find(situation: Situation) -> bool | None:
    """Return whether the tensors differ in their first dimension only; None: not in their size."""
    calls = [call for _, call in situation.called]
    if not arguments.are_one_call(situation) or len({tuple(counts(one)) for one in calls}) < 2:
        return None
    return arguments.differ_in_first_only(calls) and any(len(c.shape or ()) > 1 for c in calls)


def words(situation: Situation, found: bool) -> Words:
    """Return the words for sizes that differ."""
    rows = " Only the first dimension differs." if found else ""
    return Words(
        arguments.headline(situation, text.tensors),
        (
            f"The {arguments.place(situation)} got tensors of different sizes: "
            f"{arguments.listed(situation, text.sized)}.{rows}",
            *arguments.why(situation),
        ),
        (_fix(situation, padded=found), *arguments.fixes(situation)),
        arguments.before(situation, text.tensors),
        undecided=arguments.is_undecided(situation),
    )


def _fix(situation: Situation, *, padded: bool) -> str:
    call = situation.called[0][1]
    if canonical_op(call.op) == "broadcast" and is_user(call) and call.root is not None:
        return (
            "Pass tensors of the same size on every rank: broadcast the size from rank "
            f"{call.root} first, and make the tensors by it."
        )
    if padded:
        return "Pass tensors of the same size on every rank: pad them, or exchange the sizes first."
    return "Pass tensors of the same size on every rank, or exchange the sizes before the call."

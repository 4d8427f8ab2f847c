"""The ranks batched their calls differently: several at once, or one at a time.

What it means
    Calls inside a coalescing manager reach the backend as one collective. If another rank makes
    them one by one, or puts others into its batch, the calls do not match.

Example
    ::

        with _coalescing_manager():     # on rank 0 only
            dist.all_reduce(a)
            dist.all_reduce(b)

Not to be confused with
    CT403, if single calls differ in size.

How to fix it
    Put the same calls into the same batch on every rank, or batch on none.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as text
from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.records import Call

_COALESCED: Final = "_coalesced"


def find(situation: Situation) -> str | None:
    """Return the op that some ranks batch, and others do not, or otherwise."""
    ops = {call.op for _, call in situation.called}
    single = {op.removesuffix(_COALESCED) for op in ops}
    if len(single) != 1 or not any(op.endswith(_COALESCED) for op in ops):
        return None
    return single.pop() if len(ops) > 1 or situation.kind == "shape_mismatch" else None


def _batch(call: Call) -> str:
    if not call.op.endswith(_COALESCED):
        return "one at a time"
    return f"{text.counted(len(call.shape or []), 'tensor')} at once"


def words(situation: Situation, found: str) -> Words:
    """Return the words for calls that are batched differently."""
    return Words(
        arguments.headline(situation, _batch),
        (
            f"The ranks batch {found} differently: {arguments.listed(situation, _batch)}.",
            "A batch reaches the backend as one collective.",
            *arguments.why(situation),
        ),
        ("Put the same calls into the same batch on every rank, or batch on none.",),
    )

"""Lists of objects have different lengths on different ranks.

What it means
    ``broadcast_object_list`` begins with the size of each object. The sizes of the source do not
    fit a list of another length, and nothing after that is read correctly.

Example
    ::

        names = list(shards) if rank == 0 else [None] * 3   # 4 on rank 0
        dist.broadcast_object_list(names)

Not to be confused with
    CT403, if tensors differ in size. CT707, for ``send_object_list``.

How to fix it
    Pass a list of the same length on every rank, or the whole list as the only object.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as text
from collectrace.align.causes import arguments, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.records import Call

_API: Final = "broadcast_object_list"


def length(call: Call) -> int | None:
    """Return how many objects a list has whose sizes a call sends; None: it sends none."""
    shape = call.shape or []
    if call.api != _API or call.dtype != "int64" or call.void or len(shape) != 1:
        return None
    return shape[0] if isinstance(shape[0], int) else None


def find(situation: Situation) -> str | None:
    """Return who is the source of lists that differ in length, in words."""
    calls = [call for _, call in situation.called]
    lengths = {length(call) for call in calls}
    if len(lengths) < 2 or None in lengths:
        return None
    return f"rank {calls[0].root}" if calls[0].root is not None else "the source"


def _list(call: Call) -> str:
    return f"a list of {text.counted(length(call) or 0, 'object')}"


def words(situation: Situation, found: str) -> Words:
    """Return the words for lists of different lengths."""
    api, call = situation.called[0][1].api, phrases.call(situation.called[0][1])
    return Words(
        arguments.headline(situation, _list),
        (
            f"The lists of objects that {call} got differ in length: "
            f"{arguments.listed(situation, _list)} ({found} is the source).",
            f"{api} begins with the size of each object: those of the source do not fit a list of "
            "another length.",
            *arguments.why(situation),
        ),
        (
            f"Pass {api} a list with the same number of entries as on {found}: broadcast the "
            "number first, and let the others pass [None] * number.",
            "Or pass the whole list as the only object: [objects] on the source, [None] on the "
            "others.",
        ),
        arguments.before(situation, _list),
    )

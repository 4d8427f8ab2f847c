"""A framework made the same call on all ranks, with other arguments: sizes, types or roots.

What it means
    The ranks are in one part of a framework, at one line. What they gave it differs: the sizes of
    the layers, of the buffers, of the inputs, the number of tensors in a metric's state, or the
    rank that is to get the result.

Example
    ::

        layer = nn.Linear(6, 9 if rank == 1 else 6)     # its shards have another size
        fully_shard(layer)

Not to be confused with
    CT502, for gradient buckets of DDP, and for the models given to DDP.

How to fix it
    Give the framework the same arguments on every rank.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_user

Found = list[tuple[Side, Call]]


def find(situation: Situation) -> Found | None:
    """Return the sides, if all are in one part of a framework at one line."""
    sides = situation.called
    if len(sides) < 2 or is_user(sides[0][1]):
        return None
    places = {(call.role, call.part, call.op, call.site, side.stack) for side, call in sides}
    return sides if len(places) == 1 else None


def words(situation: Situation, sides: Found) -> Words:
    """Return the words for arguments that differ."""
    call = sides[0][1]
    is_root = situation.kind == "root_mismatch"
    what = "roots" if is_root else "sizes or types"
    told = text.listed([f"{_told(c, is_root=is_root)} on {text.ranks(s.ranks)}" for s, c in sides])
    skipped = _consolidated(sides) if is_root and call.role == "zero.consolidate" else ()
    suspects = situation.suspects
    who = f"{text.ranks(suspects)} gave" if suspects else "ranks disagree: they gave"
    return Words(
        f"{who} {text.name(call)} other {what}{phrases.line(call.site)}",
        (
            (
                f"{text.upper(text.issuer(call))} made the same {call.op} on every rank, with "
                f"other {what}: {told}."
            ),
            *skipped,
        ),
        (f"Give {text.name(call)} the same sizes, types and root on every rank.",),
    )


def _told(call: Call, *, is_root: bool) -> str:
    return f"{text.root(call)}={call.root}" if is_root else text.sized(call)


def _consolidated(sides: Found) -> tuple[str, ...]:
    """Return who passed which `to` to ``consolidate_state_dict()``.

    It broadcasts from all ranks but that one, in order: who is ahead has left out its own.
    """
    left = min(call.root or 0 for _, call in sides)
    ahead = [rank for side, call in sides if call.root != left for rank in side.ranks]
    others = [rank for side, call in sides if call.root == left for rank in side.ranks]
    return (f"So {text.ranks(ahead)} passed to={left}, and {text.ranks(others)} another one.",)

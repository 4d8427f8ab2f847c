"""A sharded module kept its parameters after the forward on some ranks only.

What it means
    FSDP frees the parameters of a module after its forward and gathers them again for its backward,
    unless it is told to keep them (``reshard_after_forward=False``). That must be so on every rank.

Example
    ::

        if free_memory() > needed:          # on rank 1 only
            block.set_reshard_after_forward(False)

Not to be confused with
    CT511, if a module was left out.

How to fix it
    Give ``reshard_after_forward`` the same value on every rank.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as text
from collectrace.align.causes import apart, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.sharded import GATHERS, REDUCES, was_run
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words

Found = tuple[Step, Step]

# torch 2.13: torch/distributed/fsdp/_fully_shard/_fully_shard.py, fully_shard() and FSDPModule;
# torch/distributed/fsdp/api.py, ShardingStrategy.
_OPTIONS: Final = {
    "fsdp.unshard": "reshard_after_forward (fully_shard(), set_reshard_after_forward())",
    "fsdp_one.unshard": "the sharding strategy (FULL_SHARD or SHARD_GRAD_OP)",
}


def find(situation: Situation) -> Found | None:
    """Return who gathered a module again for its backward, and who reduced its gradients."""
    sides = apart.at_finding(situation)
    freed = [one for one in sides if one.call is not None and one.call.role in GATHERS]
    held = [one for one in sides if one.call is not None and one.call.role in REDUCES]
    if len(sides) != 2 or len(freed) != 1 or len(held) != 1:
        return None
    for step in sides:
        call = step.call
        if call is None or not was_run(situation, step.rank, call.part, call.seq):
            return None
    first, second = freed[0].call, held[0].call
    if first is None or second is None or first.part != second.part:
        return None
    return (freed[0], held[0]) if freed[0].stack == held[0].stack else None


def words(_: Situation, found: Found) -> Words:
    """Return the words for parameters that were kept on some ranks only."""
    freed, held = found
    call = freed.call
    part = call.part if call is not None else ""
    line = phrases.line(call.site if call is not None else None)
    option = _OPTIONS.get(call.role if call is not None else "", "resharding")
    return Words(
        f"{held.who} kept the parameters of {part} until its backward{line}",
        (
            (
                f"{text.upper(freed.who)} gathered the parameters again for the backward; "
                f"{held.who} had them still, and reduced the gradients."
            ),
            f"So {option} is not the same on all ranks, or {held.who} gathered them by hand.",
        ),
        (
            (
                f"Give {option} the same value on every rank, at the same step. If a rank decides "
                "by its own memory or batch, let all ranks agree first (all_reduce with MIN)."
            ),
        ),
    )

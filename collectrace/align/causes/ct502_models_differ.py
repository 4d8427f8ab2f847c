"""Ranks built or wrapped their models differently, or used several models in different orders.

What it means
    DDP compares the models in its constructor, and raises if parameters, shapes or
    ``requires_grad`` differ. Other differences show later. ``find_unused_parameters`` and
    ``static_graph`` add a collective. ``bucket_cap_mb`` and frozen parameters change the gradient
    buckets. A hook of ``register_comm_hook`` changes what is sent. FSDP gathers parameters again
    for the backward unless it is configured to keep them. If ranks use several models in different
    orders, gradients of different models meet, and often nothing fails.

Example
    ::

        width = 8 if rank == 2 else 4
        model = DistributedDataParallel(torch.nn.Linear(width, 1), find_unused_parameters=rank == 1)

Not to be confused with
    CT505, if a rank did not reduce a bucket at all. CT102, if a rank skipped one of several models.

How to fix it
    Build the same model with the same arguments and hooks on every rank. Run forward and backward
    of several models in the same order on every rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import apart, control, deciders, phrases
from collectrace.align.causes.sharded import GATHERS, REDUCES, was_run
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words

_CONSTRUCT: Final = "ddp.construct"
_UNUSED: Final = "ddp.unused_params"

What = Literal["model", "unused", "dtype", "size", "order", "resharding"]


class Differing(NamedTuple):
    """What differs, and how it shows."""

    did: str
    """What the ranks did that differs."""
    why: str
    fixes: tuple[str, ...]


_DIFFERING: Final[dict[What, Differing]] = {
    "model": Differing(
        "gave DDP another model",
        "DDP's constructor compares the models: their parameters, sizes, or requires_grad differ.",
        (
            "Build the same model on every rank: the same parameters, in the same order, with the "
            "same sizes and the same requires_grad.",
        ),
    ),
    "unused": Differing(
        "constructed DDP with another find_unused_parameters or static_graph",
        "Only some ranks wrapped the model with find_unused_parameters=True (or "
        "static_graph=True): its backward() makes a collective more there.",
        (
            "Give DistributedDataParallel the same arguments on every rank "
            "(find_unused_parameters, static_graph).",
        ),
    ),
    "dtype": Differing(
        "sent gradients of another dtype",
        "Either a communication hook that compresses them (register_comm_hook) is there on some "
        "ranks only, or the model was converted on some.",
        (
            "Register the same hook on every rank, before the first backward(). Convert the model "
            "to the same dtype on every rank.",
        ),
    ),
    "size": Differing(
        "sent gradient buckets of another size",
        "DDP cuts gradients into buckets as it was constructed: its bucket_cap_mb, the models, "
        "their frozen parameters or the communication hook are not the same on all ranks.",
        (
            "Give DDP the same arguments (bucket_cap_mb) on every rank. Build the same model, "
            "freeze the same parameters before DDP is constructed, and register the same hook.",
        ),
    ),
    "order": Differing(
        "used DDP models in another order",
        "Models are counted as they were constructed: gradients or buffers of different models "
        "were mixed up.",
        (
            "Run forward and backward of the models in the same order on every rank.",
            "If each step chooses its model, let every rank choose alike: by the step's number or "
            "by one seed, or let one rank choose and broadcast it.",
        ),
    ),
    # torch 2.13: torch/distributed/fsdp/_fully_shard/_fully_shard.py, fully_shard() and FSDPModule;
    # torch/distributed/fsdp/api.py, ShardingStrategy.
    "resharding": Differing(
        "gave a sharded module another reshard_after_forward",
        "A rank that gathers them again had freed them: reshard_after_forward, or the sharding "
        "strategy, is not the same on all ranks, or a rank gathered them by hand.",
        (
            "Give reshard_after_forward (fully_shard(), set_reshard_after_forward()), or the "
            "sharding strategy (FULL_SHARD or SHARD_GRAD_OP), the same value on every rank, at the "
            "same step. If a rank decides by its own memory or batch, let all ranks agree first "
            "(all_reduce with MIN).",
        ),
    ),
}


def find(situation: Situation) -> What | None:
    """Return what differs."""
    return next(_differing(situation), None)


def _differing(situation: Situation) -> Iterator[What]:
    sides = situation.called
    made = {call.role for _, call in sides}
    if made == {_CONSTRUCT} and (len(sides) > 1 or _raised(situation)):
        yield "model"
    if len(sides) < 2:
        return
    exchange = [roles.pairing_class(call.role) == _UNUSED for _, call in sides]
    if any(exchange) and not all(exchange):
        yield "unused"
    models = {call.model or 1 for _, call in sides}
    at_one_line = len({(call.site, side.stack) for side, call in sides}) == 1
    are_two = len(made) == 1 and len(models) > 1 and min(made).startswith("ddp.")
    # At several lines a condition may have skipped one of the models.
    if are_two and (at_one_line or not control.is_condition(control.first(situation))):
        yield "order"
    is_one = at_one_line and len(models) == len({call.iteration for _, call in sides}) == 1
    if is_one and all(roles.of(call.role).is_bucket for _, call in sides):
        if situation.kind == "dtype_mismatch":
            yield "dtype"
        if situation.kind in ("shape_mismatch", "role_mismatch"):
            yield "size"
    if _freed_by_some(situation):
        yield "resharding"


def _raised(situation: Situation) -> bool:
    """Whether all absent ranks raised in DDP's constructor, after it compared the models."""
    standings = [situation.case.standings[rank] for rank in situation.candidate.absent]
    return bool(standings) and all(
        one.exit is not None
        and one.exit.error is not None
        and one.last_call is not None
        and one.last_call.role == _CONSTRUCT
        for one in standings
    )


def _freed_by_some(situation: Situation) -> bool:
    """Whether one side gathers a module again for its backward, and the other still holds it."""
    sides = apart.at_finding(situation)
    made = apart.called(sides)
    gathers, reduces = ({call.role in those for _, call in made} for those in (GATHERS, REDUCES))
    return (
        len(sides) == len(made) == 2
        and len({(call.part, step.stack) for step, call in made}) == 1
        and gathers == reduces == {True, False}
        and all(was_run(situation, step.rank, call.part, call.seq) for step, call in made)
    )


def words(situation: Situation, found: What) -> Words:
    """Return the words for what differs."""
    row, site = _DIFFERING[found], situation.called[0][1].site
    who = text.ranks(situation.suspects) if situation.suspects else "ranks disagree: some"
    value = next((d for d in deciders.ranked(situation) if deciders.origin(d) != "agreed"), None)
    decided = ""
    if found == "order" and value is not None:
        said = deciders.quoted(value)
        decided = f"What {said} works on can differ between the ranks."
        if value.comes_from is not None and deciders.origin(value) != "unknown":
            source = deciders.quoted_origin(value)
            decided = f"What {said} works on comes from {source}, and can differ between the ranks."
    return Words.of(
        f"{who} {row.did}{phrases.line(site)}",
        (_describe(situation, found), row.why, decided),
        row.fixes,
    )


def _describe(situation: Situation, found: What) -> str:
    """Return what each side called or raised."""
    told = []
    for side, call in situation.called:
        what = f"model {call.model or 1}" if found == "order" else text.tensors(call)
        was = text.verb(side.ranks, "was", "were")
        told.append(f"{text.ranks(side.ranks)} {was} in {text.name(call)} with {what}")
    for rank in situation.candidate.absent:
        standing = situation.case.standings[rank]
        if standing.exit is not None and standing.exit.error:
            error = text.exception(standing.exit.error, standing.message)
            told.append(f"rank {rank} raised {error}")
    return f"{text.upper('; '.join(told))}."

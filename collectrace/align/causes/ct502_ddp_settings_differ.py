"""DDP was constructed with other arguments on some ranks, or has another communication hook there.

What it means
    ``find_unused_parameters`` and ``static_graph`` cost a collective of their own.
    ``bucket_cap_mb`` and frozen parameters decide how gradients are cut into buckets, and a hook of
    ``register_comm_hook`` what is sent of them. All must be the same on every rank.

Example
    ::

        model = DistributedDataParallel(net, find_unused_parameters=rank == 1)

Not to be confused with
    CT505, if a rank did not send a bucket at all. CT501, if the models differ.

How to fix it
    Give DDP the same arguments, and register the same hook, on every rank.
"""

from __future__ import annotations

from typing import Literal

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import collectives, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words

Found = Literal["unused", "dtype", "size"]

_UNUSED = "ddp.unused_params"


def find(situation: Situation) -> Found | None:
    """Return what shows that the settings differ."""
    sides = situation.called
    if len(sides) < 2:
        return None
    exchange = [roles.pairing_class(call.role) == _UNUSED for _, call in sides]
    if any(exchange) and not all(exchange):
        plain = next(s for (s, _), is_it in zip(sides, exchange, strict=True) if not is_it)
        stream, seq = situation.candidate.stream, situation.candidate.seq
        before = situation.case.before(plain.ranks[0], stream, seq)
        had = any(one is not None and roles.pairing_class(one.role) == _UNUSED for one in before)
        return None if had else "unused"
    if any(not roles.of(call.role).is_bucket for _, call in sides):
        return None
    if len({(call.site, call.iteration, side.stack) for side, call in sides}) > 1:
        return None
    if len({call.model for _, call in sides}) > 1:
        return None
    if situation.kind == "dtype_mismatch":
        return "dtype"
    return "size" if situation.kind in ("shape_mismatch", "role_mismatch") else None


def words(situation: Situation, found: Found) -> Words:
    """Return the words for settings of DDP that differ."""
    sides = situation.called
    line = phrases.line(sides[0][1].site)
    told = text.listed([f"{text.tensors(call)} on {text.ranks(s.ranks)}" for s, call in sides])
    if found == "unused":
        own = [s for s, call in sides if roles.pairing_class(call.role) == _UNUSED]
        who = text.ranks(rank for side in own for rank in side.ranks)
        return Words(
            f"{who} exchanged which parameters were used, the others did not",
            (
                f"{collectives.headline(situation)}.",
                (
                    f"Only {who} wrapped the model with find_unused_parameters=True (or "
                    "static_graph=True): its backward() makes a collective more."
                ),
            ),
            (
                (
                    "Give DistributedDataParallel the same arguments on every rank "
                    "(find_unused_parameters, static_graph)."
                ),
            ),
        )
    start = f"{text.ranks(situation.suspects)} sent" if situation.suspects else "ranks disagree:"
    if found == "dtype":
        return Words(
            f"{start} gradients of another dtype in DDP backward(){line}",
            (
                f"The gradient buckets are {told}.",
                (
                    "Either a communication hook that compresses them (register_comm_hook) is "
                    "there on some ranks only, or the model was converted on some."
                ),
            ),
            (
                (
                    "Register the same hook on every rank, before the first backward(). Convert "
                    "the model to the same dtype on every rank."
                ),
            ),
        )
    return Words(
        f"{start} gradient buckets of another size in DDP backward(){line}",
        (
            f"The gradient buckets are {told}.",
            (
                "DDP cuts gradients into buckets as it was constructed: its bucket_cap_mb, the "
                "models, their frozen parameters or the communication hook are not the same on "
                "all ranks."
            ),
        ),
        (
            (
                "Give DDP the same arguments (bucket_cap_mb) on every rank. Build the same model, "
                "freeze the same parameters before DDP is constructed, and register the same hook."
            ),
        ),
    )

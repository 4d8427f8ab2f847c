"""The script made a call of its own inside ``join()``, which does not answer it.

What it means
    A rank that runs out of inputs stays in ``join()``. There it answers the collectives of the
    models and optimizers that ``join()`` was given, and no others. So a call of the script's own on
    the other ranks meets one of join()'s, often its count of the ranks that still have inputs.

Example
    ::

        with model.join():
            for batch in batches:
                model(batch).sum().backward()
                dist.barrier()      # not answered by a rank without inputs

Not to be confused with
    CT202, if the call that is not answered is of another model or optimizer.

How to fix it
    Move the call out of the ``with model.join():`` block, or give every rank as many inputs.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import joins, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_user


class Met(NamedTuple):
    """A call of the script's own, and the one of join() that it met."""

    side: Side
    call: Call
    joined: Side
    shadow: Call


def find(situation: Situation) -> Met | None:
    """Return the call of the script's own that met one of join()."""
    own = [
        (side, call)
        for side, call in situation.called
        if is_user(call) or roles.of(call.role).name.startswith("syncbn.")
    ]
    shadows = [(s, c) for s, c in situation.called if roles.shadows_framework(c.role)]
    return Met(*own[0], *shadows[0]) if own and shadows else None


def words(situation: Situation, met: Met) -> Words:
    """Return the words for a call that join() does not answer."""
    who, joined = text.ranks(met.side.ranks), text.ranks(met.joined.ranks)
    block = text.site(met.shadow.site or "")
    functions = {chains.method(frame) for frame in met.side.stack or ()}
    in_forward = "forward" in functions or "norm" in f"{met.call.via} {met.call.role}".lower()
    call = phrases.call(met.call if in_forward else _in_the_block(met))
    place = " inside the model's forward()" if in_forward else ""
    move = f"Move {call} out of the `with model.join():` block ({block})."
    if in_forward:
        move = f"Take {call} out of forward(), or train without join()."
    return Words(
        f"{who} called {call} inside join(); {joined} had run out of inputs",
        (
            joins.ran_out(situation, met.joined.ranks),
            (
                f"Out of inputs, {joined} {text.verb(met.joined.ranks, 'answers', 'answer')} DDP's "
                "collectives in join(), and no others."
            ),
            (
                f"So {text.name(met.call)}{place} met {text.issuer(met.shadow)}, and every call "
                "after it meets the wrong one."
            ),
        ),
        (move, *joins.EVEN),
    )


def _in_the_block(met: Met) -> Call:
    """Return the call with its line in the function of the ``with`` block, if it has one."""
    block = (met.joined.stack or ("",))[0]
    frames = (met.side.stack or ())[1:]
    found = next((f for f in frames if block and chains.place(f) == chains.place(block)), "")
    return joins.at(met.call, chains.site(found)) if found else met.call

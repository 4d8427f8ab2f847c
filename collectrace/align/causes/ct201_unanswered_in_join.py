"""A call inside ``join()`` met a different call, with which a rank without inputs answers.

What it means
    A rank that runs out of inputs stays in ``join()``. For each input of the others it repeats the
    calls of everything that was passed to ``join()``. These are one forward and one backward of
    each model in turn, one step of each optimizer, and custom join hooks. Any other call meets one
    of these. It may be a collective of the script, a model or optimizer that was not passed to
    ``join()``, or a second forward for one input. A rank that runs the model outside of ``join()``
    causes the same.

Example
    ::

        with model.join():
            for batch in batches:
                model(batch).sum().backward()
                dist.barrier()      # not answered by a rank without inputs

Not to be confused with
    CT204, if the ranks do not use ``join()``.

How to fix it
    Move the call out of the ``with model.join():`` block, or give every rank the same number of
    inputs. Pass every model and optimizer: ``with Join([student, teacher, optimizer]):``.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import inputs, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.findings import Side
from collectrace.records import Call, Join
from collectrace.signature import is_user

Why = Literal[
    "own call", "own call in forward", "own hook", "optimizer", "model", "second forward",
    "in turn", "outside",
]  # fmt: skip

_BACK: Final = 64
"""Calls before the finding's that are examined."""

_HOOK: Final = "join.own_hook"

_GIVE: Final = "(torch.distributed.algorithms.join)."

_ADVICE: Final[dict[Why, tuple[str, str]]] = {
    "own call": (
        "Out of inputs, a rank answers DDP's collectives in join(), and no others.",
        "Move {moved} out of the `{head}` block{block}.",
    ),
    "own call in forward": (
        "Out of inputs, a rank answers DDP's collectives in join(), and none that the model's "
        "forward() makes by itself.",
        "Take {call} out of forward(), or train without join().",
    ),
    "own hook": (
        "The script's own join hook answers there, with {shadow} where {own} is due.",
        "Let the join hook (main_hook) make the same calls as its joinable does for one input: the "
        "same size and type, in the same order.",
    ),
    "optimizer": (
        "This join() was not given the ZeroRedundancyOptimizer, so nobody answers its calls.",
        f"Give join() the optimizer, too: `with Join([model, optimizer]):` {_GIVE}",
    ),
    "model": (
        "This join() was not given model {model}, so nobody answers its calls.",
        f"Give Join every model that is trained inside it: `with Join([model, other]):` {_GIVE}",
    ),
    "second forward": (
        "join() answers one forward and one backward for each input: this is a second forward "
        "before the backward.",
        "Call the model once for each input: one forward over the concatenated parts.",
    ),
    "in turn": (
        "join() answers the models one after the other, the forward and the backward of each: the "
        "forward of model {model} came before that backward.",
        "Run the backward of each model before the forward of the next, in the order given to "
        "join(). Or make them parts of one module, and wrap that in one DistributedDataParallel.",
    ),
    "outside": (
        "Inside join() DDP's forward and backward make calls of their own, which they do not make "
        "outside.",
        "Enter model.join(){block} on every rank, or on none. If join(enable=...) depends on the "
        "number of batches, let all ranks agree on it first (all_reduce), or always enable it.",
    ),
}
"""Why a call was not answered, and what to change."""

_EVEN: Final = (
    "Or give every rank the same number of batches (DistributedSampler, drop_last=True).",
    "Or stop all ranks when the first runs out, and catch the RuntimeError: "
    "model.join(throw_on_early_termination=True).",
)


class Unanswered(NamedTuple):
    """A call that join() does not answer, and the call that it met."""

    why: Why
    side: Side
    call: Call
    joined: Side
    shadow: Call


def find(situation: Situation) -> Unanswered | None:
    """Return the call that join() does not answer, and why."""
    shadows = [one for one in situation.called if roles.is_shadow(one[1].role)]
    others = [one for one in situation.called if not roles.is_shadow(one[1].role)]
    if not shadows or not others:
        return _outside(situation)
    (joined, shadow), (side, call) = shadows[0], others[0]
    why = _why(situation, side, call, joined, shadow)
    return Unanswered(why, side, call, joined, shadow) if why is not None else None


def _why(situation: Situation, side: Side, call: Call, joined: Side, shadow: Call) -> Why | None:
    if shadow.role == _HOOK:
        return "own hook"
    if is_user(call) or roles.of(call.role).name.startswith("syncbn."):
        functions = {chains.method(frame) for frame in side.stack or ()}
        in_forward = "forward" in functions or "norm" in f"{call.via} {call.role}".lower()
        return "own call in forward" if in_forward else "own call"
    entered = _latest(situation, joined.ranks[0], shadow)
    given = entered.joinables if entered is not None else []
    number = call.model or 1
    if call.role.startswith("zero.") and given and "ZeroRedundancyOptimizer" not in given:
        return "optimizer"
    if given and number > given.count("DistributedDataParallel"):
        return "model"
    forwards = _open_forwards(situation, side)
    if call.role.startswith("ddp.forward.") and forwards and number not in forwards:
        return "in turn"
    is_notice = roles.pairing_class(call.role) == inputs.NOTICE
    return "second forward" if is_notice and number in forwards else None


def _outside(situation: Situation) -> Unanswered | None:
    """Return a call of DDP inside join(), and the call outside of it that it met."""
    sides = situation.called
    if len(sides) < 2 or not all(call.role.startswith("ddp.") for _, call in sides):
        return None
    if len({(call.iteration, call.model or 1) for _, call in sides}) > 1:
        return None
    entered = [_latest(situation, side.ranks[0], side.call) for side, _ in sides]
    inside = [one is not None and one.phase == "entered" for one in entered]
    if all(inside) or not any(inside):
        return None
    return Unanswered("outside", *sides[inside.index(True)], *sides[inside.index(False)])


def _latest(situation: Situation, rank: int, call: Call | None) -> Join | None:
    """Return the latest record of ``join()`` that a rank wrote before a call."""
    log = situation.case.log(rank)
    before = [one for one in (log.joins if log is not None else ()) if call and one.t <= call.t]
    return before[-1] if before else None


def _open_forwards(situation: Situation, side: Side) -> list[int]:
    """Return the models whose forward a rank began before a finding, but not their backward."""
    stream, seq = situation.candidate.stream, situation.candidate.seq
    found: list[int] = []
    for call in reversed(situation.case.before(side.ranks[0], stream, seq, _BACK)):
        if call is None or call.role.startswith("ddp.backward."):
            break
        if call.role.startswith("ddp.forward."):
            found.append(call.model or 1)
    return found


def words(situation: Situation, met: Unanswered) -> Words:
    """Return the words for a call that join() does not answer."""
    who, joined = text.ranks(met.side.ranks), text.ranks(met.joined.ranks)
    call = phrases.call(met.call)
    line = _in_the_block(met)
    moved = f"the call{line} that leads to {call}" if line else call
    why, fix = _ADVICE[met.why]
    own, shadow = text.tensors(met.call), text.tensors(met.shadow)
    head = phrases.text(situation.case, (met.joined.stack or ("",))[0])
    named = {
        "call": call, "moved": moved, "model": met.call.model or 1, "own": own, "shadow": shadow,
        "head": head if head.startswith("with ") else "with model.join():",
    }  # fmt: skip
    if met.why == "outside":
        entered = _latest(situation, met.side.ranks[0], met.call)
        block = phrases.line(entered.site if entered is not None else None)
        return Words(
            f"{who} ran the model inside join(){block}, {joined} outside",
            (f"{text.upper(phrases.made(met.joined.ranks, met.shadow))}.", why),
            (fix.format(block=block),),
        )
    uneven = inputs.uneven(situation)
    ran_out = f"{text.upper(joined)} ran out of inputs first."
    return Words(
        f"{phrases.made(met.side.ranks, met.call)} inside join(); {joined} had run out of inputs",
        (
            f"Uneven inputs: {uneven.phrase}." if uneven is not None else ran_out,
            why.format(**named),
            f"So {text.name(met.call)} met {text.issuer(met.shadow)} on {joined}.",
        ),
        (
            fix.format(**named, block=phrases.line(met.shadow.site)),
            *(_EVEN if met.why != "own hook" else ()),
        ),
    )


def _in_the_block(met: Unanswered) -> str:
    """Return the line of the function of the ``with`` block that led to the call, or nothing."""
    block = (met.joined.stack or ("",))[0]
    frames = (met.side.stack or ())[1:]
    found = next((f for f in frames if block and chains.place(f) == chains.place(block)), "")
    return phrases.line(chains.site(found)) if found else ""

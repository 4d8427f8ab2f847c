"""A model or an optimizer made a call inside ``join()`` that ``join()`` does not answer there.

What it means
    ``join()`` answers what it was given: for each input one forward and one backward of each
    model, one model after the other, and one step of each optimizer. A model that it was not given,
    a second forward for one input, or the forwards of two models before the first backward meet
    another call.

Example
    ::

        with student.join():                        # not given the teacher
            for batch in batches:
                student(batch).sum().backward()
                teacher(batch).sum().backward()

Not to be confused with
    CT201, if the script made the call itself.

How to fix it
    Give ``join()`` every model and optimizer: ``with Join([student, teacher, optimizer]):``.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from collectrace import words as text
from collectrace.align.causes import inputs, joins, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.roles import is_shadow, pairing_class

_BACK: Final = 64
"""Calls before the finding's that are looked at."""


class Unanswered(NamedTuple):
    """A call that join() does not answer, and why."""

    why: Literal["optimizer", "model", "second forward", "in turn"]
    side: Side
    call: Call
    joined: Side
    shadow: Call


def find(situation: Situation) -> Unanswered | None:
    """Return the framework's call that join() does not answer."""
    shadows = [
        (s, c) for s, c in situation.called if is_shadow(c.role) and c.role != "join.own_hook"
    ]
    others = [(s, c) for s, c in situation.called if c.role.startswith(("ddp.", "zero."))]
    if len(shadows) != 1 or len(others) != 1:
        return None
    (joined, shadow), (side, call) = shadows[0], others[0]
    entered = joins.latest(situation, joined.ranks[0], shadow)
    given = entered.joinables if entered is not None else []
    models = sum(name == "DistributedDataParallel" for name in given)
    why: Literal["optimizer", "model", "second forward", "in turn"]
    if call.role.startswith("zero.") and given and "ZeroRedundancyOptimizer" not in given:
        why = "optimizer"
    elif given and call.model is not None and call.model > models:
        why = "model"
    else:
        forwards = _open_forwards(situation, side)
        second = call.model or 1
        if call.role.startswith("ddp.forward.") and forwards and second not in forwards:
            why = "in turn"
        elif pairing_class(call.role) == inputs.NOTICE and second in forwards:
            why = "second forward"
        else:
            return None
    return Unanswered(why, side, call, joined, shadow)


def _open_forwards(situation: Situation, side: Side) -> list[int]:
    """Return the models whose forward a rank has begun, and not the backward, before a finding."""
    stream, seq = situation.candidate.stream, situation.candidate.seq
    found: list[int] = []
    for call in reversed(situation.case.before(side.ranks[0], stream, seq, _BACK)):
        if call is None or call.role.startswith("ddp.backward."):
            break
        if call.role.startswith("ddp.forward."):
            found.append(call.model or 1)
    return found


def words(situation: Situation, found: Unanswered) -> Words:
    """Return the words for a call that join() does not answer."""
    who, joined = text.ranks(found.side.ranks), text.ranks(found.joined.ranks)
    call, model = phrases.call(found.call), found.call.model or 1
    even = "Or give every rank the same number of batches."
    match found.why:
        case "optimizer":
            why = "This join() was not given the ZeroRedundancyOptimizer, so it does not answer it."
            fix = (
                "Give join() the optimizer, too: `with Join([model, optimizer]):` "
                "(torch.distributed.algorithms.join)."
            )
        case "model":
            why = f"This join() was not given model {model}, so it does not answer its calls."
            fix = (
                "Give Join every model that is trained inside it: `with Join([model, other]):` "
                "(torch.distributed.algorithms.join)."
            )
        case "second forward":
            why = (
                "join() answers one forward and one backward for each input: this is a second "
                "forward before the backward."
            )
            fix = "Call the model once for each input: one forward over the concatenated parts."
        case _:
            why = (
                "join() answers the models one after the other: the forward and the backward of "
                f"each. The forward of model {model} came before that backward."
            )
            fix = (
                "Run the backward of each model before the forward of the next, in the order given "
                "to join(). Or make them parts of one module, and wrap that in one "
                "DistributedDataParallel."
            )
    return Words(
        f"{who} {text.verb(found.side.ranks, 'was', 'were')} in {call}, which join() did not answer"
        "",
        (
            joins.ran_out(situation, found.joined.ranks),
            why,
            f"So it met {text.issuer(found.shadow)} on {joined}, which had run out of inputs.",
        ),
        (fix, even),
    )

"""A library decided, by something that is not the same on all ranks.

What it means
    The script's own code ran alike, and one line of it called a framework. There a condition or a
    loop sent the ranks different ways. It read a flag that the script had set on one rank only, or
    went through a list that has another length there.

Example
    ::

        if trainer.is_global_zero:
            trainer.should_stop = True      # Lightning's loop reads it on each rank

Not to be confused with
    CT102, if a statement of the script decided.

How to fix it
    Give the library the same value on every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from collectrace import words as text
from collectrace.align.causes import apart, collectives, control, deciders, frameworks, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.findings import Decision


class Parted(NamedTuple):
    """What it means if a framework goes on by two of its functions on different ranks."""

    over: str
    """The function on the ranks that are over with something."""
    going: str
    """The function on the ranks that are going on with it."""
    why: str
    """With ``{over}`` and ``{going}`` for the ranks."""
    fix: str


PARTED: Final = (
    # fit_loop.py and training_epoch_loop.py, Lightning 2.6.6; EarlyStopping decides by the same
    # reduce_boolean_decision (early_stopping.py).
    Parted(
        "_FitLoop.on_advance_end", "_FitLoop.advance",
        "The epoch was over on {over}, and not on {going}: trainer.should_stop was set, or there "
        "were fewer batches, on some ranks only.",
        "End the epoch on every rank in the same step: set trainer.should_stop by what all ranks "
        "agree on (trainer.strategy.reduce_boolean_decision(flag, all=False)), and give every rank "
        "the same number of batches.",
    ),
    # trainer.py, transformers 5.23.0: _inner_training_loop leaves its epochs by the callbacks'
    # control.should_training_stop; EarlyStoppingCallback (trainer_callback.py) asks the metrics.
    Parted(
        "Trainer._finalize_training", "Trainer._run_epoch",
        "The training had ended on {over}, and not on {going}: a callback such as "
        "EarlyStoppingCallback set control.should_training_stop by what only that rank had "
        "measured, or it had fewer steps to do.",
        "Let the training end on every rank in the same step: decide by what all ranks hold alike "
        "(gather what is measured first, as compute_metrics gets it, or broadcast one rank's "
        "decision), and give all the same number of steps.",
    ),
)  # fmt: skip
"""Functions of frameworks by which ranks parted, and what that means."""


class Found(NamedTuple):
    """What is known of it."""

    decision: Decision | None
    """The statement of the library."""
    went: tuple[tuple[Step, str], ...] = ()
    """Either side, and the function by which it went on in the library; empty: not known."""
    parted: Parted | None = None
    """What that means; the first of ``went`` is over with it."""


def find(situation: Situation) -> Found | None:
    """Return the statement of a library that decided, or the functions where the sides parted."""
    decision = control.first(situation)
    if decision is not None and decision.library is None:
        return None
    known = decision if decision is not None and deciders.form(decision) != "handler" else None
    went = _went(situation)
    for row in PARTED if went else ():
        for over, going in (went, went[::-1]):
            if (over[1], going[1]) == (row.over, row.going):
                return Found(known, (over, going), row)
    return Found(known, went) if known is not None or went else None


def _went(situation: Situation) -> tuple[tuple[Step, str], ...]:
    """Return either side with the function by which it parted from the other in a library.

    On one side the library may have called a function of the script's own; then that of the other
    side is empty: which of its functions is beside it is not known.
    """
    both = apart.steps(situation)
    if both is None or not both[0].stack or not both[1].stack:
        return ()
    depth = chains.shared(both[0].stack, both[1].stack)
    inner = [len(step.stack) - depth for step in both]
    paths: list[Sequence[str]] = [frameworks.path(situation, step) for step in both]
    if not any(inner):
        shared = chains.shared(paths[0][::-1], paths[1][::-1])
        if not 0 < shared < min(map(len, paths)):
            return ()
        return tuple((step, path[shared]) for step, path in zip(both, paths, strict=True))
    if all(inner) or not all(
        path if not n else _is_called_back(situation, step, n)
        for step, n, path in zip(both, inner, paths, strict=True)
    ):
        return ()
    names = (
        chains.function(step.stack[n - 1]) if n else "" for step, n in zip(both, inner, strict=True)
    )
    return tuple(zip(both, names, strict=True))


def _is_called_back(situation: Situation, step: Step, inner: int) -> bool:
    """Whether a library called the script's innermost so many frames above a call."""
    log, call = situation.case.log(step.rank), step.call
    stack = log.stack(call) if log is not None and call is not None else None
    lines = stack.libraries or () if stack is not None else ()
    return any(line.startswith(f"{inner} ") for line in lines)


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a library that decided."""
    headline = collectives.headline(situation)
    if found.parted is not None:
        (over, _), (going, _) = found.went
        meaning = found.parted.why.format(over=over.who, going=going.who)
        return Words(headline, (meaning,), (found.parted.fix,), undecided=found.decision is None)
    told = text.listed(
        [f"{step.who} in {f'{name}()' if name else _name(step)}" for step, name in found.went]
    )
    why = (f"The same line called a library on all ranks: then {told}.",) if told else ()
    decision = found.decision
    if decision is None:
        fix = "Give the library the same values on every rank: look for what it decides by."
        return Words(headline, why, (fix,), undecided=True)
    said, library = deciders.quoted(decision), decision.library
    return Words(
        headline,
        (*why, f"{deciders.what_it_did(situation, decision)} It is a statement of {library}."),
        (
            (
                f"Give {library} the same value on every rank for what {said} reads: set it on "
                "every rank, or agree on it first (all_reduce)."
            ),
        ),
    )


def _name(step: Step) -> str:
    return phrases.name(step.call) if step.call is not None else "no call"

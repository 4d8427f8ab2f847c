"""A library made different calls, because a value that it read differs between ranks.

What it means
    All ranks ran the same lines of the script, and one line called a framework. A condition or a
    loop of the framework then differed between ranks. It read a flag that the script had set on one
    rank only, or looped over lists of different lengths.

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
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.findings import Decision


class Parted(NamedTuple):
    """Two functions of a framework on different ranks, and what that shows."""

    over: str
    """The function on the ranks that have ended something."""
    going: str
    """The function on the ranks that continue it."""
    why: str
    """A sentence with ``{over}`` and ``{going}`` for the ranks."""
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
"""Pairs of functions where the ranks of frameworks diverge, with an explanation."""


class Found(NamedTuple):
    """The statement of a library that decided, or the functions where the sides diverged."""

    decision: Decision | None
    """The statement of the library."""
    went: tuple[tuple[NextCall, str], ...] = ()
    """Each side with the function of the library that it called; empty: not known."""
    parted: Parted | None = None
    """The explanation; the first side of ``went`` is the one that ended."""


def find(situation: Situation) -> Found | None:
    """Return the statement of a library that decided, or the functions where the sides diverged."""
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


def _went(situation: Situation) -> tuple[tuple[NextCall, str], ...]:
    """Return each side with the function where it diverged from the other in a library.

    If the library called the script's code on one side, the function of the other side is empty,
    because its counterpart is not known.
    """
    both = apart.next_calls(situation)
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


def _is_called_back(situation: Situation, step: NextCall, inner: int) -> bool:
    """Whether a library called the script's frame ``inner`` frames above a call."""
    log, call = situation.case.log(step.rank), step.call
    stack = log.stack(call) if log is not None and call is not None else None
    lines = stack.libraries or () if stack is not None else ()
    return any(line.startswith(f"{inner} ") for line in lines)


def words(situation: Situation, found: Found) -> Words:
    """Return the words for a library that decided."""
    headline = collectives.headline(situation)
    if found.parted is not None:
        (over, _), (going, _) = found.went
        meaning = found.parted.why.format(over=over.subject, going=going.subject)
        return Words(headline, (meaning,), (found.parted.fix,), undecided=found.decision is None)
    told = text.listed(
        [f"{step.subject} in {f'{name}()' if name else _name(step)}" for step, name in found.went]
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
            f"Give {library} the same value on every rank for what {said} reads: set it on "
            "every rank, or agree on it first (all_reduce).",
        ),
    )


def _name(step: NextCall) -> str:
    return phrases.name(step.call) if step.call is not None else "no call"

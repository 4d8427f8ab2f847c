"""The models that ranks gave to DDP, or to another wrapper, differ.

What it means
    DistributedDataParallel compares the models in its constructor. The ranks built other ones:
    other parameters, shapes, or another ``requires_grad``. One of them raises, and the others wait.

Example
    ::

        width = 8 if rank == 2 else 4
        model = DistributedDataParallel(torch.nn.Linear(width, 1))

Not to be confused with
    CT514, if only some ranks construct the wrapper. CT502, if its options differ.

How to fix it
    Build the same model on every rank.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.records import Call

_CONSTRUCT = "ddp.construct"


def find(situation: Situation) -> Call | None:
    """Return a call of DDP's constructor in which all ranks are, and find a difference."""
    calls = [call for _, call in situation.called]
    if not calls or not all(call.role == _CONSTRUCT for call in calls):
        return None
    if len(calls) > 1:
        return calls[0]
    absent = situation.candidate.absent
    return calls[0] if absent and all(_raised(situation, rank) for rank in absent) else None


def _raised(situation: Situation, rank: int) -> bool:
    """Whether a rank raised in DDP's constructor, behind its comparison."""
    log = situation.case.log(rank)
    if log is None or log.exit is None or log.exit.error is None or log.last_call is None:
        return False
    return log.last_call.role == _CONSTRUCT


def words(situation: Situation, found: Call) -> Words:
    """Return the words for models that differ."""
    sides = situation.called
    if len(sides) > 1:
        told = text.listed([f"{text.op(call)} on {text.ranks(s.ranks)}" for s, call in sides])
        why = f"DDP's constructor compares the models over the group: it issued {told}."
    else:
        rank = situation.candidate.absent[0]
        log = situation.case.log(rank)
        line = log.exit if log is not None else None
        error = text.exception(line.error or "", line.message or "") if line is not None else ""
        why = f"DDP's constructor compares the models: rank {rank} raised {error}."
    who = text.ranks(situation.suspects or [r for s, _ in sides for r in s.ranks])
    verb = "gave" if situation.suspects else "disagree: they gave"
    return Words(
        f"{who} {verb} DDP another model{phrases.line(found.site)}"
        + (f" than {text.ranks(situation.others)}" if situation.suspects else "s"),
        (why, "So the models of the ranks differ: parameters, sizes, or requires_grad."),
        (
            (
                "Build the same model on every rank: the same parameters, in the same order, with "
                "the same sizes and the same requires_grad."
            ),
        ),
    )

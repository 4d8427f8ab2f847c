"""What is known of ``join()`` at a finding: who is inside it, and what it was given."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from collectrace import words
from collectrace.align.causes import inputs
from collectrace.align.causes.situation import Situation
from collectrace.records import Call, Join

EVEN: Final = (
    "Or give every rank the same number of batches (DistributedSampler, drop_last=True).",
    "Or stop all ranks when the first runs out: model.join(throw_on_early_termination=True).",
)


def at(call: Call, site: str) -> Call:
    """Return a call with the line of one of its callers."""
    return replace(call, site=site)


def latest(situation: Situation, rank: int, call: Call | None) -> Join | None:
    """Return the latest record of ``join()`` that a rank wrote up to a call."""
    log = situation.case.log(rank)
    before = [one for one in (log.joins if log is not None else ()) if call and one.t <= call.t]
    return before[-1] if before else None


def is_inside(situation: Situation, rank: int, call: Call | None) -> bool:
    """Whether a rank made a call inside ``join()``, with inputs as far as it knew."""
    one = latest(situation, rank, call)
    return one is not None and one.phase == "entered"


def ran_out(situation: Situation, joined: tuple[int, ...]) -> str:
    """Return a sentence on the ranks that ran out of inputs."""
    found = inputs.uneven(situation)
    if found is not None:
        return f"Uneven inputs: {found.phrase}."
    return f"{words.upper(words.ranks(joined))} ran out of inputs first."

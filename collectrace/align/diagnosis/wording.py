"""The parts of a finding's words, and sentences that several kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collectrace import words
from collectrace.align.judging import patience
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.findings import Side
from collectrace.records import Call


@dataclass(frozen=True, slots=True)
class Wording:
    """Headline, cause, fix, and observations that blame nobody."""

    headline: str
    cause: str
    fix: str
    notes: tuple[str, ...] = ()


class Reason(NamedTuple):
    """Why, and what to change."""

    cause: str
    fix: str


Explainer = Callable[[Case, Candidate], Reason | None]
"""Gives the reason where the evidence shows it, else None."""


def first(explainers: Sequence[Explainer], case: Case, candidate: Candidate) -> Reason | None:
    """The reason of the first explainer that gives one."""
    for explain in explainers:
        reason = explain(case, candidate)
        if reason is not None:
            return reason
    return None


def called(candidate: Candidate) -> list[tuple[Side, Call]]:
    """The sides that issued a call, with it."""
    return [(side, side.call) for side in candidate.sides if side.call is not None]


def place(candidate: Candidate) -> str:
    """``call 29 of the default group``."""
    where = f"call {candidate.seq}" if candidate.seq is not None else "a call"
    if candidate.group is not None:
        where += f" of {words.group(candidate.group)}"
    return where


def too_early(case: Case, candidate: Candidate, headline: str) -> Wording:
    """Ranks that had not come when the logs end, which proves nothing.

    ``headline``: who had not come to what, without a full stop.
    """
    waited = patience.waited(case, candidate)
    return Wording(
        f"{headline} when the logs end ({place(candidate)})",
        f"They had been waited for {words.seconds(waited)} at most. A healthy job that is stopped, "
        "or looked at while it runs, has ranks a call apart: this proves nothing.",
        "If the job hung here, let it hang for longer than a minute before it is stopped, and "
        "align its logs again.",
    )


AMBIGUOUS = "Who is wrong is ambiguous: no side is more than half of the group."
FOLLOWS = "Nothing to change here: it goes with its cause."
EVERY_RANK = (
    "Every rank of a group must issue the same collectives in the same order: look above these "
    "lines for a branch or a loop that depends on the rank or on its data."
)
EVEN_INPUTS = (
    "Give every rank the same number of batches: DistributedSampler (pads; cuts with "
    "drop_last=True) and DataLoader(drop_last=True)."
)
JOIN = (
    "Or train inside `with model.join():`, which answers DDP's collectives (and no others) for "
    "ranks that ran out.{first}\n"
    "Or stop all ranks when the first runs out: Join([model], throw_on_early_termination=True)."
)


def even_inputs(inside: Sequence[Call] = ()) -> str:
    """What helps against uneven inputs; ``inside``: the script's own calls in the same loop."""
    first = ""
    if inside:
        those = words.listed([f"{words.name(c)}{words.at(c)}" for c in inside])
        first = f" Then {those} must leave the loop: join() does not answer the script's own calls."
    return f"{EVEN_INPUTS}\n{JOIN.format(first=first)}"

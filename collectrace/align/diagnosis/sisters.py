"""One error in many groups of one dimension: told once."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.align.diagnosis.wording import FOLLOWS, Reason
from collectrace.align.judging import sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.dimensions import NAMELESS


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """The error of another group, once more."""
    cause = candidate.cause
    if cause is None or cause.group is None or not sisters.repeats(case, cause, candidate):
        return None
    return Reason(f"It is the same error as in {_group(cause)}, in another group.", FOLLOWS)


def note(case: Case, candidate: Candidate, judged: Sequence[Candidate]) -> str:
    """``The same in 4 of 4 groups of mesh_tp.``; empty where one group alone has it."""
    if candidate.group is None or candidate.cause is not None:
        return ""
    others = [
        c for c in judged if c.cause is candidate and sisters.repeats(case, candidate, c)
    ]  # fmt: skip
    names = {c.group.name for c in others if c.group is not None}
    if not names:
        return ""
    total = len(sisters.of(case, candidate.group))
    label = candidate.group.description
    of = f"groups of {label}" if label not in NAMELESS else "such groups"
    return f"The same in {len(names) + 1} of {total} {of}."


def _group(candidate: Candidate) -> str:
    return words.group(candidate.group) if candidate.group is not None else "a group"

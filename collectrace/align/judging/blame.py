"""Decide the severity and the suspects of a candidate.

A rank is a suspect only if the evidence proves it. If two halves of a group disagree, nobody is a
suspect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from collectrace.align.judging import finders, weighing
from collectrace.align.judging.absence import failed_by_itself, is_proven, never_created
from collectrace.align.judging.candidate import Candidate, IncompleteRow, Verdict
from collectrace.align.judging.case import Case
from collectrace.align.judging.weighing import Weighed
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import KINDS, Kind, Severity

__all__ = ["Gap", "failed_by_itself", "gaps", "verdict"]

Gap = Literal["no file", "unreadable", "empty", "cut", "dropped", "out of reach"]
"""Why the evidence of a rank is missing: it left no file, no readable one, an empty one or a
truncated one; its tracer lost records; or its log ends before the candidate."""


def verdict(case: Case, candidate: Candidate) -> Verdict:
    """Return kind, severity and suspects of a candidate, regardless of other candidates.

    An absence is an error only if the ranks were never to make the call.
    """
    source, attempt = candidate.source, case.faults.attempt
    if isinstance(source, GroupConflict) and source.harmless:
        return Verdict(candidate.what, "warning")
    kind: Kind = "missing_call" if never_created(case, candidate) else candidate.what
    # If some evidence cannot be computed, the rest must not blame anyone.
    found = attempt("suspects", Weighed(), weighing.judge, case, candidate, finders.ALL)
    may_come = isinstance(source, GroupConflict) and (
        (source.own and not source.crossed) or bool(candidate.absent)
    )
    may_come = may_come or (KINDS[kind].is_absence and not isinstance(source, IncompleteRow))
    if may_come and not attempt("suspects", False, is_proven, case, candidate):
        return Verdict(kind, "info", found.suspects, found.evidence)
    failed = attempt("suspects", False, all_failed_after_swap, case, candidate)
    severity: Severity = "warning" if candidate.is_warning and not failed else "error"
    return Verdict(kind, severity, found.suspects, found.evidence)


def all_failed_after_swap(case: Case, candidate: Candidate) -> bool:
    """Whether all ranks raised after calls in swapped order, because their values were mixed up.

    The swap alone is a warning: what was combined may have been intended.
    """
    source, group = candidate.source, candidate.group
    if not isinstance(source, Divergence) or not source.swapped or group is None:
        return False
    standings = [case.standings.get(rank) for rank in group.ranks]
    return all(one is not None and failed_by_itself(one) for one in standings)


def gaps(case: Case, found: Sequence[Candidate]) -> dict[int, Gap]:
    """Return by rank why evidence that the candidates need is missing."""
    needed = {rank for candidate in found for rank in candidate.unknown}
    out: dict[int, Gap] = {}
    for rank, standing in case.standings.items():
        log = standing.log
        if log is None:
            why = case.evidence.unreadable.get(rank)
            out[rank] = "no file" if why is None else "unreadable" if why else "empty"
        elif rank in case.comparison.cut and standing.ended != "alive":
            out[rank] = "cut"
        elif log.dropped:
            out[rank] = "dropped"
        elif rank in needed:
            out[rank] = "out of reach"
    return out

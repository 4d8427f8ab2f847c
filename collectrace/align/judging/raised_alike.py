"""Ranks that raised one exception at one place, each by itself: one error, whoever missed whom.

Others may wait for them in several groups and channels, for each where it did not come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collectrace import words
from collectrace.align.judging.blame import failed_by_itself
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.ranks.standing import Standing, failure
from collectrace.findings import KINDS

_Raised = tuple[str, str]
"""The exception as it is told, and the line."""


def raised_alike(case: Case, found: Sequence[Candidate]) -> Mapping[Candidate, tuple[int, ...]]:
    """Whom each absence is to be blamed on where its suspects raised one exception.

    They, and who raised the same at the same line and is a suspect of another absence. Only what
    so changes; and not where one of them waits for another, which may be why it raised that.
    """
    by_error: dict[_Raised, list[Candidate]] = {}
    for candidate in found:
        if candidate.severity != "error" or not KINDS[candidate.kind].is_absence:
            continue
        raised = {_raised(case.standings[rank]) for rank in candidate.suspects}
        if len(raised) == 1 and (one := raised.pop()) is not None:
            by_error.setdefault(one, []).append(candidate)
    return {
        candidate: tuple(sorted({rank for one in those for rank in one.suspects}))
        for those in by_error.values()
        if len({one.suspects for one in those}) > 1 and not _wait_for_each_other(those)
        for candidate in those
    }


def _wait_for_each_other(those: Sequence[Candidate]) -> bool:
    suspects = {rank for one in those for rank in one.suspects}
    return any(not suspects.isdisjoint(one.present) for one in those)


def _raised(standing: Standing) -> _Raised | None:
    """What ended a rank, by no fault of its peers; None: something else did."""
    leaving = standing.exit
    if leaving is None or not failed_by_itself(standing):
        return None
    one = failure(leaving)
    if one.error in ("", "KeyboardInterrupt") or one.site is None:
        return None  # by sys.exit(), by a person, or it is not known where
    return words.exception(one.error, one.text), one.site

"""A synthetic run, as those who judge see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from collectrace.align.alignment import align, compared
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, build
from collectrace.align.judging.judge import judge
from collectrace.align.reading import run_reader
from collectrace.findings import Alignment, Finding, Kind
from tests.support.synthetic import Run

Found = TypeVar("Found")

LATER = 1_900_000_000_000_000_000
"""A clock by which every synthetic run is long over."""


def case_of(run: Run, folder: Path) -> Case:
    run.write(folder)
    evidence = run_reader.read(folder)
    return build(compared(evidence), now=LATER)


def judged(run: Run, folder: Path) -> list[Candidate]:
    return judge(case_of(run, folder))


def of_circles(
    rule: Callable[[Case, Candidate], Found | None], run: Run, folder: Path
) -> Found | None:
    """The first that a rule finds of the circles of a run, of which there must be one."""
    case = case_of(run, folder)
    circles = [one for one in judge(case) if one.kind == "deadlock"]
    assert circles
    return next((found for one in circles if (found := rule(case, one)) is not None), None)


def aligned(run: Run, folder: Path) -> Alignment:
    run.write(folder)
    return align(folder)


def errors(alignment: Alignment) -> list[Finding]:
    return [finding for finding in alignment.findings if finding.severity == "error"]


def kinds(found: list[Candidate]) -> list[Kind]:
    return [candidate.kind for candidate in found]

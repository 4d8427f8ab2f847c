"""A synthetic run, as those who judge see it."""

from __future__ import annotations

from pathlib import Path

from collectrace.align.alignment import align, compared
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, build
from collectrace.align.judging.judge import judge
from collectrace.align.reading import run_reader
from collectrace.findings import Alignment, Finding, Kind
from tests.support.synthetic import Run

LATER = 1_900_000_000_000_000_000
"""A clock by which every synthetic run is long over."""


def case_of(run: Run, folder: Path) -> Case:
    run.write(folder)
    evidence = run_reader.read(folder)
    return build(compared(evidence), now=LATER)


def judged(run: Run, folder: Path) -> list[Candidate]:
    return judge(case_of(run, folder))


Blamed = tuple[tuple[int, ...], set[str]]
"""Suspects, and names of facts."""


def blamed(run: Run, folder: Path) -> Blamed:
    """Return the suspects of the first wait cycle of a run, and the facts that decided."""
    circle = next(one for one in judged(run, folder / "logs") if one.kind == "deadlock")
    assert circle.verdict is not None
    return circle.suspects, {row.fact for row in circle.verdict.evidence}


def aligned(run: Run, folder: Path) -> Alignment:
    run.write(folder)
    return align(folder)


def errors(alignment: Alignment) -> list[Finding]:
    return [finding for finding in alignment.findings if finding.severity == "error"]


def kinds(found: list[Candidate]) -> list[Kind]:
    return [candidate.kind for candidate in found]

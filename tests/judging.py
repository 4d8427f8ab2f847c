"""A synthetic run, as those who judge see it."""

from __future__ import annotations

from pathlib import Path

from collectrace.align import reader
from collectrace.align.alignment import align
from collectrace.align.blame import judge
from collectrace.align.case import Candidate, Case
from collectrace.align.compare import compare
from collectrace.align.states import standings
from collectrace.findings import Alignment, Finding, Kind
from tests.synthetic import Run

LATER = 1_900_000_000_000_000_000
"""A clock by which every synthetic run is long over."""


def case_of(run: Run, folder: Path) -> Case:
    run.write(folder)
    evidence = reader.read(folder)
    return Case(evidence, compare(evidence), standings(evidence, now=LATER))


def judged(run: Run, folder: Path) -> list[Candidate]:
    return judge(case_of(run, folder))


def aligned(run: Run, folder: Path) -> Alignment:
    run.write(folder)
    return align(folder)


def errors(alignment: Alignment) -> list[Finding]:
    return [finding for finding in alignment.findings if finding.severity == "error"]


def kinds(found: list[Candidate]) -> list[Kind]:
    return [candidate.kind for candidate in found]

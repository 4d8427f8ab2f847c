"""The line that decided is among the decisions of a finding, where a script's header names it."""

from __future__ import annotations

from statistics import mean
from typing import Final

import pytest

from tests.zoo import corpus, deciding
from tests.zoo.corpus import Run
from tests.zoo.verdict import recorded

ENTRIES: Final = corpus.index()

RUNS: Final = [
    run
    for run in corpus.runs()
    if not run.twin and run.case.is_error and deciding.lines_named(run.case)
]

FEWEST_SCRIPTS: Final = 130
"""Scripts whose headers name such a line. Fewer: the headers are no longer understood."""

FOUND: Final = 0.97
MOST_NAMED: Final = 3.0
"""Decisions of a finding, on average."""

REASONS: Final[dict[str, str]] = {
    "matching/collective_while_one_goes_first": "a condition on the rank held rank 1 at the entry: "
    "the line only led rank 0 to its call in the body, which the cause tells",
}
"""By script that is missed: why."""


@pytest.fixture(scope="module")
def named() -> dict[str, list[str]]:
    """By script, the lines of the decisions of the finding that counts."""
    found: dict[str, list[str]] = {}
    for run in RUNS:
        finding = recorded(run, ENTRIES[run.name]).finding
        decisions = (finding.decisions if finding is not None else None) or ()
        found[run.name] = [one.site.rpartition("/")[2] for one in decisions]
    return found


def _wanted(run: Run) -> set[str]:
    return {f"{run.case.path.name}:{line}" for line in deciding.lines_named(run.case)}


def test_the_deciding_line_is_among_the_decisions(named: dict[str, list[str]]) -> None:
    missed = {run.name for run in RUNS if not _wanted(run) & set(named[run.name])}
    for name in sorted(missed):
        print(f"{name}: {named[name]}: {REASONS.get(name, 'the reason is not known')}")
    assert missed == REASONS.keys()
    assert len(missed) <= (1 - FOUND) * len(RUNS)


def test_few_lines_are_named(named: dict[str, list[str]]) -> None:
    assert mean(map(len, named.values())) <= MOST_NAMED


def test_enough_headers_name_a_deciding_line() -> None:
    assert len(RUNS) >= FEWEST_SCRIPTS


@pytest.mark.parametrize(
    "name",
    [
        "matching/root_differs",
        "matching/root_of_reduce_differs",
        "matching/reduce_op_differs_often",
    ],
)
def test_no_tensor_decides_a_root_or_a_reduce_op(name: str) -> None:
    run = next(run for run in corpus.runs() if run.name == name)
    finding = recorded(run, ENTRIES[run.name]).finding
    assert finding is not None
    assert finding.decisions
    assert [one.text for one in finding.decisions if "torch.ones" in one.text] == []

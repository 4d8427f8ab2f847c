"""Mistakes that users of frameworks make: kind, rank, line, cause and fix; and their twins.

Each is written like a case of tests/zoo, whose headers say what must be found. Two ranks: so every
verdict here is one where numbers decide nothing.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest

from collectrace.align import align
from collectrace.errors import CollectraceError
from collectrace.findings import Alignment
from tests.frameworks import launching, recordings
from tests.zoo.case import Case, read
from tests.zoo.runner import Outcome
from tests.zoo.verdict import Verdict

LIMIT = 170.0
PATIENT = {"COLLECTRACE_STALL_AFTER": "60"}
QUICK = {"COLLECTRACE_STALL_AFTER": "2", "COLLECTRACE_HEARTBEAT": "0.5"}
PACKAGES = {"metric": "torchmetrics", "trainer": "transformers"}
"""What a program needs, where its name does not begin with it."""

MISSED = {
    "deepspeed_expert_skipped": "that a module was left out, not a condition",
    "metric_kept_behind_the_loop": "that a metric keeps its value: two frameworks are at work",
}
"""What is not told of a case, though kind, ranks and line are right."""

CASES = [
    read(path)
    for path in sorted((launching.HERE / "mistakes").glob("*.py"))
    if path.read_text().startswith('"""')
]


def error(logs: Path) -> Alignment | None:
    """What is found in logs that are still written, once it is an error."""
    try:
        found = align(logs)
    except CollectraceError:
        return None  # no rank has written a line yet
    return found if any(f.severity == "error" for f in found.findings) else None


def needs(case: Case) -> None:
    first = case.path.stem.partition("_")[0]
    package = PACKAGES.get(first, first)
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@pytest.mark.timeout(LIMIT + 130)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.stem)
def test_the_mistake_is_told_in_the_words_of_its_framework(case: Case, tmp_path: Path) -> None:
    needs(case)
    folder, found = tmp_path / "run", None
    with launching.started(case.path, folder, "--traced", env=QUICK) as process:
        until = time.monotonic() + LIMIT
        while found is None and time.monotonic() < until:
            ended = process.poll() is not None
            time.sleep(1)
            found = error(folder / "logs")
            if found is not None and recordings.IS_WANTED:
                recordings.keep(case, folder, found)
            if ended:
                break
        # What its evidence is at that moment: when it ends, ranks have raised, too.
        assert found is not None, launching.output(folder)
    held(Verdict(case, False, Outcome((), folder, folder / "logs"), found))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.stem)
def test_the_recording_is_judged_alike(case: Case, tmp_path: Path) -> None:
    """Without the framework, and without the text of its files."""
    held(recordings.judged(case, tmp_path))


def held(verdict: Verdict) -> None:
    """Hold a verdict against what its case says, or against what is known to be missed."""
    told = verdict.finding
    assert told is not None
    assert verdict.problems == [], told
    wrong = verdict.cause_problems + verdict.fix_problems
    is_missed = verdict.case.path.stem in MISSED
    assert bool(wrong) == is_missed, (wrong, told.headline, told.cause, told.notes, told.fix)


@pytest.mark.timeout(LIMIT + 130)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.stem)
def test_the_twin_is_left_alone(case: Case, tmp_path: Path) -> None:
    needs(case)
    folder = tmp_path / "run"
    arguments = ("--traced", "--twin")
    with launching.started(case.path, folder, *arguments, env=PATIENT) as process:
        process.wait(LIMIT)
    assert process.returncode == 0, launching.output(folder)
    found = align(folder / "logs")
    assert found.status == "aligned"
    assert {finding.severity for finding in found.findings} <= {"info"}

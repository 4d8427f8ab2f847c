"""Every recorded run of the collection, held to the header of its script."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support import decisions
from tests.zoo import corpus, decided, deciding, missed
from tests.zoo.corpus import Run
from tests.zoo.verdict import Verdict, recorded

ENTRIES: Final = corpus.index()
RUNS: Final = corpus.runs()
_CONSTRAINTS: Final = (corpus.ROOT / "tools" / "constraints.txt").read_text()
TORCH: Final = _CONSTRAINTS.rpartition("torch==")[2].strip()
"""The version that everything else runs on."""


MOST_LINES: Final = 24
"""Lines of the program that a finding shows."""


NAMING: Final = [
    run for run in RUNS if not run.twin and run.case.is_error and deciding.lines_named(run.case)
]
"""Runs whose scripts name the line that decided."""

FEWEST_NAMING: Final = 130
"""Fewer: the headers are no longer understood."""

MOST_NAMED: Final = 7
"""Decisions of a finding."""


def each(runs: Iterable[Run]) -> pytest.MarkDecorator:
    """Try a test on each of these runs, by their names."""
    return pytest.mark.parametrize("run", [*runs], ids=lambda run: run.name)


def each_of(*names: str) -> pytest.MarkDecorator:
    return each(run for run in RUNS if run.name in names)


def record(*names: str) -> str:
    """The command that records these anew."""
    return f"run: {corpus.COMMAND} '^({'|'.join(names)})$'"


def problem(name: str, program: str) -> str | None:
    """What is wrong with a recording before anybody looks into it."""
    entry = ENTRIES.get(name)
    if entry is None or not entry.path.exists():
        return "is not recorded"
    if entry.program != program:
        return "has changed since it was recorded"
    if entry.torch.partition("+")[0] != TORCH:
        return f"was recorded with torch {entry.torch}"
    return None


JUDGED: Final[dict[str, Verdict]] = {}
"""By name: both tests of a script look at one verdict."""


def current(run: Run) -> Verdict:
    """The verdict on a run whose recording is of this very script."""
    stale = problem(run.name, run.program)
    if stale is not None:
        pytest.fail(f"{run.name} {stale}; {record(run.name)}", pytrace=False)
    if run.name not in JUDGED:
        JUDGED[run.name] = recorded(run, ENTRIES[run.name])
    return JUDGED[run.name]


def fail(run: Run, wrong: Sequence[str], verdict: Verdict) -> None:
    """Say what is wrong, and what to look at."""
    lines = [f"{run.name}: the recorded run is not judged as its script's header says:"]
    lines += [f"  {problem}" for problem in wrong]
    lines.append(f"found, status {verdict.alignment.status}:")
    for one in verdict.alignment.findings:
        lines.append(f"  {one.severity} {one.kind} {one.suspects}: {one.headline}")
        lines += [f"    cause: {one.cause}", f"    fix: {one.fix}"]
    lines.append(f"Mend the aligner or, if it is wrong, the header of {run.case.path}.")
    lines.append(f"If the tracer records something else now, {record(run.name)}")
    pytest.fail("\n".join(lines), pytrace=False)


@each(RUNS)
def test_verdict(run: Run) -> None:
    """Kind, ranks, line and status are those of the header; in a twin nothing is found."""
    verdict = current(run)
    if run.name in missed.VERDICTS:
        assert verdict.problems, f"{run.name} is right: take it from tests/zoo/missed.py"
    elif verdict.problems:
        fail(run, verdict.problems, verdict)


@each(run for run in RUNS if not run.twin)
def test_words(run: Run) -> None:
    """The cause is what is true of the script, and so is the advice."""
    verdict = current(run)
    wrong = verdict.cause_problems + verdict.fix_problems
    if run.name in missed.WORDS:
        assert wrong, f"{run.name} is right: take it from tests/zoo/missed.py"
    elif wrong:
        fail(run, wrong, verdict)


@each(run for run in RUNS if not run.twin)
def test_no_place_is_lost(run: Run) -> None:
    """The lines of the program that a finding shows include those of its calls, in order."""
    found = current(run).finding
    if found is None or found.severity == "info":
        return
    shown = [(part.path, line.line) for part in found.excerpt or () for line in part.lines]
    sites = {side.call.site for side in found.sides if side.call is not None and side.call.site}
    assert sites <= {f"{path}:{line}" for path, line in shown}
    for part in found.excerpt or ():
        numbers = [line.line for line in part.lines]
        assert numbers == sorted(set(numbers))
    assert len(shown) <= MOST_LINES


@each(run for run in RUNS if not run.twin and run.case.is_error)
def test_the_lines_of_a_headline_are_shown(run: Run) -> None:
    found = current(run).finding
    if found is None:
        return
    shown = {
        f"{Path(part.path).name}:{one.line}" for part in found.excerpt or () for one in part.lines
    }
    lacking = {*_SITE.findall(found.headline)} - shown
    assert bool(lacking) == (run.name in missed.PLACES), lacking


_SITE: Final = re.compile(r"\w+\.py:\d+")


@each(NAMING)
def test_the_line_that_decided_is_named(run: Run) -> None:
    """Where a header names one it is among the decisions of the finding, which are few."""
    found = current(run).finding
    named = [one.site.rpartition("/")[2] for one in (found.decisions if found else None) or ()]
    wanted = {f"{run.case.path.name}:{line}" for line in deciding.lines_named(run.case)}
    assert wanted.isdisjoint(named) == (run.name in missed.DECIDING), named
    assert len(named) <= MOST_NAMED


@each_of(
    "matching/root_differs",
    "matching/root_of_reduce_differs",
    "matching/reduce_op_differs_often",
)
def test_no_tensor_decides_a_root_or_a_reduce_op(run: Run) -> None:
    found = current(run).finding
    assert found is not None
    assert found.decisions
    assert [one.text for one in found.decisions if "torch.ones" in one.text] == []


@each_of(
    "loops/hook_of_another_kind",
    "matching/meter_formatted_on_one_rank",
    "sharded/block_run_by_itself",
)
def test_a_line_that_made_a_call_computes_no_value(run: Run) -> None:
    found = current(run).finding
    assert found is not None
    assert found.code == "CT106"
    assert "The result of" not in found.cause
    assert found.fix.startswith("Make what")


def test_enough_headers_name_a_deciding_line() -> None:
    assert len(NAMING) >= FEWEST_NAMING


@pytest.mark.parametrize("shape", decisions.SHAPES)
def test_what_decided_is_named(shape: str, tmp_path: Path) -> None:
    """In every generated program, of each kind and on two and three ranks."""
    name = decided.archive(shape)
    stale = problem(name, decided.program_hash(shape))
    assert stale is None, f"{name} {stale}; {record(name)}"
    files = corpus.packed_files(ENTRIES[name].path)
    wrong = {}
    for program in decided.programs(shape):
        folder = tmp_path / program.name
        logs = corpus.unpack(decided.of_program(files, program), folder)
        if problems := decided.problems(program, corpus.align(logs)):
            wrong[program.name] = problems
        shutil.rmtree(folder)
    assert wrong == {}


def test_nothing_is_recorded_that_is_no_more() -> None:
    names = {run.name for run in RUNS} | {decided.archive(shape) for shape in decisions.SHAPES}
    assert sorted(ENTRIES.keys() - names) == [], f"run: {corpus.COMMAND}"
    assert {*_archives()} == {entry.path for entry in ENTRIES.values()}


def test_all_recordings_together_stay_small() -> None:
    assert sum(path.stat().st_size for path in _archives()) <= corpus.LARGEST


def _archives() -> list[Path]:
    return sorted(corpus.HERE.rglob("*.tar.xz"))

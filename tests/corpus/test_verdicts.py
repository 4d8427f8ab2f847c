"""Every recorded run of the collection, held to the header of its script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from collectrace.align.causes import phrases
from collectrace.findings import Finding
from tests.support import causes, decisions
from tests.support.causes import Causes
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

FEWEST_NAMING: Final = 130
"""Fewer: the headers are no longer understood."""

MOST_NAMED: Final = 7
"""Decisions of a finding."""

_LONGEST_SENTENCES: Final = 3
_MOST_FIXES: Final = 3


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


@dataclass(frozen=True)
class Judged:
    """A recorded run, its verdict, and the causes that were tried."""

    run: Run
    verdict: Verdict
    causes: Causes

    @property
    def finding(self) -> Finding | None:
        return self.verdict.finding


def judged(run: Run) -> Judged:
    """Judge a run whose recording is of this very script."""
    stale = problem(run.name, run.program)
    if stale is not None:
        pytest.fail(f"{run.name} {stale}; {record(run.name)}", pytrace=False)
    with causes.tried() as applied:
        verdict = recorded(run, ENTRIES[run.name])
    return Judged(run, verdict, causes.of_alignment(run.name, verdict.alignment, applied))


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
    """The answer is that of the header; its words are true, its lines shown, its causes in order.

    In a twin nothing is found.
    """
    one = judged(run)
    wrong = unless_missed(run, one.verdict.problems, missed.VERDICTS)
    wrong += [problem for check in OF_CAUSES for problem in check(one)]
    if not run.twin:
        said = one.verdict.cause_problems + one.verdict.fix_problems
        wrong += unless_missed(run, said, missed.WORDS)
        wrong += lost_places(one)
    if not run.twin and run.case.is_error:
        wrong += unless_missed(run, lines_not_shown(one), missed.PLACES)
        wrong += unless_missed(run, decisions_not_named(one), missed.DECIDING)
    if wrong:
        fail(run, wrong, one.verdict)


def unless_missed(run: Run, wrong: list[str], known: Mapping[str, str]) -> list[str]:
    """What is wrong that nobody knows of; or that something is right that is said to be missed."""
    if run.name not in known:
        return wrong
    return [] if wrong else [f"{known[run.name]}: it is right, take it from tests/zoo/missed.py"]


def lost_places(one: Judged) -> Iterator[str]:
    """The lines of the program that a finding shows include those of its calls, in order."""
    found = one.finding
    if found is None or found.severity == "info":
        return
    shown = [(part.path, line.line) for part in found.excerpt or () for line in part.lines]
    sites = {side.call.site for side in found.sides if side.call is not None and side.call.site}
    if lost := sites - {f"{path}:{line}" for path, line in shown}:
        yield f"the excerpt shows no {sorted(lost)}"
    for part in found.excerpt or ():
        numbers = [line.line for line in part.lines]
        if numbers != sorted(set(numbers)):
            yield f"the excerpt is out of order: {numbers}"
    if len(shown) > MOST_LINES:
        yield f"the excerpt has {len(shown)} lines"


_SITE: Final = re.compile(r"\w+\.py:\d+")


def lines_not_shown(one: Judged) -> list[str]:
    """Lines of the headline that the excerpt lacks."""
    found = one.finding
    if found is None:
        return []
    shown = {
        f"{Path(part.path).name}:{one.line}" for part in found.excerpt or () for one in part.lines
    }
    lacking = {*_SITE.findall(found.headline)} - shown
    return [f"the excerpt shows no {line} of the headline" for line in sorted(lacking)]


def decisions_not_named(one: Judged) -> list[str]:
    """Where a header names a line that decided it is among the decisions, which are few."""
    case, found = one.run.case, one.finding
    wanted = {f"{case.path.name}:{line}" for line in deciding.lines_named(case)}
    sites = [decision.site for decision in (found.decisions if found else None) or ()]
    named = [site.rpartition("/")[2] for site in sites]
    if wanted and (wanted.isdisjoint(named) or len(named) > MOST_NAMED):
        return [f"expected a decision at {sorted(wanted)}, found {named}"]
    return []


# -- causes ----------------------------------------------------------------------------------


def codes_are_as_expected(one: Judged) -> Iterator[str]:
    """A cause wins in its example, and does not apply in its counter-example; one of two yields."""
    name, found = one.run.name, one.causes
    lacking = {row.code for row in causes.in_use() if row.example == name} - found.winning
    excess = {row.code for row in causes.in_use() if row.counter_example == name} & found.applying
    yield from (f"it is the example of {code}" for code in lacking)
    yield from (f"it is the counter-example of {code}" for code in excess)
    yield from (f"{a} and {b} apply, and none yields" for a, b in causes.undecided(found))
    yield from (f"a {it.kind} has no code" for it in found.applied if it.winner is None)


def words_are_few(one: Judged) -> Iterator[str]:
    """A headline is one short line; reasons are few sentences, and fixes are few."""
    for said in (it.said for it in one.causes.applied if it.said is not None):
        is_long = len(said.headline) > phrases.HEADLINE
        if is_long or re.search(r"(?<!\.\.)\.$", said.headline):
            yield f"the headline is no short line: {said.headline}"
        if _sentences(said.why) > _LONGEST_SENTENCES:
            yield f"the cause has many sentences: {' | '.join(said.why)}"
        if len(said.fixes) > _MOST_FIXES:
            yield f"many fixes: {' | '.join(said.fixes)}"


OF_CAUSES: Final = (codes_are_as_expected, words_are_few)

_ERROR: Final = r"\w+(Error|Exception): .*?(?= \()"
"""A text of an exception's, before the line that raised it."""


def _sentences(why: tuple[str, ...]) -> int:
    """How many there are; quoted code and messages do not count."""
    plain = re.sub(_ERROR, "", re.sub(r"`[^`]*`", "", " ".join(why)))
    plain = re.sub(r"\([^()]*\)", "", plain)
    return len(re.findall(r"[.!?](?= [A-Z]|$)", plain))


# -- one by one ------------------------------------------------------------------------------


@each_of(
    "matching/root_differs",
    "matching/root_of_reduce_differs",
    "matching/reduce_op_differs_often",
)
def test_no_tensor_decides_a_root_or_a_reduce_op(run: Run) -> None:
    found = judged(run).finding
    assert found is not None
    assert found.decisions
    assert [one.text for one in found.decisions if "torch.ones" in one.text] == []


@each_of(
    "loops/hook_of_another_kind",
    "matching/meter_formatted_on_one_rank",
    "sharded/block_run_by_itself",
)
def test_a_line_that_made_a_call_computes_no_value(run: Run) -> None:
    found = judged(run).finding
    assert found is not None
    assert found.code == "CT106"
    assert "The result of" not in found.cause
    assert found.fix.startswith("Make what")


def test_enough_headers_name_a_deciding_line() -> None:
    naming = [run for run in RUNS if not run.twin and run.case.is_error]
    assert sum(bool(deciding.lines_named(run.case)) for run in naming) >= FEWEST_NAMING


@pytest.mark.parametrize("shift", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", decisions.SHAPES)
def test_what_decided_is_named(shape: str, shift: int) -> None:
    """In every generated program, of each kind; on two and on three ranks in turn."""
    name = decided.archive(shape)
    stale = problem(name, decided.program_hash(shape))
    assert stale is None, f"{name} {stale}; {record(name)}"
    files = corpus.packed_files(ENTRIES[name].path)
    wrong = {}
    turn = [*decisions.SHAPES].index(shape) + shift
    for n, kind in enumerate(decisions.KINDS):
        program = decided.Program(kind, shape, decided.RANKS[(n + turn) % len(decided.RANKS)])
        with corpus.unpacked(decided.of_program(files, program)) as logs:
            if problems := decided.problems(program, corpus.align(logs)):
                wrong[program.name] = problems
    assert wrong == {}


def test_nothing_is_recorded_that_is_no_more() -> None:
    names = {run.name for run in RUNS} | {decided.archive(shape) for shape in decisions.SHAPES}
    assert sorted(ENTRIES.keys() - names) == [], f"run: {corpus.COMMAND}"
    assert {*_archives()} == {entry.path for entry in ENTRIES.values()}


def test_all_recordings_together_stay_small() -> None:
    assert sum(path.stat().st_size for path in _archives()) <= corpus.LARGEST


def _archives() -> list[Path]:
    return sorted(corpus.HERE.rglob("*.tar.xz"))

"""The case collection on real ranks, each run held to its header and to its recording.

By default a sample of it; ``tools/test --slow`` runs every case and every twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, cast

import pytest

from tests.support import torch_names
from tests.zoo import corpus, missed, rivals
from tests.zoo.case import HERE, marked_lines, read
from tests.zoo.corpus import Run
from tests.zoo.protocol import Mode
from tests.zoo.runner import Server
from tests.zoo.sample import sample
from tests.zoo.verdict import Verdict, check, recorded

COLLECTION: Final = corpus.runs()
ALL: Final = [run for run in COLLECTION if not torch_names.lacking(run.case.source)]
ENTRIES: Final = corpus.index()
SAMPLE: Final = sample(ALL, ENTRIES)

AT_A_TIME: Final = 8
"""Runs; most of them only wait for a timeout, and beside them other workers run jobs."""

Judge = Callable[[Run, pytest.FixtureRequest], Verdict]


def parametrized(runs: Iterable[Run]) -> list[object]:
    """Those of the sample are run by default."""
    return [
        pytest.param(run, id=run.name, marks=() if run.name in SAMPLE.names else pytest.mark.slow)
        for run in runs
    ]


@pytest.fixture(scope="module")
def judge(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    """All the runs that are asked for, side by side; each test waits for its own.

    A test that is tried again gets a run of its own, for the first one is what failed.
    """
    runs = [
        cast("Run", item.callspec.params["run"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function in {test_verdict, test_words}
    ]
    asked = {run.name: run for run in runs}
    base = tmp_path_factory.mktemp("zoo")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        futures: dict[str, Future[Verdict]] = {
            name: pool.submit(
                check, server, run.case, twin=run.twin, folder=base / f"{n}-{run.case.path.stem}"
            )
            for n, (name, run) in enumerate(asked.items())
        }

        def judged(run: Run, test: pytest.FixtureRequest) -> Verdict:
            attempt = getattr(test.node, "execution_count", 1)
            if attempt == 1:
                return futures[run.name].result()
            folder = base / f"{attempt}-{test.node.originalname}-{run.name.replace('/', '-')}"
            return check(server, run.case, twin=run.twin, folder=folder)

        yield judged
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("run", parametrized(ALL))
def test_verdict(run: Run, judge: Judge, request: pytest.FixtureRequest) -> None:
    verdict = judge(run, request)
    said = [f"{f.severity} {f.kind} {f.suspects}: {f.headline}" for f in verdict.alignment.findings]
    if run.name not in missed.VERDICTS:
        assert verdict.problems == [], (verdict.outcome.exits, said)
    is_certain = run.twin or (len(run.case.expect) == 1 and len(run.case.status(run.twin)) == 1)
    if is_certain and run.name in ENTRIES:
        assert told(verdict) == told(recorded(run, ENTRIES[run.name]))


def told(verdict: Verdict) -> tuple[str, str | None, tuple[int, ...]]:
    """What a run and its recording must have in common."""
    found = verdict.finding
    kind, suspects = (found.kind, found.suspects) if found is not None else (None, ())
    return verdict.alignment.status, kind, suspects


@pytest.mark.parametrize("run", parametrized(run for run in ALL if not run.twin))
def test_words(run: Run, judge: Judge, request: pytest.FixtureRequest) -> None:
    """The cause is what is true of the script, and so is the advice."""
    verdict = judge(run, request)
    wrong = verdict.cause_problems + verdict.fix_problems
    if run.name not in missed.WORDS:
        assert wrong == [], [(f.headline, f.cause, f.fix) for f in verdict.alignment.findings]


def test_the_sample_has_an_example_of_everything() -> None:
    """Of each kind of finding, of record, of op, of role, of state, and of each class."""
    assert SAMPLE.uncovered == ()


def test_a_mistake_has_a_marked_line_and_can_be_put_right() -> None:
    for case in (run.case for run in COLLECTION if run.case.expect and not run.twin):
        assert marked_lines(case.source) or case.severity != "error", case.name
        assert case.has_twin or case.synthetic or case.path.parent.name == "healthy", case.name
        assert case.cause.requirements, case.name
        assert case.fix.requirements or case.severity == "info", case.name


@pytest.mark.parametrize("mode", ["detail", "recorder"])
def test_rivals_are_heard(mode: Mode, server: Server, tmp_path: Path) -> None:
    """A mismatch that torch's own tools are known to find, and its twin."""
    case = read(HERE / "matching" / "missing_on_one_rank.py")
    found = rivals.hear(server, case, mode, twin=False, folder=tmp_path / "case")
    quiet = rivals.hear(server, case, mode, twin=True, folder=tmp_path / "twin")
    assert found.spoke
    assert found.is_right(case)
    assert not quiet.spoke
    assert not found.broke
    assert not quiet.broke

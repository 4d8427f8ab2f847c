"""The case collection: every case and every twin on real ranks, each held to its header."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, cast

import pytest

from tests.support import torch_names
from tests.zoo import rivals
from tests.zoo.case import HERE, Case, collection, marked_lines, read
from tests.zoo.protocol import Mode
from tests.zoo.runner import Server
from tests.zoo.verdict import Verdict, check

CASES: Final = list(collection())
RUNNABLE: Final = [case for case in CASES if not torch_names.lacking(case.source)]
TWINS: Final = [case for case in RUNNABLE if case.has_twin]
QUICK: Final = 8
"""Of so many twins one is run by default."""

RUNS: Final = [
    *((case, False) for case in RUNNABLE),
    *((case, True) for case in TWINS[::QUICK]),
    # The others take minutes that a quick run does not have.
    *(
        pytest.param((case, True), marks=pytest.mark.slow)
        for n, case in enumerate(TWINS)
        if n % QUICK
    ),
]
AT_A_TIME: Final = 16
"""Runs; most of them only wait for a timeout."""

Judge = Callable[[tuple[Case, bool], pytest.FixtureRequest], Verdict]


@pytest.fixture(scope="module")
def judge(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    """All the runs that are asked for, side by side; each test waits for its own.

    A test that is tried again gets a run of its own, for the first one is what failed.
    """
    runs = [
        cast("tuple[Case, bool]", item.callspec.params["run"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function in {test_verdict, test_words}
    ]
    asked = {name_of(run): run for run in runs}
    base = tmp_path_factory.mktemp("zoo")
    with Server() as server, ThreadPoolExecutor(AT_A_TIME) as pool:
        futures: dict[str, Future[Verdict]] = {
            name: pool.submit(check, server, case, twin=twin, folder=base / f"{n}-{case.path.stem}")
            for n, (name, (case, twin)) in enumerate(asked.items())
        }

        def judged(run: tuple[Case, bool], test: pytest.FixtureRequest) -> Verdict:
            attempt = getattr(test.node, "execution_count", 1)
            if attempt == 1:
                return futures[name_of(run)].result()
            folder = base / f"{attempt}-{test.node.originalname}-{name_of(run).replace('/', '-')}"
            return check(server, run[0], twin=run[1], folder=folder)

        yield judged
        pool.shutdown(cancel_futures=True)


def name_of(run: tuple[Case, bool]) -> str:
    case, twin = run
    return f"{case.name}{' (twin)' if twin else ''}"


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_verdict(run: tuple[Case, bool], judge: Judge, request: pytest.FixtureRequest) -> None:
    verdict = judge(run, request)
    said = [f"{f.severity} {f.kind} {f.suspects}: {f.headline}" for f in verdict.alignment.findings]
    assert verdict.problems == [], (verdict.outcome.exits, said)


@pytest.mark.parametrize("run", [(case, False) for case in RUNNABLE], ids=name_of)
def test_words(run: tuple[Case, bool], judge: Judge, request: pytest.FixtureRequest) -> None:
    """The cause is what is true of the script, and so is the advice."""
    verdict = judge(run, request)
    wrong = verdict.cause_problems + verdict.fix_problems
    assert wrong == [], [(f.headline, f.cause, f.fix) for f in verdict.alignment.findings]


@pytest.mark.parametrize("case", [c for c in CASES if c.expect], ids=lambda case: case.name)
def test_a_mistake_has_a_marked_line_and_can_be_put_right(case: Case) -> None:
    assert marked_lines(case.source) or case.severity != "error"
    assert case.has_twin or case.synthetic or case.path.parent.name == "healthy"
    assert case.cause.requirements
    assert case.fix.requirements or case.severity == "info"


@pytest.mark.parametrize("mode", ["detail", "recorder"])
def test_rivals_are_heard(mode: Mode, tmp_path: Path) -> None:
    """A mismatch that torch's own tools are known to find, and its twin."""
    case = read(HERE / "matching" / "missing_on_one_rank.py")
    with Server() as server:
        found = rivals.hear(server, case, mode, twin=False, folder=tmp_path / "case")
        quiet = rivals.hear(server, case, mode, twin=True, folder=tmp_path / "twin")
    assert found.spoke
    assert found.is_right(case)
    assert not quiet.spoke
    assert not found.broke
    assert not quiet.broke

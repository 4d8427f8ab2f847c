"""Jobs in which nothing is wrong, with all that comparing notes may do to a job that is.

The collection's healthy cases, and the correct twins of its mistakes: with ``on_divergence=exit``
every rank ends as it ends without, and nobody is told anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, cast

import pytest

from tests.support import torch_names
from tests.zoo import corpus
from tests.zoo.case import HERE, Case, read
from tests.zoo.runner import Outcome, Server

IMPATIENT: Final = {"COLLECTRACE_HEARTBEAT": "0.2", "COLLECTRACE_STALL_AFTER": "0.5"}
"""Whoever waits for half a second has all ranks looked at."""

ONLINE: Final = IMPATIENT | {"COLLECTRACE_ONLINE": "1", "COLLECTRACE_ON_DIVERGENCE": "exit"}

_TWINS: Final = 5
"""Of each folder, at equal distances."""

_USUAL: Final = frozenset(
    {
        "healthy/checkpoint_takes_long", "healthy/crashed_everywhere",
        "healthy/every_collective", "healthy/join_zero_one_two",
        "healthy/refused_and_repaired", "healthy/work_queue",
        "join/inputs_uneven_barrier_every_step", "p2p/both_receive_first",
    }
)  # fmt: skip
"""Those that take part in every run of the tests: which wait, raise, end early, meet again."""

_AT_A_TIME: Final = 4
"""Runs; many only wait."""

Run = tuple[Case, bool]


def _runs() -> Iterator[Run]:
    twins: dict[str, list[Case]] = {}
    for case in (run.case for run in corpus.runs() if not run.twin):
        if case.synthetic or torch_names.lacking(case.source):
            continue
        folder = case.path.parent.name
        if folder == "healthy":
            yield case, False
        elif case.has_twin:
            twins.setdefault(folder, []).append(case)
    for cases in twins.values():
        apart = max(1, len(cases) // _TWINS)
        for n, case in enumerate(cases):
            if case.name in _USUAL or (n % apart == 0 and n < apart * _TWINS):
                yield case, True


def _name(run: Run) -> str:
    case, twin = run
    return f"{case.name}{' (twin)' if twin else ''}"


RUNS: Final = [
    pytest.param(run, id=_name(run), marks=() if run[0].name in _USUAL else pytest.mark.slow)
    for run in _runs()
]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[tuple[Outcome, Outcome]]]]:
    """What each of the runs that are asked for leaves, with and without, side by side."""
    asked = [
        cast("Run", item.callspec.params["run"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.function is test_a_healthy_job_is_never_touched
    ]
    base = tmp_path_factory.mktemp("healthy")

    def both(number: int, run: Run) -> tuple[Outcome, Outcome]:
        with_it, without = base / f"{number}-with", base / f"{number}-without"
        return _outcome(server, run, with_it, ONLINE), _outcome(server, run, without, IMPATIENT)

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        yield {_name(run): pool.submit(both, n, run) for n, run in enumerate(asked)}
        pool.shutdown(cancel_futures=True)


def _outcome(server: Server, run: Run, folder: Path, options: dict[str, str]) -> Outcome:
    case, twin = run
    with server.run(case, twin=twin, folder=folder, options=options) as outcome:
        return outcome


@pytest.mark.parametrize("run", RUNS)
def test_a_healthy_job_is_never_touched(
    run: Run, outcomes: dict[str, Future[tuple[Outcome, Outcome]]]
) -> None:
    case, _ = run
    with_it, without = outcomes[_name(run)].result()
    said = [with_it.output(rank) for rank in range(case.ranks)]
    assert with_it.exits == without.exits, said
    assert not any(map(_was_told, said)), said
    errors = [
        found["headline"]
        for file in with_it.logs.glob("*/verdict.*.json")
        for found in json.loads(file.read_text())["findings"]
        if found["severity"] == "error"
    ]
    assert errors == []
    assert not any('"error":"DivergenceError"' in text for text in _records(with_it))


def test_a_mistake_ends_under_the_same_options(server: Server, tmp_path: Path) -> None:
    case = read(HERE / "join" / "inputs_uneven_barrier_at_the_end.py")
    with server.run(
        case, twin=False, folder=tmp_path / "run", options=ONLINE, patience=60
    ) as outcome:
        pass  # what it finds ends it
    said = [outcome.output(rank) for rank in range(case.ranks)]
    assert any(map(_was_told, said)), said
    assert any('"error":"DivergenceError"' in text for text in _records(outcome))


def _was_told(said: str) -> bool:
    return "the whole report: " in said or "(details: output of rank" in said


def _records(outcome: Outcome) -> list[str]:
    return [file.read_text() for file in outcome.logs.glob("*/rank*.jsonl")]

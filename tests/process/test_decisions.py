"""What decided is named: every kind of line that may decide, in every shape of program.

By default a sample of the programs runs live; all of them are judged from their recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, cast

import pytest

from collectrace.align import align
from collectrace.findings import Alignment
from tests.zoo import decided
from tests.zoo.decided import Program
from tests.zoo.runner import Server

QUICK: Final = 200
"""Of so many programs one is run by default."""

PROGRAMS: Final = [
    pytest.param(one, id=one.name, marks=() if n % QUICK == 0 else pytest.mark.slow)
    for n, one in enumerate(decided.programs())
]
AT_A_TIME: Final = 4

Told = Callable[[Program], Alignment]


@pytest.fixture(scope="module")
def told(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    """What is said of a program; all run side by side."""
    base = tmp_path_factory.mktemp("decisions")

    def run(program: Program) -> Alignment:
        case = program.written(base).case
        with server.run(case, twin=False, folder=base / program.name) as outcome:
            return align(outcome.logs)

    asked = [
        cast("Program", item.callspec.params["program"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_what_decided_is_named
    ]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        futures: dict[Program, Future[Alignment]] = {one: pool.submit(run, one) for one in asked}
        yield lambda one: futures[one].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_decided_is_named(program: Program, told: Told) -> None:
    assert decided.problems(program, told(program)) == []

"""What decided is named: every kind of line that may decide, in every shape of program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from typing import Final, cast

import pytest

from collectrace.align import align
from collectrace.findings import Alignment, Finding
from tests.support import decisions
from tests.zoo.case import marked_places, read
from tests.zoo.runner import Server

ALL: Final = list(product(decisions.KINDS, decisions.SHAPES, (2, 3)))
QUICK: Final = 19
"""Of so many programs one is run by default: each kind, and each shape with both numbers of ranks
that often as it comes."""

PROGRAMS: Final = [
    one if n % QUICK == 0 else pytest.param(one, marks=pytest.mark.slow)
    for n, one in enumerate(ALL)
]
AT_A_TIME: Final = 4
HARMFUL: Final = ("drop_last", "DataLoader", "join()", "find_unused_parameters", "dst ")
"""No program has what this is about."""

Program = tuple[str, str, int]
Told = Callable[[Program], tuple[Alignment, list[str]]]


def name_of(program: Program) -> str:
    kind, shape, ranks = program
    return f"{kind}_{shape}_{ranks}"


@pytest.fixture(scope="module")
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    """What is said of a program, and where its deciding lines are; all run side by side."""
    base = tmp_path_factory.mktemp("decisions")

    def run(program: Program) -> tuple[Alignment, list[str]]:
        path = base / f"{name_of(program)}.py"
        path.write_text(decisions.program(*program))
        case = read(path)
        with server.run(case, twin=False, folder=base / path.stem) as outcome:
            return align(outcome.logs), marked_places(path, case.source)["WAY"]

    asked = [
        cast("Program", item.callspec.params["program"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_what_decided_is_named
    ]
    with Server() as server, ThreadPoolExecutor(AT_A_TIME) as pool:
        futures: dict[Program, Future[tuple[Alignment, list[str]]]] = {
            one: pool.submit(run, one) for one in asked
        }
        yield lambda one: futures[one].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_what_decided_is_named(program: Program, told: Told) -> None:
    alignment, places = told(program)
    errors = [f for f in alignment.findings if f.severity == "error" and f.caused_by is None]
    assert len(errors) == 1
    found = errors[0]
    assert set(found.suspects) <= {1}
    said = _said(found)
    assert any(place in said for place in places), (said, found.fix)
    assert not [word for word in HARMFUL if word in said + found.fix], (said, found.fix)


def _said(found: Finding) -> str:
    return " ".join((found.headline, found.cause, *found.notes))

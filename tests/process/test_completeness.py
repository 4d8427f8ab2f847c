"""Every collective that torch has is called for real, and must be in the files of its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.process import rows_c10d, rows_functional
from tests.process.ranks import Ran, Ranks
from tests.process.table import (
    TURNED,
    WORLD,
    Row,
    View,
    between_marks,
    mismatch,
    walk,
)
from tests.zoo.runner import Server

GROUPS = (WORLD, TURNED)
TABLES = {"c10d": rows_c10d, "functional": rows_functional}
CASES = [
    pytest.param(name, number, id=f"{row.name}-{number}")
    for name, module in TABLES.items()
    for number, row in enumerate(module.ROWS)
]


@dataclass(frozen=True)
class Walked:
    """One walk through one table."""

    ran: Ran
    raised: list[dict[str, str]]


@pytest.fixture(scope="module")
def walked(server: Server, tmp_path_factory: pytest.TempPathFactory) -> object:
    @cache
    def of(name: str) -> Walked:
        folder: Path = tmp_path_factory.mktemp(name)
        ran = Ranks(server, folder).run(
            walk, len(WORLD), TABLES[name].__name__, limit=100, exits=None
        )
        return Walked(ran, [ran.result(rank) for rank in WORLD])

    return of


@pytest.mark.parametrize(("name", "number"), CASES)
def test_row(walked, name, number):
    row: Row = TABLES[name].ROWS[number]
    walk = walked(name)
    for ordinal, members in enumerate(GROUPS):
        for rank in members if row.on(members) else ():
            raised = walk.raised[rank].get(f"{number}/{ordinal}")
            assert raised is None, f"rank {rank}: {raised}"
            calls = between_marks(walk.ran.calls(rank))[number * len(GROUPS) + ordinal]
            expected = row.expect(View(members, rank))
            assert [c.op for c in calls] == [e["op"] for e in expected], calls
            for call, wanted in zip(calls, expected, strict=True):
                assert mismatch(call, wanted) == {}
                assert call.site in row.site

"""The list of runs, on screens of any width."""

from __future__ import annotations

import io
import re
from typing import Final

import pytest

from collectrace.report import run_table
from collectrace.views import RunRow

ROW: Final = RunRow(
    run="20260116-093000-f00d", verdict="diverged", began=1_768_555_800_000_000_000,
    ended=1_768_555_886_000_000_000, world_size=4, script="train.py --lr 0.1",
    headline="rank 1 skipped all_reduce", hosts=("a", "b"),
)  # fmt: skip


@pytest.mark.parametrize("columns", range(24, 110, 3))
def test_a_number_stays_with_its_unit(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = io.StringIO()
    run_table.write([ROW], out)
    told = out.getvalue()
    assert "4 ranks" in told
    assert "86 s" in told
    assert "\N{NO-BREAK SPACE}" not in told
    assert [line for line in told.splitlines() if re.search(r" \d+$", line)] == []
    assert max(map(len, told.splitlines())) <= columns

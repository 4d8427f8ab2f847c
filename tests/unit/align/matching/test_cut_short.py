"""Logs that end before a call to which their rank came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.alignment import compared
from collectrace.align.matching.comparison import Unproven
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.align.reading.run_reader import read
from tests.support.synthetic import Rank, Run

CPU = StreamKey("0", "cpu")


def cut(run: Run, folder: Path) -> list[Unproven]:
    return [fact for fact in compared(read(run.write(folder))).unproven if fact.why == "cut"]


def ahead(run: Run, op: str = "all_reduce", **fields: Any) -> Rank:
    """Rank 0 has issued two calls more than rank 1, whose log has no end."""
    run.all("all_reduce")
    rank = run.rank(0)
    rank.call(op, **fields)
    rank.call("all_reduce")
    return rank


def test_a_collective_that_holds_its_ranks_proves_it_when_it_returned(tmp_path: Path) -> None:
    run = Run(2)
    ahead(run)
    assert cut(run, tmp_path) == [Unproven(1, "cut", CPU, 2, 0)]


@pytest.mark.parametrize("fields", [{"async_": True}, {"op": "broadcast"}, {"device": "cuda"}])
def test_one_that_may_return_before_all_have_come_does_not(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    run = Run(2)
    ahead(run, **fields)
    assert cut(run, tmp_path) == []


def test_one_that_raised_does_not(tmp_path: Path) -> None:
    run = Run(2)
    ahead(run).done(2, failed=True, error="RuntimeError: Connection closed by peer")
    assert cut(run, tmp_path) == []


def test_a_log_with_a_last_line_is_not_cut_short(tmp_path: Path) -> None:
    run = Run(2)
    ahead(run)
    run.rank(1).exit()
    assert cut(run, tmp_path) == []


def test_a_receive_proves_that_its_message_was_sent(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).recv(1)
    run.rank(0).recv(1)
    assert cut(run, tmp_path) == [Unproven(1, "cut", ChannelKey("0", "cpu", 1, 0, 0), 1, 0)]

"""Two errors at once, or one after the other: each is told, and once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.process.test_online import BEGIN
from tests.support.apart import Apart

GROUPS = (
    BEGIN
    + """
init()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
wrong = {{1: dist.ReduceOp.MAX, 3: dist.ReduceOp.MIN}}.get(rank)
for n in range(10**9):
    op = wrong if wrong and {now} else dist.ReduceOp.SUM
    if rank < 2:
        dist.all_reduce(torch.zeros(4), op=op, group=pairs[0])
    else:
        dist.all_reduce(torch.zeros(1), op=op, group=pairs[1])  # another line, another error
    time.sleep(0.01)
"""
)


def told(ranks: Apart, op: str) -> list[int]:
    """How often each rank's screen has the headline of the error with this op."""
    line = re.compile(rf"^(collectrace: |error\[CT403\] )ranks disagree: .*\b{op}\b", re.MULTILINE)
    return [len(line.findall(ranks.said(r))) for r in range(ranks.world)]


def test_two_groups_that_part_at_once_are_both_told(tmp_path: Path) -> None:
    with Apart(tmp_path, GROUPS.format(now="n == 100 + rank"), 4, stall_after=600) as ranks:
        ranks.wait_for(lambda: min(told(ranks, "MAX") + told(ranks, "MIN")) > 0)
        assert told(ranks, "MAX") == told(ranks, "MIN") == [1, 1, 1, 1]


@pytest.mark.slow
def test_an_error_after_another_is_told_too(tmp_path: Path) -> None:
    # What has been told of the first is what the second turn still finds first.
    now = """n == 100 + (rank == 3) * 10**9 or (rank == 3 and os.path.exists("now"))"""
    with Apart(tmp_path, GROUPS.format(now=now), 4, stall_after=600) as ranks:
        ranks.wait_for(lambda: min(told(ranks, "MAX")) > 0)
        assert max(told(ranks, "MIN")) == 0
        (tmp_path / "now").touch()
        ranks.wait_for(lambda: min(told(ranks, "MIN")) > 0)
        assert told(ranks, "MAX") == told(ranks, "MIN") == [1, 1, 1, 1]

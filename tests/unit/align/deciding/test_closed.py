"""Branches that a rank cannot have taken, or that a rank must have taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Decision
from tests.unit.align.deciding.program import Program

NESTED = """\
import torch.distributed as dist

def run(rank):
    dist.barrier()  # FIRST
    {outer}
        if slow():  # INNER
            dist.all_reduce(loss)  # ONE
    dist.broadcast(loss, 0)  # TWO

rank = dist.get_rank()
run(rank)  # MAIN
"""

MAIN = ("MAIN", "<module>")


def decisions(folder: Path, text: str) -> dict[str, Decision]:
    """Rank 0 is at ``ONE`` and rank 1 at ``TWO``: by mark what can have decided."""
    program = Program(folder, text)
    for rank, mark in enumerate(("ONE", "TWO")):
        program.call(rank, "barrier", ("FIRST", "run"), MAIN)
        op = "broadcast" if "broadcast" in program.lines[program.line(mark) - 1] else "all_reduce"
        program.run.rank(rank).stuck_in(program.call(rank, op, (mark, "run"), MAIN))
    return {one.text.rpartition("# ")[2]: one for one in program.decisions()}


def test_what_a_condition_on_the_rank_keeps_a_side_from_did_not_decide(tmp_path: Path) -> None:
    found = decisions(tmp_path, NESTED.format(outer="if rank == 0:  # RANK"))
    assert list(found) == ["RANK"]
    assert [side.did for side in found["RANK"].sides] == ["taken", "not_taken"]
    assert found["RANK"].strength == "only"


@pytest.mark.parametrize(
    "outer", ["for rank in peers():  # OUTER\n     if rank == 0:", "if rank == chosen():  # OUTER"]
)
def test_a_name_that_is_not_the_rank_keeps_no_side_from_it(outer: str, tmp_path: Path) -> None:
    assert "INNER" in decisions(tmp_path, NESTED.format(outer=outer))


def test_an_argument_that_is_not_the_rank_keeps_no_side_from_it(tmp_path: Path) -> None:
    text = NESTED.format(outer="if rank == 0:  # RANK").replace(
        "run(rank)  # MAIN", "run(1 - rank)  # MAIN"
    )
    assert "INNER" in decisions(tmp_path, text)


MUST = """\
import torch.distributed as dist

def run(loader):
    dist.barrier()  # FIRST
    for batch in loader:  # LOOP
        if batch.any():  # EARLY
            continue
        if batch.all():  # LATE
            dist.all_reduce(batch)  # ONE
        {rest}
    dist.barrier()

run(loader)  # MAIN
"""


def test_a_condition_that_both_ranks_passed_with_different_outcomes_decided(
    tmp_path: Path,
) -> None:
    found = decisions(tmp_path, MUST.format(rest="dist.broadcast(batch, 0)  # TWO"))
    assert found["LATE"].strength == "only"


def test_a_condition_that_a_rank_may_not_have_reached_is_possible(tmp_path: Path) -> None:
    text = MUST.format(rest="pass").replace("dist.barrier()\n\n", "dist.broadcast(1, 0)  # TWO\n\n")
    found = decisions(tmp_path, text)
    assert {one.strength for one in found.values()} == {"possible"}
    assert {"LOOP", "LATE"} <= found.keys()


CONSTANT = """\
import torch.distributed as dist
from settings import DEBUG

def run(loss):
    dist.barrier()  # FIRST
    {first}
        if DEBUG:  # CONSTANT
            dist.all_reduce(loss)  # ONE
    dist.broadcast(loss, 0)  # TWO

run(loss)  # MAIN
"""


def test_a_constant_decides_only_if_nothing_else_can_have(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    both = decisions(tmp_path / "a", CONSTANT.format(first="if loss.isfinite():  # DATA"))
    assert list(both) == ["DATA"]
    alone = decisions(tmp_path / "b", CONSTANT.format(first="if True:"))
    assert list(alone) == ["CONSTANT"]

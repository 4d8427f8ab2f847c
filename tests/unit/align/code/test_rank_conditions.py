"""The outcome of a condition on the rank, for one rank of four."""

from __future__ import annotations

import ast

import pytest

from collectrace.align.code.files import Files
from collectrace.align.code.places import Place
from collectrace.align.code.program import Program
from collectrace.align.code.rank_conditions import outcome_on
from tests.unit.align.code import standin
from tests.unit.align.code.standin import Texts

PATH = "/rank_conditions/program.py"
WORLD = 4

DEFINED = """
import os
import torch.distributed as dist

rank = int(os.environ["RANK"])
world = dist.get_world_size()
from_launcher = int(os.environ["WORLD_SIZE"])
of_group = dist.get_world_size(group)
LAST = world - 1
PAIR = (0, LAST)
stage, half = rank // 2, rank % 2

class Stage:
    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.is_last = self.rank == self.world - 1
"""

TRUE_ON = {
    "rank == 2": {2},
    "rank == world - 1": {3},
    "rank < dist.get_world_size() - 1": {0, 1, 2},
    "rank == from_launcher - 1": {3},
    "rank != LAST": {0, 1, 2},
    "0 == rank": {0},
    "0 < rank": {1, 2, 3},
    "rank in (1, 3)": {1, 3},
    "rank % 2": {1, 3},
    "rank % 2 == 0": {0, 2},
    "not rank // 2": {0, 1},
    "stage": {2, 3},
    "half == 1 and rank > 1": {3},
    "(rank + 1) % world == 0": {3},
    "rank * 2 >= world": {2, 3},
}
UNKNOWN = (
    "rank == of_group - 1", "rank == losses[rank]", "rank == 4 // 0", "rank < PAIR", "step == 3"
)  # fmt: skip


def outcomes(test: str, head: str = "") -> list[bool | None]:
    """The outcome of a condition below the definitions, by rank; ``head``: its function."""
    indent = "        " if head else ""
    text = f"{DEFINED}{head}{indent}if {test}:  # HERE\n{indent}    pass\n"
    line = next(n for n, one in enumerate(text.split("\n"), 1) if one.endswith("# HERE"))
    program = Program(Files(Texts(**{PATH: text})), WORLD)
    function, graph = standin.graph_at(program, PATH, line)
    tree, place = ast.parse(test, mode="eval").body, Place(function, next(graph.at(line)))
    return [outcome_on(program, tree, place, rank) for rank in range(WORLD)]


@pytest.mark.parametrize("test", TRUE_ON)
def test_the_rank_and_the_number_of_ranks_decide(test: str) -> None:
    assert outcomes(test) == [rank in TRUE_ON[test] for rank in range(WORLD)]


@pytest.mark.parametrize("test", UNKNOWN)
def test_what_is_not_of_the_rank_alone_is_not_known(test: str) -> None:
    assert outcomes(test) == [None] * WORLD


def test_an_attribute_holds_a_condition_on_the_rank() -> None:
    head = "    def run(self):\n"
    assert outcomes("self.is_last", head) == [False, False, False, True]
    assert outcomes("not self.rank", head) == [True, False, False, False]

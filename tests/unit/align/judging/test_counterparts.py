"""Two ranks, one under a condition on the rank: not to blame where the other left out its part."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

OWN = """\
def publish():
    dist.broadcast(plan, src=0)  # HERE publish
"""

MINE = (
    OWN
    + """\
{others}
for step in range(9):
    dist.all_reduce(x)  # THERE <module>
    if rank == 0 and step == 3:
        publish()  # CALLER <module>
{after}
"""
)

FETCH = """\
def fetch():
    dist.broadcast(plan, src=0)
"""

SECOND = """\
def second():
    dist.broadcast(more, src=0)
"""


def told(folder: Path, source: str) -> Finding:
    """What is found where rank 0 alone came to what is marked as ``HERE``."""
    train = folder / "train.py"
    train.write_text(source)
    marked: dict[str, str] = {}
    for number, line in enumerate(source.splitlines(), 1):
        for mark in ("HERE", "THERE", "CALLER"):
            if f"# {mark} " in line:
                marked[mark] = f"{train}:{number} {line.rpartition(' ')[2]}"
    run = Run(2)
    for rank in run:
        usual, own = [marked["THERE"]], [marked["HERE"], marked["CALLER"]]
        rank.record(Stack(stack=1, frames=usual))
        rank.record(Stack(stack=2, frames=own))
        for _ in range(4 if rank.rank == 0 else 5):
            call = rank.call("all_reduce", site=usual[0].partition(" ")[0], stack=1)
        if rank.rank == 0:
            call = rank.call("broadcast", root=0, site=own[0].partition(" ")[0], stack=2)
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


@pytest.mark.parametrize(
    ("others", "after", "suspects"),
    [
        pytest.param("", "", (0,), id="no other line"),
        pytest.param(
            FETCH, "    if rank != 0 and wanted(step):\n        fetch()", (), id="by name"
        ),
        pytest.param(FETCH, "    if wanted(step):\n        fetch()", (), id="by a flag"),
        pytest.param(FETCH, "", (), id="nobody is seen to call it: a hook, perhaps"),
        pytest.param(FETCH, "fetch()", (0,), id="behind the loop, for all"),
        pytest.param(FETCH, "    fetch()", (0,), id="further on in the turn, for all"),
        pytest.param(SECOND, "    if rank == 0:\n        second()", (0,), id="for the same rank"),
        pytest.param(
            "", "    if rank == 1 and wanted(step):\n        publish()", (), id="for another rank"
        ),
        pytest.param("", "    if wanted(step):\n        writer.broadcast(plan)", (0,), id="no op"),
        pytest.param("", "    # dist.broadcast(plan)", (0,), id="a comment"),
    ],
)
def test_a_part_of_the_others_that_no_rank_came_to(
    others: str, after: str, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    assert told(tmp_path, MINE.format(others=others, after=after)).suspects == suspects


def test_what_stands_behind_the_call_in_its_own_function(tmp_path: Path) -> None:
    """Nobody could come to it before."""
    source = MINE.format(others="", after="").replace(
        "# HERE publish\n", "# HERE publish\n    dist.broadcast(more, src=0)\n"
    )
    assert told(tmp_path, source).suspects == (0,)


def test_what_is_in_another_branch_than_the_call(tmp_path: Path) -> None:
    branches = "    if everywhere:\n        publish()\n    elif rank == 0 and step == 3:\n"
    source = MINE.format(others="", after="").replace("    if rank == 0 and step == 3:\n", branches)
    assert told(tmp_path, source).suspects == (0,)

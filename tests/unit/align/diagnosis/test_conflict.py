"""Groups that some ranks left out, or made one more of."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

Asked = tuple[str, list[int]]
PAIR: Asked = ("/job/mesh.py:18", [0, 1])
ALL: Asked = ("/job/mesh.py:19", [0, 1, 2])
OTHER: Asked = ("/job/mesh.py:20", [1, 2])


def asking(scripts: dict[int, list[Asked]], folder: Path) -> Finding:
    """What is told where ranks ask for these groups one after the other."""
    run = Run(3)
    for rank in run:
        for n, (site, ranks) in enumerate(scripts[rank.rank], 1):
            rank.group(str(n), ranks, site=site)
        rank.beat(30)
    run.finish()
    return errors(aligned(run, folder))[0]


@pytest.mark.parametrize(
    ("others", "mine", "told"),
    [
        pytest.param(
            [PAIR, ALL], [ALL],
            "Rank 2 never called new_group([0, 1]) at mesh.py:18, and has gone on to what ranks "
            "0-1 called after it.",
            id="left out",
        ),
        pytest.param(
            [ALL, OTHER], [PAIR, ALL],
            "Rank 2 alone called new_group([0, 1]) at mesh.py:18, and after it what ranks 0-1 "
            "called here.",
            id="one more",
        ),
    ],
)  # fmt: skip
def test_a_group_left_out_or_one_more(
    others: list[Asked], mine: list[Asked], told: str, tmp_path: Path
) -> None:
    found = asking({0: others, 1: others, 2: mine}, tmp_path)
    assert (found.kind, found.suspects) == ("group_mismatch", (2,))
    assert found.cause.endswith(told)


@pytest.mark.parametrize("mine", [[ALL, PAIR], [OTHER, ALL]])
def test_another_order_or_other_groups_are_none(mine: list[Asked], tmp_path: Path) -> None:
    found = asking({0: [PAIR, ALL], 1: [PAIR, ALL], 2: mine}, tmp_path)
    assert found.suspects == (2,)
    assert "never called" not in found.cause
    assert "alone called" not in found.cause


@pytest.mark.parametrize("stacked", [True, False])
def test_where_a_rank_is_that_never_came(*, stacked: bool, tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        if rank.rank == 1:
            rank.beat(28)
            if stacked:
                rank.stall(stacks={"MainThread": ["/job/train.py:22 load"]})
            rank.beat(2)
        else:
            asked = rank.group("1", [0, 1, 2], phase="asked", site="/job/train.py:23")
            rank.beat(30, rank.creating(asked))
    (found,) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("missing_call", (1,))
    assert ("Rank 1 was at train.py:22 (load)." in found.cause) == stacked

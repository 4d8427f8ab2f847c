"""A rank alone in one of two groups' collectives, and what only looks like it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.circles.outnumbered import Outnumbered, outnumbered
from collectrace.records import Call
from tests.support.judging import aligned, errors, of_circles
from tests.support.stacks import Stacks
from tests.support.synthetic import Rank, Run

DENSE, EXPERTS = "optim.py:5", "optim.py:6"


def stages(
    experts: Sequence[int] = (1, 2, 3),
    *,
    first: Collection[int] = (3,),
    stray: int | None = None,
    thread: str | None = None,
) -> Run:
    """Stages of a pipeline sum what is dense, of all of them; in the end that of experts, too.

    Args:
        experts: the group of those who have any.
        first: who comes to the sum of experts first.
        stray: who makes a call that is no other's in the last step.
        thread: in which those who come first call the sum of experts.

    """
    run = Run(4)
    run.group("dense", range(4), site="groups.py:3")
    run.group("experts", experts, site="groups.py:4")
    for _ in range(4):
        for rank in run:
            activations(rank)
            rank.call("all_reduce", "dense", site=DENSE)
    for rank in run:
        activations(rank)
        if rank.rank == stray:
            rank.call("all_reduce", "dense", site="odd.py:2", lost=True)
        rank.stuck_in(_last(rank, first, thread))
    return run


def activations(rank: Rank) -> None:
    """Down the pipeline, as stages do: so each rank is of a kind of its own."""
    if rank.rank:
        rank.recv(rank.rank - 1, site="stage.py:3")
    if rank.rank < 3:
        rank.send(rank.rank + 1, site="stage.py:4")


def _last(rank: Rank, first: Collection[int], thread: str | None) -> Call:
    if rank.rank in first:
        return rank.call("all_reduce", "experts", site=EXPERTS, thread=thread)
    return rank.call("all_reduce", "dense", site=DENSE)


def found(run: Run, folder: Path) -> Outnumbered | None:
    return of_circles(outnumbered, run, folder)


def test_who_came_first_where_nobody_else_of_its_group_did(tmp_path: Path) -> None:
    told = found(stages(), tmp_path)
    assert told is not None
    assert (told.rank, told.both, told.others) == (3, (1, 2), (0, 1, 2))
    assert (told.made.site, told.awaited.site) == (EXPERTS, DENSE)


def test_it_is_told_by_group(tmp_path: Path) -> None:
    finding = errors(aligned(stages(), tmp_path))[0]
    assert (finding.kind, finding.suspects) == ("deadlock", (3,))
    assert finding.cause.startswith(
        "Rank 3 alone came to all_reduce of group experts at optim.py:6 first, as it had not done "
        "before: ranks 1-2, which are in that group too, came to all_reduce of group dense at "
        "optim.py:5, like all others."
    )
    assert "in the same order, every rank the same" in finding.fix


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(stages((1, 3)), id="one against one"),
        pytest.param(stages(first=(2, 3)), id="two of three came there first"),
        pytest.param(stages(stray=1), id="of one not all is known"),
        pytest.param(stages(thread="keeper"), id="of another thread"),
    ],
)
def test_it_is_not_proven(run: Run, tmp_path: Path) -> None:
    assert found(run, tmp_path) is None


def others_left_out() -> Run:
    """All had summed the experts before the rest in each step; in the last, two go past it."""
    run = Run(4)
    run.group("dense", range(4), site="groups.py:3")
    run.group("experts", (1, 2, 3), site="groups.py:4")
    for _ in range(5):
        for rank in run:
            activations(rank)
            if rank.rank:
                rank.call("all_reduce", "experts", site=EXPERTS)
            rank.call("all_reduce", "dense", site=DENSE)
    for rank in run:
        activations(rank)
        rank.stuck_in(_last(rank, (3,), None))
    return run


def test_who_keeps_to_its_round_is_not_blamed(tmp_path: Path) -> None:
    assert found(others_left_out(), tmp_path) is None
    finding = errors(aligned(others_left_out(), tmp_path / "again"))[0]
    assert 3 not in finding.suspects


def of_one_line(mine: Sequence[int] = range(4), line: str = "norm.py:5") -> Run:
    """All come to one line for the first time, one of them with another group."""
    run = Run(4)
    run.group("dense", range(4), site="groups.py:3")
    run.group("experts", mine, site="groups.py:4")
    stacks = Stacks()
    for _ in range(4):
        for rank in run:
            activations(rank)
    for rank in run:
        activations(rank)
        group, site = ("experts", line) if rank.rank == 3 else ("dense", "norm.py:5")
        rank.stuck_in(rank.call("all_reduce", group, **stacks.at(rank, f"{site} norm")))
    return run


def test_who_alone_gives_one_line_another_group_of_the_same_ranks(tmp_path: Path) -> None:
    told = found(of_one_line(), tmp_path)
    assert told is not None
    assert (told.rank, told.both) == (3, (0, 1, 2))


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(of_one_line((1, 2, 3)), id="a group of other ranks"),
        pytest.param(of_one_line(line="clip.py:7"), id="from another line"),
    ],
)
def test_where_all_left_their_round_it_must_be_one_line_and_the_same_ranks(
    run: Run, tmp_path: Path
) -> None:
    assert found(run, tmp_path) is None

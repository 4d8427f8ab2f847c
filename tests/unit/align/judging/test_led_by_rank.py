"""Who was led past a call by a condition that the rank alone opens: when that decides a tie."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.judging.judge import judge
from collectrace.align.judging.led_by_rank import led_by_rank
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

SOURCE = """\
def fit():
    for step in {over}:
        reduce(loss)
        {way}
            break
{more}
    finish()
fit()
"""
BY_RANK = "if rank == 0 and loss < enough:"


def led(
    folder: Path,
    way: str = BY_RANK,
    *,
    over: str = "range(9)",
    more: str = "",
    leaver: int = 0,
    rounds: int = 4,
    batches: int = 0,
) -> tuple[int, ...]:
    """Who was led, where one of two ranks has left the loop and the other is in it."""
    source = folder / "train.py"
    source.write_text(SOURCE.format(way=way, over=over, more=more))
    inside, end = f"{source}:3", len(source.read_text().splitlines())
    behind, caller = f"{source}:{end - 1}", f"{source}:{end} <module>"
    run = Run(2)
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{inside} fit", caller]))
        rank.record(Stack(stack=2, frames=[f"{behind} fit", caller]))
        for n in range(rounds):
            if batches:
                rank.batch(n + 1, site=f"{source}:2")
            rank.call("all_reduce", site=inside, stack=1)
        if rank.rank == leaver:
            if batches == rounds:
                rank.batch(rounds, end=True, site=f"{source}:2")
            rank.call("barrier", site=behind, stack=2)
        else:
            rank.call("all_reduce", site=inside, stack=1)
    case = case_of(run, folder / "logs")
    (found,) = (one for one in judge(case) if one.severity == "error")
    assert found.suspects == led_by_rank(case, found)
    return found.suspects


def test_the_rank_alone_opens_the_way(tmp_path: Path) -> None:
    assert led(tmp_path) == (0,)


def test_another_rank_may_be_the_one(tmp_path: Path) -> None:
    assert led(tmp_path, "if rank == 1 and stopped():", leaver=1) == (1,)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("if loss < enough:", id="not by the rank"),
        pytest.param("if rank == 0:", id="by the rank alone, from the first"),
        pytest.param("if rank == 0 or loss < enough:", id="open to others too"),
        pytest.param("if rank < 4 and loss < enough:", id="open to both"),
        pytest.param("if rank == others and loss < enough:", id="whose rank is not known"),
    ],
)
def test_what_does_not_tell(way: str, tmp_path: Path) -> None:
    assert led(tmp_path, way) == ()


def test_the_other_rank_left(tmp_path: Path) -> None:
    assert led(tmp_path, leaver=1) == ()


def test_a_loop_may_have_ended(tmp_path: Path) -> None:
    assert led(tmp_path, over="batches") == ()


@pytest.mark.parametrize(("batches", "suspects"), [(9, (0,)), (4, ())])
def test_a_loader_that_had_more(batches: int, suspects: tuple[int, ...], tmp_path: Path) -> None:
    assert led(tmp_path, over="loader", batches=batches) == suspects


def test_another_way_leads_past_it_too(tmp_path: Path) -> None:
    assert led(tmp_path, more="        if spent > budget:\n            break") == ()


def test_what_it_never_called_it_has_not_left(tmp_path: Path) -> None:
    assert led(tmp_path, rounds=0) == ()

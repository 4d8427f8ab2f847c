"""Ranks that decide by what only the root of a collective was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

WHILE = """\
while loss.item() > 1:
    loss = step()
    dist.reduce(loss, dst=0)
    dist.barrier()
dist.all_gather_single(whole, part)
"""
GONE = 2


def told(
    folder: Path,
    script: str = WHILE,
    *,
    gone: tuple[int, ...] = (GONE,),
    finished: bool = False,
    world: int = 3,
    op: str = "reduce",
) -> Finding:
    """Four rounds of lines 3 and 4; then some ranks are at line 5, or are done."""
    train = folder / "train.py"
    train.write_text(script)
    run = Run(world)
    for rank in run:
        for line in (3, 4, 5):
            rank.record(Stack(stack=line, frames=[f"{train}:{line} <module>"]))
        for _ in range(4):
            rank.call(op, site=f"{train}:3", stack=3)
            rank.call("barrier", site=f"{train}:4", stack=4)
        if rank.rank not in gone:
            rank.beat(60, rank.inside(rank.call(op, site=f"{train}:3", stack=3)))
        elif finished:
            rank.exit()
        else:
            call = rank.call("all_gather_single", site=f"{train}:5", stack=5)
            rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


def decided(found: Finding) -> list[str]:
    return [Path(one.site).name for one in found.decisions or ()]


def test_nobody_is_blamed_who_followed_what_it_held(tmp_path: Path) -> None:
    found = told(tmp_path)
    assert (found.code, found.suspects, decided(found)) == ("CT416", (), ["train.py:1"])


def test_of_two_ranks_it_is_not_ambiguous(tmp_path: Path) -> None:
    found = told(tmp_path, gone=(1,), world=2)
    assert (found.code, found.suspects) == ("CT416", ())


def test_nor_who_finished_by_it(tmp_path: Path) -> None:
    found = told(tmp_path, finished=True)
    assert (found.kind, found.code, found.suspects) == ("missing_call", "CT416", ())


@pytest.mark.parametrize("how", ["raised", "died"])
def test_who_raised_or_died_did_not_follow_it(tmp_path: Path, how: str) -> None:
    train = tmp_path / "train.py"
    train.write_text(WHILE)
    run = Run(3)
    for rank in run:
        for line in (3, 4):
            rank.record(Stack(stack=line, frames=[f"{train}:{line} <module>"]))
        for _ in range(4):
            rank.call("reduce", site=f"{train}:3", stack=3)
            rank.call("barrier", site=f"{train}:4", stack=4)
        if rank.rank != GONE:
            rank.beat(60, rank.inside(rank.call("reduce", site=f"{train}:3", stack=3)))
        elif how == "raised":
            rank.exit("exception", error="ValueError", message="bad batch")
        else:
            rank.exit("signal", code=15)
    assert errors(aligned(run, tmp_path / "logs"))[0].suspects == (GONE,)


def test_what_stands_around_the_loop_has_not_decided(tmp_path: Path) -> None:
    lines = WHILE.replace("    loss = step()\n", "").splitlines()
    script = "\n".join(["if training:", *(f"    {line}" for line in lines)])
    found = told(tmp_path, script, finished=True)
    assert (found.code, found.suspects, decided(found)) == ("CT416", (), ["train.py:2"])


def test_the_root_that_left_alone_is_who_the_others_could_not_follow(tmp_path: Path) -> None:
    found = told(tmp_path, gone=(0,))
    assert (found.code, found.suspects) == ("CT416", (0,))


@pytest.mark.parametrize(
    "script",
    [
        WHILE.replace("loss.item() > 1", "more()"),
        WHILE.replace("    dist.barrier()", "    loss = mine(); dist.barrier()"),
        # something else may have decided
        WHILE.replace("    dist.reduce", "    if stop(): break\n    dist.reduce").replace(
            "    loss = step()\n", ""
        ),
    ],
)
def test_where_it_is_not_read_who_left_is_to_blame(script: str, tmp_path: Path) -> None:
    found = told(tmp_path, script)
    assert found.code != "CT416"
    assert found.suspects == (GONE,)


def test_what_every_rank_gets_all_can_decide_by(tmp_path: Path) -> None:
    found = told(tmp_path, WHILE.replace("dist.reduce(loss, dst=0)", "dist.all_reduce(loss)"),
                 op="all_reduce")  # fmt: skip
    assert found.suspects == (GONE,)

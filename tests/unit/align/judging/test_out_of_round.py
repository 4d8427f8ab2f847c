"""Calls that no rank ever made, where the others go on with equal rounds: when they prove it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

SOURCE = """\
def serve(queue):
    for tick in range(9):
        if queue:
            agree(tick)
        sync(tick)
    report(tick)
"""
"""``agree`` and ``sync`` are helpers, at lines of their own file."""

Call = dict[str, Any]

SYNC: Call = {"op": "all_gather", "site": 5, "inner": 20}
USUAL: Call = {"op": "all_reduce", "site": 5, "inner": 21}
AGREE: Call = {"op": "all_reduce", "site": 4, "inner": 9}
REPORT: Call = {"op": "all_reduce", "site": 6, "inner": 30}
OTHER_SIZE = USUAL | {"shape": [9]}
OTHER_DTYPE = USUAL | {"dtype": "int64"}
OF_FRAMEWORK = OTHER_SIZE | {"role": "fsdp.unshard"}


def told(
    folder: Path,
    ends: Sequence[Sequence[Call]],
    *,
    count: int = 3,
    begins: Sequence[Sequence[Call]] | None = None,
    helpers: bool = True,
) -> Finding:
    """Ranks that made SYNC and USUAL ``count`` times, and then the calls of their own end."""
    train = folder / "train.py"
    train.write_text(SOURCE)
    run = Run(len(ends))
    for rank, end in zip(run, ends, strict=True):
        stacks = {}
        for n, line in enumerate({(c["site"], c["inner"]) for c in (SYNC, AGREE, USUAL, REPORT)}):
            frames = [f"{train}:{line[0]} serve"]
            if helpers:
                frames.insert(0, f"/job/comm.py:{line[1]} helper{line[1]}")
            stacks[line] = n + 1
            rank.record(Stack(stack=n + 1, frames=frames))
        begin = begins[rank.rank] if begins is not None else []
        for one in [*begin, *[SYNC, USUAL] * count, *end]:
            known = {k: v for k, v in one.items() if k not in ("op", "site", "inner")}
            site = f"/job/comm.py:{one['inner']}" if helpers else f"{train}:{one['site']}"
            stack = stacks[one["site"], one["inner"]]
            call = rank.call(one["op"], site=site, stack=stack, **known)
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


@pytest.mark.parametrize("new", [OTHER_SIZE, OTHER_DTYPE], ids=["size", "dtype"])
def test_what_nobody_ever_brought_to_the_usual_line(new: Call, tmp_path: Path) -> None:
    found = told(tmp_path, [[SYNC, USUAL], [SYNC, new]])
    assert found.suspects == (1,)
    assert "ambiguous" not in found.cause
    assert "In each of the equal rounds before it was float32[1] on every rank" in found.cause
    assert "that of rank 1 is the first other one." in found.cause


@pytest.mark.parametrize("helpers", [True, False])
def test_a_line_in_the_loop_that_nobody_ever_came_to(*, helpers: bool, tmp_path: Path) -> None:
    found = told(tmp_path, [[SYNC], [AGREE]], helpers=helpers)
    assert found.suspects == (1,)
    assert "In each of the equal rounds" not in found.cause


def test_half_of_a_group_alike(tmp_path: Path) -> None:
    found = told(tmp_path, [[SYNC, USUAL]] * 2 + [[SYNC, OTHER_SIZE]] * 2)
    assert found.suspects == (2, 3)


def test_behind_the_loop_it_may_have_ended_too_early_or_too_late(tmp_path: Path) -> None:
    assert told(tmp_path, [[SYNC], [REPORT]]).suspects == ()


def test_two_rounds_are_no_habit(tmp_path: Path) -> None:
    assert told(tmp_path, [[SYNC, USUAL], [SYNC, OTHER_SIZE]], count=2).suspects == ()


def test_both_brought_something_new(tmp_path: Path) -> None:
    ends = [[SYNC, USUAL | {"shape": [7]}], [SYNC, OTHER_SIZE]]
    assert told(tmp_path, ends).suspects == ()


def test_what_a_rank_has_brought_before_is_not_new(tmp_path: Path) -> None:
    """As where sizes change now and then, which one rank alone may have missed."""
    found = told(tmp_path, [[SYNC, USUAL], [SYNC, OTHER_SIZE]], begins=[[SYNC, OTHER_SIZE]] * 2)
    assert found.suspects == ()


def test_what_a_framework_gathers_is_not_given_at_a_line(tmp_path: Path) -> None:
    assert told(tmp_path, [[SYNC, USUAL], [SYNC, OF_FRAMEWORK]]).suspects == ()


def test_a_half_that_came_by_several_ways(tmp_path: Path) -> None:
    begins = [[SYNC, USUAL], [SYNC, USUAL], [SYNC, USUAL], [AGREE | {"op": "all_gather"}, USUAL]]
    found = told(tmp_path, [[SYNC, USUAL]] * 2 + [[SYNC, OTHER_SIZE]] * 2, begins=begins)
    assert found.suspects == ()

"""Calls that no rank ever made, where the others go on with equal rounds: when they prove it."""

from __future__ import annotations

import re
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
def poll(queue, every):
    due = tick % every == 0
    for tick in range(9):
        if tick % every == 0:
            agree(tick)
        if tick >= self.start:
            agree(tick)
        if due:
            agree(tick)
        if tick % every == 0:
            if queue:
                agree(tick)
        if name == "%d" % len(queue):
            agree(tick)
        if tick == 3:
            agree(tick)
        sync(tick)
    for tick in range(9):
        if tick % every:
            continue
        agree(tick)
def beat(save, names):
    while count < 9:
        if count in names:
            agree(count)
        if save.due():
            agree(count)
        turns += 1
        if turns > self.limit:
            agree(count)
        if full.of(count):
            agree(count)
        if kind in names:
            agree(count)
        sync(count)
def keep(lowest):
    for batch in loader:
        if loss < self.lowest:
            agree(batch)
        if loss < LIMIT:
            agree(batch)
        if loss > 10.0:
            agree(batch)
        if rank < world:
            agree(batch)
        sync(batch)
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
    usual: Sequence[Call] = (SYNC, USUAL),
    helpers: bool = True,
) -> Finding:
    """Ranks that made the usual calls ``count`` times, and then the calls of their own end."""
    train = folder / "train.py"
    train.write_text(SOURCE)
    run = Run(len(ends))
    for rank, end in zip(run, ends, strict=True):
        stacks: dict[tuple[str, ...], int] = {}
        begin = begins[rank.rank] if begins is not None else []
        for one in [*begin, *[*usual] * count, *end]:
            known = dict(one)
            line, inner = known.pop("site"), known.pop("inner")
            frames = [f"{train}:{line} {_function(line)}"]
            if helpers:
                name = known.pop("name", f"helper{inner}")
                frames.insert(0, f"{known.pop('file', '/job/comm.py')}:{inner} {name}")
            stack = stacks.setdefault(tuple(frames), len(stacks) + 1)
            rank.record(Stack(stack=stack, frames=frames))
            site = frames[0].partition(" ")[0]
            call = rank.call(known.pop("op"), site=site, stack=stack, **known)
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder / "logs"))[0]


def _function(line: int) -> str:
    """Return the name of the function that a line of the script is in."""
    return re.findall(r"^def (\w+)", "\n".join(SOURCE.splitlines()[:line]), re.MULTILINE)[-1]


@pytest.mark.parametrize("new", [OTHER_SIZE, OTHER_DTYPE], ids=["size", "dtype"])
def test_what_nobody_ever_brought_to_the_usual_line(new: Call, tmp_path: Path) -> None:
    """It may have been meant to change, and the other rank have missed it."""
    found = told(tmp_path, [[SYNC, USUAL], [SYNC, new]])
    assert found.suspects == ()


@pytest.mark.parametrize("helpers", [True, False])
def test_a_line_in_the_loop_that_nobody_ever_came_to(*, helpers: bool, tmp_path: Path) -> None:
    found = told(tmp_path, [[SYNC], [AGREE]], helpers=helpers)
    assert found.suspects == (1,)
    assert "In each of the equal rounds" not in found.cause


@pytest.mark.parametrize(
    ("line", "suspects"),
    [
        pytest.param(11, (), id="each n-th turn"),
        pytest.param(13, (), id="since a turn"),
        pytest.param(15, (), id="kept in a name"),
        pytest.param(18, (1,), id="another condition decides as well"),
        pytest.param(20, (1,), id="a string is formatted"),
        pytest.param(22, (1,), id="a turn that is the same everywhere"),
    ],
)
def test_what_is_made_at_intervals_may_be_due_at_other_times(
    line: int, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    usual = [one | {"site": 23} for one in (SYNC, USUAL)]
    ends = [[usual[0]], [AGREE | {"site": line}]]
    assert told(tmp_path, ends, usual=usual).suspects == suspects


@pytest.mark.parametrize(
    ("line", "suspects"),
    [
        pytest.param(31, (), id="the loop's counter among some"),
        pytest.param(33, (), id="a method that may count"),
        pytest.param(36, (), id="a counter of its own"),
        pytest.param(38, (1,), id="asked of something"),
        pytest.param(40, (), id="a name among some may be a counter"),
    ],
)
def test_what_counts_by_other_means(line: int, suspects: tuple[int, ...], tmp_path: Path) -> None:
    usual = [one | {"site": 41} for one in (SYNC, USUAL)]
    ends = [[usual[0]], [AGREE | {"site": line}]]
    assert told(tmp_path, ends, usual=usual).suspects == suspects


@pytest.mark.parametrize(
    ("line", "suspects"),
    [
        pytest.param(45, (), id="a value against another"),
        pytest.param(47, (1,), id="against a constant"),
        pytest.param(49, (1,), id="against a number"),
        pytest.param(51, (1,), id="the rank"),
    ],
)
def test_each_rank_may_have_its_best_value_at_another_time(
    line: int, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    usual = [one | {"site": 52} for one in (SYNC, USUAL)]
    ends = [[usual[0]], [AGREE | {"site": line}]]
    assert told(tmp_path, ends, usual=usual).suspects == suspects


def test_what_stands_behind_a_guard_for_the_other_turns_is_made_at_intervals(
    tmp_path: Path,
) -> None:
    usual = [one | {"site": 25} for one in (SYNC, USUAL)]
    assert told(tmp_path, [[usual[0]], [AGREE | {"site": 27}]], usual=usual).suspects == ()


def test_half_of_a_group_alike(tmp_path: Path) -> None:
    assert told(tmp_path, [[SYNC]] * 2 + [[AGREE]] * 2).suspects == (2, 3)


def test_another_call_at_a_line_that_was_come_to(tmp_path: Path) -> None:
    begin = [AGREE | {"op": "barrier"}]
    assert told(tmp_path, [[SYNC], [AGREE]], begins=[begin] * 2).suspects == ()


def test_behind_the_loop_it_may_have_ended_too_early_or_too_late(tmp_path: Path) -> None:
    assert told(tmp_path, [[SYNC], [REPORT]]).suspects == ()


def test_the_other_may_still_be_in_a_loop_that_was_over(tmp_path: Path) -> None:
    """That of a function which is called there, and in which its call before was, too."""
    comm = tmp_path / "comm.py"
    comm.write_text("def gather(parts):\n    for part in parts:\n        share(part)\n")
    part = {"file": str(comm), "inner": 3, "name": "gather"}
    found = told(tmp_path, [[SYNC | part], [AGREE]], usual=[SYNC | part, USUAL | part])
    assert found.suspects == ()


@pytest.mark.parametrize(
    ("ends", "count"),
    [
        pytest.param([[SYNC, USUAL], [SYNC, OTHER_SIZE]], 2, id="two rounds are no habit"),
        pytest.param([[SYNC, USUAL | {"shape": [7]}], [SYNC, OTHER_SIZE]], 3, id="both are new"),
        pytest.param([[SYNC, USUAL], [SYNC, OF_FRAMEWORK]], 3, id="what a framework gathers"),
    ],
)
def test_that_is_not_told_as_new(
    ends: Sequence[Sequence[Call]], count: int, tmp_path: Path
) -> None:
    assert "equal rounds before" not in told(tmp_path, ends, count=count).cause


def test_what_a_rank_has_brought_before_is_not_new(tmp_path: Path) -> None:
    begins = [[SYNC, OTHER_SIZE]] * 2
    found = told(tmp_path, [[SYNC, USUAL], [SYNC, OTHER_SIZE]], begins=begins)
    assert "equal rounds before" not in found.cause


@pytest.mark.parametrize(("sisters", "suspects"), [(SYNC, (1,)), (AGREE, ())])
def test_what_a_sister_group_does_as_well(
    sisters: Call, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    train = tmp_path / "train.py"
    train.write_text(SOURCE)
    run = Run(4)
    for n in (0, 2):
        run.group(f"tp{n}", [n, n + 1], description="mesh_tp")
    for rank in run:
        for line in (4, 5):
            rank.record(Stack(stack=line, frames=[f"{train}:{line} serve"]))
        last = sisters if rank.rank > 1 else AGREE if rank.rank else SYNC
        for one in [*[SYNC, USUAL] * 3, last]:
            line = one["site"]
            group = f"tp{rank.rank // 2 * 2}"
            call = rank.call(one["op"], group, site=f"{train}:{line}", stack=line)
        if rank.rank > 1:
            rank.exit()
        else:
            rank.beat(60, rank.inside(call))
    assert errors(aligned(run, tmp_path / "logs"))[0].suspects == suspects

"""A call given another group, before there is any round to compare with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from collectrace.align.matching.deviations import Deviation
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import DEFAULT, Rank, Run

METER = "/job/meter.py:9"


def waits(rank: Rank, group: str, site: str = METER) -> None:
    rank.beat(60, rank.inside(rank.call("all_reduce", group, site=site)))


def found(run: Run, folder: Path) -> Deviation | None:
    deviations = case_of(run, folder).deviations
    return deviations[0] if deviations else None


def replicas(wrong: Mapping[int, str], *, site: str = METER) -> Run:
    """Two replicas of two; the first call of all is an average in each rank's own group.

    ``wrong``: ranks that are given another group.
    """
    run = Run(4)
    for name, ranks in (("a", [0, 1]), ("b", [2, 3])):
        run.group(name, ranks, description="replica")
    for rank in run:
        own = "ab"[rank.rank // 2]
        if rank.rank in wrong:
            waits(rank, wrong[rank.rank], site)
        elif rank.rank < 2 and not set(wrong) & {0, 1}:
            rank.call("all_reduce", own, site=METER)
            waits(rank, DEFAULT, "/job/train.py:20")
        else:
            waits(rank, own)
    return run


def test_the_default_group_in_place_of_the_own_one(tmp_path: Path) -> None:
    told = found(replicas({2: DEFAULT}), tmp_path)
    assert told is not None
    assert (told.what, told.ranks, told.others) == ("other group", (2,), (0, 1, 3))
    assert [call.group for call in told.calls] == [DEFAULT, "a"]


def test_from_another_place_it_is_another_call(tmp_path: Path) -> None:
    assert found(replicas({2: DEFAULT}, site="/job/sync.py:4"), tmp_path) is None


def test_half_of_the_ranks_prove_nothing(tmp_path: Path) -> None:
    assert found(replicas({0: DEFAULT, 2: DEFAULT}), tmp_path) is None


def test_a_rank_that_got_past_it_has_met_its_like(tmp_path: Path) -> None:
    """A call behind the one in question tells that it was answered: there may be two programs."""
    run = replicas({2: DEFAULT})
    waits(run.rank(2), DEFAULT, "/job/train.py:31")
    assert found(run, tmp_path) is None


def pairs(groups: Mapping[str, list[int]], given: str) -> Run:
    """Three ranks use all groups; then a call of each is given the group that is told for it."""
    run = Run(3)
    for name, ranks in groups.items():
        run.group(name, ranks, description="edge")
    for name in groups:
        run.all("all_reduce", name, site="/job/init.py:4")
    for rank, name in zip(run, given, strict=True):
        waits(rank, name)
    return run


def test_of_two_groups_of_the_same_ranks_one_is_right(tmp_path: Path) -> None:
    told = found(pairs({"a": [0, 1, 2], "b": [0, 1, 2]}, "aab"), tmp_path)
    assert told is not None
    assert (told.what, told.ranks) == ("other group", (2,))


@pytest.mark.parametrize("given", ["aac", "abb"])
def test_in_a_ring_either_neighbour_may_come_first(given: str, tmp_path: Path) -> None:
    ring = {"a": [0, 1], "b": [1, 2], "c": [0, 2]}
    assert found(pairs(ring, given), tmp_path) is None


def turns(calls: str, *, count: int = 3, world: int = 4) -> Run:
    """One line goes through two groups of all ranks, in each round alike; then rank 2 its own way.

    ``calls``: the groups that rank 2 gives it then; the others give it the first one, and wait.
    """
    run = Run(world)
    for name in "ab":
        run.group(name, list(range(world)), description=f"edge {name}")
    for _ in range(count):
        for name in "ab":
            run.all("all_reduce", name, site=METER)
    for rank in run:
        for name in calls if rank.rank == 2 or not calls else "a":
            waits(rank, name)
    return run


def test_a_group_of_the_round_has_another_turn(tmp_path: Path) -> None:
    told = found(turns("b"), tmp_path)
    assert told is not None
    assert (told.what, told.ranks, told.others) == ("missing", (2,), (0, 1, 3))
    assert [call.group for call in told.calls] == ["a"]
    assert told.is_turn
    assert told.then is not None
    assert told.then.group == "b"


def test_without_a_round_before_it_is_another_group(tmp_path: Path) -> None:
    told = found(turns("b", count=0), tmp_path)
    assert told is not None
    assert (told.what, told.is_turn) == ("other group", False)


def test_what_rank_2_was_given_is_told_as_a_turn(tmp_path: Path) -> None:
    first = errors(aligned(turns("b"), tmp_path))[0]
    assert (first.code, first.suspects) == ("CT604", (2,))
    assert "in one order at meter.py:9" in first.fix


def test_a_rank_that_went_on_to_its_next_round_has_left_it_out(tmp_path: Path) -> None:
    told = found(turns("ba"), tmp_path)
    assert told is not None
    assert (told.what, told.is_turn) == ("missing", False)


def test_a_group_of_no_round_before_has_no_turn(tmp_path: Path) -> None:
    """That the others use it next does not make it one."""
    run = turns("", count=0)
    for _ in range(3):
        run.all("all_reduce", "a", site=METER)
        run.all("all_reduce", "a", site="/job/train.py:20")
    for rank in run:
        if rank.rank != 2:
            rank.call("all_reduce", "a", site=METER)
        waits(rank, "b")
    told = found(run, tmp_path)
    assert told is not None
    assert not told.is_turn


def readers(count: int, *, early: Collection[int] = (2,), alone: bool = False) -> Run:
    """Pairs of which the first reads and the other is given the batch; then each sums its step.

    Args:
        count: pairs.
        early: who goes on to the end of the epoch instead of a third batch of the second one.
        alone: whether each reader has a line of its own.

    """
    run = Run(2 * count)
    pairs = [[2 * n, 2 * n + 1] for n in range(count)]
    for n, pair in enumerate(pairs):
        run.group(f"pair{n}", pair, description="pair")
    for n in range(2):
        run.group(f"dp{n}", list(range(n, 2 * count, 2)), description="dp")

    def step(rank: Rank, *, last: bool = False) -> None:
        reads = rank.rank % 2 == 0
        site = f"/job/read.py:{5 + rank.rank * alone}" if reads else "/job/follow.py:9"
        root = rank.rank - rank.rank % 2
        call = rank.call("broadcast", f"pair{rank.rank // 2}", root=root, site=site)
        if last and not reads and root in early:
            rank.beat(60, rank.inside(call))
            return
        call = rank.call("all_reduce", f"dp{rank.rank % 2}", site="/job/train.py:20")
        if last:
            rank.beat(60, rank.inside(call))

    for batches in (3, 2):
        for rank in run:
            for _ in range(batches):
                step(rank)
            if batches == 3:
                rank.call("all_reduce", site="/job/train.py:30")
    for rank in run:
        if rank.rank in early:
            waits(rank, DEFAULT, "/job/train.py:30")
        else:
            step(rank, last=True)
    return run


def test_readers_have_a_program_of_their_own(tmp_path: Path) -> None:
    told = found(readers(3), tmp_path)
    assert told is not None
    assert (told.what, told.ranks, told.others) == ("missing", (2,), (0, 4))
    assert [call.op for call in told.calls] == ["broadcast", "all_reduce"]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(readers(2), id="one reader against one"),
        pytest.param(readers(3, early=(2, 4)), id="most of them"),
        pytest.param(readers(3, alone=True), id="each by a line of its own"),
    ],
)
def test_where_no_two_readers_went_on_alike_nothing_is_told(run: Run, tmp_path: Path) -> None:
    told = found(run, tmp_path)
    assert told is None or told.ranks == (0,)

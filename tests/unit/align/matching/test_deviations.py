"""A call given another group, before there is any round to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from collectrace.align.matching.deviations import Deviation
from tests.support.judging import case_of
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

"""How many inputs each rank had in join(): by the notices that it gave, not by forwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.diagnosis import inputs
from collectrace.align.diagnosis.inputs import Inputs
from tests.support.judging import case_of
from tests.support.synthetic import Rank, Run

NOTICE = "ddp.forward.notify_join"


def found(run: Run, folder: Path) -> Inputs | None:
    return inputs.of_ranks(case_of(run, folder), range(run.world))


def forwards(rank: Rank, *sites: str) -> None:
    for site in sites:
        rank.call("all_reduce", role=NOTICE, site=site)


def joined(rank: Rank, *sites: str) -> None:
    """A whole join() on a rank: notices from these lines, then shadows until all have joined."""
    rank.join("entered", group="0", rounds=[])
    forwards(rank, *sites)
    rounds = [sites.count(site) for site in dict.fromkeys(sites)]
    rank.join("joined", group="0", rounds=rounds)
    rank.join("left", group="0", rounds=rounds)


def counts(run: Run, folder: Path) -> dict[int, int]:
    told = found(run, folder)
    assert told is not None
    assert told.told_by == "join"
    return dict(told.counts)


def test_notices_are_counted(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        joined(rank, *["a.py:1"] * rank.rank)
    told = found(run, tmp_path)
    assert told is not None
    assert told.phrase() == "rank 0 had 0 batches, rank 1 had 1 and rank 2 had 2"


def test_two_lines_that_are_visited_alike_are_one_round(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        joined(rank, *["a.py:1", "a.py:2"] * (rank.rank + 1))
    assert counts(run, tmp_path) == {0: 1, 1: 2, 2: 3}


@pytest.mark.parametrize("lines", [["a.py:1"] * 3 + ["a.py:2"], ["a.py:2", "a.py:1", "a.py:1"]])
def test_branches_of_one_forward_are_rounds_each(lines: list[str], tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        joined(rank, *lines, *["a.py:1"] * rank.rank)
    assert counts(run, tmp_path) == {0: len(lines), 1: len(lines) + 1}


def test_steps_that_accumulate_are_rounds_each(tmp_path: Path) -> None:
    """With no_sync() on every second step, forward stands on two lines that are visited alike."""
    run = Run(2)
    for rank in run:
        rank.no_sync("entered")
        joined(rank, *["a.py:1", "a.py:2"] * (rank.rank + 1))
    assert counts(run, tmp_path) == {0: 2, 1: 4}


def test_a_rank_that_is_still_inside_is_counted_by_its_calls(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        joined(rank, *["a.py:1"] * 3)
    joined(run.rank(0), "a.py:1")
    run.rank(1).join("entered", group="0", rounds=[])
    forwards(run.rank(1), "a.py:1", "a.py:1")
    told = found(run, tmp_path)
    assert told is not None
    assert told.phrase() == "rank 0 had 1 batch and rank 1 got to its 2nd"


def test_a_rank_that_has_begun_another_epoch_is_compared_by_the_one_before(tmp_path: Path) -> None:
    run = Run(2)
    joined(run.rank(0), *["a.py:1"] * 4)
    joined(run.rank(1), *["a.py:1"] * 3)
    run.rank(0).join("entered", group="0", rounds=[])
    assert counts(run, tmp_path) == {0: 4, 1: 3}


def test_logs_that_tell_of_no_notices_are_counted_by_forwards(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.join("entered", group="0", iteration=10)
        rank.call("all_reduce", role=NOTICE, iteration=11)
        rank.join("joined", group="0", iteration=11 + rank.rank)
    assert counts(run, tmp_path) == {0: 1, 1: 2}


def test_batches_of_a_loader_count_where_a_model_is_called_twice_for_each(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        count = 2 + rank.rank
        rank.join("entered", group="0", rounds=[])
        for n in range(count):
            rank.batch(n + 1)
            forwards(rank, "a.py:1", "a.py:1")
        rank.batch(count, end=True)
        rank.join("joined", group="0", rounds=[2 * count])
    assert counts(run, tmp_path) == {0: 2, 1: 3}


def test_of_several_loaders_the_one_that_ended_is_told_by_its_line(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        count = 3 if rank.rank else 4
        for loader, last in ((0, 2), (1, count)):
            for n in range(last):
                rank.batch(n + 1, loader=loader, site=f"/job/train.py:{loader + 8}")
            if loader == 0 or rank.rank:
                rank.batch(last, loader=loader, site=f"/job/train.py:{loader + 8}", end=True)
    told = found(run, tmp_path)
    assert told is not None
    assert told.phrase() == "rank 1 had 3 batches and rank 0 got to its 4th"
    assert told.witness == " The DataLoader of the loop at train.py:9 counted them."


@pytest.mark.parametrize(("later", "explains"), [(False, True), (True, False)])
def test_a_pass_that_ended_early_does_not_explain_what_parted_ranks_in_a_later_one(
    tmp_path: Path, *, later: bool, explains: bool
) -> None:
    run = Run(3)
    for rank in run:
        count = 3 if rank.rank == 0 else 4
        for n in range(1, count + 1):
            rank.batch(n, loader=0)
        rank.batch(count, loader=0, end=True)
        if later:
            rank.batch(1, loader=1)
            rank.batch(2, loader=1)
    case = case_of(run, tmp_path)
    until = {rank.rank: rank.now + 1 for rank in run}
    told = inputs.of_ranks(case, range(3), (), until)
    assert (told is not None and told.uneven) == explains
    known = inputs.of_ranks(case, range(3))
    assert known is not None
    assert known.uneven

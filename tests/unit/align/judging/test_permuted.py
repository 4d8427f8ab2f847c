"""The same calls in other orders, and calls of a rank that is a step ahead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.judge import judge
from collectrace.align.judging.permuted import Permuted, one_left_out, permuted
from tests.support.judging import aligned, case_of
from tests.support.synthetic import Run

SAME = ("SUM", "MAX", "MIN")
OTHER = ("MIN", "MAX", "SUM")


def found(
    folder: Path, orders: Sequence[Sequence[str]], iterations: Sequence[Sequence[int | None]]
) -> Permuted | None:
    """Behind a call on which they agree, each rank makes these, and waits in the last."""
    run = Run(len(orders))
    run.all("barrier")
    for rank, order, numbers in zip(run, orders, iterations, strict=True):
        for op, iteration in zip(order, numbers, strict=True):
            call = rank.call("all_reduce", reduce_op=op, iteration=iteration)
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder)
    return permuted(case, judge(case)[0])


def test_other_orders_within_one_iteration(tmp_path: Path) -> None:
    told = found(tmp_path, (SAME, SAME, OTHER), [(3, 3, 3)] * 3)
    assert told is not None
    assert told.orders == ((0, 1), (2,))
    assert [call.reduce_op for call in told.calls] == list(SAME)


def test_without_iterations_the_calls_alone_tell(tmp_path: Path) -> None:
    assert found(tmp_path, (SAME, SAME, OTHER), [(None, None, None)] * 3) is not None


def test_an_order_that_spreads_over_iterations_in_the_same_way(tmp_path: Path) -> None:
    assert found(tmp_path, (SAME, SAME, OTHER), [(3, 3, 4)] * 3) is not None


def test_calls_of_a_rank_that_is_a_step_ahead_fit_by_chance(tmp_path: Path) -> None:
    assert found(tmp_path, (SAME, SAME, OTHER), [(3, 3, 3), (3, 3, 3), (3, 4, 4)]) is None


def test_one_call_left_out_explains_the_same_calls_as_well(tmp_path: Path) -> None:
    told = found(tmp_path, (("SUM", "MAX", "SUM"), ("MAX", "SUM")), [(None,) * 3, (None,) * 2])
    assert told is None


def test_the_same_calls_and_one_more_of_another_kind(tmp_path: Path) -> None:
    told = found(tmp_path, (("SUM", "MAX", "MIN"), ("MAX", "SUM")), [(None,) * 3, (None,) * 2])
    assert told is not None


def alike(*, ended: bool) -> Run:
    """One line, whose op was another once on rank 1; rank 0's log has one call less behind it."""
    run = Run(2)
    for _ in range(5):
        run.all("all_reduce")
    for rank in run:
        rank.call("all_reduce", reduce_op=("SUM", "MAX")[rank.rank])
        rank.calls(4 + rank.rank, "all_reduce")
        last = rank.call("all_reduce")
        if ended and rank.rank == 0:
            rank.exit()
        else:
            rank.stuck_in(last)
    return run


def test_who_waits_among_equal_calls_may_yet_make_the_one_that_is_missing(tmp_path: Path) -> None:
    case = case_of(alike(ended=False), tmp_path)
    assert not one_left_out(case, judge(case)[0])


def test_who_has_ended_among_equal_calls_has_left_one_out(tmp_path: Path) -> None:
    case = case_of(alike(ended=True), tmp_path)
    assert one_left_out(case, judge(case)[0])


@pytest.mark.parametrize("ended", [False, True])
def test_an_extra_call_among_equal_ones_is_told_of_who_can_make_no_more(
    ended: bool, tmp_path: Path
) -> None:
    found = aligned(alike(ended=ended), tmp_path).findings[0]
    assert found.kind == "reduce_op_mismatch"
    assert ("one extra all_reduce" in found.headline) == ended

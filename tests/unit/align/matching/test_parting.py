"""Lines that part before the bytes do: where, and calls that one rank alone made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.matching import parting
from collectrace.align.matching.parting import Parting
from collectrace.align.reading.evidence import StreamKey
from collectrace.align.reading.run_reader import read
from collectrace.records import Stack
from tests.support.judging import aligned
from tests.support.synthetic import Rank, Run

STREAM = StreamKey("0", "cpu")
TRAIN: dict[str, Any] = {"site": "/job/train.py:21", "shape": [8]}
EVALUATE: dict[str, Any] = {"site": "/job/train.py:28", "shape": [8]}


def step(rank: Rank) -> None:
    """Two all-gathers and a reduce-scatter, as sharded training issues them."""
    rank.call("all_gather_single", **TRAIN)
    rank.call("all_gather_single", **TRAIN)
    rank.call("reduce_scatter_single", **TRAIN)


def waits(rank: Rank) -> None:
    last = rank.call("all_gather_single", **TRAIN)
    rank.beat(30, rank.inside(last))


def evaluated_alone(rounds: int = 5) -> Run:
    """Rank 0 evaluates once, with the calls that training issues."""
    run = Run(2)
    for _ in range(rounds):
        for rank in run:
            step(rank)
    for _ in range(2):
        run.rank(0).call("all_gather_single", **EVALUATE)
    zero, one = run
    call = zero.call("all_gather_single", **TRAIN)
    zero.beat(30, zero.inside(call))
    one.call("all_gather_single", **TRAIN)
    one.call("all_gather_single", **TRAIN)
    call = one.call("reduce_scatter_single", **TRAIN)
    one.beat(30, one.inside(call))
    return run


def found(run: Run, folder: Path, before: int, **how: Any) -> Parting | None:
    evidence = read(run.write(folder), **how)
    return parting.find(evidence.logs[0], evidence.logs[1], STREAM, before)


@pytest.mark.parametrize("how", [{}, {"small": 0, "page": 256}])
def test_extra_calls_after_which_the_streams_are_one_again(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    parted = found(evaluated_alone(), tmp_path, 18, **how)
    assert parted is not None
    assert parted.seq == 16
    assert [call.site for call in parted.calls] == ["/job/train.py:28", "/job/train.py:21"]
    assert parted.extra is not None
    assert (parted.extra.rank, len(parted.extra.calls)) == (0, 2)
    assert parted.extra.is_alone
    assert parted.extra.agreeing == 1


def test_calls_that_spare_others_later(tmp_path: Path) -> None:
    """As an evaluation that leaves the outermost module unsharded: two calls more, one less."""
    run = Run(2)
    for _ in range(5):
        for rank in run:
            rank.call("all_gather_single", site="/job/train.py:20", shape=[9])
            step(rank)
    zero, one = run
    zero.call("all_gather_single", site="/job/train.py:28", shape=[9])
    zero.call("all_gather_single", **EVALUATE)
    zero.call("all_gather_single", **TRAIN)
    zero.call("all_gather_single", **TRAIN)
    one.call("all_gather_single", site="/job/train.py:20", shape=[9])
    step(one)
    parted = found(run, tmp_path, 24)
    assert parted is not None
    assert parted.seq == 21
    assert parted.extra is not None
    assert (parted.extra.rank, len(parted.extra.calls)) == (0, 2)
    assert parted.extra.is_alone
    assert parted.extra.agreeing == 0


def test_it_decides_a_tie_and_names_the_line(tmp_path: Path) -> None:
    first = aligned(evaluated_alone(), tmp_path).findings[0]
    assert first.kind == "op_mismatch"
    assert first.suspects == (0,)
    assert "2 extra calls, all_gather_single (train.py:28)" in first.headline


def test_lines_that_always_differed_have_not_parted(tmp_path: Path) -> None:
    run = Run(2)
    for _ in range(6):
        for rank in run:
            rank.call("broadcast", site=f"/job/train.py:{30 + rank.rank}")
            step(rank)
    run.rank(0).call("barrier")
    run.rank(1).call("all_reduce")
    assert found(run, tmp_path, 25) is None


@pytest.mark.parametrize(("times", "since"), [(2, 4), (3, None)])
def test_lines_that_part_again_and_again_are_how_the_program_goes(
    times: int, since: int | None, tmp_path: Path
) -> None:
    """Rank 1 sums from its ``except`` block, for the first time in the second of its rounds."""
    run = Run(2)
    for rank in run:
        for n in range(1 + times):
            rank.call("all_reduce", site="/job/train.py:4")
            rank.call("all_reduce", site=f"/job/train.py:{9 if rank.rank and n else 6}")
        rank.call(
            "all_reduce" if rank.rank else "broadcast", site=f"/job/train.py:{12 - rank.rank}"
        )
        rank.exit()
    parted = found(run, tmp_path, 3 + 2 * times)
    assert (parted.seq if parted is not None else None) == since


def test_new_lines_on_both_sides_have_not_parted(tmp_path: Path) -> None:
    """A first evaluation, in which each rank runs another function."""
    run = Run(2)
    for _ in range(6):
        for rank in run:
            step(rank)
    for rank in run:
        rank.call("all_reduce", site=f"/job/eval.py:{10 + rank.rank}")
    run.rank(0).call("barrier")
    run.rank(1).call("all_reduce")
    assert found(run, tmp_path, 20) is None


def test_a_rank_that_left_the_loop_for_good_has_made_nothing_too_much(tmp_path: Path) -> None:
    """Uneven inputs: rank 0 is behind its loop, and comes back to it no more."""
    run = Run(2)
    for _ in range(6):
        for rank in run:
            rank.call("all_reduce", site="/job/train.py:21")
    zero, one = run
    zero.call("all_reduce", site="/job/train.py:40")
    one.call("all_reduce", site="/job/train.py:21")
    zero.call("barrier", site="/job/train.py:41")
    one.call("all_reduce", site="/job/train.py:40")
    parted = found(run, tmp_path, 8)
    assert parted is not None
    assert parted.seq == 7
    assert parted.extra is None or not parted.extra.is_alone
    assert aligned(run, tmp_path / "again").findings[0].suspects == ()


def test_one_helper_for_all_calls_is_told_apart_by_who_called_it(tmp_path: Path) -> None:
    run = Run(2)
    site: dict[str, Any] = {"site": "/job/comm.py:8"}
    for rank in run:
        rank.record(Stack(stack=1, frames=["/job/comm.py:8 reduce", "/job/train.py:20 main"]))
        rank.record(Stack(stack=2, frames=["/job/comm.py:8 reduce", "/job/train.py:14 clip"]))
        for _ in range(5):
            rank.call("all_reduce", stack=1, **site)
    zero, one = run
    zero.call("all_reduce", stack=2, **site)
    zero.call("all_reduce", stack=1, **site)
    one.call("all_reduce", stack=1, **site)
    one.call("barrier", stack=1, **site)
    parted = found(run, tmp_path, 7)
    assert parted is not None
    assert parted.seq == 6
    first = aligned(run, tmp_path / "again").findings[0]
    assert "/job/train.py:14" in {side.site for side in first.parted or ()}


def test_ranks_whose_inputs_ended_under_join_have_not_parted(tmp_path: Path) -> None:
    run = Run(2)
    for n in range(1, 5):
        for rank in run:
            rank.call("all_reduce", role="ddp.forward.notify_join", site="/job/t.py:5", iteration=n)
            rank.call("all_reduce", role="ddp.backward.bucket", site="/job/t.py:6", iteration=n)
    zero, one = run
    zero.call("all_reduce", role="join.count_nonjoined", site="/job/t.py:3")
    one.call("all_reduce", role="ddp.forward.notify_join", site="/job/t.py:5", iteration=5)
    zero.call("all_reduce", role="join.bucket", site="/job/t.py:3")
    one.call("all_reduce", role="ddp.backward.bucket", site="/job/t.py:6", iteration=5)
    zero.call("barrier")
    one.call("all_reduce")
    assert found(run, tmp_path, 11) is None


ORDER, PAYLOAD = (11, 31), (12, 32)
"""Lines of a leader and of its followers."""


def led(run: Run, *rows: tuple[int, int]) -> None:
    for row in rows:
        for rank, line in zip(run, row, strict=True):
            rank.call("broadcast", site=f"/job/serve.py:{line}")


@pytest.mark.parametrize(
    ("rows", "since"),
    [
        pytest.param([], None, id="an order of another line"),
        pytest.param([(14, 34)], None, id="and what belongs to it"),
        pytest.param([PAYLOAD, ORDER, PAYLOAD], None, id="and the rounds go on"),
        pytest.param([(12, 31)], 8, id="taken for another, and out of step since"),
    ],
)
def test_a_leader_and_followers_with_lines_of_their_own(
    rows: list[tuple[int, int]], since: int | None, tmp_path: Path
) -> None:
    run = Run(2)
    led(run, *[ORDER, PAYLOAD] * 3, ORDER)
    taken = 32 if rows[:1] == [(12, 31)] else 31
    led(run, (13, taken), *rows)
    run.rank(0).call("broadcast", site="/job/serve.py:11")
    run.rank(1).call("all_reduce", site=f"/job/serve.py:{32 if since else 31}")
    parted = found(run, tmp_path, 9 + len(rows))
    assert (parted.seq if parted is not None else None) == since


@pytest.mark.parametrize(("last", "since"), [(ORDER, None), ((12, 34), 10)])
def test_a_new_pair_of_lines_behind_which_they_met_as_before(
    last: tuple[int, int], since: int | None, tmp_path: Path
) -> None:
    """The leader's second line met the follower's second: each had met another before."""
    run = Run(2)
    led(run, *[ORDER, PAYLOAD] * 2, ORDER, (13, 32), ORDER, (12, 33), ORDER, (13, 33), last)
    run.rank(0).call("broadcast", site="/job/serve.py:12")
    run.rank(1).call("all_reduce", site="/job/serve.py:35")
    parted = found(run, tmp_path, 12)
    assert (parted.seq if parted is not None else None) == since


def test_an_order_out_of_turn_in_the_row_before(tmp_path: Path) -> None:
    """The row that fails shows that the ranks were out of step: its lines never met."""
    run = Run(2)
    led(run, *[ORDER, PAYLOAD] * 3, ORDER, (13, 32))
    run.rank(0).call("broadcast", site="/job/serve.py:12")
    run.rank(1).call("all_reduce", site="/job/serve.py:31")
    parted = found(run, tmp_path, 9)
    assert parted is not None
    assert parted.seq == 8


def test_lines_of_their_own_that_meet_anew_again_and_again(tmp_path: Path) -> None:
    run = Run(2)
    led(run, *[ORDER, PAYLOAD, (14, 34)] * 2, *[ORDER, (12, 34)] * 3, ORDER)
    run.rank(0).call("broadcast", site="/job/serve.py:12")
    run.rank(1).call("all_reduce", site="/job/serve.py:32")
    assert found(run, tmp_path, 14) is None

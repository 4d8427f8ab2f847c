"""The rank at an end of every message that does not fit, and what only looks like one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.judge import judge
from collectrace.align.judging.odd_end import OddEnd, odd_end
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Run

Before = Callable[[Run, int], object]
"""What a run does before each exchange but the first, by the number of it."""

LINE: Mapping[int, Sequence[int]] = {0: (1,), 1: (0, 2), 2: (1, 3), 3: (2,)}
ALL: Mapping[int, Sequence[int]] = {0: (1, 2, 3), 1: (0, 2, 3), 2: (0, 1, 3), 3: (0, 1, 2)}
TRIANGLE: Mapping[int, Sequence[int]] = {0: (1, 2), 1: (0, 2), 2: (0, 1)}
ODD = (64, 64, 64, 96)
"""Sizes of a message in its steps; a few elements might tell of another's."""


def halos(
    *,
    sizes: Mapping[int, Sequence[int]] | None = None,
    dtypes: Mapping[int, str] | None = None,
    peers: Mapping[int, Sequence[int]] = LINE,
    lines: Mapping[int, str] | None = None,
    before: Before | None = None,
    steps: int = 4,
    from_any: bool = False,
    role: str = "user",
    dropped: int | None = None,
) -> Run:
    """Each exchanges with its peers what is as large, and of such a dtype, as it is there.

    Args:
        sizes: per rank of its messages, step by step; 64 each where it is not told.
        dtypes: of the messages of a rank.
        peers: of each rank.
        lines: of messages with a rank.
        before: what comes before each step but the first.
        steps: in all.
        from_any: whether rank 3 takes all that it gets of any rank.
        role: of the calls of rank 2.
        dropped: who lost a call behind it all.

    """
    run = Run(len(peers))
    for n in range(steps):
        if before is not None and n:
            before(run, n)
        for rank in run:
            of: dict[str, Any] = {
                "shape": [(sizes or {}).get(rank.rank, [64] * steps)[n]],
                "dtype": (dtypes or {}).get(rank.rank, "float32"),
                "async_": True,
                "role": role if rank.rank == 2 else "user",
            }
            for peer in peers[rank.rank]:
                at = (lines or {}).get(peer, "halo.py")
                is_any = from_any and rank.rank == 3
                rank.send(peer, site=f"{at}:5", **of)
                rank.recv(
                    -1 if is_any else peer,
                    site=f"{at}:6",
                    took=peer if is_any else None,
                    **of,
                )
    if dropped is not None:
        run.rank(dropped).call("barrier", lost=True)
    run.finish()
    return run


def found(run: Run, folder: Path) -> list[OddEnd]:
    """Of each message that does not fit."""
    case = case_of(run, folder)
    unfit = [one for one in judge(case) if one.kind == "p2p_mismatch"]
    assert unfit
    return [told for one in unfit if (told := odd_end(case, one)) is not None]


def test_one_has_come_to_another_size(tmp_path: Path) -> None:
    told = found(halos(sizes={2: ODD}), tmp_path)
    assert len(told) == 4  # there and back, with each of two
    assert {*told} == {OddEnd(2, (1, 3), (0,), "changed")}


def test_one_has_another_dtype_from_the_first(tmp_path: Path) -> None:
    told = found(halos(dtypes={2: "bfloat16"}, peers=ALL, steps=1), tmp_path)
    assert {*told} == {OddEnd(2, (0, 1, 3), (0, 1, 3), "dtype")}


def test_a_dtype_that_one_of_its_peers_exchanges_with_nobody_else(tmp_path: Path) -> None:
    told = found(halos(dtypes={2: "bfloat16"}, steps=1), tmp_path)
    assert {*told} == {OddEnd(2, (1, 3), (0,), "dtype")}


def orders(odd: Sequence[int], *, usual: Sequence[int] = (80, 40, 20), told: str = "") -> Run:
    """Two publish their parts to each of two, once; the second of them in an order of its own.

    ``told``: an op by which rank 0 tells all something before.
    """
    run = Run(4)
    if told:
        run.all(told, site="plan.py:3", dtype="int64", shape=[2])
    for source, order in ((0, usual), (1, odd)):
        for size in order:
            for taker in (2, 3):
                run.rank(source).send(taker, shape=[size], site="publish.py:5", async_=True)
    for taker in (2, 3):
        for size in usual:
            for source in (0, 1):
                run.rank(taker).recv(source, shape=[size], site="refit.py:5", async_=True)
    run.finish()
    return run


def test_one_sends_the_same_in_another_order(tmp_path: Path) -> None:
    told = found(orders((40, 20, 80)), tmp_path)
    assert {*told} == {OddEnd(1, (2, 3), (0,), "permuted")}


def test_all_that_does_not_fit_is_one_error(tmp_path: Path) -> None:
    first, *others = errors(aligned(halos(sizes={2: ODD}), tmp_path))
    assert (first.kind, first.suspects) == ("p2p_mismatch", (2,))
    assert "end_of_every_misfit" in {row.fact for row in first.evidence or ()}
    assert len(others) == 3
    assert all(one.caused_by is not None for one in others)


@pytest.mark.parametrize(
    ("run", "part"),
    [
        (halos(dtypes={2: "bfloat16"}, peers=ALL, steps=1), "Let rank 2 send and await float32"),
        (orders((40, 20, 80)), "Let rank 1 use the order of rank 0"),
    ],
    ids=["dtype", "permuted"],
)
def test_it_is_told_what_the_others_do(run: Run, part: str, tmp_path: Path) -> None:
    assert part in errors(aligned(run, tmp_path))[0].fix


def _sizes_of_all(run: Run, _: int) -> None:
    run.all("all_gather", dtype="int64", shape=[1], out_shape=[[1]] * run.world, site="plan.py:3")


def _plan(run: Run, n: int) -> None:
    """Once, long before."""
    if n == 1:
        run.all("broadcast", shape=[4], site="plan.py:3")


def _header(source: int, destination: int) -> Before:
    """By a number of its own line, from one to the other."""

    def tell(run: Run, _: int) -> None:
        run.rank(source).send(destination, tag=7, dtype="int64", shape=[1], site="head.py:3")
        run.rank(destination).recv(source, tag=7, dtype="int64", shape=[1], site="head.py:4")

    return tell


def _loss(run: Run, _: int) -> None:
    run.all("all_reduce", shape=[1], site="loss.py:3")


def _weights(run: Run, _: int) -> None:
    run.all("broadcast", shape=[64], site="save.py:3")


@pytest.mark.parametrize(
    "before",
    [_loss, _weights, _header(1, 0)],
    ids=["a loss", "weights", "a number that none of them got"],
)
def test_what_tells_of_no_size(before: Before, tmp_path: Path) -> None:
    assert found(halos(sizes={2: ODD}, before=before), tmp_path)


def test_what_tells_of_no_dtype(tmp_path: Path) -> None:
    assert found(halos(dtypes={2: "bfloat16"}, peers=ALL, steps=2, before=_loss), tmp_path)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(halos(sizes={3: ODD}), id="one peer: it is one against one"),
        pytest.param(halos(sizes={1: ODD, 2: (64, 64, 64, 32)}), id="two who differ"),
        pytest.param(
            halos(sizes={2: ODD}, peers={0: (2,), 1: (2,), 2: (0, 1, 3), 3: (2,)}),
            id="nobody else exchanges anything",
        ),
        pytest.param(halos(sizes={2: ODD}, peers=TRIANGLE), id="three in all"),
        pytest.param(halos(sizes={2: ODD}, lines={2: "other.py"}), id="from another line"),
        pytest.param(halos(sizes={2: (64, 64, 96)}, steps=3), id="two before are no habit"),
        pytest.param(halos(sizes={2: ODD}, before=_sizes_of_all), id="sizes of all"),
        pytest.param(halos(sizes={2: ODD}, before=_plan), id="a plan"),
        pytest.param(halos(sizes={2: ODD}, before=_header(0, 2)), id="a number that it got"),
        pytest.param(halos(sizes={2: ODD}, before=_header(2, 1)), id="a number that it sent"),
        pytest.param(halos(sizes={2: ODD}, dtypes=dict.fromkeys(range(4), "int64")), id="numbers"),
        pytest.param(halos(sizes={2: ODD}, from_any=True), id="a receive from any rank"),
        pytest.param(halos(sizes={2: ODD}, role="fsdp"), id="not the user's own calls"),
        pytest.param(halos(sizes={2: ODD}, dropped=2), id="its log has gaps"),
        pytest.param(halos(sizes={2: ODD}, dropped=1), id="the log of a peer has gaps"),
        pytest.param(
            halos(dtypes={2: "bfloat16", 3: "float64"}, steps=1), id="its peers differ in dtype"
        ),
        pytest.param(
            halos(dtypes={2: "bfloat16"}, lines={2: "other.py"}, steps=1),
            id="a dtype, from another line",
        ),
        pytest.param(halos(dtypes={0: "bfloat16"}, peers=ALL, steps=1), id="the first rank"),
        pytest.param(
            halos(dtypes={2: "bfloat16"}, peers=ALL, steps=2, before=_plan),
            id="a plan that may tell the dtype",
        ),
        pytest.param(orders((40, 20, 60)), id="others than those of its like"),
        pytest.param(orders((40, 20, 80), told="broadcast"), id="it may be told the order"),
        pytest.param(halos(sizes={0: (32,) * 4, 1: (32,) * 4}, peers=LINE), id="two against two"),
    ],
)
def test_nobody_is_alone_in_it(run: Run, tmp_path: Path) -> None:
    assert not found(run, tmp_path)


def test_a_size_that_varied_before(tmp_path: Path) -> None:
    """By both ends alike."""
    sizes = dict.fromkeys(range(4), (64, 32, 64, 64)) | {2: (64, 32, 64, 96)}
    assert not found(halos(sizes=sizes), tmp_path)

"""One worker whose message alone is of another size than those of its like, and than its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

Before = Callable[[Run, int], object]


def pushes(
    sizes: Mapping[int, Sequence[int]], *, awaits: int = 8, before: Before | None = None
) -> Run:
    """Rank 0 gets a message of each worker in every round, so large by rank, and answers it.

    ``before``: what a run, and one of its workers, does before each message.
    """
    run = Run(len(sizes) + 1)
    hub = run.rank(0)
    for n in range(max(map(len, sizes.values()))):
        for rank, own in sizes.items():
            if before is not None:
                before(run, rank)
            run.rank(rank).send(0, shape=[own[n]], site="push.py:9")
            hub.recv(rank, shape=[awaits], site="serve.py:5")
        for rank in sizes:
            hub.send(rank, shape=[16], site="serve.py:7")
            run.rank(rank).recv(0, shape=[16], site="push.py:10")
    run.finish()
    return run


def first(run: Run, folder: Path) -> Finding:
    found = errors(aligned(run, folder))[0]
    assert found.kind == "p2p_mismatch"
    return found


USUAL, ODD = [8, 8, 8, 8], [8, 8, 8, 6]


def test_who_alone_sends_less_than_its_like(tmp_path: Path) -> None:
    found = first(pushes({1: USUAL, 2: ODD, 3: USUAL}), tmp_path)
    assert (found.code, found.suspects) == ("CT707", (2,))
    assert "odd_message" in {row.fact for row in found.evidence or ()}
    assert "float32[8], as ranks 1,3 do" in found.fix


def test_who_alone_awaits_less_than_its_like(tmp_path: Path) -> None:
    run = Run(4)
    for n in range(4):
        for rank in (1, 2, 3):
            run.rank(0).send(rank, shape=[8], site="serve.py:5")
            shape = [6 if (rank, n) == (3, 3) else 8]
            run.rank(rank).recv(0, shape=shape, site="pull.py:9")
    run.finish()
    found = first(run, tmp_path)
    assert (found.code, found.suspects) == ("CT707", (3,))
    assert "float32[8], as ranks 1-2 do" in found.fix


@pytest.mark.parametrize(
    "sizes",
    [
        {1: USUAL, 2: ODD},
        {1: USUAL, 2: ODD, 3: ODD},
        {1: ODD, 2: USUAL, 3: ODD},
        {1: USUAL, 2: [8, 8, 6], 3: USUAL},
    ],
    ids=["two workers", "two of three", "a majority changed", "too early to say"],
)
def test_nobody_is_alone_in_it(sizes: Mapping[int, Sequence[int]], tmp_path: Path) -> None:
    long = {rank: (list(own) + USUAL)[:4] for rank, own in sizes.items()}
    assert first(pushes(long), tmp_path).suspects == ()


def test_sizes_that_have_differed_between_workers(tmp_path: Path) -> None:
    """The hub has awaited of each what it sends, until it awaits too much of one."""
    run = Run(4)
    for n in range(4):
        for rank, size in ((1, 8), (2, 8), (3, 5)):
            sent = 6 if (rank, n) == (2, 3) else size
            run.rank(rank).send(0, shape=[sent], site="push.py:9")
            run.rank(0).recv(rank, shape=[size], site="serve.py:5")
    run.finish()
    assert first(run, tmp_path).suspects == ()


def _header(run: Run, rank: int) -> None:
    run.rank(rank).send(0, tag=7, shape=[1], site="push.py:8")
    run.rank(0).recv(rank, tag=7, shape=[1], site="serve.py:4")


def _sizes(run: Run, rank: int) -> None:
    """Of all, in the first worker's turn."""
    if rank == 1:
        run.all("all_gather", dtype="int64", shape=[1], out_shape=[[1]] * run.world)


def _count(run: Run, rank: int) -> None:
    if rank == 1:
        run.all("all_reduce", dtype="int64", shape=[1])


@pytest.mark.parametrize(
    ("before", "suspects"),
    [(_header, ()), (_sizes, ()), (_count, (2,))],
    ids=["a header", "the sizes of all", "a sum"],
)
def test_a_size_that_may_have_been_told_before(
    before: Before, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    run = pushes({1: USUAL, 2: ODD, 3: USUAL}, before=before)
    assert first(run, tmp_path).suspects == suspects


def test_a_line_of_its_own(tmp_path: Path) -> None:
    run = Run(4)
    for n in range(4):
        for rank in (1, 2, 3):
            is_odd = (rank, n) == (2, 3)
            site = "push.py:12" if is_odd else "push.py:9"
            run.rank(rank).send(0, shape=[6 if is_odd else 8], site=site)
            run.rank(0).recv(rank, shape=[8], site="serve.py:5")
    run.finish()
    assert first(run, tmp_path).suspects == ()


def turns(sizes: Sequence[Sequence[int]], *, tells: bool = False) -> Run:
    """A ring: so much each rank sends on in a turn, and asks for of the one before.

    ``tells``: all learn of all sizes before each turn.
    """
    run = Run(len(sizes[0]))
    for own in sizes:
        if tells:
            run.all("all_gather", dtype="int64", shape=[1], out_shape=[[1]] * run.world)
        for rank in run:
            rank.send((rank.rank + 1) % run.world, shape=[own[rank.rank]], site="ring.py:9")
        for rank in run:
            rank.recv((rank.rank - 1) % run.world, shape=[own[rank.rank]], site="ring.py:10")
    run.finish()
    return run


VARIED = [[8] * 4, [4] * 4, [6] * 4, [8] * 4]


def test_who_alone_is_of_another_size_in_a_turn(tmp_path: Path) -> None:
    found = first(turns([*VARIED, [8, 8, 8, 6]]), tmp_path)
    assert found.suspects == (3,)


@pytest.mark.parametrize(
    ("sizes", "tells"),
    [
        ([*VARIED, [8, 8, 6, 6]], False),
        ([[8] * 4, [4] * 4, [8, 8, 8, 6]], False),
        ([*VARIED, [8, 8, 8, 6]], True),
        ([row[:2] for row in VARIED] + [[8, 6]], False),
    ],
    ids=["two of four", "too early to say", "sizes that were told", "one against one"],
)
def test_nobody_is_alone_in_a_turn(
    sizes: Sequence[Sequence[int]], tells: bool, tmp_path: Path
) -> None:
    assert first(turns(sizes, tells=tells), tmp_path).suspects == ()


def test_turns_in_which_sizes_have_differed(tmp_path: Path) -> None:
    """Each awaits what is sent to it, until one sends less than it is asked for."""
    run = Run(4)
    for n in range(5):
        own = [8, 8, 5, 8]
        for rank in run:
            size = 6 if (rank.rank, n) == (3, 4) else own[rank.rank]
            rank.send((rank.rank + 1) % 4, shape=[size], site="ring.py:9")
        for rank in run:
            rank.recv((rank.rank - 1) % 4, shape=[own[rank.rank - 1]], site="ring.py:10")
    run.finish()
    assert first(run, tmp_path).suspects == ()


def _quota(run: Run, rank: int) -> None:
    run.rank(0).send(rank, tag=1, shape=[1], site="serve.py:3")
    run.rank(rank).recv(0, tag=1, shape=[1], site="push.py:7")


def _in_turn(op: str, *sizes: int) -> Before:
    """Collectives of all before each round, from one line."""

    def meet(run: Run, rank: int) -> None:
        for size in sizes if rank == 1 else ():
            run.all(op, shape=[size], site="plan.py:3")

    return meet


@pytest.mark.parametrize(
    ("before", "suspects"),
    [
        pytest.param(_quota, (), id="a quota of the hub"),
        pytest.param(_in_turn("all_reduce", 4), (), id="wishes of all"),
        pytest.param(_in_turn("broadcast", 16), (), id="a plan"),
        pytest.param(_in_turn("broadcast", 64), (2,), id="weights"),
        pytest.param(_in_turn("all_reduce", 1), (2,), id="a loss"),
        pytest.param(_in_turn("all_reduce", 64, 8), (2,), id="gradients of a model"),
        pytest.param(_in_turn("barrier", 1), (2,), id="a barrier"),
    ],
)
def test_what_may_have_told_the_size(
    before: Before, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    assert first(pushes({1: USUAL, 2: ODD, 3: USUAL}, before=before), tmp_path).suspects == suspects

"""Whose message is odd, of those that do not fit or lack an end; and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.judging import judged
from tests.support.marks import Script
from tests.support.synthetic import Run


def blamed(run: Run, folder: Path) -> tuple[tuple[int, ...], set[str]]:
    """Return the suspects of the first message that is wrong, and the facts that decided."""
    first = next(one for one in judged(run, folder / "logs") if one.kind.startswith("p2p_"))
    assert first.verdict is not None
    return first.suspects, {row.fact for row in first.verdict.evidence}


# -- beside others' messages of the same number ------------------------------------------------


def pushes(
    odd: Mapping[tuple[int, int], int], *, workers: int = 3, rounds: int = 4, told: bool = False
) -> Run:
    """Workers send rank 0 eight elements in each round, but for some (rank, round)."""
    run = Run(1 + workers)
    for n in range(rounds):
        if told:
            run.all("all_gather", dtype="int64", shape=[1], out_shape=[[1]] * run.world)
        for rank in run.ranks[1:]:
            rank.send(0, shape=[odd.get((rank.rank, n), 8)], site="push.py:9")
            run.rank(0).recv(rank.rank, shape=[8], site="serve.py:5")
    run.finish()
    return run


def test_who_alone_sends_less_than_its_like(tmp_path: Path) -> None:
    assert blamed(pushes({(2, 3): 6}), tmp_path) == ((2,), {"odd_message"})


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(pushes({(2, 3): 6}, workers=2), id="two workers"),
        pytest.param(pushes({(2, 3): 6, (3, 3): 6}), id="two of three"),
        pytest.param(pushes({(2, 2): 6}), id="too early to say"),
        pytest.param(pushes({(2, 3): 6}, told=True), id="it had told its size"),
    ],
)
def test_a_size_that_proves_nothing(run: Run, tmp_path: Path) -> None:
    assert blamed(run, tmp_path)[0] == ()


def tagged(tags: Mapping[int, Sequence[int]], awaits: Sequence[int]) -> Run:
    """Workers send rank 0 messages with tags; it awaits the same of all, the last in vain."""
    run = Run(1 + len(tags))
    zero, *workers = run
    for n, tag in enumerate(awaits):
        for worker in workers:
            worker.send(0, tag=tags[worker.rank][n], site="act.py:4")
        for worker in workers:
            call = zero.recv(worker.rank, tag=tag, site="learn.py:7")
            if tags[worker.rank][n] != tag:
                break
    zero.stuck_in(call)
    for worker in workers:
        worker.stuck_in(worker.call("barrier", site="act.py:9"))
    return run


def test_who_alone_sends_under_another_tag(tmp_path: Path) -> None:
    run = tagged({1: [1, 2, 3, 4], 2: [1, 2, 3, 3]}, [1, 2, 3, 4])
    assert blamed(run, tmp_path) == ((2,), {"odd_message"})


def test_nobody_is_alone_with_a_tag_that_all_send(tmp_path: Path) -> None:
    run = tagged({1: [1, 2, 3, 3], 2: [1, 2, 3, 3]}, [1, 2, 3, 4])
    assert blamed(run, tmp_path)[0] == ()


# -- beside the rank's own messages at that line -------------------------------------------------


def turned(*, before: int = 2, varied: bool = False, told: bool = False) -> Run:
    """Rank 2 sends to rank 0 in each round; in the last one to rank 1, while rank 0 awaits it."""
    run = Run(3)
    zero, one, two = run
    for n in range(before):
        if told:
            run.all("broadcast", dtype="int64", shape=[1], site="plan.py:1")
        there = one if varied and not n else zero
        two.send(there.rank, site="ring.py:4")
        there.recv(2, site="ring.py:6")
        run.all("barrier", site="ring.py:9")
    zero.stuck_in(zero.recv(2, site="ring.py:6"))
    two.stuck_in(two.send(1, site="ring.py:4"))
    one.stuck_in(one.call("barrier", site="ring.py:9"))
    return run


def of_cycle(run: Run, folder: Path) -> tuple[int, ...]:
    """Return the suspects of the cycle of waits."""
    return next(one for one in judged(run, folder / "logs") if one.kind == "deadlock").suspects


def test_who_sends_to_another_rank_than_ever_before(tmp_path: Path) -> None:
    assert of_cycle(turned(), tmp_path) == (2,)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(turned(before=1), id="once before proves nothing"),
        pytest.param(turned(before=3, varied=True), id="its peers vary"),
        pytest.param(turned(told=True), id="it may have been told"),
    ],
)
def test_another_peer_that_proves_nothing(run: Run, tmp_path: Path) -> None:
    assert of_cycle(run, tmp_path) == ()


# -- beside all messages of a group ------------------------------------------------------------


def exchange(dtypes: Sequence[str], *, told: bool = False) -> Run:
    """Each rank sends each other one message, in a dtype of its own, and awaits the same."""
    run = Run(len(dtypes))
    if told:
        run.all("broadcast", dtype="int64", shape=[2], site="plan.py:1")
    for one in run:
        for two in run:
            if one is not two:
                one.send(two.rank, dtype=dtypes[one.rank], async_=True, site="moe.py:3")
                two.recv(one.rank, dtype=dtypes[two.rank], async_=True, site="moe.py:4")
    run.finish()
    return run


HALF, FULL = "bfloat16", "float32"


@pytest.mark.parametrize(
    ("dtypes", "told", "suspects"),
    [
        pytest.param([HALF, FULL, HALF, HALF], False, (1,), id="alone"),
        pytest.param([HALF, FULL, HALF, HALF], True, (), id="it may have been told"),
        pytest.param([FULL, HALF, HALF, HALF], False, (), id="the first has another part"),
        pytest.param([HALF, FULL, FULL, HALF], False, (), id="two against two"),
        pytest.param([FULL, [], FULL, FULL], False, (1,), id="a damaged line without dtypes"),
    ],
)
def test_who_is_an_end_of_every_misfit(
    dtypes: Sequence[str],
    told: bool,
    suspects: tuple[int, ...],
    tmp_path: Path,
) -> None:
    assert blamed(exchange(dtypes, told=told), tmp_path)[0] == suspects


# -- messages that have no other end -----------------------------------------------------------

LEAD = """\
def lead():
    for turn in range(9):
        dist.reduce(error, 0)  # REDUCE
        if {condition}:
            return
        tell(go)  # TELL
"""


@pytest.mark.parametrize(
    ("condition", "suspects"), [("error < 0.5", (0,)), ("turn == 4", ())], ids=["root", "count"]
)
def test_who_ended_by_what_it_alone_got(
    condition: str, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    text = LEAD.replace("dist.reduce(error, 0)", "dist.reduce(error, dst=0)")
    script, run = (
        Script(tmp_path, "import torch.distributed as dist\n" + text.format(condition=condition)),
        Run(3),
    )
    zero, *others = run
    for n in range(5):
        zero.call("reduce", **script.at(zero, "REDUCE"))
        for other in others:
            if n < 4:
                zero.send(other.rank, **script.at(zero, "TELL"))
            other.call("reduce", site="follow.py:3")
            call = other.recv(0, site="follow.py:5")
            if n == 4:
                other.stuck_in(call)
    zero.exit()
    found, facts = blamed(run, tmp_path)
    assert (found, "ended_in_round" in facts) == (suspects, bool(suspects))


def answers(*, raises: int | None = 2, rounds: int = 4) -> Run:
    """Rank 0 takes answers of whoever is first; in the end one raises over its question."""
    run = Run(3)
    zero, *workers = run
    for n in range(rounds + 1):
        for worker in workers:
            zero.send(worker.rank, site="ask.py:1")
            worker.recv(0, site="work.py:1")
            if n < rounds:
                worker.send(0, site="work.py:2")
                zero.recv(-1, took=worker.rank, site="ask.py:2")
    for worker in workers:
        if worker.rank == raises:
            worker.exit("exception", error="ValueError", message="bad")
        else:
            worker.stuck_in(worker.recv(0, site="work.py:1"))
    zero.stuck_in(zero.recv(-1, site="ask.py:2"))
    return run


@pytest.mark.parametrize(("rounds", "suspects"), [(4, (2,)), (1, ())])
def test_who_raised_and_owed_an_answer(
    rounds: int, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    found, facts = blamed(answers(rounds=rounds), tmp_path)
    assert (found, "ended_in_round" in facts) == (suspects, bool(suspects))

"""A message more than a round has: which of two ranks went on for longer, where that shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from collectrace.align.judging.judge import judge
from collectrace.align.judging.uneven_round import UnevenRound, uneven_round
from collectrace.findings import Finding
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Run

STEP: Final = "train.py:78"


def rounds(sizes: Sequence[int], *, asks_first: bool = False) -> Run:
    """Rank 0 sends so many in each round, and gets as many back; then both close the round.

    ``asks_first``: it gets each before it gives one.
    """
    run = Run(2)
    for size in sizes:
        exchange(run, size, size, asks_first=asks_first)
        run.all("all_reduce", site=STEP)
    return run


def exchange(run: Run, down: int, up: int, *, asks_first: bool = False) -> None:
    """So many messages from rank 0 to rank 1, and back; of the steps one after the other."""
    zero, one = run
    if asks_first:
        for _ in range(down):
            one.send(0, site="stage.py:56")
            zero.recv(1, site="stage.py:49")
            zero.send(1, site="stage.py:43")
            one.recv(0, site="stage.py:39")
        return
    for _ in range(down):
        zero.send(1, site="stage.py:43")
        one.recv(0, site="stage.py:39")
    for _ in range(up):
        one.send(0, site="stage.py:56")
        zero.recv(1, site="stage.py:49")


def found(run: Run, folder: Path) -> Finding:
    """Rank 0 asks for one more, rank 1 has closed the round."""
    zero, one = run
    zero.stuck_in(zero.recv(1, site="stage.py:49"))
    one.stuck_in(one.call("all_reduce", site=STEP))
    first = errors(aligned(run, folder))[0]
    assert first.kind == "deadlock"
    return first


def known(run: Run, folder: Path) -> UnevenRound | None:
    """What the rule knows of the same circle, whatever is told of it."""
    zero, one = run
    zero.stuck_in(zero.recv(1, site="stage.py:49"))
    one.stuck_in(one.call("all_reduce", site=STEP))
    case = case_of(run, folder)
    first = judge(case)[0]
    assert first.kind == "deadlock"
    return uneven_round(case, first)


def test_who_asks_for_more_than_it_gave(tmp_path: Path) -> None:
    run = rounds([4, 4, 4])
    exchange(run, 2, 2)
    told = found(run, tmp_path)
    assert told.suspects == (0,)
    assert "In each of the 3 rounds before, rank 1 sent as many messages as rank 0 asked for" in (
        told.cause
    )
    assert "rank 1 sent 2 and went on to that, while rank 0 asks for the 3rd" in told.cause
    assert "it is rank 0 that goes on for longer" in told.cause
    assert "Each is right by itself" not in told.cause
    assert "min(warm-up, number of micro-batches)" in told.fix


def test_who_gives_back_less_than_it_got(tmp_path: Path) -> None:
    run = rounds([3, 5, 4])
    exchange(run, 4, 3)
    told = found(run, tmp_path)
    assert told.suspects == (1,)
    assert "it is rank 1 that made fewer back" in told.cause


def test_two_rounds_are_told_and_blame_nobody(tmp_path: Path) -> None:
    run = rounds([4, 3])
    exchange(run, 2, 2)
    told = found(run, tmp_path)
    assert "In each of the 2 rounds before" in told.cause
    assert told.suspects == ()


def test_who_asks_before_it_gives_may_be_in_its_turn(tmp_path: Path) -> None:
    run = rounds([4, 5, 3], asks_first=True)
    exchange(run, 2, 2, asks_first=True)
    told = found(run, tmp_path)
    assert "rank 0 asks for the 3rd" in told.cause
    assert told.suspects == ()


def test_what_goes_one_way_only_has_no_balance(tmp_path: Path) -> None:
    run = Run(2)
    for size in (3, 2, 3):
        exchange(run, 0, size)
        run.all("all_reduce", site=STEP)
    exchange(run, 0, 1)
    told = found(run, tmp_path)
    assert "rank 1 sent 1 and went on to that, while rank 0 asks for the 2nd" in told.cause
    assert told.suspects == ()


def test_a_round_without_the_message(tmp_path: Path) -> None:
    told = found(rounds([1, 0, 1, 1, 0]), tmp_path)
    assert "rank 1 sent none and went on to that, while rank 0 asks for the 1st" in told.cause
    assert "whether there is such a message in the round" in told.fix


def test_messages_that_came_behind_the_collective_before_may_do_so_again(tmp_path: Path) -> None:
    """Rank 0 asks before it closes a round for what rank 1 sends in the next."""
    run = Run(2)
    zero, one = run
    for _ in range(4):
        zero.recv(1, site="stage.py:49", async_=True)
        run.all("all_reduce", site=STEP)
        one.send(0, site="stage.py:56")
    zero.recv(1, site="stage.py:49", async_=True)
    assert known(run, tmp_path) is None


def test_one_round_before_is_not_enough(tmp_path: Path) -> None:
    assert known(rounds([4]), tmp_path) is None


def test_both_that_left_the_balance_blame_nobody(tmp_path: Path) -> None:
    run = rounds([4, 4, 4])
    exchange(run, 2, 3)
    told = known(run, tmp_path)
    assert told is not None
    assert (told.mine, told.theirs, told.back, told.left) == (4, 3, 2, None)


def test_ways_that_were_never_equal_tell_nothing(tmp_path: Path) -> None:
    """Two down and three up in each round; now it is three and three, and a fourth is awaited."""
    run = Run(2)
    for _ in range(3):
        exchange(run, 2, 3)
        run.all("all_reduce", site=STEP)
    exchange(run, 3, 3)
    told = known(run, tmp_path)
    assert told is not None
    assert (told.mine, told.theirs, told.back, told.left) == (4, 3, None, None)


def test_a_message_that_was_not_taken_is_no_balance(tmp_path: Path) -> None:
    run = rounds([4, 4, 4])
    exchange(run, 2, 2)
    run.rank(0).send(1, site="stage.py:43", async_=True)
    told = known(run, tmp_path)
    assert told is not None
    assert (told.mine, told.theirs, told.back, told.left) == (3, 2, None, None)


def test_one_that_left_its_own_round_is_told_instead(tmp_path: Path) -> None:
    """All goes one way, in equal rounds; then rank 1 closes one without a message."""
    run = Run(2)
    for _ in range(5):
        exchange(run, 0, 3)
        run.all("all_reduce", site=STEP)
    told = found(run, tmp_path)
    assert "Rank 1 called all_reduce at train.py:78 where it had called send" in told.cause
    assert "In each of the 5 rounds before" not in told.cause


@pytest.mark.parametrize("lost", [0, 1])
def test_a_log_with_gaps_counts_nothing(lost: int, tmp_path: Path) -> None:
    run = rounds([4, 4, 4])
    run.rank(lost).call("all_reduce", site=STEP, lost=True)
    run.rank(1 - lost).call("all_reduce", site=STEP)
    exchange(run, 2, 2)
    told = found(run, tmp_path)
    assert "as many messages" not in told.cause
    assert told.suspects == ()

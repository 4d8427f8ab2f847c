"""What one rank of a circle of messages had always called there, and did not this time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run


def exchanged(turns: Sequence[str]) -> Run:
    """Rank 0 sends, and receives an answer at a line per turn; in the next epoch it sends on."""
    run = Run(2)
    zero, one = run
    for line in turns:
        zero.send(1, site="a.py:5")
        one.recv(0, site="b.py:5")
        one.send(0, site="b.py:6")
        zero.recv(1, site=line)
    run.all("all_reduce", site="c.py:3")
    zero.done(1)
    one.done(1)
    zero.send(1, site="a.py:5")
    one.recv(0, site="b.py:5")
    zero.stuck_in(zero.send(1, site="a.py:5"))
    one.stuck_in(one.send(0, site="b.py:6"))
    return run


def first(run: Run, folder: Path) -> Finding:
    return errors(aligned(run, folder))[0]


def test_what_always_came_behind_a_call_and_did_not_this_time(tmp_path: Path) -> None:
    found = first(exchanged(["a.py:6"] * 4), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert (
        "Behind send at a.py:5 rank 0 had gone on to recv at a.py:6 4 times; this time it made "
        "that once more, as never before."
    ) in found.cause
    assert "The logs do not show which of them was meant." in found.cause


def test_the_end_of_a_loop_is_a_second_way(tmp_path: Path) -> None:
    found = first(exchanged(["a.py:6", "a.py:6", "a.py:9", "a.py:6"]), tmp_path)
    assert "rank 0 had gone on to recv at a.py:6 3 times; this time" in found.cause


@pytest.mark.parametrize(
    "turns",
    [["a.py:6"] * 2, ["a.py:6", "a.py:6", "a.py:9", "a.py:12", "a.py:6"]],
    ids=["twice is no habit", "it had other turns before"],
)
def test_what_may_come_behind_a_call_is_not_known(turns: Sequence[str], tmp_path: Path) -> None:
    found = first(exchanged(turns), tmp_path)
    assert "Each is right by itself" in found.cause


def answered(epochs: Sequence[int], *, start: int = 0) -> Run:
    """A worker sends and gets an answer, so often per epoch; in the next it only waits for one.

    ``start``: plans that all are given before.
    """
    run = Run(2)
    hub, worker = run
    for n in range(start):
        run.all("broadcast", root=0, dtype="int64", site="plan.py:3")
        done(run, n + 1)
    for row, turns in enumerate(epochs, start + 1):
        for _ in range(turns):
            turn(hub, worker)
        run.all("all_reduce", site="c.py:3")
        done(run, row)
    turn(hub, worker)
    hub.stuck_in(hub.recv(1, site="b.py:5"))
    worker.stuck_in(worker.recv(0, site="a.py:6"))
    return run


def turn(hub: Rank, worker: Rank) -> None:
    worker.send(hub.rank, site="a.py:5")
    hub.recv(worker.rank, site="b.py:5")
    hub.send(worker.rank, site="b.py:6")
    worker.recv(hub.rank, site="a.py:6")


def done(run: Run, row: int) -> None:
    for rank in run:
        rank.done(row)


@pytest.mark.parametrize(
    ("epochs", "start"), [((1, 1, 2, 3, 4), 0), ((4, 3, 2), 2)], ids=["longer epochs", "a plan"]
)
def test_what_all_have_left_behind_them_is_not_told(
    epochs: Sequence[int], start: int, tmp_path: Path
) -> None:
    found = first(answered(epochs, start=start), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert "Rank 1 called recv at a.py:6 where it had called send at a.py:5 in" in found.cause


def halves(run: Run, *, skips: Sequence[int]) -> Run:
    """Sums over all, then in every other's group; in the end some go to their group at once."""
    run.group("even", [0, 2, 4])
    run.group("odd", [1, 3, 5])
    for rank in run:
        own = "odd" if rank.rank % 2 else "even"
        for _ in range(4):
            rank.call("all_gather", site="save.py:7")
            rank.call("all_reduce", own, site="train.py:9")
        rank.done(4)
        rank.done(4, own)
        last = (own, "train.py:9") if rank.rank in skips else ("0", "save.py:7")
        op = "all_reduce" if rank.rank in skips else "all_gather"
        rank.stuck_in(rank.call(op, last[0], site=last[1]))
    return run


def test_all_who_left_it_alike_are_told(tmp_path: Path) -> None:
    found = first(halves(Run(6), skips=[0, 1, 4, 5]), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert (
        "Ranks 0-1,4-5 called all_reduce at train.py:9 where they had called all_gather at "
        "save.py:7 in every round before, their 2nd all_reduce in a row; rank 2 went on with its "
        "round."
    ) in found.cause
    assert "So ranks 0-1,4-5 have left out, or put off, 1 call" in found.cause


def test_who_left_it_in_another_group_is_not_told_of(tmp_path: Path) -> None:
    """There all may have left it out."""
    run = Run(4)
    for rank in run:
        other, even = rank.rank ^ 1, rank.rank % 2 == 0
        for _ in range(5):
            (rank.recv if even else rank.send)(other, site=f"s.py:{3 + even}")
            (rank.send if even else rank.recv)(other, site=f"s.py:{5 + even}")
        if rank.rank == 0:
            rank.stuck_in(rank.recv(1, site="s.py:4"))
        else:
            rank.stuck_in(rank.call("all_reduce", site="s.py:9"))
    found = first(run, tmp_path)
    assert found.kind == "deadlock"
    assert "Rank 1 called all_reduce at s.py:9 where it had called send" in found.cause
    assert "rank 0 went on with its round" in found.cause

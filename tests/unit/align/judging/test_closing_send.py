"""A send that a receive nearly fits, where both lie in a circle of waits."""

from __future__ import annotations

from pathlib import Path

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run


def ring(rounds: int) -> Run:
    """Rank 0 has sent to rank 2 in so many rounds; then it waits in another send to it.

    Rank 2 awaits rank 1, and rank 1 rank 0.
    """
    run = Run(3)
    zero, one, two = run
    for _ in range(rounds):
        zero.send(2, site="a.py:5")
        two.recv(0, site="a.py:6")
    for rank, call in (
        (zero, zero.send(2, site="b.py:20")),
        (one, one.recv(0, site="b.py:22")),
        (two, two.recv(1, site="b.py:22")),
    ):
        rank.stuck_in(call)
    return run


def first(run: Run, folder: Path) -> Finding:
    return errors(aligned(run, folder))[0]


def test_messages_that_met_before_make_it_a_circle(tmp_path: Path) -> None:
    found = first(ring(4), tmp_path)
    assert (found.kind, found.code, found.suspects) == ("deadlock", "CT702", ())
    assert "isend()" in (found.fixes or ())[0]


def test_of_what_never_met_before_no_reading_is_better(tmp_path: Path) -> None:
    found, *others = errors(aligned(ring(0), tmp_path))
    assert (found.kind, found.code, found.suspects) == ("deadlock", "CT702", ())
    assert not others
    assert "isend()" not in (found.fixes or ())[0]


def test_who_was_served_before_and_is_not_now_lacks_what_went_elsewhere(tmp_path: Path) -> None:
    """Rank 0 has sent to rank 1 in each round, and never to rank 2."""
    run = Run(3)
    zero, one, two = run
    for _ in range(3):
        zero.send(1, site="b.py:20")
        one.recv(0, site="b.py:22")
    for rank, call in (
        (zero, zero.send(2, site="b.py:20")),
        (one, one.recv(0, site="b.py:22")),
        (two, two.recv(1, site="b.py:22")),
    ):
        rank.stuck_in(call)
    found = first(run, tmp_path)
    assert (found.kind, found.code, found.suspects) == ("p2p_unmatched", "CT705", ())


def test_a_receive_that_may_name_the_wrong_source(tmp_path: Path) -> None:
    """Rank 2 sends to rank 1, which awaits rank 0, which awaits rank 2 under another tag."""
    run = Run(3)
    zero, one, two = run
    for _ in range(2):
        two.send(1, site="a.py:5")
        one.recv(2, site="a.py:6")
    for rank, call in (
        (zero, zero.recv(2, tag=7, site="b.py:20")),
        (one, one.recv(0, site="b.py:21")),
        (two, two.send(1, site="b.py:22")),
    ):
        rank.stuck_in(call)
    found = first(run, tmp_path)
    assert (found.kind, found.code) == ("deadlock", "CT702")
    assert "let rank 1 receive it first" in found.fix


def test_a_near_miss_outside_of_a_circle_is_a_wrong_peer_only(tmp_path: Path) -> None:
    run = ring(0)
    run.rank(2).exit()
    found = first(run, tmp_path)
    assert (found.kind, found.code) == ("p2p_unmatched", "CT705")


def test_a_rank_that_did_not_wait_in_its_send_closes_no_circle(tmp_path: Path) -> None:
    """It had begun the send, and waits for something else of the same ranks."""
    run = Run(3)
    zero, one, two = run
    for _ in range(4):
        zero.send(2, site="a.py:5")
        two.recv(0, site="a.py:6")
    zero.send(2, site="b.py:19", async_=True)
    for rank, call in (
        (zero, zero.recv(2, tag=3, site="b.py:20")),
        (one, one.recv(0, site="b.py:22")),
        (two, two.recv(1, site="b.py:23")),
    ):
        rank.stuck_in(call)
    found = first(run, tmp_path)
    assert (found.kind, found.code) == ("p2p_unmatched", "CT705")


def test_the_send_that_is_awaited_goes_before_the_one_that_waits(tmp_path: Path) -> None:
    """From lines that both had met before: nothing was sent to the wrong rank."""
    run = Run(3)
    zero, one, two = run
    for source, to in ((zero, two), (zero, one), (one, two)):
        source.send(to.rank, site="a.py:5")
        to.recv(source.rank, site="a.py:6")
    for rank, call in (
        (zero, zero.send(2, site="a.py:5")),
        (one, one.recv(0, site="a.py:6")),
        (two, two.recv(1, site="a.py:6")),
    ):
        rank.stuck_in(call)
    found = first(run, tmp_path)
    assert (found.kind, found.code) == ("deadlock", "CT701")
    assert "Let rank 0 make its send to rank 1 before its send to rank 2 (a.py:5)" in found.fix

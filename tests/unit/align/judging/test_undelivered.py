"""Messages that were lost because their sender left before it had waited for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Alignment
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run

LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:329"


def begin(rank: Rank, count: int = 2) -> None:
    for _ in range(count):
        rank.send(0, async_=True, api="isend", site="worker.py:7")


def ask(rank: Rank, peer: int = 1, error: str = LOST) -> None:
    """A receive that raises what ends the rank."""
    call = rank.recv(peer, site="main.py:9")
    rank.done(call.seq, peer=peer, tag=0, op="recv", failed=True, error=error)
    name, _, text = error.partition(": ")
    rank.exit("exception", error=name, message=text, site="main.py:9")


def test_the_sender_left(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    begin(one)
    one.exit()
    zero.wait(3)
    ask(zero)
    (found,) = errors(aligned(run, tmp_path))
    assert (found.kind, found.code, found.suspects, found.seq) == (
        "p2p_unmatched", "CT709", (1,), 1,
    )  # fmt: skip
    assert "(worker.py:7)" in found.headline
    assert [side.ranks for side in found.sides] == [(1,), (0,)]


def test_some_were_taken_by_receives_from_any_source(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    one.send(0, site="other.py:1")
    begin(one)
    one.exit()
    zero.recv(-1, took=1)
    zero.wait(3)
    ask(zero)
    (found,) = errors(aligned(run, tmp_path))
    assert (found.code, found.suspects, found.seq) == ("CT709", (1,), 2)
    assert "2nd message" in found.cause


def test_others_left_so_too(tmp_path: Path) -> None:
    """Their messages were never asked for, and another's, from another line, are its own affair."""
    run = Run(4)
    zero, one, two, three = run
    for rank in (one, two):
        begin(rank)
        rank.exit()
    three.send(0, async_=True, api="isend", site="other.py:1")
    three.exit()
    zero.wait(3)
    ask(zero)
    first, *rest = errors(aligned(run, tmp_path))
    assert (first.code, first.suspects) == ("CT709", (1, 2))
    assert {finding.caused_by for finding in rest} == {0}


def test_the_group_was_destroyed_before_the_end(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    begin(one)
    one.group("0", [0, 1], phase="destroyed", description="default_pg")
    zero.wait(3)
    ask(zero)
    one.wait(60)
    one.exit()
    (found,) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("p2p_unmatched", (1,))


def nobody_is_blamed(alignment: Alignment) -> None:
    assert errors(alignment) == []
    assert [f.suspects for f in alignment.findings if f.kind == "p2p_unmatched"] in ([], [()])


def test_the_sender_waited(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    begin(one)
    one.done(2, peer=0, tag=0, op="send")
    one.exit()
    zero.wait(3)
    ask(zero)
    nobody_is_blamed(aligned(run, tmp_path))


def test_the_wait_of_the_sender_raised(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    begin(one)
    one.done(1, peer=0, tag=0, op="send", failed=True, error="RuntimeError: Broken pipe")
    one.exit()
    zero.wait(3)
    ask(zero)
    nobody_is_blamed(aligned(run, tmp_path))


def test_a_send_that_returns_when_it_is_taken(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    one.send(0)
    one.exit()
    zero.wait(3)
    ask(zero)
    nobody_is_blamed(aligned(run, tmp_path))


def test_the_sender_was_still_there(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    begin(one)
    ask(zero)
    one.wait(60)
    one.exit()
    nobody_is_blamed(aligned(run, tmp_path))


def test_the_sender_raised(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    begin(one)
    one.exit("exception", error="ValueError", message="no such shard", site="worker.py:9")
    zero.wait(3)
    ask(zero)
    assert "CT709" not in {finding.code for finding in aligned(run, tmp_path).findings}


@pytest.mark.parametrize("error", ["ValueError: bad answer", "RuntimeError: Timed out waiting"])
def test_the_receiver_failed_otherwise(tmp_path: Path, error: str) -> None:
    run = Run(2)
    zero, one = run
    begin(one)
    one.exit()
    zero.wait(3)
    ask(zero, error=error)
    assert "CT709" not in {finding.code for finding in aligned(run, tmp_path).findings}


def test_the_receiver_coped_with_it(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    begin(one, 1)
    one.exit()
    zero.wait(3)
    call = zero.recv(1)
    zero.done(call.seq, peer=1, tag=0, op="recv", failed=True, error=LOST)
    zero.exit()
    nobody_is_blamed(aligned(run, tmp_path))

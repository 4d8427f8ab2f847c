"""A rank that comes when the others have given up; ranks of which there is no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned
from tests.support.kind_examples import LOST, STEP, crash, steps
from tests.support.synthetic import SECOND, Run

TIMEOUT = "Timed out waiting 20000ms for recv operation to complete"


def late(seconds: float, *, message: str = TIMEOUT, impatient: bool = False, **batch: int) -> Run:
    """Ranks 0 and 1 wait for 20 s; rank 2 comes so many seconds after them.

    ``impatient``: they have given up a barrier in another group before.
    """
    run = steps(3)
    if impatient:
        run.group("1", [0, 1, 2])
    for rank in run:
        if impatient and rank.rank < 2:
            met = rank.call("monitored_barrier", group="1", site="/job/train.py:31")
            rank.wait(2)
            rank.done(met.seq, group="1", failed=True, error="RuntimeError: Rank 2 failed to pass")
        if rank.rank == 2:
            rank.wait(seconds)
            if batch:
                rank.batch(4, site="/job/train.py:12", **batch)
        call = rank.call("all_reduce", **STEP)
        rank.wait(20 if rank.rank < 2 else 0.1)
        rank.done(call.seq, failed=True, error=f"RuntimeError: {message}")
        crash(rank, "RuntimeError", message if rank.rank < 2 else LOST, STEP["site"])
    return run


def first(run: Run, folder: Path) -> Finding:
    return aligned(run, folder).findings[0]


def test_a_rank_that_comes_too_late(tmp_path: Path) -> None:
    found = first(late(41), tmp_path)
    assert (found.kind, found.suspects) == ("stall", (2,))
    assert found.headline == (
        "rank 2 came to all_reduce at train.py:40 41 s after the others, which had given up by then"
    )
    assert "Rank 2 was in no collective of this group for 41 s" in found.cause
    assert "network" not in found.cause + found.fix


def test_what_the_others_gave_up_before(tmp_path: Path) -> None:
    found = first(late(41, impatient=True), tmp_path)
    told = "Just before, ranks 0-1 had given up monitored_barrier at train.py:31, and gone on."
    assert told in found.cause
    assert "given up monitored_barrier" not in first(late(41), tmp_path / "patient").cause


def test_what_it_was_doing(tmp_path: Path) -> None:
    found = first(late(41, wait=39 * SECOND), tmp_path)
    assert "Rank 2 waited for data for 39 s of that at train.py:12." in found.cause


def test_a_connection_that_breaks_while_ranks_come_makes_nobody_late(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        rank.wait(0.1 * rank.rank)
        call = rank.call("all_reduce", **STEP)
        rank.wait(0.05)
        rank.done(call.seq, failed=True, error=f"RuntimeError: {LOST}")
        crash(rank, "RuntimeError", LOST, STEP["site"])
    found = first(run, tmp_path)
    assert found.suspects == ()
    assert found.headline.startswith("every rank came to all_reduce")


def test_who_came_in_time_is_not_late(tmp_path: Path) -> None:
    found = first(late(19), tmp_path)
    assert found.suspects == ()
    assert "after the others" not in found.headline


def caught(seconds: float, *, goes_on: bool = False) -> Run:
    """As :func:`late`, and every rank catches its exception and ends well."""
    run = steps(3)
    run.group("1", range(3))
    for rank in run:
        rank.wait(seconds if rank.rank == 2 else 0)
        call = rank.call("all_reduce", **STEP)
        rank.wait(20 if rank.rank < 2 else 0.1)
        message = TIMEOUT if rank.rank < 2 else LOST
        rank.done(call.seq, failed=True, error=f"RuntimeError: {message}")
    for rank in run if goes_on else ():
        rank.call("all_reduce", "1", site="/job/train.py:50")
    run.finish()
    return run


def test_a_rank_that_comes_too_late_where_all_catch_their_exception(tmp_path: Path) -> None:
    alignment = aligned(caught(41), tmp_path)
    (found,) = alignment.findings
    assert (alignment.status, found.kind, found.suspects) == ("hung", "stall", (2,))
    assert found.headline == (
        "rank 2 came to all_reduce at train.py:40 41 s after the others, which had given up by then"
    )


def test_who_came_in_time_is_not_late_where_all_catch_their_exception(tmp_path: Path) -> None:
    assert aligned(caught(19), tmp_path).status == "aligned"


def test_ranks_that_went_on_together_have_coped_with_it(tmp_path: Path) -> None:
    assert aligned(caught(41, goes_on=True), tmp_path).status == "aligned"


# -- no file -------------------------------------------------------------------------------------


def test_nothing_is_known_of_a_rank_without_a_file(tmp_path: Path) -> None:
    run = steps(2)
    crash(run.rank(0), "RuntimeError", LOST, "/job/train.py:40")
    run.omit(1)
    found = {finding.kind: finding for finding in aligned(run, tmp_path).findings}
    raised, gap = found["raised"], found["evidence_gap"]
    assert raised.headline == (
        "rank 0 lost a connection or timed out, and nothing is known of rank 1"
    )
    assert "network" not in raised.fix
    assert "enable()" in raised.fix
    assert "call enable() on every rank" in gap.fix
    assert gap.cause.startswith(
        "Nothing is known of rank 1: not traced there (enable() was not called), or its file is "
        "not here. The files that are here come from node0 (rank 0)."
    )


def test_with_all_files_it_is_the_network(tmp_path: Path) -> None:
    run = steps(2)
    for rank in run:
        crash(rank, "RuntimeError", LOST, "/job/train.py:40")
    found = first(run, tmp_path)
    assert "Look at the network" in found.fix
    assert "Nothing is known" not in found.cause


# -- ended by the launcher when all was done -----------------------------------------------------


@pytest.mark.parametrize(
    ("done", "status"),
    [
        pytest.param(3, "aligned", id="all done"),
        pytest.param(2, "unknown", id="with a call open"),
    ],
)
def test_ended_together(done: int, status: str, tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        rank.done(done)
        rank.alive()
    assert aligned(run, tmp_path).status == status


def test_ended_while_a_rank_had_gone_on(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        rank.done(3)
    run.rank(0).call("all_reduce", **STEP)
    assert aligned(run, tmp_path).status == "unknown"

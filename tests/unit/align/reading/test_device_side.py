"""A Flight Recorder dump beside a rank's own file completes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectrace.align import align
from tests.support.flight_rings import FORMS, Job
from tests.support.synthetic import Run

SECOND = 1_000_000_000


def both(
    folder: Path, form: str, *, op: str = "all_reduce", hung: bool = True, host: str = "all_reduce"
) -> Path:
    """Three ranks on GPUs; the device of each has begun call 9, that of rank 2 has not."""
    run = Run(world=3, backend="nccl")
    job = Job(3)
    job.all(op, [4], count=8)
    for rank in run:
        for _ in range(9):
            rank.call(host, shape=[4], device="cuda", async_=True, site="train.py:10")
    for ring in job:
        state = "scheduled" if ring.rank == 2 else "started"
        ring.call(op, [4], state=state if hung else "completed")
    written = run.write(folder)
    for ring in job:
        path = written / f"rank{ring.rank:05d}.flight.{'json' if form == 'json' else 'pickle'}"
        path.write_bytes(FORMS[form](ring))
        at = job.now + 60 * SECOND
        os.utime(path, ns=(at, at))
    return written


def test_a_reduce_scatter_may_be_an_all_reduce_below(tmp_path: Path) -> None:
    found = align(both(tmp_path, "json", host="reduce_scatter_single"))
    assert not any("number the calls of" in note for note in found.evidence.notes)


@pytest.mark.parametrize("form", ["torch", "json"])
def test_what_the_device_did_joins_what_the_host_issued(form: str, tmp_path: Path) -> None:
    found = align(both(tmp_path, form))
    assert [r.state for r in found.ranks] == ["blocked"] * 3
    assert "the device has started" in found.ranks[0].detail
    assert "the device has not started" in found.ranks[2].detail


def test_without_the_dump_nothing_is_known_of_the_device(tmp_path: Path) -> None:
    folder = both(tmp_path, "torch")
    for path in folder.glob("*.flight.*"):
        path.unlink()
    assert not any("device" in r.detail for r in align(folder).ranks)


def test_what_the_device_completed_is_done(tmp_path: Path) -> None:
    found = align(both(tmp_path, "torch", hung=False))
    assert found.status == "aligned"


def test_other_calls_are_not_joined(tmp_path: Path) -> None:
    found = align(both(tmp_path, "torch", op="broadcast"))
    assert not any("device" in r.detail for r in found.ranks)
    assert any("number the calls of" in note for note in found.evidence.notes)


def test_a_damaged_dump_costs_nothing_but_itself(tmp_path: Path) -> None:
    folder = both(tmp_path, "torch")
    (folder / "rank00001.flight.pickle").write_text("<html>")
    found = align(folder)
    assert found.world_size == 3
    assert any("rank00001.flight.pickle" in note for note in found.evidence.notes)

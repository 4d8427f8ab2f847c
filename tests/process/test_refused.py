"""Calls that raise over their own arguments: their number is free again, the digests go back.

Not an all_to_all of gloo with bad splits, which takes its tag first and raises on gloo's thread:
there the peers hang in it (torch 2.13).
"""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectrace.align.alignment import align
from collectrace.records import Done
from tests.support.real_ranks import Log, Ranks


def gather(extra: int, *, async_op: bool = False) -> None:
    """``extra`` elements too many to be gathered into."""
    work = dist.all_gather_into_tensor(
        torch.zeros(4 * dist.get_world_size() + extra), torch.ones(4), async_op=async_op
    )
    if async_op:
        work.wait()


def copes(kind: str) -> None:
    """Rank 1 is refused a call, twice, and then makes it as it should be."""
    for _ in range(3):
        dist.all_reduce(torch.zeros(2))
    if dist.get_rank() == 1:
        for _ in range(2):
            try:
                gather(1, async_op=kind == "async")
            except (RuntimeError, ValueError):
                continue
            raise AssertionError("it was taken")
    gather(0, async_op=kind == "async")
    dist.all_reduce(torch.zeros(3))


def refused(log: Log) -> list[tuple[int, str]]:
    return [(d.seq, d.error or "") for d in log.of(Done) if d.refused]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_job_that_copes(kind: str, ranks: Ranks) -> None:
    ran = ranks.run(copes, 2, kind)
    assert refused(ran.log(0)) == []
    assert [seq for seq, _ in refused(ran.log(1))] == [4, 4]
    assert [c.seq for c in ran.calls(1)] == [1, 2, 3, 4, 4, 4, 5]
    ends = [ran.calls(rank)[-1] for rank in range(2)]
    assert ends[0].digest == ends[1].digest
    assert ends[0].program == ends[1].program
    found = align(ran.logs)
    assert (found.status, found.evidence.damaged_lines) == ("aligned", 0)


def waits_in_vain(over: str) -> None:
    if dist.get_rank() == 0:
        try:
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=2))
        finally:
            Path(over).touch()
    # A rank that exits sooner takes its peer's connections along, even those of its init.
    while not Path(over).exists():
        time.sleep(0.01)


def test_what_is_about_peers_is_no_refusal(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(waits_in_vain, 2, str(tmp_path / "over"), exits=(1, 0))
    assert refused(ran.log(0)) == []
    assert [d.failed for d in ran.log(0).of(Done) if d.failed] == [True]

"""Uneven data on real ranks: the loader that is slow on one, the sampler that is never told."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from collectrace.align import align
from collectrace.findings import Alignment, Kind
from tests.support.real_ranks import Ran, Ranks

SLOW = 0.06
TURN = 0.3
"""Seconds. Many times what a busy machine makes a rank late by; and what one rank may be later than
the other, in all, to be no straggler: a twentieth of the whole."""

TURNS = 12
ATTEMPTS = 5


class _Slow(Dataset[int]):
    """Each sample takes longer on rank 1."""

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> int:
        if dist.get_rank() == 1:
            time.sleep(SLOW)
        return index


def _loads_slowly() -> None:
    data = _Slow()
    for batch in DataLoader(data, sampler=DistributedSampler(data, shuffle=False)):
        dist.all_reduce(batch)


def _computes_slowly() -> None:
    for _ in range(40):
        if dist.get_rank() == 1:
            time.sleep(SLOW)
        dist.all_reduce(torch.ones(1))


def _keeps_step() -> float:
    """Each rank is slow in turn; seconds by which the machine made it slower than that."""
    late, free = 0.0, time.monotonic()
    for n in range(2 * TURNS):
        turn = TURN if n % 2 == dist.get_rank() else 0
        time.sleep(turn)
        late += time.monotonic() - free - turn
        dist.all_reduce(torch.ones(1))
        free = time.monotonic()
    return late


class _Stream(IterableDataset[int]):
    """Rank 1 has more."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(5 + 3 * dist.get_rank()))


def _runs_out() -> None:
    for batch in DataLoader(_Stream()):
        if batch.item() < 5:
            dist.all_reduce(batch)


def _shuffles(told: bool) -> None:
    data = list(range(8))
    sampler: DistributedSampler[int] = DistributedSampler(data, shuffle=True)  # type: ignore[arg-type]
    loader: DataLoader[torch.Tensor] = DataLoader(data, sampler=sampler)  # type: ignore[arg-type]
    for epoch in range(3):
        if told:
            sampler.set_epoch(epoch)
        for batch in loader:
            dist.all_reduce(batch)


def noticed(ran: Ran) -> tuple[Alignment, set[Kind]]:
    """What is told of a job that is all right, none of it an error."""
    alignment = align(ran.logs)
    assert alignment.status == "aligned"
    assert all(finding.severity == "info" for finding in alignment.findings)
    return alignment, {finding.kind for finding in alignment.findings}


@pytest.mark.slow
def test_a_slow_loader_on_one_rank_is_a_straggler_with_a_table(ranks: Ranks) -> None:
    alignment, kinds = noticed(ranks.run(_loads_slowly))
    assert kinds == {"straggler"}
    found = alignment.findings[0]
    assert found.suspects == (1,)
    assert "for data" in found.cause
    assert "num_workers" in found.fix
    waits = [note for note in found.notes if "40 batches, waited" in note]
    assert [wait.split(":")[0] for wait in waits] == ["rank 0", "rank 1"]


def test_a_slow_rank_is_a_straggler_and_nothing_else(ranks: Ranks) -> None:
    alignment, kinds = noticed(ranks.run(_computes_slowly))
    assert kinds == {"straggler"}
    found = alignment.findings[0]
    assert found.suspects == (1,)
    assert "for data" not in found.cause
    assert "test_data.py:" in found.cause


def test_ranks_that_are_slow_in_turn_keep_step(ranks: Ranks) -> None:
    for _ in range(ATTEMPTS):
        ran = ranks.run(_keeps_step)
        _, kinds = noticed(ran)
        if kinds == set():
            return
        is_idle = os.getloadavg()[0] < (os.cpu_count() or 1)
        if is_idle and abs(ran.result(0) - ran.result(1)) < TURN:
            break
    else:
        pytest.skip("a busy machine makes one rank a straggler, and that is what it is then")
    pytest.fail(f"both were slow alike, and {kinds} was told")


def test_a_loader_that_holds_more_on_one_rank_is_told_with_a_table(ranks: Ranks) -> None:
    alignment, kinds = noticed(ranks.run(_runs_out))
    assert kinds == {"uneven_inputs"}
    found = alignment.findings[0]
    assert "rank 0 had 5 batches and rank 1 had 8" in found.headline
    assert found.notes[0].startswith("rank 0: 5 batches, waited")
    assert found.notes[1].startswith("rank 1: 8 batches, waited")


def test_a_sampler_that_never_hears_of_epochs_is_told(ranks: Ranks) -> None:
    alignment, kinds = noticed(ranks.run(_shuffles, 2, False))
    assert kinds == {"sampler_epoch"}
    assert "ranks 0-1" in alignment.findings[0].headline
    assert "3 times" in alignment.findings[0].headline
    assert "test_data.py:" in alignment.findings[0].cause


def test_a_sampler_that_hears_of_each_epoch_is_not(ranks: Ranks) -> None:
    assert noticed(ranks.run(_shuffles, 2, True))[1] == set()

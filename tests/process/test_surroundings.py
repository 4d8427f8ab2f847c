"""What surrounds the collectives: backward, waits, data, epochs, synchronises; and what is none."""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

from collectrace.records import Batch, Done, Epoch, Sync
from tests.support import rank_file_checks
from tests.support.real_ranks import Ranks

LINES = Path(__file__).read_text().splitlines()


def text(site: str | None) -> str:
    """The line of this file that a site names."""
    assert site is not None
    path, _, line = site.rpartition(":")
    assert path == __file__, site
    return LINES[int(line) - 1].strip()


def outcome(function: Callable[[], Any]) -> str:
    try:
        return repr(function())
    except Exception as problem:  # noqa: BLE001 - a result of the test
        return f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}"


# -- tensors that hold nothing --------------------------------------------------------------


def unreal() -> list[str]:
    dist.all_reduce(torch.ones(1))
    with FakeTensorMode():
        fake = torch.ones(3)
        results = [outcome(lambda: dist.all_reduce(fake)), outcome(lambda: dist.broadcast(fake, 0))]
        results.append(outcome(lambda: dist.all_gather([torch.ones(3), torch.ones(3)], fake)))
    meta = torch.empty(3, device="meta")
    results.append(outcome(lambda: dist.all_reduce(meta)))
    dist.all_reduce(torch.ones(2))
    return results


def test_fake_and_meta_tensors_leave_no_record(ranks: Ranks) -> None:
    bare, traced = ranks.run(unreal, trace=False), ranks.run(unreal)
    assert traced.result() == bare.result()
    for file in rank_file_checks.read_run(traced.logs, 2):
        rank_file_checks.check_whole(file, 2)
        assert [(c.shape, c.seq) for c in file.calls] == [([1], 1), ([2], 2)]


# -- backward, and waiting ------------------------------------------------------------------


class Sub(torch.Tensor):
    """Comes by ``__torch_function__`` twice."""


def backwards() -> None:
    model = DistributedDataParallel(nn.Linear(2, 1))
    model(torch.ones(1, 2)).as_subclass(Sub).sum().backward()
    torch.autograd.backward(model(torch.ones(1, 2)).sum())
    loss = model(torch.ones(1, 2)).sum()
    torch.autograd.grad(loss, [torch.ones(1, requires_grad=True)], allow_unused=True)
    with torch.autograd.set_multithreading_enabled(False):
        model(torch.ones(1, 2)).sum().backward()


def test_backward_whichever_way(ranks: Ranks) -> None:
    for file in rank_file_checks.read_run(ranks.run(backwards).logs, 2):
        rank_file_checks.check_whole(file, 2)
        buckets = [c for c in file.calls if c.role == "ddp.backward.bucket"]
        assert [text(c.site) for c in buckets] == [
            "model(torch.ones(1, 2)).as_subclass(Sub).sum().backward()",
            "torch.autograd.backward(model(torch.ones(1, 2)).sum())",
            "model(torch.ones(1, 2)).sum().backward()",
        ]
        # The third forward has no backward that DDP would hear of.
        assert [c.iteration for c in buckets] == [1, 2, 4]


def waits() -> None:
    works = [dist.all_reduce(torch.ones(n + 1), async_op=True) for n in range(4)]
    for work in works:
        assert work is not None
        work.wait()
    send = dist.isend(torch.ones(1), 1 - dist.get_rank())
    receive = dist.irecv(torch.ones(1), 1 - dist.get_rank())
    assert send is not None
    assert receive is not None
    receive.wait()
    send.wait()


def test_what_was_waited_for_is_complete(ranks: Ranks) -> None:
    ran = ranks.run(waits)
    for rank in range(2):
        log = ran.log(rank)
        assert [c.async_ for c in log.calls] == [True] * 6
        done = log.of(Done)
        assert max(d.seq for d in done if d.op is None) == 4
        assert {d.op: d.seq for d in done if d.op} == {"send": 1, "recv": 1}
        assert not any(d.failed for d in done)


# -- data and devices -----------------------------------------------------------------------


class Slow(IterableDataset[Any]):
    """Has no length, and is slow once."""

    def __iter__(self) -> Any:
        for n in range(3):
            if n == 1:
                time.sleep(0.2)
            yield torch.ones(2) * n


def timed(iterator: Iterator[Any]) -> Iterator[tuple[Any, int]]:
    """What an iterator gives, and how long it took, ns; the last time without anything."""
    while True:
        began = time.monotonic_ns()
        item = next(iterator, None)
        yield item, time.monotonic_ns() - began
        if item is None:
            return


def loading() -> list[Any]:
    dist.barrier()  # or the faster rank may be gone before the other has met it
    data = TensorDataset(torch.arange(10.0))
    sampler: Any = DistributedSampler(data, shuffle=True)
    seen: list[Any] = []
    loader = DataLoader(data, batch_size=2, sampler=sampler)
    for epoch in (0, 3):
        sampler.set_epoch(epoch)
        for (batch,) in loader:
            seen.append(batch.tolist())
    for _ in loader:  # with the epoch that it has
        pass
    batches = list(timed(iter(DataLoader(Slow(), batch_size=None))))
    seen += [batch.tolist() for batch, _ in batches if batch is not None]
    iterator = iter(loader)
    next(iterator)
    return [seen, [took for _, took in batches]]


def test_data_is_told_as_it_is_fetched(ranks: Ranks) -> None:
    bare, traced = ranks.run(loading, trace=False), ranks.run(loading)
    for rank in range(2):
        seen, took = traced.result(rank)
        assert seen == bare.result(rank)[0]
        log = traced.log(rank)
        batches = log.of(Batch)
        # A DataLoader is known by its iterator: one is made for each pass.
        passes: list[list[Batch]] = [[]]
        for batch in batches:
            passes[-1].append(batch)
            if batch.end:
                passes.append([])
        *whole, slow, cut = passes
        assert [[b.batch for b in one] for one in whole] == [[1, 2, 3, 3]] * 3
        assert [b.batch for b in slow] == [1, 2, 3, 3]
        assert [b.batch for b in cut] == [1]
        assert all(b.wait > 0 for b in batches)
        # Each wait is its own batch's: within what the loop itself took for it.
        assert all(b.wait <= most for b, most in zip(slow, took, strict=True))
        assert slow[1].wait >= 150_000_000
        assert [b.length for b in whole[0]] == [3, None, None, None]
        assert [b.length for b in slow] == [None] * 4
        assert text(whole[0][0].site) == "for (batch,) in loader:"
        assert text(cut[0].site) == "next(iterator)"
        epochs = [(e.epoch, e.set, e.shuffle, text(e.site)) for e in log.of(Epoch)]
        assert [e[:3] for e in epochs] == [
            (0, True, True), (0, False, True), (3, True, True), (3, False, True),
            (3, False, True), (3, False, True),
        ]  # fmt: skip
        assert epochs[0][3] == "sampler.set_epoch(epoch)"


def synchronises() -> list[str]:
    dist.barrier()  # or the faster rank may be gone before the other has met it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [outcome(torch.accelerator.synchronize), outcome(torch.cuda.synchronize)]


def test_a_synchronise_raises_as_it_would(ranks: Ranks) -> None:
    bare, traced = ranks.run(synchronises, trace=False), ranks.run(synchronises)
    assert traced.result() == bare.result()
    told = traced.log().of(Sync)
    assert [s.api for s in told] == ["torch.accelerator.synchronize", "torch.cuda.synchronize"]
    assert all(s.wait > 0 for s in told)
    assert {text(s.site) for s in told} == {"return repr(function())"}


# -- groups ---------------------------------------------------------------------------------


def groups_that_end() -> list[bool]:
    default, other = dist.group.WORLD, dist.new_group([0, 1])
    for group in (default, other):
        work = dist.all_reduce(torch.ones(2), group=group, async_op=True)
        assert work is not None
        work.wait()
        dist.all_reduce(torch.ones(2), group=group)
    alive = [weakref.ref(default), weakref.ref(other)]
    del default, other, group, work
    dist.destroy_process_group()
    return [reference() is not None for reference in alive]


def test_a_group_dies_when_it_is_destroyed(ranks: Ranks) -> None:
    """Kept alive, its threads and sockets would be; ended by chance, on a thread of its own."""
    ran = ranks.run(groups_that_end)
    assert ran.result(0) == ran.result(1) == [False, False]

"""The numbers and digests that the tracer writes on its hot path, against those of ``chain``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from collectrace import ops
from collectrace.chain import Chain
from collectrace.records import Call, Checkpoint, Group, decode
from tests.support.real_ranks import Ranks

RANKS: Final = 3


def train_unevenly() -> None:
    models = [DistributedDataParallel(nn.Linear(3, 3)) for _ in range(2)]
    for model in models:
        with model.join():
            for _ in range(2 + dist.get_rank()):
                model(torch.ones(1, 3)).sum().backward()


def exchange() -> None:
    """Rank i sends i + j rows to rank j: sizes differ, and fit."""
    rows = [dist.get_rank() + other for other in range(RANKS)]
    dist.all_to_all_single(torch.ones(sum(rows), 2), torch.ones(sum(rows), 2), rows, rows)


def send_around(tag: int) -> None:
    me = dist.get_rank()
    sent = dist.isend(torch.ones(2), (me + 1) % RANKS, tag=tag)
    dist.recv(torch.ones(2), (me - 1) % RANKS, tag=tag)
    assert sent is not None
    sent.wait()


def all_sorts() -> None:
    dist.barrier()
    exchange()
    train_unevenly()
    exchange()
    pair = dist.new_group([2, 0], sort_ranks=False)
    for n in range(300):
        work = dist.all_reduce(torch.ones(n % 7), dist.ReduceOp.MAX, async_op=True)
        assert work is not None
        work.wait()
        if dist.get_rank() != 1:
            dist.broadcast(torch.ones(2), 2, group=pair)
        send_around(n % 2)
    dist.monitored_barrier()
    dist.all_gather_object([None] * RANKS, {"rank": dist.get_rank()})


def test_the_hot_path_writes_what_the_chain_does(ranks: Ranks) -> None:
    ran = ranks.run(all_sorts, RANKS)
    pairs = []
    for rank in range(RANKS):
        numbered, prepared = Chain(rank), Chain(rank)
        calls: list[Call] = []
        checkpoints = 0
        for line in ran.log(rank).path.read_bytes().splitlines(keepends=True):
            record = decode(line)
            if isinstance(record, Group):
                numbered.know(record)
                prepared.know(record)
            elif isinstance(record, Call):
                calls.append(record)
                bare = replace(record, seq=0, digest=None, program=None, pairs=None)
                assert prepared.line(prepared.form(bare), record.t, record.iteration) == line
                assert numbered.number(bare) == record
            elif isinstance(record, Checkpoint):
                # Groups that are destroyed are not told any more.
                checkpoints += bool(record.streams)
                expected = numbered.checkpoint(record.t)
                assert all(row in expected.streams for row in record.streams)
                assert all(row in expected.channels for row in record.channels)
        assert checkpoints > 2
        # All that the digests hold was there.
        assert {"barrier", "all_to_all_single", "monitored_barrier"} < {c.op for c in calls}
        assert {c.model for c in calls} == {None, 1, 2}
        assert {c.role for c in calls} > {"user", "ddp.construct", "ddp.backward.bucket"}
        assert len({c.group for c in calls}) == (1 if rank == 1 else 2)
        messages = [c for c in calls if c.op in ops.POINT_TO_POINT]
        assert {(c.seq, c.digest) for c in messages} == {(n, None) for n in range(1, 151)}
        pairs.append(calls[-1].pairs)
    assert None not in pairs

"""The tensor of a message that is written to before its Work is waited for, on real ranks."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from collectrace.records import Unwaited
from tests.support.real_ranks import Ranks


def exchange(how: str, writes_early: bool) -> None:
    """Swap a tensor with the other rank in two steps; rank 0 clears its own before each wait."""
    rank = dist.get_rank()
    for _ in range(2):
        mine, theirs = torch.ones(4), torch.empty(4)
        if how == "batch":
            works = dist.batch_isend_irecv(
                [
                    dist.P2POp(dist.isend, mine, 1 - rank),
                    dist.P2POp(dist.irecv, theirs, 1 - rank),
                ]
            )
        else:
            works = []
            for work in (dist.isend(mine, 1 - rank, tag=3), dist.irecv(theirs, 1 - rank, tag=3)):
                assert work is not None
                works.append(work)
        if writes_early and rank == 0:
            mine.zero_()
        for work in works:
            work.wait()
        mine.zero_()
        theirs.zero_()


@pytest.mark.parametrize("how", ["single", "batch"])
def test_a_send_whose_tensor_is_written_to_too_early(how: str, ranks: Ranks) -> None:
    ran = ranks.run(exchange, 2, how, True)
    # A heartbeat between the two steps makes two records of them.
    found = ran.log(0).of(Unwaited)
    tag = 3 if how == "single" else 0
    assert {(of.op, of.peer, of.tag, of.touched) for of in found} == {("send", 1, tag, True)}
    assert (found[0].seq, sum(of.count for of in found)) == (1, 2)
    assert ran.log(1).of(Unwaited) == []


@pytest.mark.parametrize("how", ["single", "batch"])
def test_an_exchange_that_waits_first_is_not_told_of(how: str, ranks: Ranks) -> None:
    ran = ranks.run(exchange, 2, how, False)
    assert [ran.log(rank).of(Unwaited) for rank in (0, 1)] == [[], []]

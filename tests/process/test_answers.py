"""Whose message a receive from any source took, as the tracer records it."""

from __future__ import annotations

from typing import Final

import torch
import torch.distributed as dist

from collectrace.records import Answer, Call
from tests.support.real_ranks import Ranks

RANKS: Final = 3
SERVER: Final = 2


def receive_in_every_way() -> list[int]:
    """Rank 2 receives from rank 0; in the group that is the last rank."""
    group = dist.new_group([2, 1, 0], sort_ranks=False)
    me, took = dist.get_rank(), list[int]()
    if me == 0:
        for tag in (0, 1, 2, 4):
            dist.send(torch.ones(1), SERVER, group=group, tag=tag)
        dist.send(torch.ones(1), SERVER, group=group, tag=3)
    elif me == SERVER:
        took.append(dist.recv(torch.empty(1), group=group, tag=0))
        for tag in (1, 2):
            work = dist.irecv(torch.empty(1), group=group, tag=tag)
            assert work is not None
            work.wait()
        took.append(dist.recv(torch.empty(1), None, group, 4))
        took.append(dist.recv(torch.empty(1), 0, group=group, tag=3))
    dist.barrier()
    return took


def test_recv_and_irecv_in_a_group_of_another_order(ranks: Ranks) -> None:
    ran = ranks.run(receive_in_every_way, RANKS)
    assert ran.exits == (0,) * RANKS
    assert ran.result(SERVER) == [0, 0, 0]
    log = ran.log(SERVER)
    asked = [call for call in log.calls if call.op == "recv" and call.peer == -1]
    answers = log.of(Answer)
    assert [(a.group, a.device, a.seq, a.tag, a.source) for a in answers] == [
        (call.group, call.device, call.seq, call.tag, 0) for call in asked
    ]
    assert len(asked) == 4
    order = [r for r in log.records if isinstance(r, Answer) or r in asked]
    assert [isinstance(r, Call) for r in order] == [True, False] * 4
    assert not ran.log(0).of(Answer)
    assert log.exit is not None
    assert log.exit.failures == 0


def receive_late() -> None:
    works = [dist.all_reduce(torch.ones(1), async_op=True)]
    early = dist.irecv(torch.empty(1)) if dist.get_rank() == 1 else None
    # Too many to be held besides; the oldest of all would be.
    works += [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(100)]
    if early is None:
        dist.send(torch.ones(1), 1)
    else:
        early.wait()
    for work in works:
        assert work is not None
        work.wait()


def test_a_work_that_is_held_no_more_still_tells(ranks: Ranks) -> None:
    ran = ranks.run(receive_late, 2)
    (answer,) = ran.log(1).of(Answer)
    assert answer.source == 0

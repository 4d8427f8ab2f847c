"""Two interleaved stages a rank: receives posted early and in another order, told apart by tags.

batch_isend_irecv on one edge, plain calls on the others; the last microbatch is shorter.

ranks: 3
expect: nothing
status: aligned
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from tests.zoo.common import init

rank = init(timedelta(seconds=60))
WORLD, ROUNDS, WIDTH = dist.get_world_size(), 2, 5
SIZES = [4, 4, 3]
nets = [nn.Linear(WIDTH, WIDTH) for _ in range(ROUNDS)]
Posted = list[tuple[torch.Tensor, dist.Work | None]]


def post(stage: int) -> Posted:
    """The receives of a stage, the last microbatch first; the first stage has inputs instead."""
    posted: Posted = []
    for micro in reversed(range(len(SIZES))):
        x = torch.randn(SIZES[micro], WIDTH)
        tag = 10 * stage + micro
        posted.append((x, dist.irecv(x, (stage - 1) % WORLD, tag=tag) if stage else None))
    return posted[::-1]


def run_stage(stage: int, posted: Posted, sent: list[tuple[dist.Work, torch.Tensor]]) -> None:
    for micro, (x, work) in enumerate(posted):
        if work is not None:
            work.wait()
        y = nets[stage // WORLD](x).tanh().detach()
        if stage < WORLD * ROUNDS - 1:
            sending = dist.isend(y, (stage + 1) % WORLD, tag=10 * (stage + 1) + micro)
            assert sending is not None
            sent.append((sending, y))


def handshake() -> None:
    """The first and the last rank exchange a number; the middle one has nothing to do."""
    if rank == 1:
        return
    peer, got, mine = WORLD - 1 - rank, torch.zeros(1), torch.ones(1)
    ops = [dist.P2POp(dist.irecv, got, peer, tag=999), dist.P2POp(dist.isend, mine, peer, tag=999)]
    for work in dist.batch_isend_irecv(ops if rank else ops[::-1]):
        work.wait()


handshake()
edges = dist.new_group([0, WORLD - 1])
for _ in range(3):
    stages = [rank + WORLD * n for n in range(ROUNDS)]
    posted = [post(stage) for stage in stages]
    sent: list[tuple[dist.Work, torch.Tensor]] = []
    for stage, inbox in zip(stages, posted, strict=True):
        run_stage(stage, inbox, sent)
    for sending, _kept in sent:
        sending.wait()
    if rank in (0, WORLD - 1):  # the tied embeddings
        dist.all_reduce(nets[-1 if rank else 0].weight.detach().clone(), group=edges)
dist.barrier()

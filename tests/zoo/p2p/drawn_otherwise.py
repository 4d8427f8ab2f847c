"""Two of three workers are drawn for each round, by every rank; rank 3 has drawn once more.

ranks: 4
expect: deadlock missing_call p2p_unmatched
suspects: 3
status: hung diverged
cause: rank 3; BUG; chosen; received 2 messages; from changing ranks; torch.randperm
fix: broadcast; same seed
never: network; rank 1 left; rank 2 left; rank 0 left; zeros
"""

import torch
import torch.distributed as dist

from tests.zoo.common import TWIN, init

WORKERS = torch.tensor([1, 2, 3])


def draw(count: int) -> list[int]:
    return WORKERS[torch.randperm(3)[:count]].tolist()


rank = init()
torch.manual_seed(7)
model = torch.zeros(8)
for number in range(16):
    chosen = sorted(draw(2))
    if rank == 0:
        taken = [torch.empty(8) for _ in chosen]
        for worker, update in zip(chosen, taken, strict=True):
            dist.recv(update, src=worker)
        model = torch.stack(taken).mean(dim=0)
    elif rank in chosen:
        update = model + rank
        if (rank, number) == (3, 7) and not TWIN:
            update += torch.rand(8)
        dist.send(update, dst=0)  # BUG
    dist.broadcast(model, src=0)

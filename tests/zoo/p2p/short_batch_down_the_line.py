"""Three stages by hand; the last batch is short, and the middle stage takes it in its full buffer.

It passes four rows on where two are meant, so that the rank with the labels is the one to raise.

ranks: 3
expect: p2p_mismatch
suspects: none
status: diverged
cause: rank 0 sends float32[2, 8]; rank 1 awaits float32[4, 8]; rank 2; ValueError; BUG
fix: size; drop_last
never: rank 2 issued only; fix what raised; network
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.common import TWIN, init

ROWS, WIDTH = 4, 8


def taken(source: int) -> torch.Tensor:
    buffer = torch.empty(ROWS, WIDTH)
    dist.recv(buffer, src=source)  # BUG
    return buffer


rank = init()
layer = nn.Linear(WIDTH, WIDTH)
data = TensorDataset(torch.ones(14, WIDTH), torch.zeros(14, dtype=torch.int64))
with torch.no_grad():
    for batch, labels in DataLoader(data, ROWS, drop_last=TWIN):
        if rank == 0:
            dist.send(layer(batch), dst=1)  # BUG
        elif rank == 1:
            dist.send(layer(taken(0)), dst=2)
        else:
            nn.functional.cross_entropy(layer(taken(1)), labels)
        dist.barrier()

"""Two models are summed into one loss inside a join() of both, and the ranks have uneven inputs.

The join answers the models in turn, each one's forward and backward; the other rank runs both
forwards first.

expect: shape_mismatch op_mismatch
suspects: none
status: diverged
cause: rank 0; model 2; BUG; one after the other | in turn; before that backward
fix: backward of each model before the forward of the next; one module; same number of batches
never: left the loop; Or train inside; branch
"""

import torch
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from tests.zoo.common import TWIN, init

rank = init()
critic = DistributedDataParallel(torch.nn.Linear(4, 4))
actor = DistributedDataParallel(torch.nn.Linear(4, 2))
with Join([critic, actor]):
    for batch in torch.ones(2 + rank, 3, 4):
        loss = critic(batch).sum()
        if TWIN:
            loss.backward()
            actor(batch).sum().backward()
        else:
            (loss + actor(batch).sum()).backward()  # BUG

"""A 1F1B schedule over three stages: 36 messages, all of them answered.

ranks: 3
expect: nothing
status: aligned
"""

import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from tests.zoo.common import init

rank = init()
stage = PipelineStage(torch.nn.Linear(4, 4), rank, 3, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=3, loss_fn=torch.nn.functional.mse_loss)
for _ in range(3):
    if rank == 0:
        schedule.step(torch.ones(6, 4))
    elif rank == 2:
        schedule.step(target=torch.ones(6, 4))
    else:
        schedule.step()

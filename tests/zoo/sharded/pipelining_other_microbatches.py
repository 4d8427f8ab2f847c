"""A GPipe schedule over two stages that cut the batch differently: 4 microbatches against 2.

expect: p2p_unmatched missing_call
suspects: 1
status: hung
limit: 10
cause: rank 1; RuntimeError; size of tensor a (2) must match; BUG
fix: raised; same n_microbatches
never: each is right by itself; turn one of them round; batch_isend_irecv
"""

import torch
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from tests.zoo.common import TWIN, init

rank = init()
stage = PipelineStage(torch.nn.Linear(4, 4), rank, 2, torch.device("cpu"))
pieces = 2 if rank == 1 and not TWIN else 4
schedule = ScheduleGPipe(stage, n_microbatches=pieces, loss_fn=torch.nn.functional.mse_loss)
for _ in range(3):
    if rank == 0:
        schedule.step(torch.ones(8, 4))  # BUG
    else:
        schedule.step(target=torch.ones(8, 4))  # BUG

"""A GPipe schedule over two stages; stage 0 runs a step more, to see whether it works.

expect: p2p_unmatched deadlock
suspects: none
status: hung
limit: 10
cause: rank 0; rank 1; BUG; stage | microbatch* | pipelin*; /\\b(16|19|20|23)\\b/
fix: step() and eval(); equally often; n_microbatches
never: each is right by itself; turn one of them round; batch_isend_irecv
"""

import torch
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from tests.zoo.common import TWIN, init

rank = init()
stage = PipelineStage(torch.nn.Linear(4, 4), rank, 2, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
for _ in range(4):
    if rank == 0:
        schedule.step(torch.ones(8, 4))
    else:
        schedule.step(target=torch.ones(8, 4))
if rank == 0 and not TWIN:
    schedule.step(torch.ones(8, 4))  # BUG

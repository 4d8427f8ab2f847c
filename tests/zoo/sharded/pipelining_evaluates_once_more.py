"""A pipeline of two stages; stage 0 runs an evaluation more, and its handshake meets a microbatch.

expect: p2p_mismatch p2p_unmatched deadlock
suspects: none
status: diverged hung
limit: 10
cause: pipeline; stage 0; BUG; step
fix: step() and eval(); equally often
never: receive buffer; turn one of them round; batch_isend_irecv; send the shape first
"""

import torch
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from tests.zoo.common import TWIN, init

rank = init()
stage = PipelineStage(torch.nn.Linear(4, 4), rank, 2, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=torch.nn.functional.mse_loss)


def step() -> None:
    if rank == 0:
        schedule.step(torch.ones(8, 4))  # BUG
    else:
        schedule.step(target=torch.ones(8, 4))


def evaluate() -> None:
    if rank == 0:
        schedule.eval(torch.ones(8, 4))  # BUG
    else:
        schedule.eval(target=torch.ones(8, 4))


for n in range(4):
    step()
    if n == 2 and (rank == 0 or TWIN):
        evaluate()

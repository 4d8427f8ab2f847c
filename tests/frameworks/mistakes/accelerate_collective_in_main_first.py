"""Accelerate: what the main process is to prepare before the others is broadcast there as well.

expect: op_mismatch
suspects: none
status: diverged
cause: main_process_first; HELD; at its entry; in that body rank 0 called; broadcast; BUG
fix: out of the body; after it
never: equally often; ambiguous; loop ended; rank 0 only
"""

import datetime

import common
import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.utils import broadcast_object_list

patience = InitProcessGroupKwargs(backend="gloo", timeout=datetime.timedelta(seconds=60))
accelerator = Accelerator(cpu=True, kwargs_handlers=[patience])


def statistics(x):
    found = [x.mean().item() if accelerator.is_main_process else None]
    return broadcast_object_list(found)[0]  # BUG


def prepared(shared):
    with accelerator.main_process_first():  # HELD
        x = torch.ones(8)
        if shared and not common.TWIN:
            return x - statistics(x)
    return x - statistics(x)


for epoch in range(3):
    prepared(shared=epoch == 2)
    accelerator.reduce(torch.ones(3))
accelerator.end_training()

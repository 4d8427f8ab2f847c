"""Accelerate: each process gathers a tensor of its own length.

expect: shape_mismatch
suspects: none
status: diverged
cause: gather; BUG; sizes
fix: pad_across_processes
never: find_unused_parameters; DataLoader; drop_last
"""

import datetime

import common
import torch
from accelerate import Accelerator, InitProcessGroupKwargs

patience = InitProcessGroupKwargs(backend="gloo", timeout=datetime.timedelta(seconds=60))
accelerator = Accelerator(cpu=True, kwargs_handlers=[patience])
for _ in range(3):
    length = 3 if common.TWIN else 3 + accelerator.process_index
    accelerator.gather(torch.ones(length))  # BUG
accelerator.end_training()

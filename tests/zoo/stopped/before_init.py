"""Rank 1 prepares its data for so long that the others give up in init_process_group.

ranks: 3
expect: missing_call group_mismatch
suspects: 1
status: hung diverged
limit: 10
cause: rank 1; init_process_group; never came | not come | late; BUG
fix: init_process_group; timeout | same point
"""

import os
import time
from datetime import timedelta

import torch.distributed as dist

from tests.zoo.common import TWIN

print("preparing", flush=True)
if os.environ["RANK"] == "1" and not TWIN:
    time.sleep(60)
dist.init_process_group("gloo", timeout=timedelta(seconds=7))  # BUG

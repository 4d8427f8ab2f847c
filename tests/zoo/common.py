"""How every case begins. No collective is issued from here: it counts as the user's code."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Final

import torch.distributed as dist

TWIN: Final = "--twin" in sys.argv
"""Whether the correct twin of the case is asked for."""


def init(timeout: float = 3.0) -> int:
    """Join the job on gloo, which gives up after ``timeout`` seconds; the rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    return dist.get_rank()

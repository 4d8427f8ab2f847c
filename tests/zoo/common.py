"""How every case begins. No collective is issued from here: it counts as the user's code."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Final

import torch.distributed as dist

TWIN: Final = "--twin" in sys.argv
"""Whether the correct twin of the case is asked for."""

TIMEOUT: Final = timedelta(seconds=3)
"""After which gloo gives up. New groups do not take it over from the default group."""


def init(timeout: timedelta = TIMEOUT) -> int:
    """Join the job; the rank."""
    dist.init_process_group("gloo", timeout=timeout)
    return dist.get_rank()

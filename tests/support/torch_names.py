"""Functions of torch by the names of today, on a torch that has them under earlier ones only."""

from __future__ import annotations

import re
from typing import Any, Final

import torch.distributed as dist

all_gather_single: Final[Any] = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter_single: Final[Any] = getattr(
    dist, "reduce_scatter_single", dist.reduce_scatter_tensor
)


def lacking(source: str) -> list[str]:
    """The functions of torch.distributed that a script calls and this torch does not have."""
    return sorted({n for n in re.findall(r"\bdist\.(\w+)", source) if not hasattr(dist, n)})

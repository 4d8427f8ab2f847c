"""What communicates past torch's dispatcher, where no call of it can be recorded: that is said.

A library is noticed by its module, once that is loaded; what is part of torch, by a patch on the
function that begins it (``patches/blind_spots``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from collectrace.records import Blind


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """One way to communicate that is not recorded."""

    name: str
    """What people call it."""
    what: str
    """What of it is not recorded."""
    modules: tuple[str, ...] = ()
    """It is there when one of these is loaded; none: a patch notices it."""
    used: str = ""
    """Attribute of the module that is not empty once it is used; empty: to load it is to use it."""
    how: str = "was loaded"
    """How it was noticed, as in "deep_ep was loaded"."""


CUDA_GRAPH: Final = "a CUDA graph with collectives in it"
SYMMETRIC_MEMORY: Final = "symmetric memory"

_PYNCCL: Final = "collectives that it issues on NCCL itself"
_KERNEL: Final = "all-reduces by a kernel of its own"
_EXPERTS: Final = "dispatch and combine of experts"

BLIND_SPOTS: Final = (
    BlindSpot("torchcomms", "calls of its own API, beside torch.distributed", ("torchcomms",)),
    BlindSpot("vLLM's PyNccl", _PYNCCL, ("vllm.distributed.device_communicators.pynccl",)),
    BlindSpot(
        "SGLang's PyNccl", _PYNCCL, ("sglang.srt.distributed.device_communicators.pynccl",)
    ),
    BlindSpot(
        "vLLM's custom all-reduce", _KERNEL,
        ("vllm.distributed.device_communicators.custom_all_reduce",),
    ),
    BlindSpot(
        "SGLang's custom all-reduce", _KERNEL,
        ("sglang.srt.distributed.device_communicators.custom_all_reduce",),
    ),
    BlindSpot("flashinfer.comm", _KERNEL, ("flashinfer.comm",)),
    BlindSpot("mscclpp", "its collectives", ("mscclpp",)),
    BlindSpot(
        "Transformer Engine's userbuffers", "collectives that overlap a matrix product",
        ("transformer_engine.pytorch.module.base",), used="_ub_communicators", how="was used",
    ),
    BlindSpot("deep_ep", _EXPERTS, ("deep_ep",)),
    BlindSpot("pplx_kernels", _EXPERTS, ("pplx_kernels",)),
    BlindSpot("nvshmem", "its puts, gets and collectives", ("nvshmem.core",)),
    BlindSpot("nccl4py", _PYNCCL, ("nccl.core",)),
    BlindSpot(
        "CuPy's NCCL", _PYNCCL,
        ("cupy_backends.cuda.libs.nccl", "cupy.cuda.nccl", "cupyx.distributed"),
    ),
    BlindSpot("Ray's collective library", "its collectives", ("ray.util.collective.collective",)),
    BlindSpot("nixl", "its transfers", ("nixl",)),
    BlindSpot("mooncake", "its transfers", ("mooncake.engine",)),
    BlindSpot("mpi4py", "its messages and collectives", ("mpi4py.MPI",)),
    BlindSpot("horovod", "its collectives", ("horovod.torch",)),
    BlindSpot(CUDA_GRAPH, "its replays: the capture alone is recorded", how="was captured"),
    BlindSpot(SYMMETRIC_MEMORY, "what kernels read of other ranks' memory", how="was used"),
)  # fmt: skip
"""THE table of what is not recorded, a row for each."""

_noticed: Final[set[str]] = set()
"""Names of what a patch has noticed in this process."""


def notice(name: str) -> None:
    """Take note that something of the table that has no module is used in this process."""
    _noticed.add(name)


class BlindSpots:
    """What of the table was found in this process, for one record."""

    def __init__(self, table: Iterable[BlindSpot] = BLIND_SPOTS) -> None:
        self._left = list(table)

    def take(self) -> Iterator[Blind]:
        """A record for each that is there by now, once."""
        for spot in self._left[:]:
            if _is_there(spot):
                self._left.remove(spot)
                yield Blind(name=spot.name, how=spot.how, what=spot.what)


def _is_there(spot: BlindSpot) -> bool:
    if not spot.modules:
        return spot.name in _noticed
    loaded = [sys.modules.get(name) for name in spot.modules]
    return any(
        module is not None and (not spot.used or bool(getattr(module, spot.used, None)))
        for module in loaded
    )

"""The ways to communicate without torch's dispatcher, which cannot be recorded.

A library is noticed when its module is loaded. For a part of torch, a patch notices the function
that begins it (``patches/blind_spots``).
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
    """Its usual name."""
    what: str
    """What is not recorded."""
    modules: tuple[str, ...] = ()
    """It counts as used when one of these is loaded; empty: a patch notices it."""
    used: str = ""
    """A module's attribute that is set once the library is used; empty: loading counts as use."""
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
"""The table of everything that is not recorded."""

_noticed: Final[set[str]] = set()
"""Names of blind spots that a patch has noticed in this process."""


def notice(name: str) -> None:
    """Note that this process uses a blind spot of the table that has no module."""
    _noticed.add(name)


class BlindSpots:
    """The blind spots of one run that were not recorded yet."""

    def __init__(self, table: Iterable[BlindSpot] = BLIND_SPOTS) -> None:
        self._left = list(table)

    def take(self) -> Iterator[Blind]:
        """Yield a record for each blind spot that is used by now, once."""
        for spot in self._left[:]:
            if _is_used(spot):
                self._left.remove(spot)
                yield Blind(name=spot.name, how=spot.how, what=spot.what)


def _is_used(spot: BlindSpot) -> bool:
    if not spot.modules:
        return spot.name in _noticed
    loaded = [sys.modules.get(name) for name in spot.modules]
    return any(
        module is not None and (not spot.used or bool(getattr(module, spot.used, None)))
        for module in loaded
    )

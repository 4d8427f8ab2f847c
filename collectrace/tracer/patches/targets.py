"""The table of patched functions and their wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch.distributed as dist

from collectrace import ops
from collectrace.tracer.guard import Wrapper
from collectrace.tracer.patches import (
    blind_spots,
    data,
    ddp,
    frameworks,
    join,
    lifecycle,
    threads,
    waits,
)
from collectrace.tracer.patches.patching import Target
from collectrace.tracer.patches.scoping import api, around, backward, recv, role, role_of

_DIST: Final = ("torch.distributed", "torch.distributed.distributed_c10d")
_C10D: Final = ("torch.distributed.distributed_c10d",)
_DDP: Final = ("torch.nn.parallel.distributed",)
_JOIN: Final = ("torch.distributed.algorithms.join",)
_ZERO: Final = ("torch.distributed.optim.zero_redundancy_optimizer",)
_LOADER: Final = ("torch.utils.data.dataloader",)
_SYMMETRIC: Final = ("torch.distributed._symmetric_memory",)
_SAMPLER: Final = ("torch.utils.data.distributed",)

_PUBLIC: Final = (
    *(name for name in ops.NAMES if hasattr(dist, name)),  # some batches have no public function
    "_all_gather_base", "_reduce_scatter_base",
    "all_gather_object", "gather_object", "scatter_object_list", "broadcast_object_list",
    "send_object_list", "recv_object_list", "batch_isend_irecv",
)  # fmt: skip
"""Public collectives and point-to-point functions, with deprecated names, and functions built on
them. Not isend and irecv: torch compares them by identity (P2POp, batch_isend_irecv), and the tap
sees their calls."""

_CREATING: Final = ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")


def _rows() -> Iterator[Target]:
    for name in _PUBLIC:
        yield Target(_DIST, name, recv if name == "recv" else api(name), direct=True)
    yield Target(_DIST[:1], "Work.wait", waits.work_wait)
    yield Target(_DIST[:1], "Work.is_completed", waits.is_completed)
    for name in ("get_future", "get_future_result", "synchronize", "block_current_stream"):
        yield Target(_DIST[:1], f"Work.{name}", waits.counts_as_wait)

    # process groups
    yield Target(_DIST, "init_process_group", lifecycle.init_process_group)
    yield Target(_C10D, "_new_process_group_helper", lifecycle.new_process_group)
    yield Target(_DIST, "destroy_process_group", lifecycle.destroy_process_group)
    for name in _CREATING:
        yield Target(_DIST, name, around("group"))

    # DistributedDataParallel, by the methods that issue its calls
    for name, make in _DDP_PARTS.items():
        yield Target(_DDP, f"DistributedDataParallel.{name}", make)
    yield Target(_DDP, "_DDPJoinHook.main_hook", join.ddp_main_hook)

    # join()
    yield Target(_JOIN, "Join.notify_join_context", join.notify_join)
    yield Target(_JOIN, "Join._get_num_nonjoined_procs", join.count_nonjoined)
    yield Target(_JOIN, "Join._notify_procs_to_terminate", join.notify_to_terminate)
    yield Target(_JOIN, "Join.__enter__", join.join_enter)
    yield Target(_JOIN, "Join.__exit__", join.join_exit)
    yield Target(_ZERO, "ZeroRedundancyOptimizer.step", role("zero.step"))

    yield from frameworks.rows()

    # backward: the user's line for calls that autograd's threads issue
    yield Target(("torch.autograd",), "backward", backward, plain=True)

    # data and devices
    yield Target(_LOADER, "_BaseDataLoaderIter.__next__", data.next_batch)
    yield Target(_SAMPLER, "DistributedSampler.set_epoch", data.set_epoch)
    yield Target(_SAMPLER, "DistributedSampler.__iter__", data.sampler_pass)
    for module in ("torch.cuda", "torch.accelerator"):
        yield Target((module,), "synchronize", waits.synchronize(f"{module}.synchronize"))

    # what is not recorded
    yield Target(("torch.cuda.graphs",), "CUDAGraph.capture_begin", blind_spots.capture_begin)
    yield Target(("torch.cuda.graphs",), "CUDAGraph.capture_end", blind_spots.capture_end)
    for name in ("rendezvous", "get_symm_mem_workspace"):
        yield Target(_SYMMETRIC, name, blind_spots.symmetric_memory)

    # threads: the user's line for calls that they issue
    yield Target(("concurrent.futures.thread",), "ThreadPoolExecutor.submit", threads.submit)
    yield Target(("threading",), "Thread.start", threads.start)

    # ends
    yield Target(("sys",), "exit", lifecycle.sys_exit)
    yield Target(("_sitebuiltins",), "Quitter.__call__", lifecycle.sys_exit)


_DDP_PARTS: Final[dict[str, Callable[[Any], Wrapper]]] = {
    "__init__": role("ddp.construct"),
    "_pre_forward": ddp.ddp_forward,
    "_run_ddp_forward": ddp.ddp_module,
    "_sync_buffers": role("ddp.forward.sync_buffers"),
    "_check_and_sync_module_buffers": role("join.sync_buffers"),
    "_check_global_requires_backward_grad_sync": role_of(
        lambda is_joined_rank: "join.sync_check" if is_joined_rank else "ddp.forward.sync_check"
    ),
    "_find_common_rank": role("join.common_rank"),
    "_sync_final_model": role("join.final_sync"),
    "_match_all_reduce_for_bwd_pass": role("join.bucket"),
    "_match_unused_params_allreduce": role("join.unused_params"),
    "_delayed_all_reduce_hook": role("ddp.backward.bucket"),
    "register_comm_hook": ddp.register_comm_hook,
    "no_sync": ddp.no_sync,
}

TARGETS: Final[tuple[Target, ...]] = tuple(_rows())

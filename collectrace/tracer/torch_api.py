"""The differences between the versions of torch that can be traced. Only this module checks them.

Each is detected by its presence, not by the version. The changes, and the first torch with them:

========================================================================== =====
kernels ``with_keyset``, ``redispatch_boxed``, ``ProcessGroup.unbox``       2.4
``DispatchKeySet.raw_repr``                                                 2.5
``torch.accelerator``, ``split_group``                                      2.6
``eval_frame.set_code_exec_strategy`` (before: ``skip_code``)               2.7
``async_op`` among the arguments of all operators (before: ``asyncOp`` on
four of them), ``asyncOp`` on all options of a group's methods              2.8
``op()`` of the ReduceOp that an operator is given                          2.10
``all_gather_single``, ``reduce_scatter_single``                            2.13
``gather_into_tensor``, ``gather_single``                                   2.15
========================================================================== =====

``tap/untold`` gets from an operator's caller what the operator itself does not show.
"""

from __future__ import annotations

import inspect
import sys
from functools import reduce
from types import CodeType, FrameType
from typing import Any, Final

import torch
import torch.distributed as dist

from collectrace.errors import CollectraceError

OLDEST: Final = (2, 6)
"""The oldest torch with which the tests were run."""

_NEEDED: Final = (
    "torch.distributed.ProcessGroup.unbox",
    "torch.distributed.Work.unbox",
    "torch.distributed.distributed_c10d._world",
    "torch.distributed.distributed_c10d._World",
    "torch.distributed.distributed_c10d._new_process_group_helper",
    "torch.library.Library",
    "torch.ops.c10d.allreduce_.default._schema",
    "torch.ops.c10d.allreduce_.default._handle.redispatch_boxed",
    "torch.ops._c10d_functional.wait_tensor.default",
    "torch._C._jit_get_all_schemas",
    "torch._C.DispatchKey.BackendSelect",
    "torch._C.DispatchKeySet.raw_repr",
    "torch._C.DispatchKeySet.remove",
    "torch.autograd.graph._engine_run_backward",
    "torch.multiprocessing.reductions.StorageWeakRef",
)
"""Without any of these nothing can be recorded."""

_PACKAGE: Final = f"{__name__.partition('.')[0]}."


def check() -> None:
    """Check that this torch has everything that recording needs.

    Raises:
        CollectraceError: something is missing; the message names the first such thing.

    """
    version = torch.__version__
    if not dist.is_available():
        raise CollectraceError(
            f"torch {version} was built without torch.distributed. Install a build that has it."
        )
    lacking = next((name for name in _NEEDED if not _has(name)), None)
    if lacking is None and "with_keyset" not in _parameters(torch.library.Library.impl):
        lacking = "torch.library.Library.impl(with_keyset)"
    if lacking is None:
        return
    if _is_older(version):
        oldest = ".".join(map(str, OLDEST))
        this = ".".join(version.split(".")[:2])
        raise CollectraceError(
            f"torch is {this}, and must be {oldest} or newer (no {lacking}). Upgrade torch."
        )
    raise CollectraceError(
        f"cannot trace torch {version}: it has no {lacking}. Install a newer collectrace."
    )


def _has(path: str) -> bool:
    try:
        reduce(getattr, path.split(".")[1:], torch)
    except (AttributeError, RuntimeError):  # torch.ops raises either for an unknown name
        return False
    return True


def _parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


def _is_older(version: str) -> bool:
    """Return whether a version is older than OLDEST; this only selects the error message."""
    numbers = [int(part) if part.isdigit() else 0 for part in version.split(".")[:2]]
    return tuple(numbers) < OLDEST


_NOT_EVERYWHERE: Final = frozenset({
    "torch.distributed.Work.block_current_stream",
    "torch.distributed._symmetric_memory.get_symm_mem_workspace",
    "torch.distributed._symmetric_memory.rendezvous",
    "torch.distributed.checkpoint.utils._DistWrapper.barrier",
    ("torch.distributed.pipelining.schedules._PipelineSchedule."
     "_initialize_pipeline_distributed_state"),
    "torch.distributed.pipelining.stage.PipelineStage._recv_meta",
    "torch.distributed.pipelining.stage.PipelineStage._send_meta",
    "torch.distributed.pipelining.stage.PipelineStage._warmup_backward_result",
    "torch.distributed.pipelining.stage.PipelineStage._warmup_forward_vote",
    "torch.distributed.tensor.placement_types.Replicate._make_replicate_tensor",
    "torch.distributed.tensor.placement_types.Shard._make_shard_tensor",
})  # fmt: skip
"""Functions that are patched if they exist, and that some torch from 2.6 to 2.15 lacks."""


def is_expected(where: str) -> bool:
    """Return whether this is a function of torch that all known versions have."""
    return where.startswith("torch.") and where not in _NOT_EVERYWHERE


def first_of(module: Any, *names: str) -> str:
    """Return the first of these names that a module has; if it has none, the first name.

    Pass the current name of a function before its earlier ones.
    """
    return next((name for name in names if hasattr(module, name)), names[0])


# -- what operators show --------------------------------------------------------------------


def tells_reduce_op() -> bool:
    """Return whether the ReduceOp of an operator can be queried."""
    return hasattr(torch.classes.c10d.ReduceOp(), "op")


def tells_async(schema_arguments: Any) -> bool:
    """Return whether the arguments of an operator show if its caller waits for it.

    A monitored barrier (``wait_all_ranks``) counts as such, as its caller always waits.
    """
    names = {argument.name for argument in schema_arguments}
    return "async_op" in names or "wait_all_ranks" in names


def asked_async() -> bool:
    """Return whether the call in progress returns before it is complete, by its caller.

    A public function has an argument for it. Calls from C++ and of a group's method return at once.
    This is for torch 2.6 and 2.7, in which operators and options do not show it
    (torch/distributed/distributed_c10d.py).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__") != "torch.distributed.distributed_c10d":
        return True
    known = frame.f_locals
    # The coalescing manager's argument has a plural name.
    return bool(known.get("async_op", known.get("async_ops", True)))


def reduce_op_number(value: Any) -> int:
    """Return the integer of a ReduceOp, or of a member of its enum."""
    return int(getattr(value, "op", value))


# -- torch.compile ----------------------------------------------------------------------------


def hide_from_dynamo(code: CodeType, *, callees: bool) -> None:
    """Keep the function of this code object from being compiled, or breaking a graph.

    ``callees``: also all functions that it calls. Pass False if it calls a function of the user,
    which must still be compiled.

    The function for it is private to torch (torch/_C/_dynamo/eval_frame.pyi, torch 2.13), and needs
    no import of ``torch._dynamo``, which takes 2 s. Before torch 2.7 callees cannot be included. If
    torch lacks both functions, nothing is done.
    """
    try:
        dynamo = torch._C._dynamo.eval_frame
        if hasattr(dynamo, "set_code_exec_strategy"):
            skip, default = dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT
            strategy = dynamo._FrameExecStrategy(skip, skip if callees else default)
            dynamo.set_code_exec_strategy(code, strategy)
        else:
            dynamo.skip_code(code)  # type: ignore[attr-defined, unused-ignore]
    except (AttributeError, TypeError):
        return

"""Wrap methods of ProcessGroup that take a ReduceOp, to store its name for the thread.

Needed only for a torch in which operators hide their ReduceOp, see ``tap/untold``.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import Any, Final

import torch.distributed as dist

from collectrace.tracer import torch_api
from collectrace.tracer.patches.patching import put
from collectrace.tracer.tap.arguments import reduce_op_name
from collectrace.tracer.tap.untold import told
from collectrace.tracer.tap.wire import Undo

_METHODS: Final = (
    "allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
)  # fmt: skip

_REDUCE_OPS: Final = (dist.ReduceOp, dist.ReduceOp.RedOpType)


def install() -> Undo:
    """Wrap the methods, if this torch needs it; return the undo."""
    if torch_api.tells_reduce_op():
        return lambda: None
    undos = ExitStack()
    for name in _METHODS:
        if hasattr(dist.ProcessGroup, name):
            method = _wrapped(name, getattr(dist.ProcessGroup, name))
            undos.callback(put(dist.ProcessGroup, name, method))
    return undos.close


def _wrapped(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        given = _given(args, kwargs)
        # No call between here and the try: a signal handler could raise after it.
        told.reduce_op, told.frames = given, 1
        try:
            return original(self, *args, **kwargs)
        finally:
            told.reduce_op, told.frames = None, 0

    # For a group in Python that does not override this method, pybind11 looks for an override. It
    # would find this one and recurse forever. It does not look if the innermost frame belongs to a
    # function of that name with the group as first argument (get_type_override,
    # pybind11/pybind11.h).
    made: Any = method
    made.__code__ = made.__code__.replace(co_name=name)
    torch_api.hide_from_dynamo(made.__code__, callees=False)
    return made


def _given(args: Any, kwargs: dict[str, Any]) -> str | None:
    """Return the name of the ReduceOp among the arguments, or in the options; None: no ReduceOp."""
    for value in (*args, *kwargs.values()):
        found = value if isinstance(value, _REDUCE_OPS) else getattr(value, "reduceOp", None)
        if found is not None:
            return reduce_op_name(torch_api.reduce_op_number(found))
    return None

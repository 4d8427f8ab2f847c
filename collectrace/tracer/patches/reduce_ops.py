"""Methods of a ProcessGroup that are given a ReduceOp: they leave it with the thread.

Only for a torch whose operators do not tell which it is, see ``tap/untold``.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import Any, Final

import torch.distributed as dist

from collectrace.tracer import torch_api
from collectrace.tracer.dynamo import hide_from_dynamo
from collectrace.tracer.patches.patching import put
from collectrace.tracer.tap.untold import name_of, told
from collectrace.tracer.tap.wire import Undo

_METHODS: Final = (
    "allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
)  # fmt: skip

_REDUCE_OPS: Final = (dist.ReduceOp, dist.ReduceOp.RedOpType)


def install() -> Undo:
    """Wrap the methods, where that is needed; the undo takes the wrappers off."""
    if torch_api.tells_reduce_op():
        return lambda: None
    undos = ExitStack()
    for name in _METHODS:
        if hasattr(dist.ProcessGroup, name):
            method = _telling(name, getattr(dist.ProcessGroup, name))
            undos.callback(put(dist.ProcessGroup, name, method))
    return undos.close


def _telling(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        given = _given(args, kwargs)
        # From here to the try nothing is called: a signal handler could raise after it.
        told.reduce_op, told.frames = given, 1
        try:
            return original(self, *args, **kwargs)
        finally:
            told.reduce_op, told.frames = None, 0

    # Of a group written in Python that leaves this method to C++, pybind11 looks for an override:
    # it would find this one, and call it again without end. It does not look where the innermost
    # frame is of a function of that name whose first argument is the group (get_type_override,
    # pybind11/pybind11.h).
    made: Any = method
    made.__code__ = made.__code__.replace(co_name=name)
    hide_from_dynamo(made.__code__, callees=False)
    return made


def _given(args: Any, kwargs: dict[str, Any]) -> str | None:
    """The name of the ReduceOp among the arguments, which is in the options or stands alone."""
    for value in (*args, *kwargs.values()):
        found = value if isinstance(value, _REDUCE_OPS) else getattr(value, "reduceOp", None)
        if found is not None:
            return name_of(torch_api.reduce_op_number(found))
    return None

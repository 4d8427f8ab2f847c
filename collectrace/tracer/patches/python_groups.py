"""Record calls of ProcessGroups written in Python, by wrapping their methods.

Such a group (torchft's, torch's threaded test group) is its own backend. ``torch.distributed``,
functional collectives and DDP's reducer in C++ call its methods, and no operator reaches the
dispatcher. So the methods that a class overrides are wrapped. A call is recorded before it is
made, with its arguments read as those of the corresponding operator.

Calls on the same group within that call are part of it, such as an allreduce in a barrier, or
``super().allreduce()``, which the tap sees. Calls on another group, such as an inner one of gloo,
are recorded as that group's.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

from collectrace.tracer import torch_api
from collectrace.tracer.guard import Wrapper
from collectrace.tracer.patches import lifecycle, waits
from collectrace.tracer.patches.patching import is_wrapper, put, wrap
from collectrace.tracer.record import scopes
from collectrace.tracer.session import Session
from collectrace.tracer.tap.arguments import (
    OPERATORS,
    Args,
    ArgumentReader,
    CallFields,
    is_readable,
)
from collectrace.tracer.tap.wire import Undo

_GATHER: Final = ("output_tensor", "input_tensor")
_LISTS: Final = ("output_tensors", "input_tensors")
_OUTPUTS: Final = ("outputs", "inputs")
_SPLIT: Final = ("output", "input", "output_split_sizes", "input_split_sizes")

METHODS: Final[dict[str, tuple[str, tuple[str, ...], Callable[[], Any] | None]]] = {
    "allreduce": ("allreduce_", ("tensors",), dist.AllreduceOptions),
    "allreduce_coalesced": (
        "allreduce_coalesced_", ("tensors",), dist.AllreduceCoalescedOptions
    ),
    "broadcast": ("broadcast_", ("tensors",), dist.BroadcastOptions),
    "reduce": ("reduce_", ("tensors",), dist.ReduceOptions),
    "allgather": ("allgather_", _LISTS, AllgatherOptions),
    "allgather_coalesced": (
        "allgather_coalesced_", ("output_lists", "input_list"), AllgatherOptions
    ),
    "all_gather_single": ("_allgather_base_", _GATHER, AllgatherOptions),
    "_allgather_base": ("_allgather_base_", _GATHER, AllgatherOptions),
    "all_gather_single_coalesced": (
        "allgather_into_tensor_coalesced_", _OUTPUTS, AllgatherOptions
    ),
    "allgather_into_tensor_coalesced": (
        "allgather_into_tensor_coalesced_", _OUTPUTS, AllgatherOptions
    ),
    "gather": ("gather_", _LISTS, dist.GatherOptions),
    "gather_single": ("gather_into_tensor_", _GATHER, dist.GatherOptions),
    "gather_into_tensor": ("gather_into_tensor_", _GATHER, dist.GatherOptions),
    "scatter": ("scatter_", _LISTS, dist.ScatterOptions),
    "reduce_scatter": ("reduce_scatter_", _LISTS, dist.ReduceScatterOptions),
    "reduce_scatter_single": ("_reduce_scatter_base_", _GATHER, dist.ReduceScatterOptions),
    "_reduce_scatter_base": ("_reduce_scatter_base_", _GATHER, dist.ReduceScatterOptions),
    "reduce_scatter_single_coalesced": (
        "reduce_scatter_tensor_coalesced_", _OUTPUTS, dist.ReduceScatterOptions
    ),
    "reduce_scatter_tensor_coalesced": (
        "reduce_scatter_tensor_coalesced_", _OUTPUTS, dist.ReduceScatterOptions
    ),
    "alltoall": ("alltoall_", _LISTS, dist.AllToAllOptions),
    "all_to_all_single": ("alltoall_base_", _SPLIT, dist.AllToAllOptions),
    "alltoall_base": ("alltoall_base_", _SPLIT, dist.AllToAllOptions),
    "barrier": ("barrier", (), dist.BarrierOptions),
    "monitored_barrier": ("monitored_barrier_", (), None),
    "send": ("send", ("tensors", "dst", "tag"), None),
    "recv": ("recv_", ("tensors", "src", "tag"), None),
    "recv_anysource": ("recv_any_source_", ("tensors", "tag"), None),
}  # fmt: skip
"""The methods of ProcessGroup (torch/csrc/distributed/c10d/init.cpp, torch 2.15). Each has its
operator, the operator's arguments in the order in which the method takes them, and the class of the
options after them."""

_GIVEN: Final[dict[str, Any]] = {
    "process_group": None, "tensor": torch.empty(0), "device_ids": (),
    "output_split_sizes": (), "input_split_sizes": (),
}  # fmt: skip
"""Values of operators' arguments that a method does not take, or that are optional."""


_SIZES: Final = ("output_split_sizes", "input_split_sizes")

_UNTOLD: Final = (-1,)
"""Replaces split sizes on a device: reading them would wait for the device."""


def _sizes(given: Any) -> tuple[int, ...]:
    """Return split sizes as numbers; a group's method may get them as tensors."""
    if isinstance(given, torch.Tensor):
        return tuple(given.tolist()) if is_readable(given) else _UNTOLD
    if any(isinstance(size, torch.Tensor) and not is_readable(size) for size in given):
        return _UNTOLD
    return tuple([int(size) for size in given])


class MethodReader(ArgumentReader):
    """Reads a call of a group's method as a call of the corresponding operator, see METHODS.

    ``args`` are three: the group, the positional arguments, and the keyword arguments.
    """

    def __init__(self, operator: str, names: tuple[str, ...], options: Any) -> None:
        schema = getattr(torch.ops.c10d, operator).default._schema
        super().__init__(OPERATORS[operator], schema.arguments)
        self.group_index, self.unbox = 0, lambda group: group
        self._names = names
        self._options = options
        self._tells_async = hasattr(options, "asyncOp")
        self._schema_names = [a.name for a in schema.arguments]
        if options is not None and "async_op" not in self._index:
            # An operator of an older torch lacks this argument: it is added at the end.
            self._index["async_op"] = len(self._schema_names)
            self._schema_names.append("async_op")

    def key(self, args: Args, reduce_op: object = None) -> tuple[Any, ...]:
        """Return the key of the operator's call, see :class:`ArgumentReader`."""
        return super().key(self._as_operator(args), reduce_op)

    def fields(self, args: Args, group_size: int) -> CallFields:
        """Return the fields of the operator's call, see :class:`ArgumentReader`."""
        return super().fields(self._as_operator(args), group_size)

    def device(self, args: Args) -> str:
        """Return the device type of the operator's call; ``cpu`` if the arguments are invalid."""
        try:
            return super().device(self._as_operator(args))
        except Exception:
            return "cpu"

    def _splits(
        self, args: Args, sent: Any, received: Any, group_size: int
    ) -> list[list[int]] | None:
        if _UNTOLD in [self._get(args, name) for name in _SIZES]:
            return None
        return super()._splits(args, sent, received, group_size)

    def _as_operator(self, args: Args) -> Args:
        _, given, named = args
        names = self._names
        values = self._defaults | _GIVEN
        values |= {k: v for k, v in zip(names, given, strict=False) if v is not None}
        if names is _SPLIT:
            values |= {name: _sizes(values[name]) for name in _SIZES}
        if self._options is not None:
            options = named.get("opts") or next(iter(given[len(names) :]), None) or self._options()
            tells = self._tells_async
            values["async_op"] = options.asyncOp if tells else torch_api.asked_async()
            values["root_rank"] = getattr(options, "rootRank", 0)
            if self._reduce_op_index >= 0:
                values["reduce_op"] = _ReduceOp(options.reduceOp)
        return tuple([values[name] for name in self._schema_names])


class _ReduceOp:
    """A ReduceOp in the form that operators get: ``op`` is a method that returns the number."""

    def __init__(self, reduce_op: Any) -> None:
        self._reduce_op = reduce_op

    def op(self) -> int:
        return int(self._reduce_op.op)


def install(session: Session) -> Undo:
    """Wrap the methods of ProcessGroup that classes in Python override; return the undo.

    Classes that exist are wrapped at once, others at their first instance.
    """
    overrides = _Overrides(session)

    def constructed(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if session.live:
            overrides.wrap(type(instance))
        wrapped(*args, **kwargs)
        lifecycle.constructed(session, instance, args, kwargs)

    init = vars(dist.ProcessGroup)["__init__"]
    with ExitStack() as undone:
        undone.callback(overrides.undos.close)
        for known in _subclasses(dist.ProcessGroup):
            overrides.wrap(known)
        # pybind11 requires that the constructor of each such class calls this one.
        first = wrap(dist.ProcessGroup, init, constructed, session.count_failure)
        overrides.undos.callback(put(dist.ProcessGroup, "__init__", first))
        return undone.pop_all().close


class _Overrides:
    """Wraps methods of classes written in Python, for a session."""

    def __init__(self, session: Session) -> None:
        self.undos = ExitStack()
        self._session = session
        self._seen: set[type] = set()
        self._lock = threading.RLock()

    def wrap(self, cls: type) -> None:
        """Wrap the methods of ProcessGroup or Work that this class or its bases override."""
        if cls in self._seen:
            return
        with self._lock:
            self._seen.add(cls)
            if issubclass(cls, dist.ProcessGroup):
                for name, (operator, *_) in METHODS.items():
                    if hasattr(dist.ProcessGroup, name) and hasattr(torch.ops.c10d, operator):
                        self._put(cls, name, dist.ProcessGroup, self._recorded(name))
            elif issubclass(cls, dist.Work):
                self._put(cls, "wait", dist.Work, waits.work_wait(self._session))

    def _put(self, cls: type, name: str, base: type, handler: Wrapper) -> None:
        found = inspect.getattr_static(cls, name, None)
        if found is inspect.getattr_static(base, name, None) or is_wrapper(found):
            return
        self.undos.callback(put(cls, name, wrap(cls, found, handler, self._session.count_failure)))

    def _recorded(self, name: str) -> Wrapper:
        """Return a wrapper that records a call of this method, without the calls inside it."""
        session = self._session
        reader = MethodReader(*METHODS[name])
        local = scopes.local

        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            recorder = session.recorder or session.begin_by_call(instance)
            if recorder is None:
                return wrapped(*args, **kwargs)
            # Three frames of ours: this one, its guard's, and the replacement's.
            of_method = (instance, _positional(wrapped, args, kwargs), kwargs)
            call = recorder.issue(reader, of_method, above=3)
            group = recorder.book.states.get(instance)
            state = local.state
            scope, mine, given = state.scope, state.call, state.given
            if group is None or group.name in scope.within:
                return wrapped(*args, **kwargs)
            state.scope = scope.inside_group(group.name)
            try:
                result = wrapped(*args, **kwargs)
            except BaseException as problem:
                state.call, state.given = mine, given
                if call is not None:
                    recorder.raised(call, problem)
                raise
            finally:
                state.scope = scope
            if state.call is not None and state.call is not mine:
                recorder.completed(state.call)  # a synchronous call of a group inside this one
            state.call, state.given = mine, given
            if call is not None:
                self.wrap(type(result))
                recorder.issued(call, result.boxed() if isinstance(result, dist.Work) else None)
            return result

        return wrapper


def _positional(method: Any, args: Args, kwargs: dict[str, Any]) -> Args:
    """Return the arguments as positional ones, in the order of the method's parameters."""
    if not kwargs.keys() - {"opts"}:
        return args
    try:
        bound = inspect.signature(method).bind(*args, **kwargs)
    except TypeError:
        return args  # the method will raise the same
    return bound.args


def _subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    for derived in cls.__subclasses__():
        yield derived
        yield from _subclasses(derived)

"""ProcessGroups written in Python: recorded where their methods are called.

Such a group (torchft's, torch's threaded test group) is its own backend. ``torch.distributed``,
functional collectives and DDP's reducer in C++ all call its methods, and no operator reaches the
dispatcher for the tap to see. So the methods that a class overrides are wrapped, and a call is
recorded before it is made, its arguments read as those of the operator that it stands for.

What the group does with itself within that call is part of it: a barrier made of an allreduce,
or ``super().allreduce()``, which the tap sees. What it does with another group, such as an inner
one of gloo, is recorded as that group's.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

from collectrace.tracer.guard import Wrapper
from collectrace.tracer.patches import events
from collectrace.tracer.patches.patching import is_wrapper, put, wrap
from collectrace.tracer.record import scopes
from collectrace.tracer.session import Session
from collectrace.tracer.tap.describe import OPERATORS, Args, Fields, Reader
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
"""Per method of a ProcessGroup: the operator it stands for, which of the operator's arguments it
takes, in this order (their names are each class's own), and the options that come after them."""

_GIVEN: Final[dict[str, Any]] = {
    "process_group": None, "tensor": torch.empty(0), "device_ids": (),
    "output_split_sizes": (), "input_split_sizes": (),
}  # fmt: skip
"""Arguments of operators that a method takes no notice of, or may leave out."""


class Method(Reader):
    """Reads a call of a method: the group, what it was given by position, what by name."""

    def __init__(self, operator: str, names: tuple[str, ...], options: Any) -> None:
        schema = getattr(torch.ops.c10d, operator).default._schema
        super().__init__(OPERATORS[operator], schema.arguments)
        self.group_index, self.unbox = 0, lambda group: group
        self._names = names
        self._options = options
        self._all = [a.name for a in schema.arguments]

    def key(self, args: Args, reduce_op: object = None) -> tuple[Any, ...]:
        """As for the operator."""
        return super().key(self._as_operator(args), reduce_op)

    def fields(self, args: Args, group_size: int) -> Fields:
        """As for the operator."""
        return super().fields(self._as_operator(args), group_size)

    def device(self, args: Args) -> str:
        """As for the operator, where the arguments can be told at all."""
        try:
            return super().device(self._as_operator(args))
        except Exception:
            return "cpu"

    def _as_operator(self, args: Args) -> Args:
        _, given, named = args
        names = self._names
        values = self._defaults | _GIVEN
        values |= {k: v for k, v in zip(names, given, strict=False) if v is not None}
        if self._options is not None:
            options = named.get("opts") or next(iter(given[len(names) :]), None) or self._options()
            values["async_op"] = options.asyncOp
            values["root_rank"] = getattr(options, "rootRank", 0)
            if self._reduce_op_index >= 0:
                values["reduce_op"] = _ReduceOp(options.reduceOp)
        return tuple([values[name] for name in self._all])


class _ReduceOp:
    """A ReduceOp as operators hand it on: asked for its number by a call."""

    def __init__(self, reduce_op: Any) -> None:
        self._reduce_op = reduce_op

    def op(self) -> int:
        return int(self._reduce_op.op)


def install(session: Session) -> Undo:
    """Wrap what Python classes override of ProcessGroup, now and whenever a new one is used."""
    overrides = _Overrides(session)

    def constructed(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if session.live:
            overrides.wrap(type(instance))
        return wrapped(*args, **kwargs)

    init = vars(dist.ProcessGroup)["__init__"]
    for known in _subclasses(dist.ProcessGroup):
        overrides.wrap(known)
    # Every class that is written in Python must call it.
    overrides.undos.append(
        put(
            dist.ProcessGroup,
            "__init__",
            wrap(dist.ProcessGroup, init, constructed, session.failed),
        )
    )
    return overrides.undo


class _Overrides:
    """The wrapped methods of classes written in Python."""

    def __init__(self, session: Session) -> None:
        self.undos: list[Undo] = []
        self._session = session
        self._seen: set[type] = set()
        self._lock = threading.RLock()

    def wrap(self, cls: type) -> None:
        """Wrap what Python code, the class's own or inherited, puts in the place of torch's."""
        if cls in self._seen:
            return
        with self._lock:
            self._seen.add(cls)
            if issubclass(cls, dist.ProcessGroup):
                for name in METHODS:
                    self._put(cls, name, dist.ProcessGroup, self._recorded(name))
            elif issubclass(cls, dist.Work):
                self._put(cls, "wait", dist.Work, events.work_wait(self._session))

    def undo(self) -> None:
        while self.undos:
            self.undos.pop()()

    def _put(self, cls: type, name: str, base: type, handler: Wrapper) -> None:
        found = inspect.getattr_static(cls, name, None)
        if found is inspect.getattr_static(base, name, None) or is_wrapper(found):
            return
        self.undos.append(put(cls, name, wrap(cls, found, handler, self._session.failed)))

    def _recorded(self, name: str) -> Wrapper:
        session = self._session
        reader = Method(*METHODS[name])
        local = scopes.local

        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            recorder = session.recorder
            if recorder is None:
                return wrapped(*args, **kwargs)
            # Of our frames lie between: this one, its guard, what stands in the method's place.
            given = (instance, _positional(wrapped, args, kwargs), kwargs)
            call = recorder.issue(reader, given, above=3)
            group = recorder.book.states.get(instance)
            state = local.state
            scope, mine = state.scope, state.call
            if group is None or group.name in scope.within:
                return wrapped(*args, **kwargs)
            state.scope = scope.inside_group(group.name)
            try:
                result = wrapped(*args, **kwargs)
            except BaseException as problem:
                state.call = mine
                if call is not None:
                    recorder.failed(call, problem)
                raise
            finally:
                state.scope = scope
            if state.call is not None and state.call is not mine:
                recorder.completed(state.call)  # an inner group's, and synchronous
            state.call = mine
            if call is not None:
                self.wrap(type(result))
                recorder.issued(call, result.boxed() if isinstance(result, dist.Work) else None)
            return result

        return wrapper


def _positional(method: Any, args: Args, kwargs: dict[str, Any]) -> Args:
    if not kwargs.keys() - {"opts"}:
        return args
    try:
        bound = inspect.signature(method).bind(*args, **kwargs)
    except TypeError:
        return args  # which the method will say itself
    return bound.args


def _subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    for derived in cls.__subclasses__():
        yield derived
        yield from _subclasses(derived)

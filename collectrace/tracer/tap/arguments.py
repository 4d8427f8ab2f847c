"""Read the arguments of a ``c10d`` operator as plain values.

There are two views of them. A *key* is cheap to make for every call, and equal if the fixed part of
the record is equal. The *fields* of the record are made once per key. Arguments are found by their
names in the operator's schema, so a torch that adds or reorders some is read correctly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.distributed as dist

from collectrace.ops import ALL_TO_ALL
from collectrace.records import Shape
from collectrace.tracer.torch_api import first_of
from collectrace.tracer.user_objects import type_name

Args = tuple[Any, ...]
"""The arguments of one call, as the dispatcher passes them on: trailing ones may be missing."""

Projector = Callable[[Any], Any]
"""Returns a hashable value for the recorded properties of an argument."""


@dataclass(frozen=True, slots=True)
class OpRow:
    """How one ``c10d`` operator is recorded: its public name, and the names of its arguments."""

    op: str
    sent: str | None = None
    """Schema name of the argument with this rank's input."""
    received: str | None = None
    """Schema name of the argument with its output, if it is another one."""
    root: str | None = None
    peer: str | None = None
    any_source: bool = False


_GATHER: Final = first_of(dist, "all_gather_single", "all_gather_into_tensor")
_SCATTER: Final = first_of(dist, "reduce_scatter_single", "reduce_scatter_tensor")

OPERATORS: Final[dict[str, OpRow]] = {
    "allreduce_": OpRow("all_reduce", "tensors"),
    "allreduce_coalesced_": OpRow("all_reduce_coalesced", "tensors"),
    "broadcast_": OpRow("broadcast", "tensors", root="root_rank"),
    "reduce_": OpRow("reduce", "tensors", root="root_rank"),
    "allgather_": OpRow("all_gather", "input_tensors", "output_tensors"),
    "allgather_coalesced_": OpRow("all_gather_coalesced", "input_list", "output_lists"),
    "_allgather_base_": OpRow(_GATHER, "input_tensor", "output_tensor"),
    "allgather_into_tensor_coalesced_": OpRow(_GATHER + "_coalesced", "inputs", "outputs"),
    "reduce_scatter_": OpRow("reduce_scatter", "input_tensors", "output_tensors"),
    "_reduce_scatter_base_": OpRow(_SCATTER, "input_tensor", "output_tensor"),
    "reduce_scatter_tensor_coalesced_": OpRow(_SCATTER + "_coalesced", "inputs", "outputs"),
    "gather_": OpRow("gather", "input_tensors", "output_tensors", root="root_rank"),
    "gather_into_tensor_": OpRow(
        "gather_single", "input_tensor", "output_tensor", root="root_rank"
    ),
    "scatter_": OpRow("scatter", "input_tensors", "output_tensors", root="root_rank"),
    "alltoall_": OpRow("all_to_all", "input_tensors", "output_tensors"),
    "alltoall_base_": OpRow("all_to_all_single", "input", "output"),
    "barrier": OpRow("barrier"),
    "monitored_barrier_": OpRow("monitored_barrier"),
    "send": OpRow("send", "tensors", peer="dst"),
    "recv_": OpRow("recv", "tensors", peer="src"),
    "recv_any_source_": OpRow("recv", "tensors", any_source=True),
}
"""Every collective operator of torch's dispatcher namespace ``c10d``."""

REDUCE_OPS: Final = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
"""Names of ReduceOp's integers (torch/csrc/distributed/c10d/Types.hpp, enum RedOpType)."""


def reduce_op_name(number: int) -> str:
    """Return the name of a ReduceOp's integer, which is the same object each time."""
    known = 0 <= number < len(REDUCE_OPS)
    return REDUCE_OPS[number] if known else sys.intern(str(number))


@dataclass(slots=True)
class CallFields:
    """The fields of a ``call`` record from the operator's arguments, and a few more.

    Unless noted otherwise, they have the meaning of those in ``records.Call``.
    """

    op: str
    device: str
    dtype: str | list[str] | None = None
    shape: Shape | None = None
    out_shape: Shape | None = None
    reduce_op: str | None = None
    root: int | None = None
    """Group rank."""
    peer: int | None = None
    """Group rank; -1: any source."""
    tag: int | None = None
    splits: list[list[int]] | None = None
    is_async: bool = False
    device_index: int | None = None
    nbytes: int = 0
    """Bytes of all tensors, which a Work keeps alive."""
    is_real: bool = True
    """False: a tensor is fake or meta, so nothing is communicated."""


def itself(group: Any) -> Any:
    """Return the ProcessGroup in an argument that is not boxed."""
    return group


class ArgumentReader:
    """Reads the arguments of one operator; ``row`` gives the meaning of the schema's arguments."""

    # Read by offset in record/_native.c.
    __slots__ = (
        "__dict__", "_project_first", "_reduce_op_index", "_tail", "group_index", "is_all_reduce",
        "unbox",
    )  # fmt: skip

    def __init__(self, row: OpRow, schema_arguments: Sequence[Any]) -> None:
        self.row = row
        self._index = {a.name: i for i, a in enumerate(schema_arguments)}
        self._defaults = {a.name: a.default_value for a in schema_arguments}
        self.group_index = self._index.get("process_group", -1)
        """Position of the argument that holds the group."""
        self.unbox: Callable[[Any], Any] = dist.ProcessGroup.unbox
        """Returns the ProcessGroup in that argument."""
        self._reduce_op_index = self._index.get("reduce_op", -1)
        self.is_all_reduce = row.op == "all_reduce"
        self._parts, self._tail = _projectors(schema_arguments)
        # The most frequent operators have one argument of tensors, the first: they need no loop.
        is_one = len(self._parts) == 1 and self._parts[0][0] == 0
        self._project_first = self._parts[0][1] if is_one else None

    def group(self, args: Args) -> Any:
        """Return the ProcessGroup of a call."""
        return self.unbox(args[self.group_index])

    def key(self, args: Args, reduce_op: object = None) -> tuple[Any, ...]:
        """Return a value that is equal for two calls on one group if and only if their fields are.

        ``reduce_op``, if known, is an object that identifies the ReduceOp, such as a member of the
        enum. Querying the ReduceOp itself takes longer than everything else here.
        """
        if reduce_op is not None or self._reduce_op_index < 0:
            reduced: object = id(reduce_op)
        else:
            reduced = args[self._reduce_op_index].op()
        if self._project_first is _project_list and len(args[0]) == 1:
            # One tensor in a list is the most frequent case: _project_list, inlined. A class is
            # given by its id, as a metaclass of the program may define another hash.
            t = args[0][0]
            return id(type(t)), t.dtype, t.shape, t.device, args[self._tail :], reduced
        if self._project_first is not None:
            return self._project_first(args[0]), args[self._tail :], reduced
        # The dispatcher leaves out trailing arguments that have their default.
        n = len(args)
        parts = [project(args[i]) for i, project in self._parts if i < n]
        return tuple(parts), args[self._tail :], reduced

    def fields(self, args: Args, group_size: int) -> CallFields:
        """Return the fields of a call; ``group_size``: the number of ranks in its group."""
        row = self.row
        tensors = self._tensors(args)
        first = tensors[0] if tensors else None
        sent, received = self._get(args, row.sent), self._get(args, row.received)
        out = CallFields(
            op=row.op,
            device=first.device.type if first is not None else "cpu",
            device_index=first.device.index if first is not None else None,
            is_async=self._is_async(args),
            nbytes=sum(t.numel() * t.element_size() for t in tensors),
            is_real=not any(_is_unreal(t) for t in tensors),
        )
        if row.sent is not None:
            out.dtype = _dtype(_flat(sent) or _flat(received))
            out.shape = _shape(sent)
            out.out_shape = _shape(received)
        if row.op.endswith("_coalesced") and len(_flat(sent)) == 1:
            # A batch of one communicates like the op itself, and meets it on other ranks:
            # functional collectives issue all_gather_single and reduce_scatter_single as batches.
            out.op = row.op.removesuffix("_coalesced")
        out.reduce_op = self._reduce_op(args)
        out.root = self._get(args, row.root)
        out.peer = -1 if row.any_source else self._get(args, row.peer)
        out.tag = self._get(args, "tag")
        if row.op in ALL_TO_ALL:
            out.splits = self._splits(args, sent, received, group_size)
        return out

    def outputs(self, args: Args) -> list[torch.Tensor]:
        """Return the tensors that hold the result when the call is complete."""
        row = self.row
        return _flat(self._get(args, row.received if row.received is not None else row.sent))

    def device(self, args: Args) -> str:
        """Return the device type of a call that cannot be described; ``cpu`` without tensors."""
        tensors = self._tensors(args)
        return tensors[0].device.type if tensors else "cpu"

    def _tensors(self, args: Args) -> list[torch.Tensor]:
        return [t for i in range(min(len(args), len(self._index))) for t in _flat(args[i])]

    def _get(self, args: Args, name: str | None, default: Any = None) -> Any:
        if name is None:
            return None
        index = self._index.get(name)
        if index is None:
            return default
        return args[index] if index < len(args) else self._defaults.get(name, default)

    def _is_async(self, args: Args) -> bool:
        return bool(self._get(args, "async_op", default=False))

    def _reduce_op(self, args: Args) -> str | None:
        value = self._get(args, "reduce_op")
        return None if value is None else reduce_op_name(value.op())

    def _splits(
        self, args: Args, sent: Any, received: Any, group_size: int
    ) -> list[list[int]] | None:
        if self.row.op == "all_to_all":
            return [[t.numel() for t in sent], [t.numel() for t in received]]
        return [
            _elements(sent, self._get(args, "input_split_sizes"), group_size),
            _elements(received, self._get(args, "output_split_sizes"), group_size),
        ]


def _projectors(
    schema_arguments: Sequence[Any],
) -> tuple[tuple[tuple[int, Projector], ...], int]:
    """Return the arguments to project, by position, and the position from which all are plain.

    Groups and ReduceOps are in neither: a key is made per group, and has the ReduceOp already.
    """
    parts: list[tuple[int, Projector]] = []
    tail = 0
    for i, argument in enumerate(schema_arguments):
        kind = str(argument.type)
        if kind in ("int", "bool"):
            continue
        tail = i + 1
        if kind == "Tensor":
            parts.append((i, _project_tensor))
        elif kind == "List[Tensor]":
            parts.append((i, _project_list))
        elif kind == "List[List[Tensor]]":
            parts.append((i, _project_lists))
        elif kind.startswith("List["):
            parts.append((i, tuple))
    # Plain arguments before that position, which are not in the tail.
    parts += [(i, _as_it_is) for i, a in enumerate(schema_arguments[:tail])
              if str(a.type) in ("int", "bool")]  # fmt: skip
    return tuple(parts), tail


def _project_tensor(t: Any) -> tuple[Any, ...]:
    return (id(type(t)), t.dtype, t.shape, t.device)


def _project_list(tensors: Any) -> tuple[Any, ...]:
    return tuple([(id(type(t)), t.dtype, t.shape, t.device) for t in tensors])


def _project_lists(lists: Any) -> tuple[Any, ...]:
    return tuple([_project_list(one) for one in lists])


def _as_it_is(value: Any) -> Any:
    return value


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [t for item in value for t in _flat(item)]
    return []


def is_readable(t: torch.Tensor) -> bool:
    """Return whether a tensor's numbers can be read without waiting for a device."""
    return t.device.type == "cpu" and not _is_unreal(t)


def _is_unreal(t: torch.Tensor) -> bool:
    # FakeTensorMode's tensors name a real device, but have no data.
    return t.is_meta or type_name(t) == "FakeTensor"


def _dtype(tensors: list[torch.Tensor]) -> str | list[str] | None:
    names = [str(t.dtype).removeprefix("torch.") for t in tensors]
    if not names:
        return None
    return names[0] if len(set(names)) == 1 else names


def _shape(value: Any) -> Shape | None:
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    if len(value) == 1 and isinstance(value[0], list | tuple):
        # There is one list of tensors per device of this rank, which has one device.
        return [list(t.shape) for t in value[0]]
    tensors = _flat(value)
    if not tensors:
        return None
    if len(tensors) == 1:
        return list(tensors[0].shape)
    return [list(t.shape) for t in tensors]


def _elements(t: torch.Tensor, split_sizes: Sequence[int] | None, group_size: int) -> list[int]:
    if not split_sizes:
        return [t.numel() // group_size] * group_size
    row = t.numel() // t.shape[0] if t.dim() and t.shape[0] else 1
    return [size * row for size in split_sizes]

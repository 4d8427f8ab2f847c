"""Convert the entries of a Flight Recorder dump to calls: op, sizes, dtypes and peers.

An entry is a request to the backend, under the backend's names: there ``_all_gather_base`` is
``all_gather_single``. Coalesced calls are several entries with one sequence number, and one call
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final

from collectrace.foreign.errors import NotReadable
from collectrace.foreign.flight_dump import GroupConfig
from collectrace.foreign.frames import Place
from collectrace.ops import canonical_op
from collectrace.records import Call, Shape
from collectrace.roles import UNKNOWN

COALESCED: Final = "coalesced"
"""The name of the last entry of a coalesced group, or its ending."""

_OPS: Final = {
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "_all_gather_base": "all_gather_single",
    "all_gather_v": "all_gather",
    "_reduce_scatter_base": "reduce_scatter_single",
    "reduce_scatter_v": "reduce_scatter",
    "all_reduce_barrier": "barrier",
    "allreduce_coalesced": "all_reduce_coalesced",
    "all_to_all_v_single": "all_to_all_single",
    "all_to_all_base": "all_to_all_single",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
}
"""Name in a ring to the public name, where that is another. ProcessGroupNCCL.cpp and
ProcessGroupGloo.cpp (torch 2.13), and the list in flight_recorder/components/types.py."""

_LISTS: Final = {"ALLGATHER_coalesced": "all_gather", "REDUCE_SCATTER_coalesced": "reduce_scatter"}
"""A list of tensors of different sizes is sent as a coalesced group of broadcasts or reduces
(ProcessGroupNCCL.cpp, allgather and reduce_scatter)."""

_DTYPES: Final = {
    "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64",
    "Half": "float16", "Float": "float32", "Double": "float64", "ComplexHalf": "complex32",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
"""c10::toString(ScalarType) to torch's public name, where that is not the same in small letters."""

_DEVICES: Final = {
    "gloo": "cpu", "mpi": "cpu", "nccl": "cuda", "nccl-legacy": "cuda", "nccl-lazy": "cuda",
    "nccl2": "cuda", "nccl2-lazy": "cuda", "ncclx": "cuda", "rccl": "cuda", "rcclx": "cuda",
    "xccl": "xpu",
}  # fmt: skip
"""What the tensors of a backend are on; a dump does not say. gloo's may be a GPU's."""

_MOST_TENSORS: Final = 100_000
_MOST_DIMENSIONS: Final = 64
_LONGEST_OP: Final = 60


def device(backend: str) -> str:
    """Return the device type of a backend's tensors."""
    return _DEVICES.get(backend, "device")


def split(profiling_name: Any) -> tuple[str, str, str]:
    """Split ``nccl:send 0->1`` into backend, name and the rest.

    Raises:
        NotReadable: it is not such a name.

    """
    if not isinstance(profiling_name, str) or len(profiling_name) > 200:
        raise NotReadable("an entry without a profiling_name")
    backend, colon, rest = profiling_name.partition(":")
    if not colon:
        backend, rest = "", profiling_name
    name, _, ends = rest.partition(" ")
    return backend, name, ends


def call(
    entry: Mapping[str, Any], group: str, config: GroupConfig | None, place: Place
) -> Call | None:
    """Return an entry as a call without number and digests; None: a batch's end, or no peer.

    Raises:
        NotReadable: it is not a valid entry.

    """
    backend, name, ends = split(entry.get("profiling_name"))
    sent, received = _sizes(entry.get("input_sizes")), _sizes(entry.get("output_sizes"))
    found = Call(
        seq=0, group=group, device=device(backend), op=_OPS.get(name) or canonical_op(name),
        dtype=_dtype(entry), shape=_shape(sent), out_shape=_shape(received), role=UNKNOWN,
        site=place.site, via=place.via,
    )  # fmt: skip
    found.op = found.op[:_LONGEST_OP]
    if found.op in ("send", "recv"):
        return _message(found, ends, config)
    if is_message(entry):
        return None
    if found.op in ("all_to_all", "all_to_all_single"):
        _exchange(found, sent, received, config)
    elif found.op == "barrier":
        found.shape = found.out_shape = found.dtype = None
    elif sent == received:
        found.out_shape = None
    return found


def bundle(
    entries: Sequence[Mapping[str, Any]], group: str, config: GroupConfig | None, place: Place
) -> Call | None:
    """Return a coalesced group, entries with one sequence number, as one call."""
    last = split(entries[-1].get("profiling_name"))[1]
    parts = [
        part
        for entry in entries
        if not is_end(entry) and (part := call(entry, group, config, place)) is not None
    ]
    if not parts:
        return None
    names = list(dict.fromkeys(part.op for part in parts))
    whole = parts[0]
    if last in _LISTS:
        whole.op = _LISTS[last]
    elif len(names) == 1:
        whole.op = f"{names[0].removesuffix('_coalesced')}_coalesced"
    else:
        whole.op = "+".join(names)[:_LONGEST_OP]
    whole.shape = _joined(part.shape for part in parts)
    whole.out_shape = _joined(part.out_shape or part.shape for part in parts)
    dtypes = [part.dtype for part in parts]
    if any(one != dtypes[0] for one in dtypes):
        whole.dtype = [one if isinstance(one, str) else str(one) for one in dtypes]
    if whole.out_shape == whole.shape and last not in _LISTS:
        whole.out_shape = None
    return whole


def is_message(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is point-to-point, or ends a batch of such calls."""
    if entry.get("is_p2p") is True:
        return True
    name = entry.get("profiling_name")
    return isinstance(name, str) and name.partition(":")[2].startswith(("send ", "recv "))


def is_end(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry only ends a coalesced group; torch names it after the group."""
    name = split(entry.get("profiling_name"))[1]
    return name == COALESCED or name in _LISTS


def _message(found: Call, ends: str, config: GroupConfig | None) -> Call | None:
    """A send or recv with its peer: ``0->1`` sends, ``0<-1`` receives; ranks of the group."""
    mine, _, other = ends.partition("->" if found.op == "send" else "<-")
    if not (mine.isdecimal() and other.isdecimal() and len(other) < 9):
        return None
    peer = int(other)
    if config is not None:
        if peer >= len(config.ranks):
            return None
        peer = config.ranks[peer]
    elif found.group != "0":
        return None  # the entry does not name its rank in the job
    found.peer, found.tag = peer, None
    if found.op == "recv":
        found.shape = found.out_shape if found.out_shape is not None else found.shape
    found.out_shape = None
    return found


def _exchange(
    found: Call, sent: list[list[int]], received: list[list[int]], config: GroupConfig | None
) -> None:
    """Set how many elements go to each rank. Only a list of tensors shows it."""
    size = len(config.ranks) if config is not None else 0
    if len(sent) == len(received) == 1 != size:
        found.op = "all_to_all_single"
    elif size and len(sent) == len(received) == size:
        found.op = "all_to_all"
        found.splits = [[prod(one) for one in sent], [prod(one) for one in received]]


def _sizes(value: Any) -> list[list[int]]:
    if value is None:
        return []
    if value.__class__ is not list or len(value) > _MOST_TENSORS:
        raise NotReadable("an entry with sizes that are not a list")
    for one in value:
        if one.__class__ is not list or len(one) > _MOST_DIMENSIONS:
            raise NotReadable("an entry with sizes that are not lists of numbers")
        if not all(n.__class__ is int and abs(n) < 1 << 62 for n in one):
            raise NotReadable("an entry with sizes that are not numbers")
    return value


def _shape(sizes: list[list[int]]) -> Shape | None:
    if not sizes:
        return None
    return sizes[0] if len(sizes) == 1 else sizes


def _joined(shapes: Iterable[Shape | None]) -> Shape | None:
    found: list[list[int]] = []
    for shape in shapes:
        if shape and isinstance(shape[0], list):
            found += [one for one in shape if isinstance(one, list)]
        elif shape is not None:
            found.append([n for n in shape if isinstance(n, int)])
    return found or None


def _dtype(entry: Mapping[str, Any]) -> str | list[str] | None:
    """Return the dtype of the inputs, or of the outputs if there are no inputs."""
    for side in ("input_dtypes", "output_dtypes"):
        value = entry.get(side)
        names = [value] if isinstance(value, str) else value
        if names.__class__ is not list or not all(isinstance(name, str) for name in names):
            continue
        told = [_DTYPES.get(name, name.lower())[:_LONGEST_OP] for name in names if name]
        if told:
            return told[0] if len(set(told)) == 1 else told[:_MOST_TENSORS]
    return None

"""Every collective that a ``ProcessGroup`` has as a method: ranks are those of the group here."""

# A row's call stands on a line of its own, whatever its length: the line is what is tested.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any, Final

import torch.distributed as dist

from tests.support import op_fields
from tests.support.op_table import Row, View, f32, in_this_torch, one, pair, several

LATER: Final = {"async_": True}
"""A method returns a Work, for the caller to wait for."""
SUM: Final = op_fields.SUM | LATER
SINGLE: Final = op_fields.SINGLE | LATER
SCATTER: Final = op_fields.SCATTER | LATER
SPLIT: Final = op_fields.SPLIT | LATER
COALESCED: Final = op_fields.COALESCED | LATER
COALESCED_SCATTER: Final = op_fields.COALESCED_SCATTER | LATER
LIST: Final[dict[str, Any]] = {"shape": [2], "out_shape": lambda v: [[2]] * v.size, **LATER}


def _both(v: View) -> list[Any]:
    return [f32(2), f32(3)]


def _all(v: View) -> list[Any]:
    return [f32(2 * v.size), f32(3 * v.size)]


def _send_and_recv(v: View) -> None:
    if v.index == 0:
        v.group.send([f32(3)], 1, 9).wait()
    if v.index == 1:
        v.group.recv([f32(3)], 0, 9).wait()


def _recv_from_anyone(v: View) -> None:
    if v.index == 0:
        v.group.send([f32(3)], 1, 9).wait()
    if v.index == 1:
        v.group.recv_anysource([f32(3)], 9).wait()


def _gather_single(name: str) -> Any:
    return lambda v: getattr(v.group, name)(f32(2 * v.size if v.index == 0 else 0), f32(2)).wait()


def _gathered(v: View) -> list[int]:
    """What is not the root hands over an empty tensor."""
    return [2 * v.size] if v.index == 0 else [0]


_ROWS: Final = (
    Row("allreduce", lambda v: v.group.allreduce([f32(3)]).wait(), one("all_reduce", **SUM)),
    Row("allreduce_coalesced", lambda v: v.group.allreduce_coalesced(_both(v)).wait(), one("all_reduce_coalesced", shape=[[2], [3]], reduce_op="SUM", **LATER)),
    Row("broadcast", lambda v: v.group.broadcast(f32(3), 1).wait(), one("broadcast", shape=[3], root=lambda v: v.ranks[1], **LATER)),
    Row("reduce", lambda v: v.group.reduce(f32(3), 1).wait(), one("reduce", root=lambda v: v.ranks[1], **SUM)),
    Row("allgather", lambda v: v.group.allgather([several(v.size, 2)], [f32(2)]).wait(), one("all_gather", **LIST)),
    Row("allgather_coalesced", lambda v: v.group.allgather_coalesced([_both(v) for _ in v.ranks], _both(v)).wait(), one("all_gather_coalesced", shape=[[2], [3]], out_shape=lambda v: [[2], [3]] * v.size, **LATER)),
    Row("_allgather_base", lambda v: v.group._allgather_base(f32(2 * v.size), f32(2)).wait(), one("all_gather_single", **SINGLE)),
    Row("all_gather_single", lambda v: v.group.all_gather_single(f32(2 * v.size), f32(2)).wait(), one("all_gather_single", **SINGLE)),
    Row("allgather_into_tensor_coalesced", lambda v: v.group.allgather_into_tensor_coalesced(_all(v), _both(v)).wait(), one("all_gather_single_coalesced", **COALESCED)),
    Row("all_gather_single_coalesced", lambda v: v.group.all_gather_single_coalesced(_all(v), _both(v)).wait(), one("all_gather_single_coalesced", **COALESCED)),
    Row("gather", lambda v: v.group.gather([several(v.size, 2)] if v.index == 0 else [], [f32(2)]).wait(), one("gather", shape=[2], out_shape=lambda v: [[2]] * v.size if v.index == 0 else None, root=lambda v: v.first, **LATER)),
    Row("gather_single", _gather_single("gather_single"), one("gather_single", shape=[2], out_shape=_gathered, root=lambda v: v.first, **LATER)),
    Row("gather_into_tensor", _gather_single("gather_into_tensor"), one("gather_single", shape=[2], out_shape=_gathered, root=lambda v: v.first, **LATER)),
    Row("scatter", lambda v: v.group.scatter([f32(2)], [several(v.size, 2)] if v.index == 0 else []).wait(), one("scatter", shape=lambda v: [[2]] * v.size if v.index == 0 else None, out_shape=[2], root=lambda v: v.first, **LATER)),
    Row("reduce_scatter", lambda v: v.group.reduce_scatter(f32(2), several(v.size, 2)).wait(), one("reduce_scatter", shape=lambda v: [[2]] * v.size, out_shape=[2], reduce_op="SUM", **LATER)),
    Row("_reduce_scatter_base", lambda v: v.group._reduce_scatter_base(f32(2), f32(2 * v.size)).wait(), one("reduce_scatter_single", **SCATTER)),
    Row("reduce_scatter_single", lambda v: v.group.reduce_scatter_single(f32(2), f32(2 * v.size)).wait(), one("reduce_scatter_single", **SCATTER)),
    Row("reduce_scatter_tensor_coalesced", lambda v: v.group.reduce_scatter_tensor_coalesced(_both(v), _all(v)).wait(), one("reduce_scatter_single_coalesced", **COALESCED_SCATTER)),
    Row("reduce_scatter_single_coalesced", lambda v: v.group.reduce_scatter_single_coalesced(_both(v), _all(v)).wait(), one("reduce_scatter_single_coalesced", **COALESCED_SCATTER)),
    Row("alltoall", lambda v: v.group.alltoall(several(v.size, 2), several(v.size, 2)).wait(), one("all_to_all", shape=lambda v: [[2]] * v.size, out_shape=lambda v: [[2]] * v.size, splits=lambda v: [[2] * v.size] * 2, **LATER)),
    Row("alltoall_base", lambda v: v.group.alltoall_base(f32(2 * v.size), f32(2 * v.size), [], []).wait(), one("all_to_all_single", **SPLIT)),
    Row("all_to_all_single", lambda v: v.group.all_to_all_single(f32(2 * v.size), f32(2 * v.size), [], []).wait(), one("all_to_all_single", **SPLIT)),
    Row("barrier", lambda v: v.group.barrier().wait(), one("barrier", dtype=None, **LATER)),
    Row("monitored_barrier", lambda v: v.group.monitored_barrier(), one("monitored_barrier", dtype=None)),
    Row("send", _send_and_recv, pair({"tag": 9, **LATER}, {"tag": 9, **LATER})),
    Row("recv", _send_and_recv, pair({"tag": 9, **LATER}, {"tag": 9, **LATER})),
    Row("recv_anysource", _recv_from_anyone, pair({"tag": 9, **LATER}, {"tag": 9, "peer": -1, **LATER})),
)  # fmt: skip

ROWS: Final = in_this_torch(_ROWS, dist.ProcessGroup)

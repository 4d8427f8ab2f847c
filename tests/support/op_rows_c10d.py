"""Every public collective and point-to-point function of ``torch.distributed``."""

# A row's call stands on a line of its own, whatever its length: the line is what is tested.
# ruff: noqa: E501

from __future__ import annotations

import inspect
from typing import Any, Final
from unittest.mock import ANY

import torch
import torch.distributed as dist
from torch.distributed import P2POp, ReduceOp
from torch.distributed import distributed_c10d as c10d

from tests.support import torch_names
from tests.support.op_fields import SCATTER, SINGLE, SUM
from tests.support.op_table import (
    IS_OLDER,
    Expected,
    Row,
    View,
    f32,
    fill,
    in_this_torch,
    one,
    pair,
    several,
)

any_dist: Final[Any] = dist
"""For functions that not every torch has."""


def _on_root(index: int, value: Any) -> Any:
    return lambda v: value(v) if v.index == index else None


def _all_to_all_split(v: View) -> None:
    """Member i sends i + j + 1 rows to member j."""
    sizes = [v.index + j + 1 for j in range(v.size)]
    dist.all_to_all_single(f32(sum(sizes), 2), f32(sum(sizes), 2), sizes, sizes, group=v.group)


def _split(v: View) -> dict[str, Any]:
    rows = [v.index + j + 1 for j in range(v.size)]
    shape = [sum(rows), 2]
    return {"shape": shape, "out_shape": shape, "splits": [[2 * n for n in rows]] * 2}


def _send_and_recv(v: View) -> None:
    if v.index == 0:
        dist.send(f32(3), dst=v.ranks[1], group=v.group)
    if v.index == 1:
        dist.recv(f32(3), src=v.ranks[0], group=v.group)


def _send_and_recv_by_group_rank(v: View) -> None:
    if v.index == 0:
        dist.send(f32(3), group_dst=1, group=v.group, tag=7)
    if v.index == 1:
        dist.recv(f32(3), group_src=0, group=v.group, tag=7)


def _recv_from_anyone(v: View) -> None:
    if v.index == 0:
        dist.send(f32(3), dst=v.ranks[1], group=v.group, tag=3)
    if v.index == 1:
        dist.recv(f32(3), group=v.group, tag=3)


def _isend_and_irecv(v: View) -> None:
    if v.index == 0:
        dist.isend(f32(3), v.ranks[1], group=v.group, tag=5).wait()  # type: ignore[union-attr]
    if v.index == 1:
        dist.irecv(f32(3), v.ranks[0], group=v.group, tag=5).wait()  # type: ignore[union-attr]


def _irecv_from_anyone(v: View) -> None:
    if v.index == 0:
        dist.isend(f32(3), v.ranks[1], group=v.group, tag=6).wait()  # type: ignore[union-attr]
    if v.index == 1:
        dist.irecv(f32(3), group=v.group, tag=6).wait()  # type: ignore[union-attr]


def _batch(v: View) -> None:
    if v.index < 2:
        peer = v.ranks[1 - v.index]
        ops = [P2POp(dist.isend, f32(3), peer, v.group), P2POp(dist.irecv, f32(3), peer, v.group)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()


def _batched(v: View) -> list[Expected]:
    if v.index > 1:
        return []
    same = {
        "shape": [3],
        "peer": v.ranks[1 - v.index],
        "tag": 0,
        "async_": True,
        "api": "batch_isend_irecv",
    }
    return [fill(v, "send", **same), fill(v, "recv", **same)]


def _objects(v: View) -> None:
    if v.index == 0:
        dist.send_object_list(["x", 1], dst=v.ranks[1], group=v.group)
    if v.index == 1:
        dist.recv_object_list([None, None], src=v.ranks[0], group=v.group)


def _batched_objects(v: View) -> None:
    if v.index == 0:
        dist.send_object_list(["x", 1], dst=v.ranks[1], group=v.group, use_batch=True)
    if v.index == 1:
        dist.recv_object_list([None, None], src=v.ranks[0], group=v.group, use_batch=True)


HAS_BATCHES: Final = "use_batch" in inspect.signature(dist.recv_object_list).parameters


def _messages(*, is_async: bool | None = None) -> Any:
    def expect(v: View) -> list[Expected]:
        if v.index > 1:
            return []
        op = ("send", "recv")[v.index]
        same = {
            "peer": v.ranks[1 - v.index],
            "tag": 0,
            "api": f"{op}_object_list",
            "async_": is_async,
        }
        return [
            fill(v, op, dtype="int64", shape=[2], **same),
            fill(v, op, dtype="uint8", shape=ANY, **same),
        ]

    return expect


def _gathered(op: str, **last: Any) -> Any:
    """Sizes by all_gather, then the bytes."""

    def expect(v: View) -> list[Expected]:
        api = last["api"]
        sizes = fill(v, "all_gather", dtype="int64", shape=[1], out_shape=[[1]] * v.size, api=api)
        return [sizes, fill(v, op, dtype="uint8", shape=ANY, **last)]

    return expect


def _gathered_everywhere(v: View) -> list[Expected]:
    if not hasattr(dist, "gather_single"):
        return list(_gathered("all_gather", out_shape=ANY, api="all_gather_object")(v))
    # Since torch 2.15 in one tensor each.
    same = {"api": "all_gather_object"}
    return [
        fill(v, "all_gather_single", dtype="int64", shape=[1], out_shape=[v.size], **same),
        fill(v, "all_gather_single", dtype="uint8", shape=ANY, out_shape=ANY, **same),
    ]


def _scattered(v: View) -> list[Expected]:
    same = {"api": "scatter_object_list", "root": v.last}
    lists = {"shape": [[1]] * v.size if v.me == v.last else None}
    return [
        fill(v, "broadcast", dtype="int64", shape=[1], **same),
        fill(v, "scatter", dtype="uint8", shape=ANY, out_shape=ANY, **same),
        fill(v, "scatter", dtype="int64", out_shape=[1], **lists, **same),
    ]


def _coalesced_sums(v: View) -> None:
    with c10d._coalescing_manager(group=v.group, async_ops=True) as manager:
        dist.all_reduce(f32(2), group=v.group)
        dist.all_reduce(f32(3), group=v.group)
    manager.wait()


def _coalesced_gathers(v: View) -> None:
    with c10d._coalescing_manager(group=v.group):
        torch_names.all_gather_single(f32(2 * v.size), f32(2), group=v.group)
        torch_names.all_gather_single(f32(3 * v.size), f32(3), group=v.group)


def _coalesced_scatters(v: View) -> None:
    with c10d._coalescing_manager(group=v.group):
        torch_names.reduce_scatter_single(f32(2), f32(2 * v.size), group=v.group)
        torch_names.reduce_scatter_single(f32(3), f32(3 * v.size), group=v.group)


def _reduced_by(op: Any, name: str) -> Row:
    return Row(
        "all_reduce",
        lambda v: dist.all_reduce(torch.ones(3, dtype=torch.int32), op, group=v.group),
        one("all_reduce", dtype="int32", shape=[3], reduce_op=name),
    )


_ROWS: Final = (
    Row("all_reduce", lambda v: dist.all_reduce(f32(3), group=v.group), one("all_reduce", **SUM)),
    Row("all_reduce", lambda v: dist.all_reduce(f32(), group=v.group), one("all_reduce", shape=[], reduce_op="SUM")),
    Row("all_reduce", lambda v: dist.all_reduce(f32(3), group=v.group, async_op=True).wait(), one("all_reduce", async_=True, **SUM)),
    _reduced_by(ReduceOp.PRODUCT, "PRODUCT"),
    _reduced_by(ReduceOp.MIN, "MIN"),
    _reduced_by(ReduceOp.MAX, "MAX"),
    _reduced_by(ReduceOp.BAND, "BAND"),
    _reduced_by(ReduceOp.BOR, "BOR"),
    _reduced_by(ReduceOp.BXOR, "BXOR"),
    Row(
        "all_reduce",
        lambda v: dist.all_reduce(f32(3), ReduceOp.AVG, group=v.group),
        one("all_reduce", shape=[3], reduce_op="AVG"),
    ),
    Row(
        "all_reduce",
        lambda v: dist.all_reduce(torch.ones(2, dtype=torch.complex64), group=v.group),
        # Torch sends complex numbers as pairs.
        one("all_reduce", shape=[2, 2], reduce_op="SUM"),
    ),
    Row(
        "all_reduce",
        lambda v: dist.all_reduce(torch.eye(3).to_sparse(), group=v.group),
        one("all_reduce", shape=[3, 3], reduce_op="SUM"),
    ),
    Row("all_reduce_coalesced", lambda v: dist.all_reduce_coalesced([f32(2), f32(3)], group=v.group), one("all_reduce_coalesced", shape=[[2], [3]], reduce_op="SUM")),
    Row("all_reduce_coalesced", lambda v: dist.all_reduce_coalesced([f32(2)], group=v.group), one("all_reduce", shape=[2], reduce_op="SUM", api="all_reduce_coalesced")),
    Row("broadcast", lambda v: dist.broadcast(f32(3), v.last, group=v.group), one("broadcast", shape=[3], root=lambda v: v.last)),
    Row("broadcast", lambda v: dist.broadcast(f32(3), group=v.group, group_src=1), one("broadcast", shape=[3], root=lambda v: v.ranks[1])),
    Row("reduce", lambda v: dist.reduce(f32(3), v.first, ReduceOp.MAX, group=v.group), one("reduce", shape=[3], root=lambda v: v.first, reduce_op="MAX")),
    Row(
        "all_gather",
        lambda v: dist.all_gather(several(v.size, 2), f32(2), group=v.group),
        one("all_gather", shape=[2], out_shape=lambda v: [[2]] * v.size),
    ),
    Row("all_gather_single", lambda v: dist.all_gather_single(f32(2 * v.size), f32(2), group=v.group), one("all_gather_single", **SINGLE)),
    Row("all_gather_into_tensor", lambda v: dist.all_gather_into_tensor(f32(2 * v.size), f32(2), group=v.group), one("all_gather_single", api="all_gather_into_tensor", **SINGLE)),
    Row("_all_gather_base", lambda v: c10d._all_gather_base(f32(2 * v.size), f32(2), group=v.group), one("all_gather_single", api="_all_gather_base", **SINGLE)),
    Row(
        "all_gather_coalesced",
        lambda v: dist.all_gather_coalesced([[f32(2), f32(3)] for _ in v.ranks], [f32(2), f32(3)], group=v.group),
        one("all_gather_coalesced", shape=[[2], [3]], out_shape=lambda v: [[2], [3]] * v.size),
    ),
    Row(
        "gather",
        lambda v: dist.gather(f32(2), several(v.size, 2) if v.index == 1 else None, v.ranks[1], group=v.group),
        one("gather", shape=[2], out_shape=_on_root(1, lambda v: [[2]] * v.size), root=lambda v: v.ranks[1]),
    ),
    Row("gather_single", lambda v: any_dist.gather_single(f32(2), f32(2 * v.size) if v.index == 1 else None, v.ranks[1], group=v.group), one("gather_single", shape=[2], out_shape=lambda v: [2 * v.size if v.index == 1 else 0], root=lambda v: v.ranks[1])),
    Row("gather_into_tensor", lambda v: any_dist.gather_into_tensor(f32(2), f32(2 * v.size) if v.index == 0 else None, group=v.group, group_dst=0), one("gather_single", shape=[2], out_shape=lambda v: [2 * v.size if v.index == 0 else 0], root=lambda v: v.first, api="gather_into_tensor")),
    Row(
        "scatter",
        lambda v: dist.scatter(f32(2), several(v.size, 2) if v.index == 0 else None, v.first, group=v.group),
        one("scatter", shape=_on_root(0, lambda v: [[2]] * v.size), out_shape=[2], root=lambda v: v.first),
    ),
    Row(
        "reduce_scatter",
        lambda v: dist.reduce_scatter(f32(2), several(v.size, 2), group=v.group),
        one("reduce_scatter", shape=lambda v: [[2]] * v.size, out_shape=[2], reduce_op="SUM"),
    ),
    Row("reduce_scatter_single", lambda v: dist.reduce_scatter_single(f32(2), f32(2 * v.size), group=v.group), one("reduce_scatter_single", **SCATTER)),
    Row("reduce_scatter_tensor", lambda v: dist.reduce_scatter_tensor(f32(2), f32(2 * v.size), group=v.group), one("reduce_scatter_single", api="reduce_scatter_tensor", **SCATTER)),
    Row("_reduce_scatter_base", lambda v: c10d._reduce_scatter_base(f32(2), f32(2 * v.size), group=v.group), one("reduce_scatter_single", api="_reduce_scatter_base", **SCATTER)),
    Row(
        "all_to_all",
        # Lists of equal tensors are all that gloo takes.
        lambda v: dist.all_to_all(several(v.size, 2), several(v.size, 2), group=v.group),
        one("all_to_all", shape=lambda v: [[2]] * v.size, out_shape=lambda v: [[2]] * v.size, splits=lambda v: [[2] * v.size] * 2),
    ),
    Row(
        "all_to_all_single",
        lambda v: dist.all_to_all_single(f32(2 * v.size), f32(2 * v.size), group=v.group),
        one("all_to_all_single", shape=lambda v: [2 * v.size], out_shape=lambda v: [2 * v.size], splits=lambda v: [[2] * v.size] * 2),
    ),
    Row(
        "all_to_all_single",
        _all_to_all_split,
        lambda v: [fill(v, "all_to_all_single", **_split(v))],
    ),
    Row("barrier", lambda v: dist.barrier(group=v.group), one("barrier", dtype=None)),
    Row("barrier", lambda v: dist.barrier(group=v.group, async_op=True).wait(), one("barrier", dtype=None, async_=True)),
    Row("monitored_barrier", lambda v: dist.monitored_barrier(group=v.group), one("monitored_barrier", dtype=None)),
    Row(
        "all_gather_object",
        lambda v: dist.all_gather_object([None] * v.size, {"rank": v.me}, group=v.group),
        _gathered_everywhere,
    ),
    Row(
        "gather_object",
        lambda v: dist.gather_object("x", [None] * v.size if v.index == 0 else None, v.first, group=v.group),
        _gathered("gather", out_shape=ANY, root=lambda v: v.first, api="gather_object"),
    ),
    Row("scatter_object_list", lambda v: dist.scatter_object_list([None], ["x"] * v.size, v.last, group=v.group), _scattered),
    Row(
        "broadcast_object_list",
        lambda v: dist.broadcast_object_list(["x", 1], v.last, group=v.group),
        lambda v: [
            fill(v, "broadcast", dtype="int64", shape=[2], root=v.last, api="broadcast_object_list"),
            fill(v, "broadcast", dtype="uint8", shape=ANY, root=v.last, api="broadcast_object_list"),
        ],
    ),
    Row("send", _send_and_recv, pair({}, {})),
    Row("recv", _send_and_recv_by_group_rank, pair({"tag": 7}, {"tag": 7})),
    Row("recv", _recv_from_anyone, pair({"tag": 3}, {"tag": 3, "peer": -1})),
    Row("isend", _isend_and_irecv, pair({"tag": 5, "async_": True, "api": "isend"}, {"tag": 5, "async_": True, "api": "irecv"})),
    Row("irecv", _irecv_from_anyone, pair({"tag": 6, "async_": True, "api": "isend"}, {"tag": 6, "peer": -1, "async_": True, "api": "irecv"})),
    Row("batch_isend_irecv", _batch, _batched),
    Row("send_object_list", _objects, _messages()),
    Row("recv_object_list", _batched_objects if HAS_BATCHES else _objects, _messages(is_async=None)),
    Row("_coalescing_manager", _coalesced_sums, one("all_reduce_coalesced", shape=[[2], [3]], reduce_op="SUM", async_=True)),
    # Some torches that the operator is asynchronous, and wait for it (_coalescing_manager).
    Row("_coalescing_manager", _coalesced_gathers, one("all_gather_single_coalesced", shape=[[2], [3]], out_shape=lambda v: [[2 * v.size], [3 * v.size]], async_=ANY if IS_OLDER else None)),
    Row("_coalescing_manager", _coalesced_scatters, one("reduce_scatter_single_coalesced", shape=lambda v: [[2 * v.size], [3 * v.size]], out_shape=[[2], [3]], reduce_op="SUM")),
)  # fmt: skip

ROWS: Final = in_this_torch(_ROWS, dist, c10d)

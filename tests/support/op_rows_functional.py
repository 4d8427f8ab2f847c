"""Every collective of torch's functional modules: those that return, and those of autograd."""

# A row's call stands on a line of its own, whatever its length: the line is what is tested.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any, Final

import torch
from torch.distributed import _functional_collectives
from torch.distributed.nn import functional

from tests.support.op_fields import (
    COALESCED,
    COALESCED_SCATTER,
    SCATTER,
    SINGLE,
    SPLIT,
    SUM,
)
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

# Untyped, as torch has them.
fc: Final[Any] = _functional_collectives
nf: Final[Any] = functional
HAS_GRADIENT: Final = torch._C._dispatch_has_kernel_for_dispatch_key(
    "_c10d_functional::all_reduce", "Autograd"
)
LATER: Final = {"async_": True}
"""The caller gets a tensor that waits when it is first used."""


def _wait(result: Any) -> None:
    for tensor in result if isinstance(result, list) else [result]:
        fc.wait_tensor(tensor)


def _differentiated(v: View) -> None:
    total = fc.all_reduce(f32(3).requires_grad_(), "sum", v.group).sum()
    total.backward()


def _gathered_backwards(v: View) -> None:
    parts = nf.all_gather(f32(2).requires_grad_(), v.group)
    sum(part.sum() for part in parts).backward()


def _gathered_and_back(v: View) -> list[Expected]:
    """The gradient of an all_gather is a reduce_scatter, which on gloo is an all_to_all of lists."""
    gathered = fill(v, "all_gather", shape=[2], out_shape=[[2]] * v.size)
    return [gathered, *_scattered_in_turn(v)]


def _scattered_in_turn(v: View) -> list[Expected]:
    """Without an all_to_all of lists on gloo, torch scatters from each rank in turn."""
    mine = [[2]] * v.size
    return [
        fill(v, "scatter", shape=mine if v.me == root else None, out_shape=[2], root=root)
        for root in v.ranks
    ]


def _both_shapes(v: View) -> list[Any]:
    return [f32(2 * v.size), f32(3 * v.size)]


def _isend_and_irecv(v: View) -> None:
    if v.index == 0:
        _wait(fc.isend_inplace(f32(3), v.ranks[1], 4, v.group))
    if v.index == 1:
        _wait(fc.irecv_inplace(f32(3), v.ranks[0], 4, v.group))


def _irecv_by_group_rank(v: View) -> None:
    if v.index == 0:
        _wait(fc.isend_inplace(f32(3), None, 4, v.group, 1))
    if v.index == 1:
        _wait(fc.irecv_inplace(f32(3), None, 4, v.group, 0))


def _batch(v: View) -> None:
    if v.index < 2:
        _wait(
            fc.batch_p2p_ops_inplace(
                [("isend", "irecv")[v.index]], [v.ranks[1 - v.index]], [8], [f32(3)], v.group
            )
        )


def _permute(v: View) -> None:
    """Each member passes its tensor on to the next."""
    fc.permute_tensor(f32(3), [(i + 1) % v.size for i in range(v.size)], v.group)


def _passed_on(v: View) -> list[list[int]]:
    return [[3 if j == (v.index + step) % v.size else 0 for j in range(v.size)] for step in (1, -1)]


_ROWS: Final = (
    Row("fc.broadcast", lambda v: _wait(fc.broadcast(f32(3), 1, v.group)), one("broadcast", shape=[3], root=lambda v: v.ranks[1], **LATER)),
    Row("fc.all_reduce", lambda v: _wait(fc.all_reduce(f32(3), "sum", v.group)), one("all_reduce", **SUM, **LATER)),
    Row("fc.all_reduce_inplace", lambda v: fc.all_reduce_inplace(f32(3), "sum", v.group), one("all_reduce", **SUM, **LATER)),
    Row("fc.all_reduce_coalesced", lambda v: _wait(fc.all_reduce_coalesced([f32(2), f32(3)], "max", v.group)), one("all_reduce_coalesced", shape=[[2], [3]], reduce_op="MAX", **LATER)),
    Row("fc.all_gather_single", lambda v: _wait(fc.all_gather_single(f32(2), 0, v.group)), one("all_gather_single", **SINGLE, **LATER)),
    Row("fc.all_gather_single_autograd", lambda v: _wait(fc.all_gather_single_autograd(f32(2), 0, v.group)), one("all_gather_single", **SINGLE, **LATER)),
    Row("fc.all_gather_tensor", lambda v: _wait(fc.all_gather_tensor(f32(2), 0, v.group)), one("all_gather_single", **SINGLE, **LATER)),
    Row("fc.all_gather_tensor_autograd", lambda v: _wait(fc.all_gather_tensor_autograd(f32(2), 0, v.group)), one("all_gather_single", **SINGLE, **LATER)),
    Row("fc.all_gather_tensor_inplace", lambda v: fc.all_gather_tensor_inplace(f32(2 * v.size), f32(2), v.group), one("all_gather_single", **SINGLE, **LATER)),
    Row("fc.all_gather_inplace", lambda v: fc.all_gather_inplace(several(v.size, 2), f32(2), v.group), one("all_gather_single", **SINGLE, **LATER)),
    Row("fc.all_gather_single_coalesced", lambda v: _wait(fc.all_gather_single_coalesced([f32(2), f32(3)], v.group)), one("all_gather_single_coalesced", **COALESCED, **LATER)),
    Row("fc.all_gather_into_tensor_coalesced", lambda v: _wait(fc.all_gather_into_tensor_coalesced([f32(2), f32(3)], v.group)), one("all_gather_single_coalesced", **COALESCED, **LATER)),
    Row("fc.reduce_scatter_single", lambda v: _wait(fc.reduce_scatter_single(f32(2 * v.size), "sum", 0, v.group)), one("reduce_scatter_single", **SCATTER, **LATER)),
    Row("fc.reduce_scatter_single_autograd", lambda v: _wait(fc.reduce_scatter_single_autograd(f32(2 * v.size), "sum", 0, v.group)), one("reduce_scatter_single", **SCATTER, **LATER)),
    Row("fc.reduce_scatter_tensor", lambda v: _wait(fc.reduce_scatter_tensor(f32(2 * v.size), "sum", 0, v.group)), one("reduce_scatter_single", **SCATTER, **LATER)),
    Row("fc.reduce_scatter_tensor_autograd", lambda v: _wait(fc.reduce_scatter_tensor_autograd(f32(2 * v.size), "sum", 0, v.group)), one("reduce_scatter_single", **SCATTER, **LATER)),
    Row("fc.reduce_scatter_tensor_inplace", lambda v: fc.reduce_scatter_tensor_inplace(f32(2), f32(2 * v.size), "sum", v.group), one("reduce_scatter_single", **SCATTER, **LATER)),
    Row("fc.reduce_scatter_inplace", lambda v: fc.reduce_scatter_inplace(f32(2), several(v.size, 2), "sum", v.group), one("reduce_scatter_single", **SCATTER, **LATER)),
    Row("fc.reduce_scatter_single_coalesced", lambda v: _wait(fc.reduce_scatter_single_coalesced(_both_shapes(v), "sum", [0, 0], v.group)), one("reduce_scatter_single_coalesced", **COALESCED_SCATTER, **LATER)),
    Row("fc.reduce_scatter_tensor_coalesced", lambda v: _wait(fc.reduce_scatter_tensor_coalesced(_both_shapes(v), "sum", [0, 0], v.group)), one("reduce_scatter_single_coalesced", **COALESCED_SCATTER, **LATER)),
    Row("fc.all_to_all_single", lambda v: _wait(fc.all_to_all_single(f32(2 * v.size), None, None, v.group)), one("all_to_all_single", **SPLIT, **LATER)),
    Row("fc.all_to_all_single_autograd", lambda v: _wait(fc.all_to_all_single_autograd(f32(2 * v.size), None, None, v.group)), one("all_to_all_single", **SPLIT, **LATER)),
    Row("fc.all_to_all_inplace", lambda v: fc.all_to_all_inplace(f32(2 * v.size), f32(2 * v.size), group=v.group), one("all_to_all_single", **SPLIT, **LATER)),
    Row("fc.permute_tensor", _permute, one("all_to_all_single", shape=[3], out_shape=[3], splits=_passed_on, **LATER)),
    # Torch hands these three peers of the world to the group as if they were its own ranks.
    Row("fc.isend_inplace", _isend_and_irecv, pair({"tag": 4, **LATER}, {"tag": 4, **LATER}), world_only=True),
    Row("fc.irecv_inplace", _irecv_by_group_rank, pair({"tag": 4, **LATER}, {"tag": 4, **LATER}), world_only=True),
    Row("fc.batch_p2p_ops_inplace", _batch, pair({"tag": 8, **LATER}, {"tag": 8, **LATER}), world_only=True),
    Row("nf.broadcast", lambda v: nf.broadcast(f32(3), v.last, v.group), one("broadcast", shape=[3], root=lambda v: v.last)),
    # Torch takes `dst` and `src` here for ranks of the world and of the group at once: 1 is both,
    # where the group is turned.
    Row("nf.gather", lambda v: nf.gather(f32(2), 1, v.group), one("gather", shape=[2], out_shape=lambda v: [[2]] * v.size if v.me == 1 else None, root=1), world_only=IS_OLDER),
    Row("nf.scatter", lambda v: nf.scatter(several(v.size, 2), 1, v.group), one("scatter", shape=lambda v: [[2]] * v.size if v.me == 1 else None, out_shape=[2], root=1), world_only=IS_OLDER),
    Row("nf.reduce", lambda v: nf.reduce(f32(3), v.last, group=v.group), one("reduce", root=lambda v: v.last, **SUM)),
    Row("nf.all_reduce", lambda v: nf.all_reduce(f32(3), group=v.group), one("all_reduce", **SUM)),
    Row("nf.all_gather", lambda v: nf.all_gather(f32(2), v.group), one("all_gather", shape=[2], out_shape=lambda v: [[2]] * v.size)),
    Row("nf.reduce_scatter", lambda v: nf.reduce_scatter(f32(2), several(v.size, 2), group=v.group), one("reduce_scatter", shape=lambda v: [[2]] * v.size, out_shape=[2], reduce_op="SUM")),
    Row("nf.all_to_all", lambda v: nf.all_to_all(several(v.size, 2), several(v.size, 2), v.group), _scattered_in_turn, world_only=True),
    Row("nf.all_to_all_single", lambda v: nf.all_to_all_single(f32(2 * v.size), f32(2 * v.size), group=v.group), one("all_to_all_single", **SPLIT)),
    # Backward: issued by autograd, from the line of backward().
    Row("fc.all_reduce", _differentiated, lambda v: [LATER | {"op": "all_reduce", "dtype": "float32"} | SUM] * (1 + HAS_GRADIENT)),
    Row("nf.all_gather", _gathered_backwards, _gathered_and_back, world_only=True),
)  # fmt: skip

ROWS: Final = in_this_torch(_ROWS, fc, nf)

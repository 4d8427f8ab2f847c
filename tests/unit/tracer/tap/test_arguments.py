"""What the tap and torch call an op, against the table of ops."""

from __future__ import annotations

import inspect

import pytest
import torch.distributed as dist

from collectrace import ops
from collectrace.ops import OPS, Op
from collectrace.tracer.patches.targets import TARGETS
from collectrace.tracer.tap.arguments import OPERATORS

FUNCTIONS = [name for name in ops.NAMES if hasattr(dist, name)]


def test_every_operator_has_an_op_with_a_row() -> None:
    assert {ops.canonical_op(row.op) for row in OPERATORS.values()} == set(OPS)


@pytest.mark.skipif(not hasattr(dist, "all_gather_single"), reason="an older torch's own names")
def test_operators_are_told_by_the_current_names_of_their_ops() -> None:
    assert {row.op for row in OPERATORS.values()} == set(OPS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_reduce_op_stands_where_the_row_says(name: str) -> None:
    parameters = inspect.signature(getattr(dist, name)).parameters
    at = ops.of(name).op_at
    assert ("op" in parameters) == (at is not None)
    if at is not None:
        assert list(parameters)[at] == "op"
        assert parameters["op"].default is dist.ReduceOp.SUM


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_root_is_called_what_torch_calls_it(name: str) -> None:
    parameters = set(inspect.signature(getattr(dist, name)).parameters)
    op = ops.of(name)
    if op.form != "point-to-point":
        assert parameters & {"src", "dst"} == ({op.root} if op.root else set())


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_an_op_is_a_function_of_torch(op: Op) -> None:
    # Batches of these two have none: the coalescing manager issues them.
    batched = ("all_gather_single_coalesced", "reduce_scatter_single_coalesced")
    newer = ("gather_single",)  # torch 2.15
    assert op.name not in batched or op.name not in FUNCTIONS
    assert {op.name, *op.aliases} & {*FUNCTIONS, *batched, *newer}
    assert all(hasattr(dist, name) for name in op.waits_in)


def test_every_function_is_patched_under_all_its_names() -> None:
    patched = {target.name for target in TARGETS if target.modules[0] == "torch.distributed"}
    assert patched >= set(FUNCTIONS)

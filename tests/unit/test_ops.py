"""The table of ops: that its rows do not contradict each other, and what is read from it."""

from __future__ import annotations

import pytest

from collectrace import ops
from collectrace.ops import OPS, Op

ROWS = pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)


def test_a_name_stands_for_one_op() -> None:
    assert len(set(ops.NAMES)) == len(ops.NAMES)
    assert len(ops.NAMES) == sum(1 + len(op.aliases) for op in OPS.values())


@ROWS
def test_an_op_is_found_by_all_its_names(op: Op) -> None:
    for name in (op.name, *op.aliases):
        assert ops.of(name) is op
        assert ops.canonical_op(name) == op.name


@ROWS
def test_columns_do_not_contradict_each_other(op: Op) -> None:
    assert op.reduces or op.op_at is None
    assert (op.counted == "nothing") == (op.form in ("barrier", "all_to_all"))
    assert bool(op.waits_in) == (op.form == "point-to-point")
    if op.form != "collective":
        assert not any((op.root, op.reduces, op.in_place, op.shaped))
    # The root, or the others, have what they need when one rank has come.
    assert not (op.holds and (op.root or op.form in ("all_to_all", "point-to-point")))


@pytest.mark.parametrize("name", [name for name in OPS if name.endswith("_coalesced")])
def test_a_batch_is_counted_and_holds_as_its_parts_do(name: str) -> None:
    batch, part = OPS[name], OPS[name.removesuffix("_coalesced")]
    assert [f"{alias}_coalesced" for alias in part.aliases] == list(batch.aliases)
    assert (batch.counted, batch.reduces, batch.holds) == (part.counted, part.reduces, part.holds)


def test_sets_hold_earlier_names_too() -> None:
    assert {"send", "recv"} == ops.POINT_TO_POINT
    assert {"all_to_all", "all_to_all_single"} == ops.ALL_TO_ALL
    assert {"barrier", "monitored_barrier"} == ops.BARRIERS
    gathers = {"gather", "gather_single", "gather_into_tensor"}
    assert {"broadcast", "reduce", "scatter", *gathers} == ops.ROOTED
    assert {"reduce", *gathers} == ops.TO_ROOT
    assert {"all_reduce", "broadcast", "reduce"} == ops.SHAPED
    assert {"all_reduce", "all_reduce_coalesced", "broadcast"} == ops.IN_PLACE
    assert {"all_gather_into_tensor", "reduce_scatter_tensor", "barrier"} <= ops.HOLDING


def test_an_op_without_a_row_is_a_collective_counted_by_its_input() -> None:
    op = ops.of("all_swap")
    assert op == Op("all_swap")
    assert (op.form, op.counted, op.holds) == ("collective", "input", False)
    assert ops.canonical_op("all_swap") == "all_swap"


@pytest.mark.parametrize(
    ("op", "peer", "ends"),
    [("send", 2, (0, 2)), ("recv", 2, (2, 0)), ("recv", -1, (-1, 0)), (None, 2, (2, 0))],
)
def test_a_message_goes_from_its_sender_to_its_receiver(
    op: str | None, peer: int, ends: tuple[int, int]
) -> None:
    assert ops.ends(op, 0, peer) == ends

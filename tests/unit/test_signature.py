"""What must agree between ranks, and the digests that compare it."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace.ops import OPS
from collectrace.records import Call
from collectrace.signature import (
    EMPTY,
    PRIME,
    counts,
    difference,
    extend,
    is_user,
    numel,
    other_counts,
    pair_step,
    pair_weight,
    program_text,
    retract,
    skip,
    stable_hash,
    stretch,
    wire_text,
)

BACKENDS = ("gloo", "nccl")

# Few values, so that two calls are often equal.
CALLS = st.builds(
    Call,
    seq=st.just(0),
    group=st.just("0"),
    device=st.just("cpu"),
    op=st.sampled_from(sorted(OPS)),
    dtype=st.sampled_from(["float32", "int64", None]),
    shape=st.sampled_from([None, [], [1], [2, 3], [3, 2], [[1], [2]]]),
    out_shape=st.sampled_from([None, [1], [4]]),
    reduce_op=st.sampled_from([None, "SUM", "MAX"]),
    root=st.sampled_from([None, 0, 1]),
    role=st.sampled_from(["user", "ddp.backward.bucket", "join.bucket", "join.sync_check"]),
    model=st.sampled_from([None, 2]),
)
HISTORIES = st.lists(CALLS, max_size=6)
SIZES = st.integers(1, 4)


def call(op: str, **fields: Any) -> Call:
    return Call(seq=0, group="0", device="cpu", op=op, **fields)


def digest(texts: list[str]) -> int:
    return reduce(extend, map(stable_hash, texts), EMPTY)


# -- digests ---------------------------------------------------------------------------------


def test_a_hash_is_the_same_on_every_machine_and_python() -> None:
    assert stable_hash("") == 335_131_519_762_412_219
    assert stable_hash("void") == 1_716_745_032_235_635_844
    assert stable_hash("all_reduce|float32|(1,)|SUM|None") == 904_513_385_172_976_808
    assert pair_weight(0, 1) == 788_886_507_085_177_712
    assert extend(extend(EMPTY, 1), 2) == 1_500_450_271_926_437_095


@given(HISTORIES, HISTORIES, st.sampled_from(BACKENDS))
def test_digests_are_equal_where_histories_are(
    one: list[Call], other: list[Call], backend: str
) -> None:
    for text in (program_text, lambda c: wire_text(c, backend)):
        left, right = [text(c) for c in one], [text(c) for c in other]
        assert (digest(left) == digest(right)) == (left == right)


@given(st.lists(st.integers(0, PRIME - 1)), st.lists(st.integers(0, PRIME - 1)))
def test_a_stretch_is_the_digest_of_what_lies_in_it(before: list[int], inside: list[int]) -> None:
    start = reduce(extend, before, EMPTY)
    end = reduce(extend, inside, start)
    assert stretch(start, end, len(inside)) == reduce(extend, inside, EMPTY)
    assert 0 <= end < PRIME


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Elements that each rank sends each, and awaits from each; often what fits."""
    size = draw(SIZES)
    table = st.lists(
        st.lists(st.integers(0, 3), min_size=size, max_size=size), min_size=size, max_size=size
    )
    sent = draw(table)
    expected = [list(column) for column in zip(*sent, strict=True)]
    if draw(st.booleans()):
        i, j = draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
        expected[i][j] = draw(st.integers(0, 3))
    return sent, draw(st.one_of(st.just(expected), table))


@given(exchanges())
def test_pairs_sum_to_zero_exactly_when_they_fit(
    exchange: tuple[list[list[int]], list[list[int]]],
) -> None:
    sent, expected = exchange
    ranks = range(len(sent))
    total = sum(pair_step(rank, sent[rank], expected[rank]) for rank in ranks) % PRIME
    fits = all(sent[i][j] == expected[j][i] for i, j in product(ranks, ranks))
    assert (total == 0) == fits


@given(exchanges(), st.data())
def test_the_digests_of_pairs_sum_to_zero_while_all_fit(
    exchange: tuple[list[list[int]], list[list[int]]], data: st.DataObject
) -> None:
    """The chain is linear: shares may be summed over the ranks before or after they are chained."""
    sent, _ = exchange
    ranks = range(len(sent))
    fitting = [list(column) for column in zip(*sent, strict=True)]
    steps = [pair_step(rank, sent[rank], fitting[rank]) for rank in ranks]
    assert sum(extend(extend(EMPTY, step), step) for step in steps) % PRIME == 0
    fitting[data.draw(st.sampled_from(ranks))][data.draw(st.sampled_from(ranks))] += 1
    wrong = [pair_step(rank, sent[rank], fitting[rank]) for rank in ranks]
    ends = [extend(extend(EMPTY, a), b) for a, b in zip(steps, wrong, strict=True)]
    assert sum(ends) % PRIME != 0


def test_pairs_of_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        pair_step(0, [1, 2], [1])


# -- what must agree -------------------------------------------------------------------------


@given(CALLS, CALLS, st.sampled_from(BACKENDS))
def test_two_calls_differ_where_their_texts_do(a: Call, b: Call, backend: str) -> None:
    found = difference(a, b, backend)
    assert found == difference(b, a, backend)
    on_the_wire = wire_text(a, backend) != wire_text(b, backend)
    # What one call of a gather or scatter moves beyond its digest, where it does not fit itself.
    others = other_counts(a), other_counts(b)
    moves_other = on_the_wire or (all(others) and others[0] != others[1])
    assert (found not in (None, "role")) == moves_other
    if not moves_other:
        assert (found == "role") == (program_text(a) != program_text(b))


@given(CALLS, st.sampled_from(BACKENDS))
def test_what_is_not_known_is_no_evidence(a: Call, backend: str) -> None:
    void = call("barrier", void=True)
    assert difference(a, void, backend) is difference(void, a, backend) is None
    assert difference(a, replace(a, role="unknown"), backend) is None


@pytest.mark.parametrize(
    ("changed", "attribute"),
    [
        ({"op": "broadcast"}, "op"),
        ({"dtype": "int64"}, "dtype"),
        ({"shape": [2, 4]}, "count"),
        ({"reduce_op": "MAX"}, "reduce_op"),
        ({"root": 1}, "root"),
        ({"role": "ddp.backward.bucket"}, "role"),
        ({"dtype": "int64", "shape": [1]}, "dtype"),
        ({"shape": [3, 2]}, None),
        ({"async_": True}, None),
        ({"site": "a.py:1", "via": "b.py:2", "thread": "t", "api": "f", "iteration": 3}, None),
        ({"model": 1}, None),
        ({"model": 2}, "role"),
    ],
)
def test_the_first_attribute_that_differs(changed: dict[str, Any], attribute: str | None) -> None:
    same = call("all_reduce", dtype="float32", shape=[2, 3], reduce_op="SUM")
    assert difference(same, replace(same, **changed), "gloo") == attribute


@pytest.mark.parametrize("nccl", ["nccl", "nccl2", "nccl-legacy", "ncclx"])
def test_a_barrier_of_nccl_is_an_all_reduce_of_one_float32(nccl: str) -> None:
    barrier = call("barrier", dtype="uint8", shape=[1])
    one = call("all_reduce", dtype="float32", shape=[1], reduce_op="SUM")
    assert difference(barrier, one, nccl) == "role"
    assert difference(barrier, one, "gloo") == "op"
    large = call("all_reduce", dtype="float32", shape=[2], reduce_op="SUM")
    assert difference(barrier, large, nccl) == "op", "as the user sees it"
    assert difference(call("monitored_barrier"), one, nccl) == "op"
    assert program_text(barrier) == program_text(call("barrier")), "its tensor is its own"


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
@pytest.mark.parametrize("backend", BACKENDS)
def test_earlier_names_of_an_op_are_the_same_op(op: Any, backend: str) -> None:
    fields = {"dtype": "float32", "shape": [2], "out_shape": [4]}
    now = call(op.name, **fields)
    for name in op.aliases:
        assert wire_text(call(name, **fields), backend) == wire_text(now, backend)
        assert program_text(call(name, **fields)) == program_text(now)


@pytest.mark.parametrize(
    ("op", "shape", "out_shape", "expected"),
    [
        ("all_reduce", [2, 3], None, [6]),
        ("all_reduce", [], None, [1]),
        ("all_reduce_coalesced", [[2], [3, 2]], None, [2, 6]),
        ("all_gather", [4], [[4], [5]], [4, 5]),
        ("all_gather_into_tensor", [2], [4], [2]),
        ("all_gather_single", [2], [2, 2], [2]),
        ("reduce_scatter", [[2], [3]], [2], [2, 3]),
        ("reduce_scatter_tensor", [6], [3], [3]),
        ("gather", [2], None, [2]),
        ("scatter", [[2], [2]], [2], [2]),
        ("scatter", None, [2], [2]),
        ("all_to_all_single", [6], [4], []),
        ("barrier", [1], None, []),
        ("send", [0, 3], None, [0]),
        ("all_swap", [5], [1], [5]),
    ],
)
def test_the_counts_that_must_agree(
    op: str, shape: Any, out_shape: Any, expected: list[int]
) -> None:
    assert counts(call(op, shape=shape, out_shape=out_shape)) == expected


def test_elements_of_a_shape() -> None:
    assert numel(None) == []
    assert numel([]) == [1]
    assert numel([[], [0], [2, 2]]) == [1, 0, 4]


def test_whose_call_it_is() -> None:
    assert is_user(call("barrier"))
    assert is_user(call("barrier", role="unknown"))
    assert not is_user(call("barrier", role="ddp.construct"))


def test_a_step_is_undone() -> None:
    digest = 12345
    for step in (0, 1, PRIME - 1, 987654321):
        after = extend(digest, step)
        assert retract(after, step) == digest
        digest = after


def test_signatures_whose_hash_is_0_are_skipped() -> None:
    assert skip(12345, 3) == extend(extend(extend(12345, 0), 0), 0)

"""Parts of sentences: the ops of what frameworks issue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectrace import words
from collectrace.records import Call


def call(op: str, role: str, peer: int | None = None) -> Call:
    return Call(t=1, seq=1, group="0", device="cpu", op=op, role=role, peer=peer)


BUCKET = call("all_reduce", "ddp.backward.bucket")
SHADOW = call("all_reduce", "join.bucket")
UNSHARD = call("all_gather_single", "fsdp.unshard")


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([BUCKET], "On the wire DDP backward() is all_reduce."),
        ([BUCKET, SHADOW], "On the wire DDP backward() and join() are all_reduce."),
        (
            [BUCKET, UNSHARD, UNSHARD],
            "On the wire DDP backward() is all_reduce; FSDP unshard is all_gather_single.",
        ),
        ([call("barrier", "user")], ""),
        ([call("reduce_scatter_single", "fsdp.reduce_scatter")], ""),
        ([call("send", "pp.forward", peer=1)], ""),
        ([BUCKET, call("broadcast", "ddp.backward.unused_params")], ""),
    ],
)
def test_the_ops_of_what_frameworks_issue(calls: list[Call], told: str) -> None:
    assert words.on_the_wire(calls, "") == told


def test_an_op_that_was_told_is_not_told_again() -> None:
    assert words.on_the_wire([BUCKET], "rank 0 was in DDP backward() (all_reduce)") == ""


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ([2, 3], "float32[2, 3] (6 elements)"),
        ([0, 4], "float32[0, 4] (0 elements)"),
        ([6], "float32[6]"),
        ([], "float32[]"),
        ([[2, 3], [4]], "float32[2, 3] and [4]"),
        ([2**62] * 400, f"float32{[2**62] * 400}"),
    ],
)
def test_a_size_is_counted_where_the_shape_does_not_show_it(
    shape: list[int] | list[list[int]], told: str
) -> None:
    made = replace(call("all_reduce", "user"), dtype="float32", shape=shape)
    assert words.sized(made) == told


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("at train.py:12, called", True),
        ("(train.py:12)", True),
        ("at train.py:120", False),
        ("at pretrain.py:12", False),
        ("at my-train.py:12", False),
        ("", False),
    ],
)
def test_a_line_that_is_named(text: str, is_named: bool) -> None:
    assert words.names_site(text, "/job/train.py:12") == is_named

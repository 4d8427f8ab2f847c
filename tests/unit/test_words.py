"""Parts of sentences: shapes, and the places that a text names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectrace import words
from collectrace.records import Call


def call(op: str, role: str, peer: int | None = None) -> Call:
    return Call(t=1, seq=1, group="0", device="cpu", op=op, role=role, peer=peer)


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


def test_of_a_quoted_traceback_the_error_is_told() -> None:
    text = (
        "CheckpointException ranks:dict_keys([1])\n"
        "Traceback (most recent call last): (RANK 1)\n"
        '  File "/lib/torch/distributed/checkpoint/utils.py", line 193, in reduce_scatter\n'
        "    local_data = map_fun()\n"
        "AssertionError: no such file: 'step_8/.metadata'\n"
    )
    told = words.exception("CheckpointException", text)
    assert told == "CheckpointException: AssertionError: no such file: 'step_8/.metadata'"
    assert words.exception("ValueError", "x" * 400).endswith("x...")

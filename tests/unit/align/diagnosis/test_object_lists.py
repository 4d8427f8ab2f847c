"""Lists of objects of different lengths: told as lists, by what they were before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.diagnosis.object_lists import length
from collectrace.findings import Finding
from collectrace.records import Call
from tests.support.judging import aligned, errors
from tests.support.kind_examples import waits
from tests.support.synthetic import Run


def fields(n: int, **more: Any) -> dict[str, Any]:
    return {
        "dtype": "int64", "shape": [n], "api": "broadcast_object_list", "site": "serve.py:40",
        "root": 0, **more,
    }  # fmt: skip


def job(last: Sequence[int], *before: Sequence[int]) -> Run:
    """Lists of so many entries on each rank, in one round after another; all wait in the last."""
    run = Run(len(last))
    for lengths in before:
        for rank in run:
            rank.call("broadcast", **fields(lengths[rank.rank]))
            rank.call("broadcast", **fields(80, dtype="uint8"))
            rank.call("all_reduce", site="serve.py:48")
    for rank in run:
        waits(rank, "broadcast", **fields(last[rank.rank]))
    return run


def first(run: Any, folder: Path) -> Finding:
    found = errors(aligned(run, folder))[0]
    assert found.kind == "shape_mismatch"
    return found


def test_the_odd_one_of_three(tmp_path: Path) -> None:
    found = first(job([6, 6, 5]), tmp_path)
    assert found.suspects == (2,)
    assert found.headline == (
        "rank 2 called broadcast_object_list with a list of 5 objects at serve.py:40, ranks 0-1 "
        "with a list of 6 objects"
    )
    assert "differs in length: 6 on ranks 0-1 and 5 on rank 2 (rank 0 is the source)" in found.cause
    assert "as many entries on every rank as on rank 0" in found.fix
    assert "pad" not in found.fix


def test_two_that_differ_blame_nobody(tmp_path: Path) -> None:
    found = first(job([1, 2]), tmp_path)
    assert found.suspects == ()
    assert "a list of 1 object at" in found.headline
    assert "calls before" not in found.cause


def test_the_one_that_left_its_habit_is_told(tmp_path: Path) -> None:
    run = Run(2)
    for n in range(3):
        run.all("broadcast", **fields(4))
        for _ in range(n + 1):  # rounds of different lengths, of which no more is told
            run.all("all_reduce", site="serve.py:48")
    for rank in run:
        waits(rank, "broadcast", **fields(3 + rank.rank))
    found = first(run, tmp_path)
    assert found.suspects == ()
    assert (
        "On rank 0 it was of 4 in each of the 3 calls before from that line, and it has another "
        "length now. On rank 1 it is as long as in the 3 calls before."
    ) in found.cause


def test_equal_rounds_tell_it_once(tmp_path: Path) -> None:
    run = Run(2)
    for _ in range(5):
        run.all("broadcast", **fields(4))
        run.all("all_reduce", site="serve.py:48")
    for rank in run:
        waits(rank, "broadcast", **fields(4 + rank.rank))
    found = first(run, tmp_path)
    assert (
        "In each of the equal rounds before it was a list of 4 objects on every rank: that of "
        "rank 1 is the first other one."
    ) in found.cause
    assert "calls before" not in found.cause


def test_lengths_that_always_varied_tell_nothing(tmp_path: Path) -> None:
    found = first(job([3, 4], [4, 4], [2, 2], [3, 3]), tmp_path)
    assert "calls before" not in found.cause


def test_a_message_of_objects(tmp_path: Path) -> None:
    run = Run(2)
    sent = run.rank(0).send(1, dtype="int64", shape=[4], api="send_object_list", site="a.py:5")
    got = run.rank(1).recv(0, dtype="int64", shape=[3], api="recv_object_list", site="a.py:9")
    for rank, call in zip(run, (sent, got), strict=True):
        rank.beat(30, rank.inside(call))
    found = errors(aligned(run, tmp_path))[0]
    assert found.headline == (
        "rank 0 sends a list of 4 objects at a.py:5, rank 1 awaits a list of 3 objects at a.py:9"
    )
    assert "recv_object_list a list of as many entries" in found.fix


@pytest.mark.parametrize(
    ("changed", "is_one"),
    [
        ({}, True),
        ({"dtype": "uint8"}, False),
        ({"api": "broadcast"}, False),
        ({"api": "scatter_object_list"}, False),
        ({"shape": [5, 1]}, False),
        ({"shape": []}, False),
        ({"void": True}, False),
    ],
)
def test_what_hands_on_the_sizes_of_objects(changed: dict[str, Any], is_one: bool) -> None:
    call = Call(seq=1, group="0", device="cpu", op="broadcast", **(fields(5) | changed))
    assert (length(call) == 5) is is_one

"""Exceptions that were caught on some ranks: when they are why these are at another line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Finding
from collectrace.records import HANDLED, Raised
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run


def raises(rank: Rank, error: str = "ValueError", what: str = "backward", **fields: Any) -> None:
    known = {"message": "bad sample 7", "site": "/job/data.py:9"} | fields
    rank.record(Raised(what=what, error=error, **known))


def share(rank: Rank, times: int = 1) -> None:
    for _ in range(times):
        rank.call("all_reduce", site="/job/train.py:4")


def close(rank: Rank, **fields: Any) -> None:
    rank.call("barrier", site="/job/train.py:8", **fields)


def gather(rank: Rank, times: int = 1) -> None:
    """``gather_object``, which takes two calls."""
    for _ in range(times):
        for op in ("all_gather", "gather"):
            rank.call(op, api="gather_object", site="/job/eval.py:5")


def ended(run: Run) -> Run:
    for rank in run:
        rank.exit()
    return run


def first(run: Run, folder: Path) -> Finding:
    return errors(aligned(ended(run), folder))[0]


def parting(*who: int, within: bool = False, **fields: Any) -> Run:
    """Two of four ranks close where the others share, after an exception of some.

    ``within``: its record bears the time of the call, as of one made while it is handled.
    """
    run = Run(4)
    for rank in run:
        share(rank, 3)
        if rank.rank in who:
            raises(rank, **fields)
        if rank.rank > 1:
            close(rank, **({"t": rank.now} if within else {}))
        else:
            share(rank)
    return run


@pytest.mark.parametrize(
    ("fields", "code"), [({}, "CT319"), ({"what": HANDLED, "within": True}, "CT104")]
)
def test_one_side_raised_and_the_other_did_not(
    fields: dict[str, Any], code: str, tmp_path: Path
) -> None:
    found = first(parting(2, 3, **fields), tmp_path)
    assert (found.code, found.suspects) == (code, (2, 3))
    assert "data.py:9" in found.fix


@pytest.mark.parametrize(("what", "blamed"), [("broadcast_object_list", (2, 3)), (HANDLED, ())])
def test_at_one_line_what_a_function_did_not_return_may_be_what_differs(
    what: str, blamed: tuple[int, ...], tmp_path: Path
) -> None:
    run = Run(4)
    for rank in run:
        share(rank, 3)
        if rank.rank > 1:
            raises(rank, what=what)
        rank.call("all_reduce", site="/job/train.py:4", shape=[2 if rank.rank > 1 else 3])
    found = first(run, tmp_path)
    assert found.suspects == blamed


def test_the_last_call_of_all_may_be_made_while_it_is_handled(tmp_path: Path) -> None:
    """Such a record bears the time of the call."""
    run = Run(2)
    for rank in run:
        share(rank, 3)
        if rank.rank == 1:
            raises(rank, what=HANDLED)
            call = rank.call("barrier", site="/job/train.py:8", t=rank.now)
        else:
            call = rank.call("all_reduce", site="/job/train.py:4")
        rank.beat(30, rank.inside(call))
    found = errors(aligned(run, tmp_path))[0]
    assert (found.code, found.suspects) == ("CT104", (1,))


@pytest.mark.parametrize(
    ("who", "fields"),
    [
        pytest.param((2,), {}, id="one of them alone"),
        pytest.param((0, 1, 2, 3), {}, id="all did"),
        pytest.param((0, 1, 2), {}, id="some of both sides"),
        pytest.param((2, 3), {"error": "StopIteration", "message": ""}, id="how a loop ends"),
        pytest.param(
            (2, 3),
            {"error": "RuntimeError", "message": "[gloo/tcp] Connection closed by peer"},
            id="let down by others",
        ),
    ],
)
def test_that_proves_nothing(who: tuple[int, ...], fields: dict[str, Any], tmp_path: Path) -> None:
    found = first(parting(*who, **fields), tmp_path)
    assert (found.code, found.suspects) == ("CT951", ())


def test_who_has_lived_with_it_before(tmp_path: Path) -> None:
    run = Run(4)
    for rank in run:
        for _ in range(3):
            share(rank)
            if rank.rank > 1:
                raises(rank)
        (close if rank.rank > 1 else share)(rank)
    assert first(run, tmp_path).suspects == ()


def without_a_gather(*, retries: bool = False, alike: bool = False) -> Run:
    """Rank 1 cannot pickle its second result; both go on, and end with a sum."""
    run = Run(2)
    for rank in run:
        gather(rank)
        if rank.rank == 1 or alike:
            raises(rank, "TypeError", "gather_object", message="cannot pickle 'lock'")
        gather(rank, 3 + (rank.rank == 0 or retries))
        if rank.rank == 0 and retries:
            rank.call("broadcast", site="/job/eval.py:7")
        share(rank)
    return run


def test_the_calls_that_an_exception_left_out(tmp_path: Path) -> None:
    found = first(without_a_gather(), tmp_path)
    assert (found.code, found.suspects) == ("CT319", (1,))


def test_a_call_that_was_made_good_is_none_that_was_left_out(tmp_path: Path) -> None:
    found = first(without_a_gather(retries=True), tmp_path)
    assert found.code != "CT319"
    assert found.suspects == ()


def test_what_both_left_out(tmp_path: Path) -> None:
    found = first(without_a_gather(alike=True), tmp_path)
    assert found.code != "CT319"

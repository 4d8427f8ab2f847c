"""Where a call stands beside a backward(): what the iterations before tell, and the stacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.backwards import (
    Missed,
    autograd_function,
    beside,
    left_before,
    missed,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Rank, Run

FRAMES = {
    "b": ["/job/train.py:8 step"],
    "c": ["/job/train.py:6 step"],
    "d": ["/job/train.py:9 step"],
    "h": ["/job/train.py:2 hook", "/job/train.py:8 step"],
}
"""Of a bucket, a call before it, one behind it, and one that backward() runs."""


def make(rank: Rank, letters: str, iteration: int, **fields: Any) -> None:
    for letter in letters:
        is_bucket = letter == "b"
        call = rank.call(
            "all_reduce",
            role="ddp.backward.bucket" if is_bucket else "user",
            shape=[9] if is_bucket else [ord(letter)],
            site=FRAMES[letter][0].partition(" ")[0],
            stack="bcdh".index(letter) + 1,
            iteration=iteration,
            **fields,
        )
    rank.inside(call)


def made(folder: Path, before: Sequence[str], one: str, two: str, first: int = 1) -> Any:
    """Two ranks after these iterations of both, in one more of each its own."""
    run = Run(2)
    for rank, last in zip(run, (one, two), strict=True):
        for n, letter in enumerate("bcdh", start=1):
            rank.record(Stack(stack=n, frames=FRAMES[letter]))
        for n, letters in enumerate([*before, last], start=first):
            make(rank, letters, n)
        rank.beat(30)
    case = case_of(run, folder)
    return case, judge(case)[0]


def place(case: Case, candidate: Candidate) -> str | None:
    """Of the rank that is in no bucket, the first."""
    return beside(case, candidate, candidate.sides[0], candidate.sides[1])


@pytest.mark.parametrize(
    ("before", "one", "two", "found"),
    [
        (["cb", "cb"], "c", "b", "before"),
        (["ccb", "cb"], "cc", "cb", "before"),
        (["bd", "bd"], "d", "b", "past"),
        (["bd", "bd"], "bd", "bb", "past"),
        (["cbc", "cbc"], "c", "b", None),  # on either side
        (["bhb", "bhb"], "bh", "bb", "before"),
        (["bhb", "bhb"], "h", "b", "past"),
        (["hb", "bhb", "bhb"], "bh", "bb", "before"),  # the buckets of the first iteration
        (["bhb", "bhb"], "bbh", "bbb", None),
        (["b", "b"], "bd", "bb", "past"),  # that backward() was begun, and this is not in it
        (["b", "b"], "bh", "bb", None),
        (["b", "b"], "d", "b", "past"),  # by the lines
        (["b", "b"], "c", "b", None),  # before it, or in the next round
    ],
)
def test_beside(
    before: Sequence[str], one: str, two: str, found: str | None, tmp_path: Path
) -> None:
    assert place(*made(tmp_path, before, one, two)) == found


def test_another_forward_tells_by_itself(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.record(Stack(stack=1, frames=FRAMES["b"]))
        make(rank, "cb", 1)
    make(run.rank(0), "c", 1)
    make(run.rank(1), "b", 2)
    case = case_of(run, tmp_path)
    candidate = judge(case)[0]
    assert place(case, candidate) == "before"
    assert left_before(case, candidate) is None


def test_iterations_that_are_counted_anew_are_not_those_of_this_model(tmp_path: Path) -> None:
    """A model that was wrapped again begins with the first: the rank had issued no bucket of it."""
    run = Run(2)
    for rank in run:
        for n, letter in enumerate("bcdh", start=1):
            rank.record(Stack(stack=n, frames=FRAMES[letter]))
        for n in (1, 2, 3, 1, 2):
            make(rank, "cb", n)
    make(run.rank(0), "c", 3)
    make(run.rank(1), "b", 3)
    case = case_of(run, tmp_path)
    assert place(case, judge(case)[0]) == "before"


@pytest.mark.parametrize(
    ("before", "one", "two", "found"),
    [
        (["ccb", "ccb", "ccb"], "cc", "cb", Missed(3, 2, 1)),
        (["cb", "cb"], "c", "b", Missed(2, 1, 0)),
        (["cb"], "c", "b", None),
        (["ccb", "cb"], "cc", "cb", None),
        (["cb", "cb"], "cc", "cb", None),  # one more
    ],
)
def test_missed(
    before: Sequence[str], one: str, two: str, found: Missed | None, tmp_path: Path
) -> None:
    case, candidate = made(tmp_path, before, one, two)
    assert missed(case, candidate, candidate.sides[1], candidate.sides[0]) == found


@pytest.mark.parametrize(
    ("around", "definition", "name"),
    [
        ("class Gather(torch.autograd.Function):", "def backward(ctx, *grads):", "Gather.backward"),
        ("class Gather(Function):", "def backward(", "Gather.backward"),
        ("class Gather(Mean, autograd.Function):", "def backward(_, g):", "Gather.backward"),
        ("class Gather(Function):", "def forward(ctx, x):", ""),
        ("class Gather:", "def backward(model, loss):", ""),
        ("class Gather(LossFunction):", "def backward(model, loss):", ""),
        ("class Gather(FunctionBase):", "def backward(self, loss):", ""),
        ("if True:", "def backward(loss, scale):", ""),
        ("def main():", "def backward(loss, scale):", ""),
    ],
)
def test_a_function_of_autograds(around: str, definition: str, name: str, tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    parameters = "        x,\n    ):\n" if definition.endswith("(") else ""
    train.write_text(f"{around}\n    {definition}\n{parameters}        reduce()\n")
    number = train.read_text().splitlines().index("        reduce()") + 1
    function = definition.partition("(")[0].removeprefix("def ")
    run = Run(1)
    rank = run.rank(0)
    rank.record(
        Stack(stack=1, frames=["/job/comm.py:2 reduce", f"{train}:{number} Gather.{function}"])
    )
    call = rank.call("all_reduce", site="/job/comm.py:2", stack=1)
    case = case_of(run, tmp_path / "logs")
    assert autograd_function(case, 0, call) == name

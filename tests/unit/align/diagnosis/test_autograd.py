"""Collectives that autograd runs in a backward(): what leaves them out, by the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.diagnosis import autograd
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

HEAD = "class Sum(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, grad):\n"
LOOP = "\nwhile True:\n    loss.backward()\n    dist.barrier()\n    dist.broadcast(x, 0)\n"


def cause(folder: Path, body: str) -> str:
    """After some rounds of both rank 1 goes on without what its backward() had run."""
    script = folder / "train.py"
    script.write_text(HEAD + body + LOOP)
    lines = script.read_text().splitlines()
    at = {
        text: n
        for n, line in enumerate(lines, 1)
        for text in ("reduce", "backward()")
        if text in line
    }
    outer = f"{script}:{at['backward()']} <module>"
    frames = {
        "all_reduce": [f"{script}:{at['reduce']} Sum.backward", outer],
        "barrier": [f"{script}:{at['backward()'] + 1} <module>"],
        "broadcast": [f"{script}:{at['backward()'] + 2} <module>"],
    }
    run = Run(2)
    for rank in run:
        for n, stack in enumerate(frames.values(), 1):
            rank.record(Stack(stack=n, frames=stack))
        for op in [*list(frames) * 5, *list(frames)[rank.rank : rank.rank + 1]]:
            number = list(frames).index(op) + 1
            call = rank.call(op, site=frames[op][0].partition(" ")[0], stack=number)
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder / "logs")
    found = autograd.reason(case, judge(case)[0])
    return found.cause if found is not None else ""


@pytest.mark.parametrize(
    "body",
    [
        "        reduce(grad)",
        "        with lock:\n            reduce(grad)",
        "        if grad is None:\n            raise ValueError\n        reduce(grad)",
    ],
)
def test_what_autograd_did_not_run(body: str, tmp_path: Path) -> None:
    assert "autograd runs Sum.backward() only for what the loss was computed from" in cause(
        tmp_path, body
    )


@pytest.mark.parametrize(
    "body",
    [
        "        if grad.max() > 3:\n            reduce(grad)",
        "        if grad.max() < 3:\n            return grad\n        reduce(grad)",
        "        for one in parts(grad):\n            reduce(one)",
        "        return reduce(grad) if big(grad) else grad",
    ],
)
def test_what_the_function_may_leave_out_itself(body: str, tmp_path: Path) -> None:
    assert cause(tmp_path, body) == ""

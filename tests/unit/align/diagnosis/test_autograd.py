"""Collectives that autograd runs in a backward(): what leaves them out, by the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.align.diagnosis import autograd
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.stacks import Stacks
from tests.support.synthetic import Rank, Run

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


MIDWAY = """\
class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows):
        return reduce(rows)

    @staticmethod
    def backward(ctx, grad):
        return reduce(grad)

def train():
    for chunk in chunks:
        losses.append(model(chunk))
    loss.backward()
    clip()
"""
FORWARD, BACKWARD, CLIP = (
    ("4 Sum.forward", "12 train"),
    ("8 Sum.backward", "13 train"),
    ("14 train",),
)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (
            [FORWARD] * 3 + [BACKWARD] * 2,
            "Up to there they had made as many calls in that backward().",
        ),
        ([FORWARD] * 3, "All ranks had done so 10 times before."),
        ([FORWARD] * 2 + [BACKWARD] * 2 + [CLIP], ""),
    ],
)
def test_who_came_out_of_a_backward_sooner(
    last: Sequence[tuple[str, ...]], said: str, tmp_path: Path
) -> None:
    """No two steps have as many chunks, so that there is no round to tell what comes next."""
    script = tmp_path / "train.py"
    script.write_text(MIDWAY)
    run, stacks = Run(3), Stacks()
    for rank in run:
        steps = [way for n in (2, 4, 3, 1) for way in [FORWARD] * n + [BACKWARD] * n + [CLIP]]
        for way in [*steps, *last, CLIP if rank.rank == 1 else BACKWARD]:
            op = "all_gather" if way == BACKWARD else "all_reduce"
            frames = [f"{script}:{frame}" for frame in way]
            call = rank.call(op, **stacks.at(rank, *frames))
        rank.beat(60, rank.inside(call))
    case = case_of(run, tmp_path / "logs")
    found = autograd.reason(case, judge(case)[0])
    assert (found is not None) == bool(said)
    if found is not None:
        assert said in found.cause
        assert "on rank 1 the forward's output was cut out of the graph" in found.cause
        assert "times zero" in found.fix


# -- the backward of an exchange -------------------------------------------------------------------

EXCHANGE = """class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows):
        return swap(rows)

    @staticmethod
    def backward(ctx, grad):
        return swap(grad)
"""


def exchanges(
    folder: Path,
    sent: Sequence[int],
    backward: Mapping[int, tuple[int, bool]],
    *,
    first: bool = True,
) -> Run:
    """A step of some exchanges; then the forwards of the next, and the backward of one of them.

    Args:
        folder: of the script.
        sent: by each exchange of the forward: so many rows by rank 0 to each, one more by the next.
        backward: of which forward a rank is in the backward, if not of the last.
        first: whether the first step had a backward.

    """
    script = folder / "moe.py"
    script.write_text(EXCHANGE)
    run = Run(3)
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{script}:4 Swap.forward", f"{script}:20 train"]))
        rank.record(Stack(stack=2, frames=[f"{script}:8 Swap.backward", f"{script}:21 train"]))
        for is_first in (True, False):
            for rows in sent:
                rank.call(
                    "all_to_all_single", splits=forward(rank, rows), site=f"{script}:4", stack=1
                )
            for rows in reversed(sent) if is_first and first else ():
                splits = forward(rank, rows)[::-1]
                rank.call("all_to_all_single", splits=splits, site=f"{script}:8", stack=2)
        rows, is_turned = backward.get(rank.rank, (sent[-1], True))
        splits = forward(rank, rows)[:: -1 if is_turned else 1]
        call = rank.call("all_to_all_single", splits=splits, site=f"{script}:8", stack=2)
        rank.stuck_in(call)
    return run


def forward(rank: Rank, rows: int) -> list[list[int]]:
    """What a rank sends each, and gets of each, where rank 0 sends so many rows."""
    return [[rows + rank.rank] * 3, [rows, rows + 1, rows + 2]]


def told_of_exchange(run: Run, folder: Path) -> str:
    case = case_of(run, folder)
    candidate = judge(case)[0]
    assert candidate.kind == "split_mismatch"
    found = autograd.of_exchange(case, candidate)
    return found.cause if found is not None else ""


def test_sizes_tell_of_which_forward_an_exchange_is_the_backward(tmp_path: Path) -> None:
    cause = told_of_exchange(exchanges(tmp_path, (2, 5), {1: (2, True)}), tmp_path / "logs")
    assert "by them ranks 0,2 are in the backward of call 6," in cause
    assert "rank 1 is already in that of call 5," in cause
    assert "rank 1 went past 1 call of this backward()" in cause


@pytest.mark.parametrize(
    ("sent", "backward"),
    [
        pytest.param((2, 5), {1: (4, True)}, id="sizes of no forward"),
        pytest.param((2, 5), {1: (5, False)}, id="those of the forward, not turned round"),
        pytest.param((2, 3, 5), {0: (2, True), 1: (3, True)}, id="of several forwards"),
    ],
)
def test_sizes_that_tell_of_no_other_forward(
    sent: Sequence[int], backward: Mapping[int, tuple[int, bool]], tmp_path: Path
) -> None:
    assert not told_of_exchange(exchanges(tmp_path, sent, backward), tmp_path / "logs")


def test_the_first_backward_of_all_may_come_in_whatever_order(tmp_path: Path) -> None:
    run = exchanges(tmp_path, (2, 5), {1: (2, True)}, first=False)
    assert not told_of_exchange(run, tmp_path / "logs")

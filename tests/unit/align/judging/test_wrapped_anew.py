"""Who wraps a model anew is to blame where the inner loop of the others was begun anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

SOURCE = """\
def learn():
    for batch in batches:
        model(batch).backward()
def grow():
    wrap(core)
for epoch in range(9):
    learn()
    all_reduce(mean)
    if small:
        grow()
    if epoch > patience:
        grow()
    if wide:
        grow()
    else:
        learn()
grow()
for epoch in range(9):
    learn()
    all_reduce(mean)
    if stale(history, 2):
        grow()
    is_stale = history[-1] > history[-2]
    if is_stale:
        grow()
    if score >= self.good and not self.grown:
        grow()
    if not stale(history, 2):
        continue
    grow()
"""

FUNCTIONS = {3: "learn", 5: "grow"}


def suspects(folder: Path, mine: list[list[int]], others: list[list[int]]) -> tuple[int, ...]:
    """Who is to blame where ranks 0 and 1 come to these lines, and differ in the last."""
    train = folder / "train.py"
    train.write_text(SOURCE)
    run = Run(2)
    for rank, program in zip(run, (mine, others), strict=True):
        for n, lines in enumerate(program, 1):
            frames = [f"{train}:{line} {FUNCTIONS.get(line, '<module>')}" for line in lines]
            rank.record(Stack(stack=n, frames=frames))
            calls: dict[int, dict[str, Any]] = {
                3: {"op": "all_reduce", "shape": [42], "role": "ddp.backward.bucket"},
                5: {"op": "all_gather", "role": "ddp.construct"},
                8: {"op": "all_reduce", "shape": [1]},
                20: {"op": "all_reduce", "shape": [1]},
            }
            last = rank.call(**calls[lines[0]], site=frames[0].partition(" ")[0], stack=n)
        rank.beat(60, rank.inside(last))
    return errors(aligned(run, folder / "logs"))[0].suspects


TRAIN, MEAN, WRAP = [3, 7], [8], [5, 10]
EPOCH = [TRAIN, TRAIN, MEAN]
AGAIN = [3, 19]
LATER = [AGAIN, AGAIN, [20]]


@pytest.mark.parametrize(
    ("before", "mine", "theirs", "found"),
    [
        pytest.param([*EPOCH, *EPOCH], WRAP, TRAIN, (), id="two iterations are no habit"),
        pytest.param([*EPOCH, TRAIN, TRAIN], WRAP, TRAIN, (), id="out of it, or not"),
        pytest.param([*EPOCH, *EPOCH], [5, 12], TRAIN, (), id="from a certain epoch on"),
        pytest.param([*EPOCH, *EPOCH], [5, 14], [3, 16], (), id="in the other branch"),
        pytest.param([*EPOCH, *EPOCH], [5, 17], TRAIN, (), id="behind the loop"),
        pytest.param([*LATER, *LATER], [5, 22], AGAIN, (), id="by a function of its data"),
        pytest.param([*LATER, *LATER], [5, 25], AGAIN, (), id="by a flag of its data"),
        pytest.param([*LATER, *LATER], [5, 27], AGAIN, (), id="by a value of its own"),
        pytest.param([*LATER, *LATER], [5, 30], AGAIN, (), id="behind a guard of its data"),
        pytest.param([*EPOCH, WRAP, *EPOCH], WRAP, TRAIN, (), id="not for the first time"),
    ],
)
def test_who_wraps_a_model_anew(
    before: list[list[int]],
    mine: list[int],
    theirs: list[int],
    found: tuple[int, ...],
    tmp_path: Path,
) -> None:
    assert suspects(tmp_path, [*before, mine], [*before, theirs]) == found

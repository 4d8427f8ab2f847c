"""Whose forward passes iterations count: of one DDP model, or of several in turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.models import of_one_model
from tests.support.judging import case_of
from tests.support.synthetic import Run

Made = tuple[str, str, int | None]
"""Group, the end of the role, the model's number as it is recorded."""

FIRST: Made = ("0", "construct", None)
SECOND: Made = ("0", "construct", 2)


def bucket(model: int | None = None, group: str = "0") -> Made:
    return group, "backward.bucket", model


def is_one(folder: Path, *ranks: Sequence[Made]) -> bool:
    run = Run(len(ranks))
    run.group("g", range(len(ranks)))
    for rank, made in zip(run, ranks, strict=True):
        for group, role, model in made:
            rank.call("all_reduce", group, role=f"ddp.{role}", model=model, iteration=1)
    return of_one_model(case_of(run, folder), range(len(ranks)))


@pytest.mark.parametrize(
    "made",
    [
        (),
        (FIRST, bucket()),
        (SECOND, ("0", "forward.sync_buffers", 2), bucket(2)),  # a ZeRO optimizer was the first
        (FIRST, bucket(), SECOND, bucket()),  # trained, then wrapped anew
        (FIRST, bucket(1), SECOND, bucket(2), bucket(2)),
        (FIRST, bucket(), bucket(group="g")),  # a communication hook's own group
    ],
)
def test_of_one(made: Sequence[Made], tmp_path: Path) -> None:
    assert is_one(tmp_path, made, made)


@pytest.mark.parametrize(
    "made",
    [
        (FIRST, SECOND, bucket(), bucket()),  # of buckets it may not be known
        (FIRST, SECOND, bucket(1), bucket(2)),
        (FIRST, bucket(1), SECOND, bucket(2), bucket(1)),
        (FIRST, ("g", "construct", None), bucket()),
    ],
)
def test_of_several(made: Sequence[Made], tmp_path: Path) -> None:
    assert not is_one(tmp_path, made, made)


def test_ranks_that_are_at_different_ones(tmp_path: Path) -> None:
    assert not is_one(tmp_path, (FIRST, bucket()), (FIRST, bucket(), SECOND, bucket()))

"""A collective in the body of a ``with`` that lets one rank go first; and what only looks so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.stacks import Stacks
from tests.support.synthetic import Run

SOURCE = """\
def dataset():
    with {}:
        {}
    count()
"""
ENTRY, BODY, BEHIND = ("20 zero_first", "2 dataset"), ("9 count", "3 dataset"), ("30 train",)
FIRST = "torch_distributed_zero_first(rank)"


def told(
    folder: Path,
    *,
    ranks: int = 2,
    manager: str = FIRST,
    body: str = "count()",
    held: Sequence[str] = ENTRY,
    before: Sequence[Sequence[str]] = (BEHIND,),
    waits: str = "barrier",
) -> Finding:
    """Rank 0 sums in the body, behind calls ``before``; the others are in a barrier."""
    train = folder / "train.py"
    train.write_text(SOURCE.format(manager, body))
    run, stacks = Run(ranks), Stacks()
    for rank in run:
        is_first = rank.rank == 0
        for way in before if is_first else [BEHIND] * len(before):
            rank.call("barrier", **stacks.at(rank, *(f"{train}:{frame}" for frame in way)))
        frames = [f"{train}:{frame}" for frame in (BODY if is_first else held)]
        op = "all_reduce" if is_first else waits
        rank.beat(60, rank.inside(rank.call(op, **stacks.at(rank, *frames))))
    return errors(aligned(run, folder / "logs"))[0]


@pytest.mark.parametrize(
    "manager",
    [FIRST, "accelerator.main_process_first()", 'args.main_process_first(desc="tokenize")'],
)
def test_of_two_ranks(manager: str, tmp_path: Path) -> None:
    found = told(tmp_path, manager=manager)
    assert found.kind == "op_mismatch"
    assert found.suspects == ()
    assert found.cause == (
        f"`with {manager}:` (train.py:2) holds rank 1 at its entry, in a barrier, until rank 0 has "
        "left its body. In that body rank 0 called all_reduce at train.py:9, called at train.py:3, "
        "to which rank 1 comes only behind the entry. So they wait for each other."
    )
    assert "Keep collectives out of the body" in found.fix
    assert found.fix.endswith("Move the all_reduce behind it.")


def test_of_several(tmp_path: Path) -> None:
    found = told(tmp_path, ranks=4)
    assert found.suspects == (0,)
    assert "holds ranks 1-3 at its entry, in a barrier, until rank 0 has left" in found.cause


@pytest.mark.parametrize(
    "manager", ["timer.measured()", "model.join()", "torch.no_grad()", "first_steps_timed(3)"]
)
def test_another_manager(manager: str, tmp_path: Path) -> None:
    assert "at its entry" not in told(tmp_path, manager=manager).cause


@pytest.mark.parametrize("before", [[ENTRY], [BEHIND, ENTRY, BODY], [ENTRY, BODY, BODY]])
def test_who_came_by_the_entry_as_well(before: Sequence[Sequence[str]], tmp_path: Path) -> None:
    """Then all are held there, and a turn more or less is why they do not meet."""
    assert "at its entry" not in told(tmp_path, before=before).cause


def test_who_came_by_it_in_an_earlier_round_only(tmp_path: Path) -> None:
    assert "at its entry" in told(tmp_path, before=[ENTRY, BEHIND, BODY]).cause


def test_at_the_line_is_another_collective_than_a_barrier(tmp_path: Path) -> None:
    assert "at its entry" not in told(tmp_path, waits="broadcast").cause


def test_a_call_behind_the_body(tmp_path: Path) -> None:
    assert "at its entry" not in told(tmp_path, held=("9 count", "4 dataset")).cause

"""An all_to_all whose sizes were exchanged before: whose changed after that, as far as it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.kind_examples import waits
from tests.support.synthetic import Run

EVEN = [[2, 2, 2], [2, 2, 2], [2, 2, 2]]
WANTED = [[2, 2, 2], [1, 1, 4], [2, 2, 2]]
"""What each rank is to send each other in the last round."""
COUNTS: dict[str, Any] = {
    "op": "all_to_all_single", "dtype": "int64", "shape": [3], "splits": [[1] * 3, [1] * 3],
    "site": "moe.py:5",
}  # fmt: skip


def rounds(
    sent: Sequence[Sequence[int]],
    expected: Sequence[Sequence[int]] = WANTED,
    counts: dict[str, Any] | None = COUNTS,
    earlier: Sequence[Sequence[Sequence[int]]] = (EVEN, EVEN, EVEN),
) -> Run:
    """Rounds that fit, and one in which ranks send by ``sent``, and await by ``expected``."""
    run = Run(3)
    for n, (out, come) in enumerate([*((t, t) for t in earlier), (sent, expected)]):
        for rank in run:
            if counts is not None:
                rank.call(**counts)
            splits = [list(out[rank.rank]), [row[rank.rank] for row in come]]
            fields: dict[str, Any] = {
                "splits": splits,
                "shape": [sum(splits[0])],
                "site": "moe.py:9",
            }
            if n < len(earlier):
                rank.call("all_to_all_single", **fields)
            else:
                waits(rank, "all_to_all_single", **fields)
    return run


def first(run: Run, folder: Path) -> Finding:
    found = errors(aligned(run, folder))[0]
    assert found.kind == "split_mismatch"
    return found


ONE_DROPPED = [[2, 2, 2], [1, 1, 3], [2, 2, 2]]


def test_a_rank_that_sends_less_than_it_had_told(tmp_path: Path) -> None:
    found = first(rounds(ONE_DROPPED), tmp_path)
    assert (found.code, found.suspects) == ("CT408", (1,))
    assert "(moe.py:5)" in found.fix


def test_two_ranks_that_do(tmp_path: Path) -> None:
    found = first(rounds([[2, 2, 1], [1, 1, 3], [2, 2, 2]]), tmp_path)
    assert (found.code, found.suspects) == ("CT408", (0, 1))


def test_a_receiver_of_which_two_know_otherwise(tmp_path: Path) -> None:
    """It may have changed what it expects; or both senders have dropped some for it."""
    run = rounds([[2, 2, 1], [1, 1, 3], [2, 2, 2]], earlier=(EVEN,))
    assert first(run, tmp_path / "exchanged").suspects == ()
    run = rounds([[2, 2, 1], [1, 1, 3], [2, 2, 2]], earlier=(EVEN,), counts=None)
    assert first(run, tmp_path / "not").suspects == (2,)


def test_a_receiver_that_expects_another_size_may_be_the_one(tmp_path: Path) -> None:
    found = first(rounds(WANTED, ONE_DROPPED), tmp_path)
    assert (found.code, found.suspects) == ("CT408", ())


@pytest.mark.parametrize("earlier", [
    (EVEN, EVEN), (EVEN, ONE_DROPPED, EVEN, EVEN), (),
])  # fmt: skip
def test_what_a_rank_has_not_always_sent_proves_nothing(
    earlier: Sequence[Sequence[Sequence[int]]], tmp_path: Path
) -> None:
    found = first(rounds(ONE_DROPPED, earlier=earlier), tmp_path)
    assert (found.code, found.suspects) == ("CT408", ())


@pytest.mark.parametrize("counts", [
    None, {**COUNTS, "dtype": "float32"},
    {"op": "all_reduce", "dtype": "int64", "shape": [3]},
])  # fmt: skip
def test_no_sizes_were_exchanged(counts: dict[str, Any] | None, tmp_path: Path) -> None:
    found = errors(aligned(rounds(ONE_DROPPED, counts=counts), tmp_path))[0]
    assert (found.code, found.suspects) == ("CT407", ())


def test_sizes_that_were_gathered(tmp_path: Path) -> None:
    counts = {"op": "all_gather_single", "dtype": "int64", "shape": [3], "site": "moe.py:5"}
    assert first(rounds(ONE_DROPPED, counts=counts), tmp_path).suspects == (1,)


ROUTED = ([[1, 2, 3], [2, 1, 3], [3, 3, 0]], [[2, 2, 2], [1, 1, 4], [0, 5, 1]], EVEN)
"""Totals that differ from round to round."""


@pytest.mark.parametrize(("awaited", "suspects"), [
    ((3, 3, 2), (2,)),
    ((3, 4, 2), ()),
    ((2, 3, 2), ()),
])  # fmt: skip
def test_who_awaits_as_much_in_all_but_of_other_ranks(
    awaited: Sequence[int], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """Two senders that dropped something would both send it less."""
    expected = [[*row[:2], n] for row, n in zip(WANTED, awaited, strict=True)]
    found = first(rounds(WANTED, expected, earlier=ROUTED), tmp_path)
    assert found.suspects == suspects

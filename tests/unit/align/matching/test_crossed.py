"""Two lines that have each other's group on some ranks."""

from __future__ import annotations

from pathlib import Path

from collectrace.align.alignment import compared
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import run_reader
from tests.support.synthetic import Run

LOSS, NORM = "/job/train.py:17", "/job/train.py:21"


def crossed(
    folder: Path,
    lines: dict[int, tuple[str, str]],
    ranks: tuple[list[int], list[int]] = ([0, 1, 2], [0, 1, 2]),
) -> list[Divergence]:
    """Three ranks use two groups in each of four rounds; ``lines``: per rank the line of each."""
    run = Run(3)
    for name, members in zip("ab", ranks, strict=True):
        run.group(name, members)
    for _ in range(4):
        for rank in run:
            for name, members, site in zip("ab", ranks, lines[rank.rank], strict=True):
                if rank.rank in members:
                    rank.call("all_reduce", name, site=site)
    run.finish()
    run.write(folder)
    found = compared(run_reader.read(folder)).warnings
    return [one for one in found if one.crosses is not None]


def test_each_line_has_the_others_group_on_one_rank(tmp_path: Path) -> None:
    straight, swapped = (LOSS, NORM), (NORM, LOSS)
    (found,) = crossed(tmp_path, {0: straight, 1: swapped, 2: straight})
    assert (found.stream.group, found.crosses, found.seq, found.swapped) == ("a", "b", 1, True)
    assert {rank: call.site for rank, call in found.calls.items() if call} == {
        0: LOSS, 1: NORM, 2: LOSS
    }  # fmt: skip


def test_lines_that_stand_in_their_own_groups_are_not_crossed(tmp_path: Path) -> None:
    assert crossed(tmp_path, dict.fromkeys(range(3), (LOSS, NORM))) == []


def test_lines_that_differ_in_one_group_only_are_not_crossed(tmp_path: Path) -> None:
    assert crossed(tmp_path, {0: (LOSS, NORM), 1: (NORM, NORM), 2: (LOSS, NORM)}) == []


def test_each_on_other_ranks_is_not_crossed(tmp_path: Path) -> None:
    assert crossed(tmp_path, {0: (LOSS, NORM), 1: (NORM, NORM), 2: (LOSS, LOSS)}) == []


def test_a_third_line_is_another_program(tmp_path: Path) -> None:
    assert crossed(tmp_path, {0: (LOSS, NORM), 1: (NORM, "/job/x.py:1"), 2: (LOSS, NORM)}) == []


def test_groups_of_other_ranks_are_not_crossed(tmp_path: Path) -> None:
    lines = {0: (LOSS, NORM), 1: (NORM, LOSS), 2: (LOSS, NORM)}
    assert crossed(tmp_path, lines, ([0, 1, 2], [0, 1])) == []

"""Groups that some ranks left out, or made one more of."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

Asked = tuple[str, list[int]]
PAIR: Asked = ("/job/mesh.py:18", [0, 1])
ALL: Asked = ("/job/mesh.py:19", [0, 1, 2])
OTHER: Asked = ("/job/mesh.py:20", [1, 2])


def asking(scripts: dict[int, list[Asked]], folder: Path) -> Finding:
    """What is told where ranks ask for these groups one after the other."""
    run = Run(3)
    for rank in run:
        for n, (site, ranks) in enumerate(scripts[rank.rank], 1):
            rank.group(str(n), ranks, site=site)
        rank.beat(30)
    run.finish()
    return errors(aligned(run, folder))[0]


@pytest.mark.parametrize(
    ("others", "mine", "told"),
    [
        pytest.param(
            [PAIR, ALL], [ALL],
            "Rank 2 never called new_group([0, 1]) at mesh.py:18, and has gone on to what ranks "
            "0-1 called after it.",
            id="left out",
        ),
        pytest.param(
            [ALL, OTHER], [PAIR, ALL],
            "Rank 2 alone called new_group([0, 1]) at mesh.py:18, and after it what ranks 0-1 "
            "called here.",
            id="one more",
        ),
    ],
)  # fmt: skip
def test_a_group_left_out_or_one_more(
    others: list[Asked], mine: list[Asked], told: str, tmp_path: Path
) -> None:
    found = asking({0: others, 1: others, 2: mine}, tmp_path)
    assert (found.kind, found.suspects) == ("group_mismatch", (2,))
    assert found.cause.endswith(told)


@pytest.mark.parametrize("mine", [[ALL, PAIR], [OTHER, ALL]])
def test_another_order_or_other_groups_are_none(mine: list[Asked], tmp_path: Path) -> None:
    found = asking({0: [PAIR, ALL], 1: [PAIR, ALL], 2: mine}, tmp_path)
    assert found.suspects == (2,)
    assert "never called" not in found.cause
    assert "alone called" not in found.cause


@pytest.mark.parametrize("stacked", [True, False])
def test_where_a_rank_is_that_never_came(*, stacked: bool, tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        if rank.rank == 1:
            rank.beat(28)
            if stacked:
                rank.stall(stacks={"MainThread": ["/job/train.py:22 load"]})
            rank.beat(2)
        else:
            asked = rank.group("1", [0, 1, 2], phase="asked", site="/job/train.py:23")
            rank.beat(30, rank.creating(asked))
    (found,) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("missing_call", (1,))
    assert ("Rank 1 was at train.py:22 (load)." in found.cause) == stacked


HALF: Asked = ("/job/mesh.py:18", [0, 1])
WORLD: Asked = ("/job/mesh.py:19", [0, 1, 2, 3])


def asking_of_four(own: list[Asked], folder: Path) -> Finding:
    """Ranks 0 and 1 ask for two groups, ranks 2 and 3 for these."""
    run = Run(4)
    for rank in run:
        for n, (site, ranks) in enumerate([HALF, WORLD] if rank.rank < 2 else own, 1):
            rank.group(str(n), ranks, site=site, phase="asked")
        rank.beat(30)
    run.finish()
    return errors(aligned(run, folder))[0]


def test_a_group_that_half_of_the_ranks_left_out(tmp_path: Path) -> None:
    found = asking_of_four([WORLD], tmp_path)
    assert (found.kind, found.suspects) == ("group_mismatch", ())
    assert found.cause.endswith(
        "Ranks 0-1 called new_group([0, 1]) at mesh.py:18, and new_group([0, 1, 2, 3]) after it; "
        "ranks 2-3, no members of it, never called the first, and went straight to "
        "new_group([0, 1, 2, 3]) at mesh.py:19."
    )


@pytest.mark.parametrize("own", [[WORLD, HALF], [("/job/mesh.py:20", [1, 2, 3]), WORLD]])
def test_groups_that_half_of_the_ranks_made_otherwise(own: list[Asked], tmp_path: Path) -> None:
    found = asking_of_four(own, tmp_path)
    assert (found.kind, found.suspects) == ("group_mismatch", ())
    assert "never called" not in found.cause


def local(n: int) -> str:
    """A name as torch gives it where only members make a group."""
    return f"{n:040x}"


def test_one_group_under_two_names(tmp_path: Path) -> None:
    run = Run(3)
    for n in (1, 2):
        run.rank(n).group(local(12), [1, 2], site="/job/mesh.py:18")
    for n, name in (0, 1), (1, 2):
        asked = run.rank(n).group(local(name), [0, 1], site="/job/mesh.py:21", phase="asked")
        run.rank(n).beat(30, run.rank(n).creating(asked))
    call = run.rank(2).call("all_reduce", group=local(12))
    run.rank(2).beat(30, run.rank(2).inside(call))
    found, *rest = errors(aligned(run, tmp_path))
    assert [one.caused_by for one in rest] == [0]
    assert (found.kind, found.suspects) == ("group_mismatch", ())
    assert found.headline == (
        "ranks 0-1 wait for each other in new_group([0, 1]) at mesh.py:21: each calls the group by "
        "another name"
    )
    assert "rank 1 had made new_group([1, 2]) at mesh.py:18 before, rank 0 had not" in found.cause
    assert "those of some ranks only, new_group([1, 2])" in found.fix


@pytest.mark.parametrize(
    ("mine", "is_told"),
    [
        pytest.param([50, 43, 50, 50], True, id="one more, the same behind it"),
        pytest.param([50, 43, 44, 45], False, id="of other lines from there on"),
        pytest.param([43, 50, 50, 50], False, id="never alike before"),
        pytest.param([50, 50, 50, 43], False, id="where the others made none"),
    ],
)
def test_where_a_rank_was_one_group_ahead(
    mine: list[int], tmp_path: Path, *, is_told: bool
) -> None:
    run = Run(3)
    for rank in run:
        lines = mine if rank.rank == 2 else [50, 50, 50]
        for n, line in enumerate(lines):
            frames = [f"/job/train.py:{line} epoch", "/job/train.py:70 main"]
            rank.record(Stack(stack=n + 1, frames=frames))
            group = rank.group(
                str(n + 1),
                [0, 1, 2],
                phase="asked" if n == 3 else None,
                site=f"/job/train.py:{line}",
                stack=n + 1,
            )
        if rank.rank == 2:
            rank.beat(30, rank.creating(group))
        else:
            rank.stuck_in(rank.call("all_reduce", site="/job/train.py:60"))
    found = errors(aligned(run, tmp_path))[0]
    assert (found.kind, found.suspects) == ("group_mismatch", (2,))
    told = (
        "They parted before, at the 2nd group, for which rank 2 asked at train.py:43 in epoch() "
        "and ranks 0-1 at train.py:50 in epoch(): rank 2 made one more there, and has been one "
        "ahead since."
    )
    assert (told in found.cause) == is_told
    assert ("parted before" in found.cause) == is_told


def making(folder: Path, *asked: tuple[int, list[int]]) -> Finding:
    """Ranks that ask for groups of a name and members each, and never get them."""
    run = Run(len(asked))
    for n, (name, ranks) in enumerate(asked):
        group = run.rank(n).group(local(name), ranks, site="/job/mesh.py:21", phase="asked")
        run.rank(n).beat(30, run.rank(n).creating(group))
    return errors(aligned(run, folder))[0]


def test_a_circle_of_groups_in_the_making(tmp_path: Path) -> None:
    found = making(tmp_path, (0, [0, 1]), (1, [1, 2]), (2, [0, 2]))
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert found.headline == (
        "ranks 0-2 wait in a circle: rank 0 in new_group([0, 1]), rank 1 in new_group([1, 2]), "
        "rank 2 in new_group([0, 2]), all at mesh.py:21"
    )
    assert "rank 1 waits in new_group([1, 2]) at mesh.py:21 for rank 2" in found.cause
    assert "sorted: new_group([0, 1]), new_group([0, 2]) and new_group([1, 2])" in found.fix


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param([(0, [0, 1]), (1, [1, 0])], id="two ranks"),
        pytest.param([(0, [0, 1, 2]), (1, [0, 1, 2]), (2, [0, 1, 2])], id="one group, three names"),
    ],
)
def test_no_circle_of_groups(asked: list[tuple[int, list[int]]], tmp_path: Path) -> None:
    assert making(tmp_path, *asked).kind == "group_mismatch"


@pytest.mark.parametrize("lines", [(32, 26), (26, 26)])
def test_one_line_that_was_called_from_different_ones(
    lines: tuple[int, int], tmp_path: Path
) -> None:
    mesh = tmp_path / "mesh.py"
    mesh.write_text("pair()\n" * 40)
    run = Run(3)
    for rank in run:
        alone = rank.rank == 2
        frames = [f"{mesh}:22 pair", f"{mesh}:{lines[0 if alone else 1]} log"]
        rank.record(Stack(stack=1, frames=frames))
        rank.group("1", [1, 2] if alone else [0, 1], site=f"{mesh}:22", stack=1)
        rank.beat(30)
    run.finish()
    (found,) = errors(aligned(run, tmp_path / "logs"))
    assert (found.kind, found.suspects) == ("group_mismatch", (2,))
    told = (
        "All asked at mesh.py:22, but that was called from different lines: ranks 0-1 at "
        "mesh.py:26 in log() and rank 2 at mesh.py:32 in log()."
    )
    assert (told in found.cause) == (lines == (32, 26))
    assert ("as a cache does" in found.fix) == (lines == (32, 26))
    shown = {22, *lines} if lines == (32, 26) else {22}
    assert {line.site for line in found.sources} == {f"{mesh}:{n}" for n in shown}

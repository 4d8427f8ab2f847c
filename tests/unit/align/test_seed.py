"""The six cases that started this project: their verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding, Table
from collectrace.records import Stack
from tests.support import seed_cases
from tests.support.judging import aligned
from tests.support.seed_cases import AFTER, BACKWARD, INSIDE, JOIN, SCRIPT, Barrier


def seed(number: int, folder: Path, kind: Barrier = "native") -> list[Finding]:
    alignment = aligned(seed_cases.case(number, kind), folder)
    assert alignment.exit_status == 1
    return list(alignment.findings)


def sites(finding: Finding) -> dict[tuple[int, ...], str | None]:
    return {side.ranks: side.call.site if side.call else None for side in finding.sides}


def marks(table: Table | None) -> dict[int, str]:
    assert table is not None
    return {row.seq: row.mark for row in table.rows if row.mark}


@pytest.mark.parametrize("number", [1, 6])
@pytest.mark.parametrize("kind", ["native", "zeros", "ones"])
def test_join_alone_is_aligned(number: int, kind: Barrier, tmp_path: Path) -> None:
    alignment = aligned(seed_cases.case(number, kind), tmp_path)
    assert (alignment.status, alignment.exit_status) == ("aligned", 0)
    (found,) = alignment.findings
    assert (found.kind, found.code) == ("uneven_inputs", "CT912")
    assert "rank 0 had 5 batches and rank 1 had 6" in found.headline


@pytest.mark.parametrize(
    ("number", "kind"), [(2, "native"), (3, "native"), (3, "zeros"), (3, "ones")]
)
def test_uneven_inputs_without_join(number: int, kind: Barrier, tmp_path: Path) -> None:
    first = seed(number, tmp_path, kind)[0]
    assert (first.kind, first.code, first.suspects) == ("missing_call", "CT204", ())
    assert sites(first) == {(1,): BACKWARD, (0,): None}
    assert first.sides[1].state == "finished"
    assert "rank 0 ran 5 forward passes and rank 1 got to its 6th" in first.cause
    # In join(), the barrier of case 3 would be case 4.
    assert ("(join_cases.py:53) out of the loop" in first.fix) == (number == 3)


def test_a_barrier_inside_join_that_is_a_barrier(tmp_path: Path) -> None:
    first, *others = seed(4, tmp_path)
    assert (first.kind, first.code, first.seq) == ("op_mismatch", "CT201", 29)
    assert (first.suspects, sites(first)) == ((1,), {(0,): JOIN, (1,): INSIDE})
    assert "(join_cases.py:53) out of the `with model.join() if" in first.fix
    assert not [f.kind for f in others if f.severity == "error"]


@pytest.mark.parametrize(("kind", "fatal"), [("zeros", 30), ("ones", 31)])
def test_a_barrier_inside_join_that_is_an_all_reduce(
    kind: Barrier, fatal: int, tmp_path: Path
) -> None:
    root, consequence = seed(4, tmp_path, kind)[:2]
    assert (root.kind, root.code, root.seq) == ("role_mismatch", "CT201", 29)
    assert (root.suspects, sites(root)) == ((1,), {(0,): JOIN, (1,): INSIDE})
    assert {s.ranks: s.call.role for s in root.sides if s.call} == {
        (0,): "join.count_nonjoined",
        (1,): "user",
    }
    assert "rank 0 had 5 batches and rank 1 had 6" in root.cause
    assert (consequence.kind, consequence.code, consequence.seq) == (
        "dtype_mismatch", "CT901", fatal,
    )  # fmt: skip
    assert (consequence.caused_by, consequence.suspects) == (0, (1,))
    assert marks(root.table) == {29: "root", fatal: "fatal"}
    assert consequence.table is None


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("native", "op_mismatch"), ("zeros", "shape_mismatch"), ("ones", "shape_mismatch")],
)
def test_a_barrier_after_the_loop(kind: Barrier, wrong: str, tmp_path: Path) -> None:
    first = seed(5, tmp_path, kind)[0]
    assert (first.kind, first.code, first.suspects) == (wrong, "CT204", ())
    assert sites(first) == {(0,): AFTER, (1,): BACKWARD}
    assert "rank 0 ran 5 forward passes and rank 1 got to its 6th" in first.cause
    assert "loss.backward()" in {line.text.strip() for line in first.sources}


def test_without_the_script_no_loop_is_blamed(tmp_path: Path) -> None:
    """That a line stands after the loop can be read in the script only."""
    run = seed_cases.case(5)
    for rank in run:
        for item in rank.items:
            if getattr(item, "site", None):
                item.site = item.site.replace(str(SCRIPT), "/job/train.py")  # type: ignore[union-attr]
            if isinstance(item, Stack):
                item.frames = [one.replace(str(SCRIPT), "/job/train.py") for one in item.frames]
    first = aligned(run, tmp_path).findings[0]
    assert (first.kind, first.suspects, first.decisions) == ("op_mismatch", (), None)
    assert first.sources == ()


def test_the_lines_are_those_of_the_script() -> None:
    lines = SCRIPT.read_text().splitlines()
    there = [
        lines[int(site.rpartition(":")[2]) - 1]
        for site in (seed_cases.JOIN, seed_cases.FORWARD, BACKWARD, INSIDE, AFTER)
    ]
    for line, text in zip(
        there, ("join()", "model(batch)", "backward()", "barrier()", "barrier()"), strict=True
    ):
        assert text in line

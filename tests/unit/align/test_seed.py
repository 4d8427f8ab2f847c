"""The six cases that started this project: their verdicts, word for word where it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding, Table
from tests.support import seed_cases
from tests.support.judging import aligned
from tests.support.seed_cases import AFTER, BACKWARD, INSIDE, SCRIPT, Barrier


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
    assert [f.kind for f in alignment.findings] == ["uneven_inputs"]
    assert "rank 0 had 5 batches and rank 1 had 6" in alignment.findings[0].headline


@pytest.mark.parametrize(
    ("number", "kind"), [(2, "native"), (3, "native"), (3, "zeros"), (3, "ones")]
)
def test_uneven_inputs_without_join(number: int, kind: Barrier, tmp_path: Path) -> None:
    first = seed(number, tmp_path, kind)[0]
    assert (first.kind, first.suspects) == ("missing_call", ())
    assert sites(first) == {(1,): BACKWARD, (0,): None}
    assert first.sides[1].state == "finished"
    assert first.headline == (
        "rank 0 finished after 5 forward passes; rank 1 waits for it in DDP backward() "
        "at join_cases.py:51"
    )
    assert "Uneven inputs: rank 0 ran 5 forward passes and rank 1 began its 6th" in first.cause
    assert "drop_last" in first.fix
    assert "with model.join()" in first.fix
    # In join(), the barrier of case 3 would be case 4.
    assert ("join_cases.py:53 must leave the loop" in first.fix) == (number == 3)


def test_a_barrier_inside_join_that_is_a_barrier(tmp_path: Path) -> None:
    findings = seed(4, tmp_path)
    first = findings[0]
    assert (first.kind, first.seq, first.suspects) == ("op_mismatch", 29, (1,))
    assert first.headline == (
        "rank 1 called barrier at join_cases.py:53 where rank 0, out of inputs, was in join()"
    )
    assert "The two do not fit" in first.cause
    assert "Move the barrier at join_cases.py:53 out of the `with model.join():`" in first.fix
    assert [f.kind for f in findings if f.severity == "error"] == ["op_mismatch"]


@pytest.mark.parametrize(("kind", "fatal", "died"), [("zeros", 30, 1), ("ones", 31, 0)])
def test_a_barrier_inside_join_that_is_an_all_reduce(
    kind: Barrier, fatal: int, died: int, tmp_path: Path
) -> None:
    root, consequence = seed(4, tmp_path, kind)[:2]
    assert (root.kind, root.seq, root.suspects) == ("role_mismatch", 29, (1,))
    assert sites(root)[(1,)] == INSIDE
    assert root.headline == (
        "rank 1 called all_reduce at join_cases.py:53 where rank 0, out of inputs, was in join()"
    )
    assert {s.ranks: s.call.role for s in root.sides if s.call} == {
        (0,): "join.count_nonjoined",
        (1,): "user",
    }
    assert "Uneven inputs: rank 0 had 5 batches and rank 1 had 6." in root.cause
    assert "The bytes fit" in root.cause
    assert (consequence.kind, consequence.seq) == ("dtype_mismatch", fatal)
    assert (consequence.caused_by, consequence.suspects) == (0, (1,))
    assert "int64[1]" in consequence.headline
    assert "float32[1]" in consequence.headline
    assert "_find_common_rank" in consequence.cause
    assert "garbage authoritative rank" in consequence.cause
    assert f"rank {died} died of it." in consequence.cause
    # What rank 0 read from the barrier's value decides how it goes on.
    belief = {"zeros": "that no rank had inputs left", "ones": "that some rank still had inputs"}
    assert consequence.cause.endswith(f"for join()'s count, and read from it {belief[kind]}.")
    assert marks(root.table) == {29: "root", fatal: "fatal"}
    assert consequence.table is None


def test_the_garbage_rank_is_quoted_where_torch_refused_it(tmp_path: Path) -> None:
    run = seed_cases.case(4, "zeros")
    left = run.rank(0).items[-1]
    left.error = "TypeError"  # type: ignore[union-attr]
    left.message = (  # type: ignore[union-attr]
        "_broadcast_coalesced(): incompatible function arguments. The following argument types "
        "are supported:\n    1. (process_group: ...)\n\nInvoked with: <...>, [tensor([[0.9445]]), "
        "tensor([-0.0020])], 262144000, 140192027508736"
    )
    fatal = aligned(run, tmp_path).findings[1]
    assert "It was 140192027508736 on rank 0, which raised over it." in fatal.cause


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("native", "op_mismatch"), ("zeros", "shape_mismatch"), ("ones", "shape_mismatch")],
)
def test_a_barrier_after_the_loop(kind: Barrier, wrong: str, tmp_path: Path) -> None:
    first = seed(5, tmp_path, kind)[0]
    assert (first.kind, first.suspects) == (wrong, ())
    assert sites(first) == {(0,): AFTER, (1,): BACKWARD}
    assert first.headline.startswith("rank 0 called ")
    assert " while rank 1 was in DDP backward() " in first.headline
    assert "Uneven inputs: rank 0 ran 5 forward passes and rank 1 began its 6th" in first.cause
    assert "rank 0 left the loop" in first.cause.lower()
    assert "ambiguous" in first.cause
    assert "loss.backward()" in {line.text for line in first.sources}


def test_without_the_script_it_is_one_of_two_things(tmp_path: Path) -> None:
    """That a line stands after the loop can be read in the script only."""
    run = seed_cases.case(5)
    for rank in run:
        for item in rank.items:
            if getattr(item, "site", None):
                item.site = item.site.replace(str(SCRIPT), "/job/train.py")  # type: ignore[union-attr]
    first = aligned(run, tmp_path).findings[0]
    assert "After 5 forward passes of the DDP model rank 0 called barrier at train.py:55" in (
        first.cause
    )
    assert "Either the loop ended earlier on rank 0" in first.cause
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

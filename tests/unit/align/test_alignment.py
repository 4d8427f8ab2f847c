"""The whole way, from rank files to the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align import align
from collectrace.align.reading import run_reader
from collectrace.errors import CollectraceError, LogError
from tests.support import seed_cases
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run, damage, truncate

# -- status ----------------------------------------------------------------------------------


def test_logs_that_agree_to_the_end_are_aligned(tmp_path: Path) -> None:
    run = Run(world=2)
    for _ in range(3):
        run.all("all_reduce")
    run.finish()
    alignment = aligned(run, tmp_path)
    assert (alignment.status, alignment.findings) == ("aligned", ())
    assert alignment.evidence.agreed == 3
    assert [r.state for r in alignment.ranks] == ["finished", "finished"]


def test_a_missing_log_leaves_the_verdict_open(tmp_path: Path) -> None:
    run = Run(world=3)
    run.all("all_reduce")
    run.finish()
    run.omit(2)
    alignment = aligned(run, tmp_path)
    assert alignment.status == "unknown"
    assert alignment.evidence.missing_ranks == (2,)
    assert [(f.kind, f.severity) for f in alignment.findings] == [("evidence_gap", "info")]


@pytest.mark.parametrize(
    ("shape", "size", "status"),
    [(b"[4]", None, "aligned"), (b"[4]", 2000, "aligned"), (b"[5]", None, "unknown")],
)
def test_a_second_file_of_a_rank_is_a_copy_or_a_doubt(
    shape: bytes, size: int | None, status: str, tmp_path: Path
) -> None:
    run = Run(world=2)
    for _ in range(20):
        run.all("all_reduce", shape=[4])
    run.finish()
    data = (run.write(tmp_path) / "rank00001.jsonl").read_bytes()
    other = tmp_path / "again" / run.name
    other.mkdir(parents=True)
    (other / "rank00001.jsonl").write_bytes(data.replace(b"[4]", shape)[:size])
    alignment = align(tmp_path)
    assert alignment.status == status
    assert any("rank 1 left two files" in note for note in alignment.evidence.notes)
    evidence = run_reader.read(tmp_path, small=0, page=256)
    assert evidence.read_whole is not None
    whole = evidence.read_whole(evidence.logs.keys())
    assert whole.disputed == evidence.disputed == ({1} if status == "unknown" else set())


# -- the interface ---------------------------------------------------------------------------


def two_groups() -> Run:
    run = Run(world=4)
    run.group("1", [0, 1], description="left")
    run.group("2", [2, 3], description="right")
    for rank, count in ((0, 4), (1, 4), (2, 5), (3, 5)):
        run.rank(rank).call("all_reduce", "1" if rank < 2 else "2", shape=[count + rank % 2])
    run.finish()
    return run


def test_one_group_can_be_looked_at_alone(tmp_path: Path) -> None:
    two_groups().write(tmp_path)
    assert len(errors(align(tmp_path))) == 2
    found = errors(align(tmp_path, group="right"))
    assert [f.group and f.group.name for f in found] == ["2"]
    with pytest.raises(CollectraceError, match=r"no group 'middle'.*left"):
        align(tmp_path, group="middle")


def test_context_is_the_rows_around_the_difference(tmp_path: Path) -> None:
    run = Run(world=2)
    for n in range(30):
        run.rank(0).call("all_reduce", shape=[8 if n == 15 else 4])
        run.rank(1).call("all_reduce", shape=[4])
    run.finish()
    run.write(tmp_path)
    table = align(tmp_path, context=2).findings[0].table
    assert table is not None
    assert [row.seq for row in table.rows] == [14, 15, 16, 17, 18]
    assert table.columns == ((0,), (1,))


def test_progress_is_told(tmp_path: Path) -> None:
    two_groups().write(tmp_path)
    told: list[tuple[int, int]] = []
    align(tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told
    assert told[-1][0] == told[-1][1]


def test_nothing_to_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(LogError):
        align(tmp_path)


@pytest.mark.parametrize("number", [1, 2, 4, 5])
@pytest.mark.parametrize("harm", range(8))
def test_broken_logs_never_end_in_a_traceback(number: int, harm: int, tmp_path: Path) -> None:
    folder = seed_cases.case(number, "zeros").write(tmp_path)
    healthy = align(tmp_path).status == "aligned"
    victim = folder / f"rank{harm % 2:05d}.jsonl"
    if harm < 4:
        truncate(victim, victim.stat().st_size * (harm + 1) // 5)
    elif harm < 6:
        for line in range(2, 14, harm - 3):
            damage(victim, line)
    else:
        victim.write_bytes(victim.read_bytes().replace(b'"seq":', b'"seq":-', 5))
    alignment = align(tmp_path)
    for n, finding in enumerate(alignment.findings):
        assert finding.caused_by is None or finding.caused_by < n
    if harm < 4:
        assert alignment.status != "aligned"  # nobody knows what the end would have said
    else:
        assert (alignment.status == "aligned") == healthy
        assert alignment.evidence.damaged_lines >= 5

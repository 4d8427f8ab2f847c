"""Which run is meant in a folder of several, what it was, and what came before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align import align
from collectrace.dumps import parse
from collectrace.errors import CollectraceError, NotThere
from collectrace.findings import Job
from collectrace.records import Activity
from tests.support.judging import aligned
from tests.support.synthetic import DEFAULT, SECOND, Run

DAY = 86_400 * SECOND
START = 1_760_000_000 * SECOND


def fine(name: str, start: int = START, **header: object) -> Run:
    run = Run(2, name, start=start, **header)  # type: ignore[arg-type]
    run.all("all_reduce")
    run.finish()
    return run


def test_what_was_run_where_and_when(tmp_path: Path) -> None:
    run = Run(2, argv=["/job/train.py", "--name", "a b"], host="node7")
    run.rank(1).header.host = "node8"
    for rank in run:
        rank.wait(90)
        rank.exit()
    job = aligned(run, tmp_path).job
    assert job is not None
    assert (job.script, job.hosts) == ("/job/train.py --name 'a b'", ("node7", "node8"))
    assert job.began == START
    assert job.ended is not None
    assert 90 <= (job.ended - START) / SECOND < 91
    assert (job.attempt, job.earlier) == (1, ())


def elastic(count: int, job: str = "j1") -> dict[str, Any]:
    return {"env": {"TORCHELASTIC_RESTART_COUNT": str(count), "TORCHELASTIC_RUN_ID": job}}


def test_an_elastic_restart_tells_how_the_attempts_before_it_ended(tmp_path: Path) -> None:
    first = Run(2, "a", start=START, **elastic(0))
    for rank in first:
        rank.call("all_reduce", site="/job/train.py:9")
    first.rank(0).exit()
    first.rank(1).exit("exception", error="OutOfMemoryError", message="no memory", site="t.py:5")
    first.write(tmp_path)
    fine("other", START + DAY, **elastic(0, "j2")).write(tmp_path)
    fine("b", START + 2 * DAY, **elastic(1)).write(tmp_path)
    found = align(tmp_path)
    assert found.run == "b"
    assert isinstance(found.job, Job)
    assert found.job.attempt == 2
    assert len(found.job.earlier) == 1
    told = found.job.earlier[0]
    assert told.startswith("attempt 1 ended: ")
    assert told.endswith(" (--run a)")
    assert "rank 1" in told
    assert align(tmp_path, run="other").job.attempt == 1  # type: ignore[union-attr]


def test_a_run_that_is_asked_for_by_its_folder_is_that_run(tmp_path: Path) -> None:
    fine("run-1").write(tmp_path)
    stuck = Run(2, "stuck", start=START + DAY)
    for rank in stuck:
        rank.stuck_in_init()
    stuck.write(tmp_path)
    assert align(tmp_path).run == "pending"
    found = align(tmp_path / "run-1")
    assert (found.run, found.status) == ("run-1", "aligned")


@pytest.mark.parametrize(
    ("others", "pid", "meant"),
    [
        ("wait", 1001, "run-1"),  # they are in it still: what one of them does next is its doing
        ("left", 1001, "pending"),
        ("work", 1001, "pending"),  # nobody waits in the old one
        ("wait", 77, "pending"),  # another process: another job
    ],
)
def test_a_rank_that_forms_the_job_anew_alone(
    tmp_path: Path, others: str, pid: int, meant: str
) -> None:
    run = Run(3)
    run.all("all_reduce")
    for rank in run:
        if rank.rank == 1 or others == "left":
            rank.group(DEFAULT, range(3), phase="destroyed", site="/job/train.py:9")
            rank.exit("finished", Activity(thread="MainThread", what="group", since=rank.now))
        elif others == "work":
            rank.beat(60)
        else:
            rank.stuck_in(rank.call("barrier", site="/job/train.py:12"))
    run.write(tmp_path)
    anew = Run(1, "anew", start=START + 5 * SECOND, pid=pid, world_size=3)
    anew.rank(0).header.rank = 1
    anew.rank(0).stuck_in_init()
    anew.write(tmp_path)
    found = align(tmp_path)
    assert found.run == meant
    if meant == "run-1":
        first = next(one for one in found.findings if one.severity == "error")
        assert first.suspects == (1,)
        assert "destroyed its process groups at train.py:9" in first.headline
        assert any("rank 1 went on from this run" in note for note in found.evidence.notes)


def test_a_newest_run_without_a_record_does_not_become_the_one_before_it(tmp_path: Path) -> None:
    fine("20251001-120000-00aaff").write(tmp_path)
    newest = tmp_path / "20251212-101112-00ff00"
    newest.mkdir()
    for rank in range(2):
        (newest / f"rank0000{rank}.jsonl").touch()
    with pytest.raises(NotThere, match=r"00ff00.*: try --run 20251001-120000-00aaff"):
        align(tmp_path)
    assert align(tmp_path, run="20251001-120000-00aaff").status == "aligned"


def test_an_older_run_without_a_record_is_no_matter(tmp_path: Path) -> None:
    older = tmp_path / "20240101-101112-00ff00"
    older.mkdir()
    (older / "rank00000.jsonl").touch()
    fine("20251009-085320-00aaff").write(tmp_path)
    found = align(tmp_path)
    assert (found.run, found.status) == ("20251009-085320-00aaff", "aligned")
    assert found.evidence.other_runs == ("20240101-101112-00ff00",)
    assert found.evidence.notes == ()


def test_other_runs_are_no_note(tmp_path: Path) -> None:
    fine("a").write(tmp_path)
    fine("b", START + DAY).write(tmp_path)
    found = align(tmp_path)
    assert (found.run, found.evidence.other_runs, found.evidence.notes) == ("b", ("a",), ())
    assert align(tmp_path / "b").evidence.other_runs is None


def test_logs_that_were_copied_together_from_their_hosts_are_one_run(tmp_path: Path) -> None:
    run = fine("run-1")
    run.rank(1).header.host = "node8"
    run.write(tmp_path / "all")
    for rank, host in enumerate(("node7", "node8")):
        there = tmp_path / "gathered" / host / "logs" / "run-1"
        there.mkdir(parents=True)
        (tmp_path / "all" / "run-1" / f"rank0000{rank}.jsonl").rename(
            there / f"rank0000{rank}.jsonl"
        )
    found = align(tmp_path / "gathered")
    assert (found.run, found.status, found.world_size) == ("run-1", "aligned", 2)
    assert found.evidence.missing_ranks == ()


@pytest.mark.parametrize("name", ["default", "the default group", "0", "default_pg"])
def test_the_default_group_has_a_name(tmp_path: Path, name: str) -> None:
    run = Run(2)
    run.group("1", [0, 1], description="tp")
    for rank in run:
        rank.call("all_reduce", shape=[1 + rank.rank])
        rank.call("all_reduce", "1", shape=[1])
    run.finish()
    run.write(tmp_path)
    found = align(tmp_path, group=name)
    assert found.findings[0].group is not None
    assert found.findings[0].group.name == "0"
    assert align(tmp_path, group="tp").findings == ()
    with pytest.raises(
        CollectraceError, match=r"no group 'dp' in this run. Its groups: default, 1"
    ):
        align(tmp_path, group="dp")


ABORTED = """Fatal Python error: Aborted

Current thread 0x00007f01 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py", line 70 in all_reduce
  File "/job/train.py", line 12 in step
  File "<frozen runpy>", line 88 in _run_code
  File "<frozen runpy>", line 198 in _run_module_as_main
"""


def test_a_fatal_error_names_a_line_of_the_program(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.call("all_reduce")
    run.rank(1).exit()
    folder = run.write(tmp_path) or tmp_path / "run-1"
    ends = tmp_path / "run-1" / "rank00000.ends.txt"
    for text, where in (
        (ABORTED, " at train.py:12"),
        (ABORTED.replace('  File "/job/train.py", line 12 in step\n', ""), " at c10d.py:70"),
    ):
        assert parse(text) is not None
        ends.write_text(text)
        assert align(folder).ranks[0].detail == f"fatal error: Aborted{where}"


def test_a_wait_of_no_length_is_not_said_to_last(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.call("all_reduce", site="/job/train.py:9")
    found = aligned(run, tmp_path)
    assert not any("0 ms" in rank.detail for rank in found.ranks)


def test_a_second_process_of_one_rank_is_told_and_read_by_itself(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.call("barrier")
        rank.exit()
    folder = run.write(tmp_path)
    assert not any("further processes" in note for note in align(folder).evidence.notes)
    [first] = tmp_path.rglob("rank00000.jsonl")
    second = first.with_name("rank00000+1.jsonl")
    second.write_bytes(first.read_bytes())
    alignment = align(folder)
    assert (alignment.status, len(alignment.ranks)) == ("aligned", 2)
    [note] = [note for note in alignment.evidence.notes if "further processes" in note]
    assert note.startswith("rank00000+1.jsonl: further processes that called themselves the same")
    assert [rank.state for rank in align(second).ranks] == ["finished", "missing"]

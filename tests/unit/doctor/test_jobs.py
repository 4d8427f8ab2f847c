"""Which job is meant where several run on a machine."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.commands import doctor
from collectrace.doctor import checkup, jobs, processes
from collectrace.doctor.known import Surroundings
from collectrace.doctor.processes import Found, Process
from tests.support.proc import Proc
from tests.support.synthetic import Run

SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; ...")


@pytest.fixture(autouse=True)
def _me(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "own_users", lambda: frozenset({"me"}))


def process(pid: int, **fields: Any) -> Process:
    usual: dict[str, Any] = {
        "parent": 1, "user": "me", "state": "S", "started": 1000.0 + pid, "is_readable": True,
        "arguments": ("python", "train.py"), "has_torch": True,
        "environment": {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(pid)},
    }  # fmt: skip
    return Process(pid=pid, **usual | fields)


def pids(found: Sequence[jobs.Job]) -> list[list[int]]:
    return [[one.pid for one in job.processes] for job in found]


def logs(folder: Path, held: int, *, heartbeat: float = 5.0) -> tuple[Path, ...]:
    """The file of a rank that has been in one call for ``held`` seconds."""
    run = Run(1, heartbeat=heartbeat)
    rank = run.rank(0)
    waits = rank.inside(rank.call("all_reduce"))
    rank.wait(held)
    rank.alive(waits)
    return written(run, folder)


def written(run: Run, folder: Path) -> tuple[Path, ...]:
    run.write(folder)
    (file,) = folder.rglob("rank00000.jsonl")
    return (file,)


def test_the_job_that_hangs_comes_first(tmp_path: Path) -> None:
    hangs = process(5, rank_files=logs(tmp_path / "a", 300))
    goes_on = process(6, rank_files=logs(tmp_path / "b", 3))
    bare = process(7)
    found = jobs.jobs([bare, goes_on, hangs])
    assert pids(found) == [[5], [7], [6]]
    assert [round(job.held) for job in found] == [300, 0, 3]


def test_ones_own_comes_before_another_users_that_hangs(tmp_path: Path) -> None:
    theirs = process(5, user="somebody", rank_files=logs(tmp_path / "a", 300))
    mine = process(6)
    found = jobs.jobs([theirs, mine])
    assert pids(found) == [[6], [5]]
    answer = checkup.examine(
        Surroundings(found=Found(found[0].processes), others=tuple(found[1:]), now=2000.0)
    )
    assert answer.headline.startswith("1 rank of train.py, pid 6, for")
    (note,) = answer.notes
    assert note == (
        "also here: 1 rank of train.py (somebody's), pid 5; "
        "a rank has made no progress for 300 s; python -m collectrace doctor 5"
    )


def test_what_a_rank_did_after_its_last_heartbeat_is_progress(tmp_path: Path) -> None:
    run = Run(1)
    rank = run.rank(0)
    waits = rank.inside(rank.call("all_reduce"))
    rank.wait(300)
    rank.alive(waits)
    rank.call("barrier")
    assert jobs.held(process(5, rank_files=written(run, tmp_path / "a"))) == 0
    rank.alive(waits)
    rank.exit()
    assert jobs.held(process(5, rank_files=written(run, tmp_path / "b"))) == 0


def test_a_file_that_no_heartbeat_reaches_is_no_progress(tmp_path: Path) -> None:
    (file,) = logs(tmp_path, 0)
    long_ago = time.time() - 500
    os.utime(file, (long_ago, long_ago))
    assert 490 < jobs.held(process(5, rank_files=(file,))) < 1000
    (slow,) = logs(tmp_path / "slow", 0, heartbeat=600.0)
    os.utime(slow, (long_ago, long_ago))
    assert jobs.held(process(5, rank_files=(slow,))) < 1
    assert jobs.held(process(5, rank_files=(tmp_path / "gone.jsonl",))) == 0
    (tmp_path / "torn.jsonl").write_bytes(b'{"kind":"alive","t":1\n\xff\xfe\n{}')
    assert jobs.held(process(5, rank_files=(tmp_path / "torn.jsonl",))) == 0


def test_ranks_of_one_job_are_together_however_they_were_started() -> None:
    together = {"MASTER_PORT": "1", "WORLD_SIZE": "2"}
    run = Path("/logs/run")
    found = jobs.jobs([
        process(11, environment={"RANK": "0"} | together),
        process(12, environment={"RANK": "1"} | together),
        process(21, environment={}, rank_files=(run / "rank00000.jsonl",)),
        process(22, environment={}, rank_files=(run / "rank00001.jsonl",), parent=2),
        *(
            process(pid, environment={}, arguments=SPAWNED, parent=above)
            for pid, above in ((31, 3), (32, 3), (41, 4))
        ),
    ])  # fmt: skip
    assert sorted(pids(found)) == [[11, 12], [21, 22], [31, 32], [41]]


def test_spawned_ranks_are_seen_beside_another_job(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.job([11, 12])
    proc.add(5, environment={})
    proc.add(6, SPAWNED, parent=5, environment={})
    proc.add(7, SPAWNED, parent=5, environment={})
    found = processes.find(proc=proc.folder).processes
    assert sorted(pids(jobs.jobs(found))) == [[6, 7], [11, 12]]


def test_the_answer_is_about_one_job_and_names_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hangs = process(5, rank_files=logs(tmp_path / "hangs", 300))
    newest = process(6, rank_files=logs(tmp_path / "logs", 0))
    monkeypatch.setattr(processes, "find", lambda _: Found((newest, hangs)))
    answer = doctor.as_dict(doctor._examine(None))
    assert answer["job"] == [5]
    assert [one["pid"] for one in answer["processes"]] == [5, 6]  # type: ignore[attr-defined]
    (files,) = [one for one in answer["sources"] if one["name"] == "rank files"]  # type: ignore[attr-defined]
    assert files["command"] == f"python -m collectrace align hangs/{Run(1).name}"

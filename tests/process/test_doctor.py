"""The doctor beside real jobs: one that records itself, one that does not, and another user's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from collectrace.doctor import checkup, known, processes
from collectrace.doctor import jobs as doctor_jobs
from tests.support import commands
from tests.support.installed import metadata

ROOT: Final = Path(__file__).parents[2]
NOBODY: Final = 65534

HANGS: Final = """
import pathlib, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
pathlib.Path(f"ready{dist.get_rank()}").touch()
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(1))
time.sleep(600)
"""


@dataclass(frozen=True)
class Job:
    folder: Path
    ranks: list[subprocess.Popen[bytes]]

    @property
    def pids(self) -> list[int]:
        return [rank.pid for rank in self.ranks]


def start(folder: Path, **environment: str) -> Job:
    script = folder / "hangs.py"
    script.write_text(HANGS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    given = {k: v for k, v in os.environ.items() if not k.startswith(("COLLECTRACE", "TORCH_"))}
    path = f"{ROOT}{os.pathsep}{metadata(folder / 'installed')}"
    job = {
        "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port, "PYTHONPATH": path, "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)],
            cwd=folder,
            env=given | job | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | environment,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    return Job(folder, ranks)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Job, Job]]:
    """One that records itself, one that does not; both hang."""
    both = (
        start(tmp_path_factory.mktemp("traced"), COLLECTRACE="1"),
        start(tmp_path_factory.mktemp("bare")),
    )
    try:
        for job in both:
            while not all((job.folder / f"ready{rank}").exists() for rank in range(2)):
                assert all(rank.poll() is None for rank in job.ranks), "a rank ended early"
                time.sleep(0.1)
        yield both
    finally:
        for job in both:
            for rank in job.ranks:
                rank.kill()
                rank.wait()


def ask(*arguments: str) -> tuple[int, dict[str, Any]]:
    status, out, err = commands.run("doctor", *arguments, "--json", "-")
    assert err == ""
    return status, json.loads(out)


def source(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in answer["sources"] if row["name"] == name)


def test_a_job_that_records_itself(jobs: tuple[Job, Job]) -> None:
    job, _ = jobs
    status, answer = ask(str(job.pids[1]))
    assert status == 0
    assert [(one["pid"], one["rank"], one["world_size"]) for one in answer["processes"]] == [
        (job.pids[0], 0, 2),
        (job.pids[1], 1, 2),
    ]
    assert answer["processes"][0]["script"] == "hangs.py"
    assert answer["processes"][0]["torch"].startswith("2.")
    files = source(answer, "rank files")
    assert files["is_ready"]
    assert files["says"][0].startswith("2 of 2 ranks, written")
    assert answer["next_time"] == []
    # What it says to type finds what hangs.
    *_, path = files["command"].split()
    status, out, _ = commands.run("align", path, "--json", "-")
    assert status in (0, 1, 3)
    assert json.loads(out)["world_size"] == 2


def test_which_job_is_meant_where_several_run(jobs: tuple[Job, Job]) -> None:
    """Of two jobs of one's own, the one in which a rank makes no progress; both are told."""
    traced, bare = jobs
    ours = {*traced.pids, *bare.pids}
    until = time.monotonic() + 300
    while True:
        found = [one for one in processes.find().processes if one.pid in ours]
        first, second = doctor_jobs.jobs(found)
        if first.held > doctor_jobs.LONG:
            break
        assert time.monotonic() < until, "nobody hangs for long"
        time.sleep(0.5)
    assert [one.pid for one in first.processes] == traced.pids
    assert [one.pid for one in second.processes] == bare.pids
    assert second.held == 0  # it records nothing
    # Those that other people's tests run beside it are no part of either.
    _, answer = ask()
    assert ours <= {one["pid"] for one in answer["processes"]}
    assert len(set(answer["job"]) & ours) in (0, 2)


def test_a_job_that_does_not(jobs: tuple[Job, Job]) -> None:
    _, job = jobs
    _, answer = ask(str(job.pids[0]))
    assert [one["pid"] for one in answer["processes"]] == job.pids
    assert not source(answer, "rank files")["is_ready"]
    assert "does not record itself" in source(answer, "rank files")["says"][0]
    assert source(answer, "NCCL RAS")["says"][0].startswith("these processes ")  # CPU or CUDA wheel
    assert "export COLLECTRACE=1" in answer["next_time"]


def test_its_folder_alone_tells_the_same(jobs: tuple[Job, Job]) -> None:
    job, _ = jobs
    status, answer = ask(str(job.folder / "logs"))
    assert status == 0
    assert [one["pid"] for one in answer["processes"]] == job.pids
    assert source(answer, "rank files")["is_ready"]


def test_no_process_is_disturbed(jobs: tuple[Job, Job]) -> None:
    for job in jobs:
        before = [_moments(pid) for pid in job.pids]
        ask(str(job.pids[0]))
        assert [_moments(pid) for pid in job.pids] == before
        assert all(rank.poll() is None for rank in job.ranks)


def _moments(pid: int) -> tuple[str, str]:
    """Whether it was stopped or is traced by anyone."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return fields["State"][0].replace("R", "S"), fields["TracerPid"]


def test_a_stopped_rank(jobs: tuple[Job, Job]) -> None:
    _, job = jobs
    os.kill(job.pids[1], signal.SIGSTOP)
    try:
        os.waitpid(job.pids[1], os.WUNTRACED)
        _, answer = ask(str(job.pids[0]))
    finally:
        os.kill(job.pids[1], signal.SIGCONT)
    pid = job.pids[1]
    assert answer["notes"] == [
        f"rank 1 (pid {pid}) was stopped by a signal; kill -CONT {pid} lets it go on"
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_users_job_is_said_to_be_one(jobs: tuple[Job, Job]) -> None:
    job, _ = jobs
    ask(str(job.pids[0]))  # imports what is imported late: nobody may not read it
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # as nobody, who may not look into root's processes
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            found = processes.find(job.pids[0])
            answer = checkup.examine(known.Surroundings(found=found, pid=job.pids[0]))
            told = [len(found.processes), answer.headline]
        except BaseException as problem:  # noqa: BLE001 - told to the parent
            told = [-1, repr(problem)]
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found_n, headline = json.loads(pipe.read())
    os.waitpid(child, 0)
    assert (found_n, headline) == (
        0,
        f"process {job.pids[0]} is root's: permission denied. Run doctor as root.",
    )

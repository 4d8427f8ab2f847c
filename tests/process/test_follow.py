"""The aligner beside a job that runs: what it says while the ranks are still there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from collectrace.records import Header
from tests.support.commands import UNDECIDED
from tests.support.real_ranks import ROOT, Ran, Ranks, read_log
from tools.join_cases import train

PATIENCE = 120.0
"""Seconds that nothing here takes, however busy the machine is."""


@dataclass
class Job:
    """Ranks that run while the test goes on."""

    logs: Path
    ended: Future[Ran]

    def pids(self) -> list[int]:
        """Of all ranks, by rank, once they have initialised."""
        paths = sorted(self.logs.glob("2*/rank*.jsonl"))
        headers = [record for path in paths for record in read_log(path).of(Header)[:1]]
        return [header.pid for header in headers]

    def alive(self) -> list[bool]:
        return [Path(f"/proc/{pid}").exists() for pid in self.pids()]

    def kill(self, *ranks: int) -> None:
        for rank in ranks:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pids()[rank], signal.SIGKILL)


class Follow:
    """``python -m collectrace.align LOGS --follow`` as a process."""

    def __init__(self, logs: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "collectrace.align", str(logs), "--follow", *options],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, words: str) -> str:
        """The first line it writes that holds these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if words in line:
                return line
        raise AssertionError(self.end())

    def end(self) -> tuple[int, str, str]:
        """Exit status, and what it wrote that was not waited for."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert "Traceback" not in err
        return self.process.returncode, out, err

    def findings(self) -> tuple[int, dict[str, Any]]:
        status, out, _ = self.end()
        return status, json.loads(out)


@pytest.fixture
def follow() -> Iterator[Callable[..., Follow]]:
    """Starts the aligner; what still runs at the end is killed."""
    started: list[Follow] = []

    def start(*arguments: Any) -> Follow:
        started.append(Follow(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.fixture
def job(ranks: Ranks, tmp_path: Path) -> Callable[..., Any]:
    """Starts a function on ranks; what is left of them at the end is killed."""

    @contextmanager
    def start(
        function: Callable[..., Any], world: int, *args: Any, exits: tuple[int | None, ...]
    ) -> Iterator[Job]:
        with ThreadPoolExecutor(1) as pool:
            # On a busy machine ranks may be late by more than the runner's two seconds.
            env = {"COLLECTRACE_STALL_AFTER": "60"}
            ended = pool.submit(
                lambda: ranks.run(
                    function, world, *args, exits=exits, env=env, limit=PATIENCE, timeout=PATIENCE
                )
            )
            running = Job(tmp_path / "run1" / "logs", ended)
            try:
                yield running
            finally:
                for rank, alive in enumerate(running.alive()):
                    if alive:
                        running.kill(rank)
        # Not reached where the test has failed already, which says more.
        ended.result(PATIENCE)

    return start


KILLED = -signal.SIGKILL


def _seed_case_4() -> None:
    train(4, 5, None)


def test_the_seed_case_is_diagnosed_while_it_hangs(
    job: Callable[..., Any], follow: Callable[..., Follow]
) -> None:
    with job(_seed_case_4, 2, exits=(KILLED, KILLED)) as running:
        status, found = follow(running.logs, "--json", "-").findings()
        assert running.alive() == [True, True]
    assert status == 1
    assert found["status"] == "diverged"
    first = found["findings"][0]
    assert (first["kind"], first["seq"], first["suspects"]) == ("op_mismatch", 29, [1])
    assert [(rank["state"], rank["ended"]) for rank in found["ranks"]] == [("blocked", "alive")] * 2


def _loop(end: str) -> None:
    """Until there is a file of this name."""
    total = torch.ones(1)
    while total:
        # All leave by what rank 0 says.
        total.fill_(float(not Path(end).exists()))
        dist.broadcast(total, 0)
        time.sleep(0.01)


def test_a_healthy_job_is_watched_to_its_end(
    job: Callable[..., Any], follow: Callable[..., Follow], tmp_path: Path
) -> None:
    end = tmp_path / "end"
    with job(_loop, 3, str(end), exits=(0, 0, 0)) as running:
        while len(running.pids()) < 3 or not all(
            "broadcast" in one for one in _texts(running.logs)
        ):
            assert not running.ended.done()
            time.sleep(0.1)
        impatient = follow(running.logs, "--interval", "0.3")
        patient = follow(running.logs)
        assert "last call broadcast" in impatient.wait_for("ranks 0-2 running, last call")
        impatient.process.send_signal(signal.SIGINT)
        status, out, err = impatient.end()
        assert (status, err) == (3, "")
        assert UNDECIDED.search(out)
        assert running.alive() == [True] * 3
        end.touch()
        status, out, err = patient.end()
        assert (status, err) == (0, "")
        assert "error" not in out
        assert out.endswith("agree. Exit status 0.\n")


def test_a_rank_that_is_killed_is_told_while_the_others_wait(
    job: Callable[..., Any], follow: Callable[..., Follow]
) -> None:
    with job(_waits_for_all, 3, exits=(KILLED, KILLED, KILLED)) as running:
        watcher = follow(running.logs, "--interval", "0.3", "--json", "-")
        while len(running.pids()) < 3 or "_waits" not in _text(running.logs):
            assert not running.ended.done()
            time.sleep(0.1)
        running.kill(2)
        status, found = watcher.findings()
        while running.alive()[2]:  # until its parent has noticed
            time.sleep(0.05)
        assert running.alive() == [True, True, False]
    assert status == 1
    first = found["findings"][0]
    assert (first["kind"], first["suspects"]) == ("missing_call", [2])


def _waits_for_all() -> None:
    dist.barrier()
    if dist.get_rank() == 2:
        print("_waits", flush=True)
        time.sleep(PATIENCE)
    work = dist.barrier(async_op=True)
    # gloo would raise as soon as it loses the peer: this rank never looks.
    time.sleep(PATIENCE)
    work.wait()


def _texts(logs: Path) -> list[str]:
    return [path.read_text() for path in logs.glob("2*/rank*.jsonl")]


def _text(logs: Path) -> str:
    return (logs.parent / "rank2.txt").read_text()


def test_a_job_that_is_killed_everywhere_ends_it_without_a_verdict(
    job: Callable[..., Any], follow: Callable[..., Follow], tmp_path: Path
) -> None:
    with job(_loop, 2, str(tmp_path / "never"), exits=(KILLED, KILLED)) as running:
        watcher = follow(running.logs)
        watcher.wait_for("ranks 0-1 running, last call")
        running.kill(0, 1)
        status, out, _ = watcher.end()
    assert status == 3
    assert "ranks 0-1: killed before the log ended" in " ".join(out.split())

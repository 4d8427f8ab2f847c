"""Rank files read by a pool of processes and by a real Dask cluster, one of whose workers dies."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from collectrace.align import align
from collectrace.align.reading import spread
from collectrace.report import machine, terminal
from tests.support.commands import run
from tests.support.synthetic import Run

RANKS = 24


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ranks with calls of their own in groups of their own, of which one skips a call."""
    job = Run(world=RANKS)
    for n in range(0, RANKS, 4):
        job.group(f"tp{n}", list(range(n, n + 4)))
    for step in range(30):
        job.all("all_reduce", shape=[step + 1])
        for rank in range(RANKS):
            if (rank, step) != (13, 20):
                group = f"tp{rank // 4 * 4}"
                job.rank(rank).call("all_gather", group, site=f"train.py:{rank % 3 + 7}")
        job.all("barrier")
    job.finish()
    folder = tmp_path_factory.mktemp("spread") / "logs"
    job.write(folder)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and two workers, each a process."""
    with pytest.importorskip("distributed").LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as found:
        yield found


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, get_context("spawn")) as found:
        yield found


def told(logs: Path | str, executor: Executor | None = None, **options: Any) -> tuple[str, str]:
    """The findings for programs, and the report."""
    found = align(logs, executor=executor, **options)
    out = io.StringIO()
    terminal.write(found, out)
    return machine.as_json(found), out.getvalue()


@pytest.mark.parametrize("as_url", [False, True])
@pytest.mark.parametrize("full", [True, False])
def test_a_pool_finds_what_one_process_finds(
    full: bool, as_url: bool, logs: Path, pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = logs.as_uri() if as_url else logs
    monkeypatch.setattr(spread, "_MOST_FILES", 5)
    monkeypatch.setattr("collectrace.align.reading.run_reader.SMALL", 0)
    assert told(where, pool, full=full) == told(where, full=full)


def test_dask_finds_it_though_a_worker_is_killed_while_it_reads(
    cluster: Any, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "_MOST_FILES", 2)
    alone = told(logs)
    with (
        pytest.importorskip("distributed").Client(cluster, set_as_default=False) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        worker, pid = next(iter(client.run(os.getpid).items()))
        os.kill(pid, signal.SIGSTOP)
        answer = thread.submit(told, logs, client.get_executor(pure=False))
        while not client.processing()[worker]:
            assert not answer.done(), "it ended without this worker"
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        assert answer.result(timeout=240) == alone


def test_the_command_asks_the_cluster(cluster: Any, logs: Path) -> None:
    alone = run("align", str(logs), "--json", "-")
    assert alone[0] == 1
    assert json.loads(alone[1])["findings"]
    assert run("align", str(logs), "--json", "-", "--dask", cluster.scheduler_address) == alone
    assert run("align", str(logs), "--json", "-", "--jobs", "2") == alone


def test_a_cluster_that_is_not_there_is_one_line(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectrace.commands.readers._TIMEOUT", 1)
    status, out, err = run("align", str(logs), "--dask", "127.0.0.1:1")
    assert (status, out) == (2, "")
    assert err.startswith("collectrace: --dask 127.0.0.1:1: no scheduler answers there")
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", [("--jobs", "2"), ("--dask", "here:1")])
def test_a_follower_reads_by_itself(option: tuple[str, str], logs: Path) -> None:
    status, _, err = run("align", str(logs), "--follow", *option)
    assert status == 2
    assert "--follow reads in one process" in err

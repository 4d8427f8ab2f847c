"""What projects assert with, on real ranks; and ``run`` under the real launcher."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectrace.errors import CollectraceError
from collectrace.testing import assert_aligned, assert_ranks_align
from tests.support import kind_examples
from tests.support.synthetic import Run


def agree(rank: int, steps: int) -> None:
    for step in range(steps):
        dist.all_reduce(torch.full((4,), float(rank + step)))


def part_ways(rank: int) -> None:
    dist.all_reduce(torch.ones(2))
    if rank == 1:
        dist.barrier()
    dist.all_reduce(torch.ones(3))


def wait_in_a_cycle(rank: int) -> None:
    dist.recv(torch.ones(2), 1 - rank)
    dist.send(torch.ones(2), 1 - rank)


def leave(rank: int) -> None:
    if rank == 1:
        sys.exit(3)
    time.sleep(HOUR)


def linger(rank: int) -> None:
    dist.all_reduce(torch.ones(2))
    if rank == 0:
        time.sleep(HOUR)
    dist.all_reduce(torch.ones(3))


def stumble(rank: int) -> None:
    dist.barrier()
    dist.destroy_process_group()
    assert rank == 0, "only rank 1"


@pytest.mark.slow
def test_ranks_that_agree(tmp_path: Path) -> None:
    alignment = assert_ranks_align(agree, 3, tmp_path, args=(5,))
    assert alignment.world_size == 3
    assert assert_aligned(tmp_path).run == alignment.run


def test_a_warning_where_it_counts(tmp_path: Path) -> None:
    run = kind_examples.two_metrics_in_swapped_order()
    run.write(tmp_path)
    assert assert_aligned(tmp_path).warnings == 1
    with pytest.raises(AssertionError, match=r"Warnings count\. Exit status 1"):
        assert_aligned(tmp_path, strict=True)


HOUR = 3600.0
"""Seconds; no test may take that long."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("function", "first"),
    [
        pytest.param(part_ways, "diverged: rank", id="other-call"),
        pytest.param(wait_in_a_cycle, "hung: ranks 0-1 wait for each other", id="cycle",
                     marks=pytest.mark.slow),
        pytest.param(leave, "Rank 1: sys.exit(3)", id="left"),
    ],
)  # fmt: skip
def test_no_rank_is_waited_for_once_an_error_is_proven(
    function: Callable[[int], None], first: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError) as failure:
        assert_ranks_align(function, 2, tmp_path, timeout=HOUR)
    told = str(failure.value)
    assert told.startswith(first)
    assert "raised RuntimeError" not in told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_rank_that_never_comes_is_found_at_the_limit(tmp_path: Path) -> None:
    began = time.monotonic()
    assert_ranks_align(agree, 2, tmp_path, args=(1,))
    # They are killed when they must have started, on this machine, now.
    timeout = 3 * (time.monotonic() - began)
    with pytest.raises(AssertionError) as failure:
        assert_ranks_align(linger, 2, tmp_path, timeout=timeout)
    told = str(failure.value)
    line = inspect.getsourcelines(linger)[1] + 3
    assert told.startswith(f"hung: rank 0 slept (test_testing.py:{line})")
    # The others were killed with it, and have lost no connection.
    assert "raised" not in told
    with pytest.raises(AssertionError, match=r"^hung: "):
        assert_aligned(tmp_path)


def test_an_earlier_run_in_the_folder_is_another_tests(tmp_path: Path) -> None:
    earlier = Run(2, "20200101-000000-aaaaaa")
    for rank in earlier:
        rank.call("all_reduce" if rank.rank else "barrier")
    earlier.write(tmp_path / earlier.name)
    with pytest.raises(AssertionError, match="diverged"):
        assert_aligned(tmp_path)
    assert assert_ranks_align(agree, 1, tmp_path, args=(1,)).status == "aligned"


def test_arguments_that_do_not_fit_are_found_before_a_process_starts(tmp_path: Path) -> None:
    for ranks in (0, -1):
        with pytest.raises(CollectraceError, match=rf"^world_size is {ranks}\. Give .* 1 or more"):
            assert_ranks_align(agree, ranks, tmp_path, args=(1,))
    for args, problem in ((), "missing a required argument: "), ((1, 2), "too many"):
        with pytest.raises(CollectraceError, match=rf"^agree\(rank, \*args\) .*: {problem}"):
            assert_ranks_align(agree, 2, tmp_path, args=args)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_given_to_a_process_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(CollectraceError, match=r"^the function or its args .*<lambda>.* def"):
        assert_ranks_align(lambda _: None, 2, tmp_path)
    with pytest.raises(CollectraceError, match=r"^the function or its args .* plain values"):
        assert_ranks_align(agree, 2, tmp_path, args=(threading.Lock(),))


FAILING = """
from collectrace.errors import CollectraceError
from collectrace.testing import assert_aligned

def test_logs():
    assert_aligned("logs")
"""


def test_the_summary_of_pytest_has_the_finding_and_its_traceback_the_test(tmp_path: Path) -> None:
    kind_examples.KINDS["op_mismatch"]().write(tmp_path / "logs")
    (tmp_path / "test_it.py").write_text(FAILING)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"], cwd=tmp_path,
        env=os.environ | {"COLUMNS": "200"}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    summary = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    assert len(summary) == 1
    assert "AssertionError: diverged: rank" in summary[0]
    assert "test_it.py:6: AssertionError" in ran.stdout
    assert "testing.py" not in ran.stdout


def train_and_refuse(_rank: int) -> None:
    dist.all_reduce(torch.ones(2))
    raise ValueError("wrong config")


def test_an_exception_of_all_ranks_is_named_first(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as failure:
        assert_ranks_align(train_and_refuse, 2, tmp_path)
    first = str(failure.value).partition("\n")[0]
    assert first.startswith("Ranks 0-1: ValueError: wrong config at ")
    assert "exited with status 1" in first


def test_a_rank_that_fails_by_itself(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="rank 1 exited with status 1"):
        assert_ranks_align(stumble, 2, tmp_path)


SCRIPT = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
sys.exit(0 if sys.argv[1:] == ["--lr", "0.1"] else "arguments lost")
"""


@pytest.mark.slow
def test_run_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launcher += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    subprocess.run(
        [*launcher, "-m", "collectrace", "run", "--log-dir", "traced", "train.py", "--lr", "0.1"],
        cwd=tmp_path, check=True, timeout=300, capture_output=True,
    )  # fmt: skip
    (run,) = (tmp_path / "traced").iterdir()
    for rank in range(2):
        lines = (run / f"rank{rank:05d}.jsonl").read_bytes().splitlines()
        header, calls = json.loads(lines[0]), [json.loads(x) for x in lines if b'"call"' in x]
        assert header["argv"] == ["train.py", "--lr", "0.1"]
        assert [call["site"].rpartition("/")[2] for call in calls] == ["train.py:4"]

"""What projects assert with, on real ranks; and ``run`` under the real launcher."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectrace.testing import assert_aligned, assert_ranks_align
from tests.support import kind_examples


def agree(rank: int, steps: int) -> None:
    for step in range(steps):
        dist.all_reduce(torch.full((4,), float(rank + step)))


def part_ways(rank: int) -> None:
    dist.all_reduce(torch.ones(2))
    if rank == 1:
        dist.barrier()
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


@pytest.mark.timeout(600)
def test_ranks_that_part_ways(tmp_path: Path) -> None:
    began = time.monotonic()
    assert_ranks_align(agree, 2, tmp_path / "agree", args=(1,))
    # Those that part ways hang: they are killed when they must have started, on this machine, now.
    timeout = 3 * (time.monotonic() - began)
    logs = tmp_path / "part"
    with pytest.raises(AssertionError, match=r"error.*\n(.*\n)*.*call 2, (barrier|all_reduce)"):
        assert_ranks_align(part_ways, 2, logs, timeout=timeout)
    with pytest.raises(AssertionError, match="diverged"):
        assert_aligned(logs)


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

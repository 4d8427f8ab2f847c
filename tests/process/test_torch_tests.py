"""A handful of torch's own distributed tests, traced, by ``tools/torch_tests.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.real_ranks import ROOT


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_few_of_torchs_tests_pass_traced_as_untraced(tmp_path: Path) -> None:
    pytest.importorskip("expecttest", reason="torch's tests import it")
    names = ("all_reduce_sum", "send_recv", "DistributedDataParallelCPU", "monitored_barrier_gloo")
    ended = subprocess.run(
        [
            *(sys.executable, "tools/torch_tests.py", "distributed_test, 2 ranks"),
            *("--only", *(f"*.test_{name}" for name in names)),
            *("--work", tmp_path),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (
        "4 tests, 4 passed untraced, 4 passed traced, 3 aligned, 1 wrong on purpose" in ended.stdout
    )
    assert ended.returncode == 0, ended.stdout

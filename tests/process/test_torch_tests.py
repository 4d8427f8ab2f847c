"""A handful of torch's own distributed tests, traced, by ``tools/torch_tests.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import tool


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_few_of_torchs_tests_pass_traced_as_untraced(tmp_path: Path) -> None:
    pytest.importorskip("expecttest", reason="torch's tests import it")
    names = ("all_reduce_sum", "send_recv", "DistributedDataParallelCPU", "monitored_barrier_gloo")
    only = [f"*.test_{name}" for name in names]
    status, printed = tool.run(
        "torch_tests", "distributed_test, 2 ranks", "--only", *only, "--work", tmp_path
    )
    assert "4 tests, 4 passed untraced, 4 passed traced, 3 aligned, 1 wrong on purpose" in printed
    assert status == 0, printed

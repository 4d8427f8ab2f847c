"""``COLLECTRACE=1`` alone, with launchers that are packages: every rank is recorded.

`tools/test --frameworks` runs these, in an environment that has the frameworks.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from collectrace.align import align
from tests.frameworks import launching
from tests.support import apart, installed, rank_file_checks

LIMIT = 170.0
LAUNCHES: dict[str, tuple[str, ...]] = {
    "accelerate": (
        "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1",
        "--dynamo_backend=no", "--mixed_precision=no", f"{launching.PROGRAMS}/accelerate_loop.py",
    ),
    "ray": (f"{launching.PROGRAMS}/ray_train.py",),
}  # fmt: skip


@pytest.mark.timeout(LIMIT + 20)
@pytest.mark.parametrize("package", LAUNCHES)
def test_every_rank_is_recorded(package: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    path = (installed.metadata(tmp_path / "installed"), launching.ROOT, launching.PROGRAMS)
    variables = {"PYTHONPATH": os.pathsep.join(map(str, path)), "COLLECTRACE": "1"}
    if package == "accelerate":
        # Its launcher for several GPUs starts ranks that have none, too: the program says so.
        variables["MASTER_PORT"] = str(apart.free_port())
    done = subprocess.run(
        [sys.executable, *LAUNCHES[package]],
        cwd=tmp_path,
        env=os.environ | launching.ENVIRONMENT | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert launching.complaints(done.stdout) == []
    logs = tmp_path / "logs"
    files = rank_file_checks.read_run(logs, 2)
    assert all(file.calls for file in files)
    [run] = [folder for folder in logs.iterdir() if folder.name != "pending"]
    assert sorted(file.name for file in run.glob("rank*.jsonl")) == [
        "rank00000.jsonl", "rank00001.jsonl",
    ]  # fmt: skip
    assert align(logs).status == "aligned"

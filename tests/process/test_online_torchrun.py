"""Under torchrun, each rank with a log folder of its own: who ends at once is explained as well."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.apart import ROOT, gather

BEGIN = f"""
import datetime, os, sys, time
sys.path.insert(0, {str(ROOT)!r})
os.environ["COLLECTRACE_LOG_DIR"] += "/rank" + os.environ["RANK"]
import torch, torch.distributed as dist
import collectrace
collectrace.enable()
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
"""


def torchrun(folder: Path, script: str, ranks: int = 2, **options: object) -> tuple[int, str]:
    """The exit status of a job, and what all of it has said."""
    (folder / "train.py").write_text(BEGIN + script)
    options = {"online": 1, "heartbeat": 0.5, "stall_after": 3, "announce": 0, **options}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COLLECTRACE")}
    environment |= {f"COLLECTRACE_{k.upper()}": str(v) for k, v in options.items()}
    environment |= {"COLLECTRACE_LOG_DIR": str(folder / "logs"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         f"--nproc-per-node={ranks}", str(folder / "train.py")],
        capture_output=True, text=True, timeout=300, check=False, env=environment, cwd=folder,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def errors(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What a report says is wrong, finding by finding."""
    return [
        (found["kind"], found["seq"], found["suspects"], found["headline"], found["cause"])
        for found in report["findings"]
        if found["severity"] == "error"
    ]


def told(folder: Path) -> list[tuple[Any, ...]]:
    """The errors of the latest verdict that a rank has written."""
    *_, last = sorted(folder.glob("logs/rank*/2*/verdict.*.json"), key=lambda file: file.name)
    return errors(json.loads(last.read_text()))


def offline(folder: Path) -> list[tuple[Any, ...]]:
    """Those that the aligner finds in the files of all ranks."""
    together = gather(folder / "logs", folder / "together")
    report = subprocess.run(
        [sys.executable, "-m", "collectrace.align", str(together), "--json", "-"],
        capture_output=True, check=False, cwd=ROOT,
    ).stdout  # fmt: skip
    return errors(json.loads(report))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "options"), [(2, {}), (3, {}), (4, {"on_divergence": "exit"})])
def test_a_job_that_ends_by_itself_or_as_asked_is_told_why(
    tmp_path: Path, case: int, options: dict[str, Any]
) -> None:
    """One rank has ended as if all was well, the other loses its connection; or both hang."""
    script = f"""
from tools.join_cases import train
train({case}, 5, None)
"""
    status, said = torchrun(tmp_path, script, **options)
    assert status == 1
    assert "the whole report: " in said
    assert told(tmp_path) == offline(tmp_path) != []
    assert offline(tmp_path)[0][3] in plain(said)


@pytest.mark.slow
def test_an_exception_on_one_rank_is_told_before_it_takes_the_others_down(tmp_path: Path) -> None:
    script = """
for n in range(20):
    if n == 10 and rank == 1:
        raise ValueError("no sample 37")
    dist.all_reduce(torch.zeros(4))
"""
    status, said = torchrun(tmp_path, script, 3)
    assert status == 1
    assert said.count("the whole report: ") == 1
    assert "rank 1 raised ValueError" in plain(said)


@pytest.mark.slow
def test_ranks_that_end_well_leave_no_word(tmp_path: Path) -> None:
    script = """
for n in range(20):
    dist.all_reduce(torch.zeros(4))
dist.destroy_process_group()
if rank == 1:
    time.sleep(2)
"""
    # On a busy machine ranks may wait for each other for seconds before the first call.
    status, said = torchrun(tmp_path, script, 3, stall_after=120)
    assert status == 0
    assert "collectrace" not in said
    assert not list(tmp_path.glob("logs/*/*/verdict*"))

"""Ranks that fail after ``enable()`` and before ``init_process_group``."""

from __future__ import annotations

import os
import sys

import pytest

from collectrace.align import align
from tests.support.real_ranks import Ranks

SCRIPT = """
import os, time
from pathlib import Path
import torch, torch.distributed as dist
import collectrace
collectrace.enable()
def joins():
    logs = Path("logs").rglob("*.jsonl")
    return any(b'"phase":"asked"' in path.read_bytes() for path in logs)
if os.environ["RANK"] == "1":
    while not joins():  # or torchrun ends the other one before it does
        time.sleep(0.05)
    open("/nowhere/data.bin")
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


HELPER = """
import os, subprocess, sys
import torch, torch.distributed as dist
import collectrace
helper = "import torch, collectrace; collectrace.enable(); raise ValueError"
assert subprocess.run([sys.executable, "-c", helper]).returncode == 1
collectrace.enable()
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
"""


def test_one_rank_crashes_before_it_joins(ranks: Ranks) -> None:
    ran = ranks.script(SCRIPT, launch=TORCHRUN, exits=1)
    alignment = align(ran.logs)
    [finding] = [one for one in alignment.findings if one.severity == "error"]
    assert (finding.kind, finding.code, finding.suspects) == ("missing_call", "CT302", (1,))
    assert "rank 1 raised FileNotFoundError (script.py:13)" in finding.headline
    assert alignment.exit_status == 1
    assert not alignment.evidence.missing_ranks
    [excerpt] = finding.excerpt or ()
    texts = {line.line: line.text.strip() for line in excerpt.lines}
    assert texts[13] == 'open("/nowhere/data.bin")'
    assert texts[14] == 'dist.init_process_group("gloo")'


def _all_raise(status: int) -> None:
    if status:
        sys.exit(status)
    raise ValueError("mine")


@pytest.mark.parametrize(("status", "what"), [(0, "ValueError: mine"), (3, "sys.exit(3)")])
def test_nobody_comes_to_a_group(status: int, what: str, ranks: Ranks) -> None:
    ran = ranks.run(_all_raise, 2, status, init=False, exits=(status or 1,) * 2)
    alignment = align(ran.logs)
    [finding] = alignment.findings
    assert finding.kind == "raised"
    assert finding.headline == (
        "the job crashed before init_process_group: ranks 0-1 ended with an exception"
    )
    assert f"Ranks 0-1: {what} at" in finding.cause
    for log in ran.files:
        assert log.header.world_size == 2
        assert len(log.of(type(log.records[0]))) == 1


@pytest.mark.slow
def test_a_process_that_a_rank_starts_is_not_that_rank(ranks: Ranks) -> None:
    ran = ranks.script(HELPER, launch=TORCHRUN)
    assert [log.path.name for log in ran.files] == ["rank00000.jsonl", "rank00001.jsonl"]
    assert align(ran.logs).status == "aligned"


def _leaves_early(how: str) -> None:
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "no rank":
        del os.environ["RANK"]
        raise ValueError
    sys.exit(0)


@pytest.mark.parametrize(("how", "status"), [("interrupt", 1), ("no rank", 1), ("exit", 0)])
def test_what_is_no_failure_of_a_rank_leaves_no_file(how: str, status: int, ranks: Ranks) -> None:
    ran = ranks.run(_leaves_early, 1, how, init=False, exits=(status,))
    assert not ran.logs.exists()

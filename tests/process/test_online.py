"""Ranks that say themselves what is wrong, while they hang, and none can see another's files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collectrace.align import align
from tests.support.apart import ROOT, Apart

BEGIN = f"""
import datetime, os, sys, time
sys.path.insert(0, {str(ROOT)!r})
import torch, torch.distributed as dist
import collectrace
collectrace.enable()
rank = int(os.environ["RANK"])
def init():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
"""

SEED = (
    BEGIN
    + """
from tools.join_cases import train
init()
train({case}, 5, None)
"""
)


def headline(folder: Path) -> str:
    return align(folder).findings[0].headline


def heads(ranks: Apart) -> list[int]:
    """The ranks that have told the whole head of a report."""
    return [r for r in range(ranks.world) if "the whole report: " in ranks.said(r)]


@pytest.mark.parametrize("case", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_uneven_inputs_are_told_while_they_hang(tmp_path: Path, case: int) -> None:
    with Apart(tmp_path, SEED.format(case=case)) as ranks:
        ranks.wait_for(lambda: heads(ranks))
        [elected] = heads(ranks)
        ranks.wait_for_words(f"(details: output of rank {elected})", 1 - elected)
        told = headline(ranks.together())
        ranks.wait_for_words(told)
    *_, page = sorted(ranks.logs(elected).glob("2*/verdict.*.txt"))  # one may be of a turn in vain
    *_, machine = sorted(ranks.logs(elected).glob("2*/verdict.*.json"))
    assert told in " ".join(page.read_text().split())
    assert json.loads(machine.read_text())["findings"][0]["headline"] == told


def test_ranks_that_differ_and_do_not_hang_are_told_too(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
init()
for n in range(10**9):
    if n == 300 and rank == 2:
        dist.all_reduce(torch.zeros(4), op=dist.ReduceOp.MAX)
    else:
        dist.all_reduce(torch.zeros(4))
    time.sleep(0.005)
"""
    )
    # Nothing stalls here: that the digests differ is all there is.
    with Apart(tmp_path, script, 3, stall_after=600) as ranks:
        ranks.wait_for(lambda: heads(ranks))
        [elected] = heads(ranks)
        assert ": call 301, all_reduce float32[4] MAX" in " ".join(ranks.said(elected).split())
        found = align(ranks.together()).findings[0]
        assert (found.kind, found.seq, found.suspects) == ("reduce_op_mismatch", 301, (2,))


def test_a_stopped_rank_is_evidence_and_no_error(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
init()
for n in range(10**9):
    dist.all_reduce(torch.zeros(4))
    if n == 20:
        print("under way", flush=True)
    time.sleep(0.01)
"""
    )
    with Apart(tmp_path, script, 3) as ranks:
        ranks.wait_for_words("under way")
        os.kill(ranks.ranks[2].pid, signal.SIGSTOP)
        # Nobody knows what it did; that it does not answer is known.
        ranks.wait_for_words("rank 2: does not answer", 0, 1)
        assert "<- suspect" not in ranks.said(0) + ranks.said(1)


def test_a_listener_is_told(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
def tell(report):
    print("HEARD", report["findings"][0]["kind"], flush=True)
collectrace.on_finding(tell)
init()
dist.all_reduce(torch.zeros(1))
if rank == 0:
    dist.barrier()
else:
    dist.broadcast(torch.zeros(1), 0)
"""
    )
    with Apart(tmp_path, script) as ranks:
        ranks.wait_for(lambda: "HEARD op_mismatch" in ranks.said(0) + ranks.said(1))


def test_a_reader_outside_the_job_is_answered(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
init()
dist.all_reduce(torch.zeros(1))
print("under way", flush=True)
if rank == 1:
    time.sleep(600)
dist.all_reduce(torch.zeros(1))
"""
    )
    # Nobody stalls, and nobody differs: nobody but the reader asks.
    with Apart(tmp_path, script, stall_after=600) as ranks:
        ranks.wait_for_words("under way")

        def read() -> dict[str, Any]:
            done = subprocess.run(
                [sys.executable, "-m", "collectrace", "align", "--store",
                 f"127.0.0.1:{ranks.port}", "--json", "-"],
                capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
            )  # fmt: skip
            assert done.stderr == ""
            report: dict[str, Any] = json.loads(done.stdout)
            return report

        # A rank is there half a heartbeat after it has begun, and where the store is slow, later.
        ranks.wait_for(lambda: all(rank["last_call"] for rank in read()["ranks"]))
        for _ in range(2):  # a turn that is over leaves room for another
            found = read()
            assert [rank["last_call"]["seq"] for rank in found["ranks"]] == [2, 1]
            assert found["evidence"]["agreed"] == 1
        assert not heads(ranks)

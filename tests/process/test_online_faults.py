"""What is done about a divergence, and that nothing of it hurts a job whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.process.test_online import BEGIN, heads
from tests.support.apart import Apart

DIFFERS = (
    BEGIN
    + """
init()
for n in range(10**9):
    op = dist.ReduceOp.MAX if n == 100 and rank == 1 else dist.ReduceOp.SUM
    dist.all_reduce(torch.zeros(4), op=op)
    time.sleep(0.01)
"""
)


def ended(ranks: Apart) -> list[int | None]:
    """The exit status of every rank, once all have ended."""
    ranks.wait_for(lambda: all(rank.poll() is not None for rank in ranks.ranks))
    return [rank.returncode for rank in ranks.ranks]


@pytest.mark.parametrize("native", [0, 1])  # 1: by the code in C, if it was built
def test_the_next_collective_raises_where_that_is_asked_for(tmp_path: Path, native: int) -> None:
    with Apart(tmp_path, DIFFERS, stall_after=600, on_divergence="raise", native=native) as ranks:
        assert ended(ranks) == [1, 1]
        # The other one may lose its connection first, to the one that has raised.
        [said, *_] = [s for r in range(2) if "DivergenceError: rank" in (s := ranks.said(r))]
        assert "train.py" in said.partition("Traceback")[2]


@pytest.mark.parametrize(
    "signal_", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)]
)
def test_the_stores_host_may_die_or_stop(tmp_path: Path, signal_: signal.Signals) -> None:
    script = (
        BEGIN
        + """
init()
print("under way", flush=True)
if rank == 0:
    time.sleep(600)
time.sleep(6)
print("done", flush=True)
os._exit(0)
"""
    )
    with Apart(tmp_path, script, heartbeat=0.2) as ranks:
        ranks.wait_for_words("under way")
        before = ranks.said(1)
        os.kill(ranks.ranks[0].pid, signal_)
        ranks.wait_for_words("done", 1)
        said = [line for line in ranks.said(1).removeprefix(before).splitlines() if line]
        assert [line for line in said if "collectrace" in line and "for 3 s" not in line] == []
        assert ranks.ranks[1].wait(30) == 0


@pytest.mark.slow
def test_another_rank_takes_over_from_one_that_dies(tmp_path: Path) -> None:
    script = (
        BEGIN
        + """
import collectrace.tracer.life.aligner_process as aligner_process
import collectrace.tracer.online.member as member
member._ABANDONED = 4.0
init()
group = dist.new_group([0, 1])
if rank == 2:
    aligner_process._START = "import time; time.sleep(30)"  # one that comes to no end
    print("under way", flush=True)
    time.sleep(600)
time.sleep(6)
dist.broadcast(torch.zeros(1), 0, group=group) if rank else dist.barrier(group=group)
"""
    )
    # Rank 2 stalls first, by itself; the two others not before it has died.
    with Apart(tmp_path, script, 3, stall_after=2) as ranks:
        ranks.wait_for_words("under way", 2)
        ranks.wait_for(lambda: _stalls(ranks, 2))
        time.sleep(1)
        os.kill(ranks.ranks[2].pid, signal.SIGKILL)
        ranks.wait_for(lambda: heads(ranks))
        assert heads(ranks) in ([0], [1])


def _stalls(ranks: Apart, rank: int) -> bool:
    files = ranks.logs(rank).glob("2*/rank*.jsonl")
    return any('"kind":"stall"' in file.read_text() for file in files)

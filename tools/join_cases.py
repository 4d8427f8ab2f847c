#!/usr/bin/env python3
"""The six cases that started this project: two ranks whose inputs are uneven.

Rank 0 has five batches, rank 1 has six, and the model is one Linear(1, 1) under DDP::

    1  with model.join()                  4  join(), and a barrier after every batch
    2  nothing against uneven inputs      5  a barrier after the loop
    3  a barrier after every batch        6  join(), then a barrier after the loop

    python tools/join_cases.py 4                    # gloo's own barrier
    python tools/join_cases.py 4 --barrier zeros    # NCCL's: an all_reduce of one float32
    python -m collectrace.align logs/               # which collective, which rank, which line

NCCL has no barrier, so torch all-reduces one float32. What that happens to hold decides how
case 4 goes on: ``ones`` stands for the uninitialised memory of torch 1.9, ``zeros`` for today.

The script starts its two ranks itself (``torchrun --nproc-per-node 2`` does as well), waits,
kills what hangs, and tells how each rank ended. Exit status: 0 if that is what gloo is known to
do in this case, 1 if it is not.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from datetime import timedelta
from typing import Final, Literal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import collectrace

BARRIER_HOLDS: Final[dict[str, float | None]] = {"native": None, "zeros": 0.0, "ones": 1.0}


def train(case: int, batches: int, holds: float | None) -> None:
    """One rank's training. ``holds`` is what NCCL's barrier would hold; None: gloo's barrier."""
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    # Rank 1 gets one more input than rank 0.
    inputs = [torch.tensor([1.0]) for _ in range(batches + dist.get_rank())]
    with model.join() if case in (1, 4, 6) else nullcontext():
        for batch in inputs:
            loss = model(batch)
            loss.backward()
            if case in (3, 4):
                dist.barrier() if holds is None else dist.all_reduce(torch.tensor([holds]))
    if case in (5, 6):
        dist.barrier() if holds is None else dist.all_reduce(torch.tensor([holds]))
    print(f"has exhausted all {len(inputs)} of its inputs")


def run_rank(options: argparse.Namespace) -> None:
    """One rank, as a launcher starts it."""
    if not options.untraced:
        collectrace.enable(log_dir=options.log_dir)
    # gloo gives up first, so that a rank which waits ends by an exception, not by the parent.
    dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout / 3))
    train(options.case, options.batches, BARRIER_HOLDS[options.barrier])


Outcome = Literal["finished", "raised", "aborted", "hung"]


def known_outcomes(case: int, barrier: str) -> tuple[Outcome, Outcome]:
    """How rank 0 and rank 1 end on gloo."""
    if case in (1, 6):
        return "finished", "finished"
    if case in (2, 3):
        return "finished", "raised"  # rank 1's extra batch meets a closed connection
    if case == 5 or barrier == "native":
        return "raised", "raised"  # both wait, for different calls, until gloo gives up
    # An int64 meets a float32, and gloo aborts where more bytes arrive than are awaited.
    return ("raised", "aborted") if barrier == "zeros" else ("aborted", "raised")


def start(rank: int, port: int) -> subprocess.Popen[str]:
    """One rank as a process of its own, which can abort, hang and be killed alone."""
    launcher = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}  # fmt: skip
    return subprocess.Popen(
        [sys.executable, *sys.argv],
        env=os.environ | launcher,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def outcome(process: subprocess.Popen[str], deadline: float) -> tuple[Outcome, str]:
    """How a rank ended, and the last thing it said."""
    try:
        output, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        return "hung", "killed by this script"
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    if process.returncode == 0:
        return "finished", last
    return ("aborted" if process.returncode < 0 else "raised"), last.strip()


def run_job(options: argparse.Namespace) -> int:
    """Both ranks; whether they did what is known of them, as an exit status."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    deadline = time.monotonic() + options.timeout
    processes = [start(rank, port) for rank in range(2)]
    ends = [outcome(process, deadline) for process in processes]
    for rank, (end, said) in enumerate(ends):
        print(f"rank {rank} {end}: {said[:160]}")
    known = known_outcomes(options.case, options.barrier)
    if tuple(end for end, _ in ends) == known:
        return 0
    print(f"expected rank 0 {known[0]}, rank 1 {known[1]}", file=sys.stderr)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", type=int, choices=range(1, 7))
    parser.add_argument("--barrier", choices=BARRIER_HOLDS, default="native")
    parser.add_argument("--batches", type=int, default=5, metavar="N", help="of rank 0")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("--log-dir", default="logs", metavar="DIR")
    parser.add_argument("--untraced", action="store_true")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        return run_job(options)
    run_rank(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

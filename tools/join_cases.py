#!/usr/bin/env python3
"""The six cases that started this project: two ranks whose inputs are uneven.

Rank 0 has five batches, rank 1 has six, and the model is one Linear(1, 1) under DDP::

    1  with model.join()                  4  join(), and a barrier after every batch
    2  nothing against uneven inputs      5  a barrier after the loop
    3  a barrier after every batch        6  join(), then a barrier after the loop

    python tools/join_cases.py 4                    # gloo's own barrier
    python tools/join_cases.py 4 --barrier zeros    # NCCL's: an all_reduce of one float32
    python -m collectrace align logs/               # which collective, which rank, which line

NCCL has no barrier, so torch all-reduces one float32. What that happens to hold decides how
case 4 goes on: ``ones`` stands for the uninitialised memory of torch 1.9, ``zeros`` for today.

It starts its two ranks itself (or torchrun does), and kills what hangs; its clock starts when they
have met. Exit status: 0 as gloo is known to do, 1 if not, 3 if not on a machine too slow to say.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import threading
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


STARTED: Final = "JOIN_CASES_STARTED"
"""When this script started a rank, in seconds of the machine's monotonic clock."""

MET: Final = "met the other rank after "
"""What a rank says then, in seconds since it was started."""

START_LIMIT: Final = 300.0
"""Seconds within which the ranks must have met."""

SLOW_START: Final = 20.0
"""Seconds; a machine with nothing else to do needs 2 to 5."""

TOO_SLOW: Final = 3
"""Exit status of a result that is wrong on a machine that may be why."""


def patience(timeout: float, start: float) -> float:
    """Seconds that gloo waits, on a machine that took ``start`` seconds to start a rank.

    A third of ``timeout``: gloo gives up first, so that a rank which waits ends by an exception,
    not by the parent.
    """
    return max(timeout / 3, 2 * start)


def run_rank(options: argparse.Namespace) -> None:
    """One rank, as a launcher starts it."""
    if not options.untraced:
        collectrace.enable(log_dir=options.log_dir)
    started = os.environ.get(STARTED)
    start = 0.0 if started is None else time.monotonic() - float(started)
    waits = patience(options.timeout, start)
    dist.init_process_group("gloo", timeout=timedelta(seconds=waits))
    if started is not None:
        print(f"{MET}{time.monotonic() - float(started):.1f} s", flush=True)
    try:
        train(options.case, options.batches, BARRIER_HOLDS[options.barrier])
    finally:
        # A thread of gloo's that still frees a tensor while the interpreter ends aborts the rank
        # (ProcessGroupGloo::runLoop of torch 2.13, untraced as well).
        dist.destroy_process_group()


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


class Rank:
    """One rank as a process of its own, which can abort, hang and be killed alone."""

    def __init__(self, rank: int, port: int) -> None:
        launcher = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                    STARTED: str(time.monotonic())}  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, *sys.argv],
            env=os.environ | launcher,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self.start: float | None = None
        """Seconds until it had met the other; None: it has not."""
        self.has_met = threading.Event()
        """It has met the other, or ended before that."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MET):
                self.start = float(line.removeprefix(MET).split()[0])
                self.has_met.set()
            else:
                self.lines.append(line.rstrip())
        self.has_met.set()

    def outcome(self, deadline: float) -> tuple[Outcome, str]:
        """How it ended, by a time of the monotonic clock, and the last thing it said."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self._reader.join()
            return "hung", "killed by this script"
        self._reader.join()
        last = next((line for line in reversed(self.lines) if line.strip()), "").strip()
        if self.process.returncode == 0:
            return "finished", last
        return ("aborted" if self.process.returncode < 0 else "raised"), last


def run_job(options: argparse.Namespace) -> int:
    """Both ranks; whether they did what is known of them, as an exit status."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [Rank(rank, port) for rank in range(2)]
    try:
        return _judge(options, ranks)
    finally:
        for rank in ranks:
            rank.process.kill()


def _judge(options: argparse.Namespace, ranks: list[Rank]) -> int:
    start_by = time.monotonic() + START_LIMIT
    have_met = [rank.has_met.wait(max(0.0, start_by - time.monotonic())) for rank in ranks]
    starts = [rank.start for rank in ranks if rank.start is not None]
    # From here on the case itself: what gloo waits for, and as long again to come to it.
    slowest = max(starts, default=0.0)
    limit = max(options.timeout, 3 * patience(options.timeout, slowest)) if all(have_met) else 0.0
    deadline = time.monotonic() + limit
    ends = [rank.outcome(deadline) for rank in ranks]
    for rank, (end, said) in enumerate(ends):
        print(f"rank {rank} {end}: {said[:160]}")
    known = known_outcomes(options.case, options.barrier)
    if tuple(end for end, _ in ends) == known:
        return 0
    if not all(have_met) or slowest > SLOW_START:
        took = f"{slowest:.0f} s" if all(have_met) else f"more than {START_LIMIT:.0f} s"
        print(
            f"this machine is too slow to say: the ranks took {took} to meet (2 to 5 s are usual)",
            file=sys.stderr,
        )
        return TOO_SLOW
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

"""The line of a busy rank and its stack, however the job ended."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist

from collectrace.align.alignment import align
from collectrace.findings import Finding, Left
from collectrace.records import Alive, Stall
from collectrace.report import terminal
from tests.support.real_ranks import Log, Ranks, read_log

PROOF: Final = 6_000_000_000
"""ns for which ranks wait: longer than what a healthy job may (judging/patience.py)."""


class Busy:
    def in_a_loop(self) -> None:
        while True:
            pass

    def asleep(self) -> None:
        time.sleep(600)

    def in_c(self) -> None:
        ctypes.CDLL(None).sleep(600)

    def waiting(self) -> None:
        threading.Event().wait()


WAYS: Final = (Busy.in_a_loop, Busy.asleep, Busy.in_c, Busy.waiting)
"""Of ranks 1 to 4."""


def is_over(log: Log) -> bool:
    """Whether a rank has been in one thing for long, and its log shows it."""
    beats = [*log.of(Alive), *log.of(Stall)]
    return bool(log.calls and beats) and beats[-1].t - log.calls[-1].t > PROOF


def end_all(pids: list[int], signum: int) -> None:
    """Send the ranks a signal once they have been busy for long, the own process last."""
    folder = Path(os.environ["COLLECTRACE_LOG_DIR"])
    while not all(map(is_over, map(read_log, folder.glob("2*/rank*.jsonl")))):
        time.sleep(0.2)
    for pid in reversed(pids):
        os.kill(pid, signum)


def busy(signum: int) -> None:
    pids: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(pids, os.getpid())
    if dist.get_rank() == 0:
        threading.Thread(target=end_all, args=(pids, signum), daemon=True).start()
    else:
        WAYS[dist.get_rank() - 1](Busy())
    dist.all_reduce(torch.ones(1))


def shown_at(finding: Finding, rank: int) -> list[str]:
    """The functions in which the excerpt says where a rank is."""
    return [
        part.function
        for part in finding.excerpt or ()
        for line in part.lines
        if any(note.startswith(f"rank {rank}: here (") for note in line.notes)
    ]


@pytest.mark.parametrize(
    ("signum", "status", "env", "left"),
    [
        (signal.SIGINT, 1, {}, "interrupt"),
        (signal.SIGTERM, -signal.SIGTERM, {}, "terminated"),
        (signal.SIGKILL, -signal.SIGKILL, {"COLLECTRACE_STALL_AFTER": "4"}, "stall"),
    ],
)
def test_the_line_and_the_stack_of_a_busy_rank_are_shown(
    ranks: Ranks, signum: int, status: int, env: Mapping[str, str], left: Left
) -> None:
    late = {"COLLECTRACE_STALL_AFTER": "600"}
    ran = ranks.run(busy, 5, int(signum), env={**late, **env}, exits=(status,) * 5)
    found = align(ran.logs)
    finding = found.findings[0]
    assert (finding.kind, finding.code) == ("missing_call", "CT302")
    assert finding.suspects == (1, 2, 3, 4)
    assert "py-spy" not in finding.fix
    told = io.StringIO()
    terminal.write(found, told)
    for rank, way in enumerate(WAYS, 1):
        assert any(ran.log(rank).of(Stall)) == (left == "stall")
        # Ctrl-C leaves values, too, and is no failure of the rank.
        assert shown_at(finding, rank) == [way.__qualname__]
        [stack] = [one for one in finding.stacks or () if rank in one.ranks]
        assert (stack.ranks, stack.left) == ((rank,), left)
        assert stack.held * 1e9 > PROOF
        names = [frame.rpartition(" ")[2] for frame in stack.frames]
        assert names[-4:] == [way.__qualname__, "busy", "main", "<module>"]
        assert "/test_last_seen.py:" in stack.frames[-4]
        # Below the user's line stands what it called, without all that lies between.
        assert names[:-4] == (["wait", "wait"] if way is Busy.waiting else [])
        assert f"stack of rank {rank} (" in told.getvalue()

"""Measure data loading: how many batches each rank fetched, and how long it waited for them."""

from __future__ import annotations

from statistics import median
from typing import Final

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import RankLog

_MOST_LINES: Final = 8


def waits(log: RankLog) -> tuple[int, int]:
    """Return the number of fetched batches, and the ns spent waiting for them."""
    fetched = [batch for batch in log.batches if not batch.end]
    return len(fetched), sum(batch.wait for batch in log.batches)


def table(case: Case) -> tuple[str, ...]:
    """Return a line per rank with its batches and waits; of many ranks, the slowest ones."""
    told = fetched(case)
    chosen = sorted(told, key=lambda rank: -told[rank][1])[:_MOST_LINES]
    more = len(told) - len(chosen)
    lines = [
        f"rank {rank}: {words.counted(told[rank][0], 'batch', 'batches')}, waited "
        f"{words.seconds(told[rank][1])} for data "
        f"({words.milliseconds(told[rank][1] / max(1, told[rank][0]))} each)"
        for rank in sorted(chosen)
    ]
    return (*lines, f"{more} more ranks waited less") if more > 0 else tuple(lines)


def fetched(case: Case) -> dict[int, tuple[int, int]]:
    """Return each rank's :func:`waits`; empty if some log is incomplete or was read in part."""
    logs = case.evidence.logs
    if not all(log.scanned and not log.rotated for log in logs.values()):
        return {}
    return {rank: waits(log) for rank, log in logs.items() if log.batches}


def extra_wait(case: Case, rank: int, total: float) -> int:
    """Return the ns that a rank waited for data longer than most others.

    It is 0 unless that is more than half of ``total``, the ns by which the rank was late.
    """
    told = {r: ns for r, (_, ns) in fetched(case).items()}
    others = [ns for r, ns in told.items() if r != rank]
    if rank not in told or not others:
        return 0
    more = round(told[rank] - median(others))
    return more if more > total / 2 else 0

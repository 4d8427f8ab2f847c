"""Collect lateness of ranks, waits for data, and merged stacks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from collectrace import dumps
from collectrace.align.judging.case import Case
from collectrace.align.observations import delays
from collectrace.align.observations.delays import StreamDelays
from collectrace.align.ranks.last_seen import last_seen
from collectrace.overview import Frame, Lateness, Loading

_MOST_STREAMS: Final = 6
_FEWEST_ROWS: Final = 8
_SHARE: Final = 0.01
"""Least rows, and least share of their time that was lost, for a picture."""
_LEAST: Final = 100_000_000
"""ns lost that are enough for a picture in any case."""
_MOST_RANKS: Final = 48
"""Ranks with lateness shown call by call."""
_MOST_MARKS: Final = 160
_MOST_TIMES: Final = 400_000
"""Times that are compared for that; beyond them, calls are sampled."""
_MOST_LOADERS: Final = 1024
_DEEPEST: Final = 60
"""Frames of a thread that are shown, outermost first."""
_NUMBER: Final = re.compile(r" \(\d+\)$")
"""The number after a thread's name, which differs between ranks."""
_MOST_FRAMES: Final = 1500


def lateness(case: Case) -> tuple[Lateness, ...]:
    """Return lateness by stream if it exceeds the clocks' uncertainty and the job's noise."""
    if case.clocks.unknown:
        return ()
    found = sorted(delays.of_streams(case), key=lambda d: -d.total)
    telling = [
        one for one in found
        if one.slowest.typical > 2 * case.clocks.uncertainty
        and (one.total >= _LEAST or (one.rows >= _FEWEST_ROWS and one.total > _SHARE * one.span))
    ]  # fmt: skip
    return tuple(_lateness(case, one) for one in telling[:_MOST_STREAMS])


def _lateness(case: Case, found: StreamDelays) -> Lateness:
    order = sorted(found.by_rank.values(), key=lambda d: (-d.total, d.rank))
    shown = sorted(d.rank for d in order[:_MOST_RANKS])
    marks, course = _course(case, found, shown)
    return Lateness(
        group=found.stream.group,
        device=found.stream.device,
        rows=found.rows,
        span=found.span,
        totals=tuple((d.rank, d.total, d.last) for d in order),
        marks=marks,
        course=course,
    )


def _course(
    case: Case, found: StreamDelays, shown: Sequence[int]
) -> tuple[tuple[int, ...], tuple[tuple[int, tuple[int, ...]], ...]]:
    """Return each rank's us after the first, over a stream: the worst of each stretch."""
    last = case.comparison.agreed.get(found.stream, 0)
    logs = {rank: case.evidence.logs[rank].rows(found.stream) for rank in found.by_rank}
    stretch = max(1, -(-last // _MOST_MARKS))
    step = max(1, last * len(logs) // _MOST_TIMES)
    marks: list[int] = []
    late: dict[int, list[int]] = {rank: [] for rank in shown}
    for start in range(1, last + 1, stretch):
        worst = dict.fromkeys(shown, -1)
        for seq in range(start, min(start + stretch, last + 1), step):
            times = {}
            for rank, (rows, shift) in logs.items():
                at = rows.find(seq - shift)
                if at is None:
                    break
                times[rank] = case.clocks.when(rank, rows.t[at])
            else:
                first = min(times.values())
                for rank in shown:
                    worst[rank] = max(worst[rank], (times[rank] - first) // 1000)
        if min(worst.values()) >= 0:
            marks.append(start)
            for rank in shown:
                late[rank].append(worst[rank])
    return tuple(marks), tuple((rank, tuple(late[rank])) for rank in shown) if marks else ()


def loading(case: Case) -> tuple[Loading, ...]:
    """Return the batches of every rank with a DataLoader, as far as its log was read."""
    found = [
        Loading(
            rank=rank,
            batches=sum(not batch.end for batch in log.batches),
            waited=sum(batch.wait for batch in log.batches),
            longest=max(batch.wait for batch in log.batches),
        )
        for rank, log in sorted(case.evidence.logs.items())
        if log.batches
    ]
    return tuple(found[:_MOST_LOADERS])


def stacks(case: Case) -> tuple[Frame, ...]:
    """Return the last stacks of all ranks, merged: common frames appear once."""
    by_thread: dict[str, dict[int, Sequence[str]]] = {}
    for rank, log in case.evidence.logs.items():
        # A stall has all threads; a Ctrl-C leaves only the main one.
        seen = log.stall or last_seen(log)
        found: Mapping[str, Sequence[str]] = seen.stacks if seen is not None else {}
        for thread, frames in found.items():
            own = [frame for frame in frames if dumps.TRACER not in frame]
            by_thread.setdefault(_NUMBER.sub("", thread), {})[rank] = own[:_DEEPEST]
    room = [_MOST_FRAMES]
    return tuple(
        Frame(name=thread, ranks=tuple(sorted(of)), inner=_merged(of, room))
        for thread, of in sorted(by_thread.items(), key=lambda one: (-len(one[1]), one[0]))
        if any(of.values())
    )


def _merged(stacks: Mapping[int, Sequence[str]], room: list[int]) -> tuple[Frame, ...]:
    by_frame: dict[str, dict[int, Sequence[str]]] = {}
    for rank, frames in stacks.items():
        if frames:
            by_frame.setdefault(frames[0], {})[rank] = frames[1:]
    out = []
    for name, rest in sorted(by_frame.items(), key=lambda one: (-len(one[1]), one[0])):
        room[0] -= 1
        if room[0] < 0:
            break
        out.append(Frame(name=name, ranks=tuple(sorted(rest)), inner=_merged(rest, room)))
    return tuple(out)

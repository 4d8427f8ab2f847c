"""Decide when a rank has stalled, and record what it is in."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from torch._C import _distributed_c10d

from collectrace import dumps, file_modes, privacy, records, words
from collectrace.config import PATHS
from collectrace.ops import POINT_TO_POINT
from collectrace.records import Activity
from collectrace.tracer.life import kernel_waits
from collectrace.tracer.life.kernel_waits import KernelWaits
from collectrace.tracer.life.telling import tell
from collectrace.tracer.record import lines, sites
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import now

_STACK_LINES: Final = 60
"""Innermost frames of a thread's stack that are recorded."""

_MOST_SOURCES: Final = 8
"""How many innermost frames of a thread's user code have their source recorded."""


class Stalls:
    """Notices that a rank has been in one thing for too long, and records what it is in.

    The limit is ``stall_after()`` seconds. Each next record needs twice the time, so that a job
    that hangs over night does not fill the disk. A rank that is in nothing, but has issued no call
    for that time, is recorded, too, without a message. If its peers hang, its stack explains it.
    ``is_explained`` returns whether the reason was printed already.
    """

    def __init__(
        self,
        recorder: Recorder,
        stall_after: Callable[[], float],
        is_explained: Callable[[], bool],
    ) -> None:
        self._recorder = recorder
        self._is_explained = is_explained
        self._stall_after = stall_after
        self._times = 1
        """How many times the limit something must last before the next record."""
        self.count = 0
        """How many stalls were recorded."""
        self.due = 0
        """When the next record is due if the rank makes no progress, ns; 0: it does nothing."""
        self._kernel = KernelWaits()

    def check(self, doing: list[Activity]) -> bool:
        """Write a ``stall`` record if one is due, and return whether it was.

        ``doing``: what the threads are in. Call this at every heartbeat, and when a stall is
        :attr:`due`.
        """
        # A rank that keeps fetching batches is in something new each time, but may have issued no
        # call for a long time.
        is_calling = any(a.seq is not None for a in doing)
        begun = [a.since for a in doing]
        t = now()
        # Before the first call, an activity such as a group's creation has its own start time.
        idle_since = self._recorder.last_t or (0 if doing else self._recorder.book.joined)
        if idle_since and not is_calling:
            begun.append(idle_since)
        pending, limit = t - min(begun) if begun else 0, int(self._stall_after() * 1e9)
        if pending < limit:
            self._times = 1
        self.due = t - pending + self._times * limit if begun else 0
        if pending < self._times * limit:
            return False
        first = self._times == 1
        # Twice, four times, eight times the limit: a look that waits for eight is not late.
        while 2 * self._times * limit < 3 * pending:
            self._times *= 2
        self.due = t - pending + self._times * limit
        threads = stacks()
        waits, children = self._kernel.look()
        self._recorder.write(
            records.Stall(
                in_=doing, pending=pending, stacks=threads, waits=waits or None,
                children=children or None,
            )
        )  # fmt: skip
        self._request_sources(threads)
        self.count += 1
        longest = min(doing, key=lambda a: a.since, default=None)
        is_long = longest is not None and t - longest.since >= limit
        if longest is not None and is_long and not self._is_explained():
            self._tell_user(longest, t - longest.since)
        if first:
            self._dump_flight_recorder()
        return True

    def _request_sources(self, threads: Mapping[str, Sequence[str]]) -> None:
        """Request the source of the lines that the threads are at."""
        sources = self._recorder.sources
        if sources is None:
            return
        for frames in threads.values():
            places = (frame.rpartition(" ")[0] for frame in dumps.own(frames)[-_MOST_SOURCES:])
            sources.ask([place for place in places if place.rpartition(":")[2].isdigit()])

    def _tell_user(self, activity: Activity, pending: int) -> None:
        where = f" at {activity.site}" if activity.site else ""
        what = words.DOING.get(activity.what, f"in {activity.what}")
        if activity.op is not None:
            group = words.named_group(activity.group or "")
            numbered = "message" if activity.op in POINT_TO_POINT else "call"
            seq = "" if activity.seq is None else f"{numbered} {activity.seq} of "
            what = f"in {activity.op} ({seq}{group})"
        tell(
            self._recorder.global_rank,
            f"has been {what}{where} for {pending / 1e9:.0f} s",
            self._recorder.writer.folder,
        )

    def _dump_flight_recorder(self) -> None:
        """Write torch's Flight Recorder to ``.flight.json`` beside the rank file, if not empty."""
        dump = getattr(_distributed_c10d, "_dump_fr_trace_json", None)
        if dump is None:
            return
        text = dump()
        held = json.loads(text)
        if held.get("entries"):
            if PATHS in lines.omitted():
                text = json.dumps(privacy.mapped(held, privacy.without_paths))
            path: Path = self._recorder.writer.path.with_suffix(".flight.json")
            with contextlib.suppress(OSError):  # writing the rank file fails, too, and logs it
                path.touch(file_modes.of_files())
                path.write_bytes(text if isinstance(text, bytes) else text.encode())


def stacks() -> dict[str, list[str]]:
    """Return the Python stack of each thread except the tracer's, innermost frame last."""
    named, frames = kernel_waits.names(), sys._current_frames()
    try:
        return {name: _lines(frames.get(ident)) for ident, name in named.items()}
    finally:
        frames.clear()  # this function's frame is among them: a cycle would keep all alive


def _lines(frame: FrameType | None) -> list[str]:
    """Return ``path:line function`` of a frame and of its callers, innermost last.

    The module ``traceback`` is not used: it reads files, and calls the program's loaders.
    """
    found: list[str] = []
    while frame is not None and len(found) < _STACK_LINES:
        code = frame.f_code
        path = sites.absolute(code.co_filename)
        found.append(f"{path}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return found[::-1]

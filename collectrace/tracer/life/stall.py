"""When a rank counts as stalled, and what is then written, where, and how often."""

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
from collectrace.tracer.record import lines
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import now

_STACK_LINES: Final = 60
"""Frames of a thread's stack that are written down, the innermost ones."""

_MOST_SOURCES: Final = 8
"""Frames of a thread of which the source is recorded, the innermost ones of the user's code."""


class Stalls:
    """Notices that a rank has been in one thing for too long, and writes down what it is in.

    Too long is ``stall_after`` seconds; after that it is told again when the time has doubled,
    since a job that hangs over night must not fill the disk. A rank that is in nothing but has
    issued no call for as long, or none yet, is recorded too, though not told on the terminal: when
    its peers hang, its stack is the answer. ``is_explained``: whether a person knows already why
    this rank is where it is.
    """

    def __init__(
        self, recorder: Recorder, stall_after: float, is_explained: Callable[[], bool]
    ) -> None:
        self._recorder = recorder
        self._is_explained = is_explained
        self._stall_after = int(stall_after * 1e9)
        self._next = self._stall_after
        """How long a thing must be pending to be told, ns."""
        self.count = 0
        """How often a stall was written down."""
        self.due = 0
        """When what the rank is in will have lasted for ``stall_after``, ns; 0: that is not known,
        or it has."""
        self._kernel = KernelWaits()
        self._joined = 0
        """When the rank was first seen to be part of the job."""

    def check(self, doing: list[Activity]) -> bool:
        """Write a ``stall`` record if one is due, and return whether it was.

        ``doing``: what the threads are in.

        To be called at every heartbeat, and when a stall is :attr:`due`.
        """
        # A rank that fetches one batch after the other is in something new each time, and yet may
        # have issued no call for long.
        is_calling = any(a.seq is not None for a in doing)
        begun = [a.since for a in doing]
        t = now()
        if not self._joined and self._recorder.global_rank is not None:
            self._joined = t
        # What it is in, a group's creation say, stalls by its own time.
        idle_since = self._recorder.last_t or (0 if doing else self._joined)
        if idle_since and not is_calling:
            begun.append(idle_since)
        pending = t - min(begun) if begun else 0
        self.due = 0
        if pending < self._stall_after:
            self._next = self._stall_after
            self.due = t - pending + self._stall_after if begun else 0
            return False
        if pending < self._next:
            return False
        first = self._next == self._stall_after
        self._next = pending * 2
        threads = stacks()
        waits, children = self._kernel.look()
        self._recorder.write(
            records.Stall(
                in_=doing, pending=pending, stacks=threads, waits=waits or None,
                children=children or None,
            )
        )  # fmt: skip
        self._ask_sources(threads)
        self.count += 1
        longest = min(doing, key=lambda a: a.since, default=None)
        is_long = longest is not None and t - longest.since >= self._stall_after
        if longest is not None and is_long and not self._is_explained():
            self._tell_user(longest, t - longest.since)
        if first:
            self._dump_flight_recorder()
        return True

    def _ask_sources(self, threads: Mapping[str, Sequence[str]]) -> None:
        """Have the lines recorded that the threads are at: calls may have come from others only."""
        sources = self._recorder.sources
        if sources is None:
            return
        for frames in threads.values():
            places = (frame.rpartition(" ")[0] for frame in dumps.own(frames)[-_MOST_SOURCES:])
            sources.ask([place for place in places if place.rpartition(":")[2].isdigit()])

    def _tell_user(self, activity: Activity, pending: int) -> None:
        where = f" at {activity.site}" if activity.site else ""
        what = activity.what
        if activity.op is not None:
            group = words.named_group(activity.group or "")
            numbered = "message" if activity.op in POINT_TO_POINT else "call"
            seq = "" if activity.seq is None else f"{numbered} {activity.seq} of "
            what = f"{activity.op} ({seq}{group})"
        tell(
            self._recorder.global_rank,
            f"has been in {what}{where} for {pending / 1e9:.0f} s",
            self._recorder.writer.folder,
        )

    def _dump_flight_recorder(self) -> None:
        """Write what torch's Flight Recorder holds beside the rank file, as ``.flight.json``."""
        dump = getattr(_distributed_c10d, "_dump_fr_trace_json", None)
        if dump is None:
            return
        text = dump()
        held = json.loads(text)
        if held.get("entries"):
            if PATHS in lines.omitted():
                text = json.dumps(privacy.mapped(held, privacy.without_paths))
            path: Path = self._recorder.writer.path.with_suffix(".flight.json")
            with contextlib.suppress(OSError):  # the rank file has the same trouble, and says so
                path.touch(file_modes.of_files())
                path.write_bytes(text if isinstance(text, bytes) else text.encode())


def stacks() -> dict[str, list[str]]:
    """The Python stack of every thread but the tracer's own, innermost last."""
    named, frames = kernel_waits.names(), sys._current_frames()
    try:
        return {name: _lines(frames.get(ident)) for ident, name in named.items()}
    finally:
        frames.clear()  # the function's own frame is among them, and would keep them all


def _lines(frame: FrameType | None) -> list[str]:
    """Return ``path:line function`` of a frame and of its callers, innermost last.

    Not by the module ``traceback``: it looks for the files, and asks the program's loaders.
    """
    found: list[str] = []
    while frame is not None and len(found) < _STACK_LINES:
        code = frame.f_code
        found.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return found[::-1]

"""A call that has been pending for too long: what is told, where, and how often."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import traceback
from pathlib import Path
from typing import Final

from torch._C import _distributed_c10d

from collectrace import records
from collectrace.records import Activity
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import now

_STACK_LINES: Final = 60


class Stalls:
    """Decides when a rank counts as stalled, and writes down what it is doing.

    Told again at growing intervals: a job that hangs over night must not fill the disk. A rank
    that is in no call at all but has issued none for as long is recorded too, silently: when its
    peers hang, its stack is the answer.
    """

    def __init__(self, recorder: Recorder, stall_after: float) -> None:
        self._recorder = recorder
        self._stall_after = int(stall_after * 1e9)
        self._next = self._stall_after

    def look(self, doing: list[Activity]) -> None:
        """Called every heartbeat with what the threads are in."""
        since = min((a.since for a in doing), default=self._recorder.last_t)
        pending = now() - since if since else 0
        if pending < self._stall_after:
            self._next = self._stall_after
            return
        if pending < self._next:
            return
        first = self._next == self._stall_after
        self._next = pending * 2
        self._recorder.write(records.Stall(in_=doing, pending=pending, stacks=stacks()))
        if doing:
            self._say(min(doing, key=lambda a: a.since), pending)
        if first:
            self._dump_flight_recorder()

    def _say(self, activity: Activity, pending: int) -> None:
        rank = self._recorder.global_rank
        where = f" at {activity.site}" if activity.site else ""
        what = activity.what
        if activity.op is not None:
            seq = "" if activity.seq is None else f", seq {activity.seq}"
            what = f"{activity.op} (group {activity.group}{seq})"
        folder = self._recorder.writer.path.parent
        # logging may be configured to go anywhere; this line is for the person at the terminal.
        sys.stderr.write(
            f"collectrace: rank {'?' if rank is None else rank} has been in {what}{where} "
            f"for {pending / 1e9:.0f} s. Why: python -m collectrace.align {folder}\n"
        )

    def _dump_flight_recorder(self) -> None:
        """What torch's own recorder holds goes beside the rank file, as ``.flight.json``."""
        dump = getattr(_distributed_c10d, "_dump_fr_trace_json", None)
        if dump is None:
            return
        text = dump()
        if json.loads(text).get("entries"):
            path: Path = self._recorder.writer.path.with_suffix(".flight.json")
            with contextlib.suppress(OSError):  # the rank file has the same trouble, and says so
                path.write_bytes(text if isinstance(text, bytes) else text.encode())


def stacks() -> dict[str, list[str]]:
    """The Python stack of every thread but the calling one, innermost last."""
    names = {t.ident: t.name for t in threading.enumerate()}
    me = threading.get_ident()
    return {
        f"{names.get(ident, 'native')} ({ident})": [
            f"{f.filename}:{f.lineno} {f.name}"
            for f in traceback.StackSummary.extract(
                traceback.walk_stack(frame), limit=_STACK_LINES, lookup_lines=False
            )
        ][::-1]
        for ident, frame in sys._current_frames().items()
        if ident != me
    }

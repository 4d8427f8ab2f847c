"""Read values of variables at the right moments, choose the threads, and write the records."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from types import TracebackType
from typing import Final

from collectrace import records
from collectrace.config import OFF, VALUES_ALL
from collectrace.tracer.guard import contained
from collectrace.tracer.record import scopes
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import ThreadState, now
from collectrace.tracer.user_objects import is_a
from collectrace.tracer.user_text import thread_name
from collectrace.tracer.values import numpy_scalars, stack, tensors
from collectrace.tracer.values.frame_values import Budget, read_frame
from collectrace.tracer.values.pending import Pending
from collectrace.tracer.values.plain import PlainValues
from collectrace.tracer.values.stack import FoundStack

_MOST_BYTES: Final = 24 << 10
"""Bytes of all records of one reading. The aligner always reads the last 32 KiB of a file, and so
finds them."""

_LONGEST: Final = 0.05
"""Seconds of thread time for one reading."""

_MOST_THREADS: Final = 16

_MOST_ENDED: Final = 20
"""Exceptions that are recorded. There may be many, as a program may end its threads that way."""

_PATIENCE: Final = 0.5
"""Seconds to wait for another thread of the tracer that is reading."""

_MOST_NAME: Final = 200
"""Characters of the name of a thread."""

_FIELDS: Final = " " * 250
"""As long as a record without the name of its thread and its functions."""

_PAUSE: Final = 10_000_000_000
"""ns between two readings for a diagnosis."""

_OURS: Final = "collectrace"
"""Prefix of the names of the tracer's threads."""


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread to read."""

    ident: int
    name: str


class ValueRecords:
    """Reads and records the values of one run.

    ``mode`` is the option's value. ``run`` returns the run's id; None: the ranks have not met.
    Methods do not raise: after a failure nothing is read any more.
    """

    def __init__(self, recorder: Recorder, mode: str, run: Callable[[], str | None]) -> None:
        self._recorder, self._run = recorder, run
        self._shows_text = mode == VALUES_ALL
        # Without a GIL the frames of other threads change while they are read.
        self._is_on = mode != OFF and getattr(sys, "_is_gil_enabled", lambda: True)()
        self._ended = 0
        self._calls, self._read_t = -1, 0
        """The number of calls at the last reading of threads, and its time, ns."""
        self._lock = threading.Lock()

    def of_threads(self, reason: str) -> None:
        """Record the variables of the functions on the stacks of the job's threads.

        For diagnoses, it does so only after new calls, and not more often than every 10 s.
        """
        calls, t = self._recorder.calls, now()
        if reason == records.ASKED and (calls == self._calls or t - self._read_t < _PAUSE):
            return
        self._calls, self._read_t = calls, t
        self._guarded(lambda: self._read_threads(reason))

    def of_exception(self, problem: BaseException, traceback: TracebackType | None) -> None:
        """Record the variables of the functions that an exception of this thread passed through."""
        self._ended += 1
        if self._ended <= _MOST_ENDED:
            self._guarded(lambda: self._read_traceback(problem, traceback))

    def _guarded(self, read: Callable[[], None]) -> None:
        recorder = self._recorder
        if not self._is_on or not recorder.active or not self._lock.acquire(timeout=_PATIENCE):
            return
        is_on, self._is_on = self._is_on, False
        try:
            with contained(recorder.count_beside, "reading values"):
                read()
                self._is_on = is_on
        finally:
            self._lock.release()

    def _read_threads(self, reason: str) -> None:
        began = now()
        states = scopes.all_states()
        # Each has two references: from the state, and from the wrapper that set it there
        # (patches/scoping).
        callers = (id(state.caller) for state in states if state.caller is not None)
        held = dict.fromkeys(callers, 2)
        chosen, left_out = _chosen(states)
        stacks = {}
        frames = sys._current_frames()
        for thread in chosen:
            if thread.ident in frames:
                # No variable here may hold the frame.
                stacks[thread] = stack.of_thread(frames.pop(thread.ident), held)
        frames.clear()
        self._write(reason, stacks, began, left_out)

    def _read_traceback(self, problem: BaseException, traceback: TracebackType | None) -> None:
        began = now()
        thread = threading.current_thread()
        reason = records.INTERRUPTED if is_a(problem, KeyboardInterrupt) else records.ENDED
        found = {_Thread(threading.get_ident(), thread_name(thread)): stack.of_traceback(traceback)}
        self._write(reason, found, began)

    def _write(
        self, reason: str, stacks: Mapping[_Thread, FoundStack], began: int, left_out: int = 0
    ) -> None:
        recorder = self._recorder
        rows = tensors.rows(Pending(recorder).may_write) | numpy_scalars.rows()
        plain = PlainValues(self._key(), shows_text=self._shows_text, rows=rows)
        budget = Budget(_MOST_BYTES, _LONGEST)
        for thread, found in stacks.items():
            record = records.Values(
                reason=reason, thread=thread.name[:_MOST_NAME], threads_left_out=left_out,
                functions_left_out=found.left_out, iteration=recorder.iteration or None,
            )  # fmt: skip
            if not found.users or not budget.allows([record.thread, _FIELDS]):
                continue
            for level in found.users:
                values = read_frame(level, plain, budget)
                if values is None:
                    record.functions_left_out += 1
                else:
                    record.functions.append(values)
            record.ns, began = now() - began, now()
            recorder.write(record)

    def _key(self) -> bytes | None:
        """Return the key of the hashes. In one run, equal strings get equal hashes on all ranks."""
        run = self._run()
        return None if run is None else blake2b(run.encode()).digest()


def _chosen(states: list[ThreadState]) -> tuple[list[_Thread], int]:
    """Return the threads to read and the number of others; the main one and busy ones first."""
    me, main = threading.get_ident(), threading.main_thread()
    busy = sorted(states, key=lambda state: not (state.call or state.wait or state.scope.what))
    names = {main.ident or 0: thread_name(main)} | {state.ident: state.name for state in busy}
    found = [
        _Thread(ident, name)
        for ident, name in names.items()
        if ident != me and not name.startswith(_OURS)
    ]
    return found[:_MOST_THREADS], max(0, len(found) - _MOST_THREADS)

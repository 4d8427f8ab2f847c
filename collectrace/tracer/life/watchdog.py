"""The watchdog: a thread that records completed calls, signs of life, and what the process is in.

It only observes: it uses no collective, no store and no device. It polls a Work with
``is_completed()``, which neither blocks nor synchronises.
"""

from __future__ import annotations

import contextlib
import threading
from queue import Empty, SimpleQueue
from typing import Final

from collectrace import records
from collectrace.config import AUTO, Config
from collectrace.records import Activity
from collectrace.tracer.guard import contained
from collectrace.tracer.life import proc, spool
from collectrace.tracer.life.blind_spots import BlindSpots
from collectrace.tracer.life.reporter import Reporter
from collectrace.tracer.life.stack_dumps import DeadMansSwitch, StackDumps
from collectrace.tracer.life.stall import Stalls
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import ThreadState, now
from collectrace.tracer.record.streams import CallCounter, Channel
from collectrace.tracer.record.template import Template
from collectrace.tracer.values.value_records import ValueRecords

_POLLS: Final = 5
"""How often per heartbeat the Works are polled."""

_WORK_AGE: Final = 2
"""Heartbeats after which a Work of the CPU is no longer polled."""

_CALL_AGE: Final = 4
"""Heartbeats after which a call counts as complete if a later one of its stream is."""

_SHORTEST_STALL: Final = 1.0
"""Seconds; a shorter timeout makes no shorter stalls, nor more heartbeats."""

_SLOW_WRITE: Final = 0.1
"""Seconds that a write to the rank file may take."""

_STOP_TIMEOUT: Final = 5.0
"""Seconds to wait for the thread's end. It usually sleeps, and wakes at once."""


class Watchdog:
    """The observing thread of one run, from :meth:`start` to :meth:`stop`."""

    def __init__(self, recorder: Recorder, config: Config, values: ValueRecords) -> None:
        self._recorder = recorder
        self._config = config
        self._blind_spots = BlindSpots()
        self._stalls = Stalls(recorder, self._stall_after, self._is_explained)
        self.reporter: Reporter | None = None
        """Compares the ranks when this one stalls; None: that is not wanted."""
        self._values = values
        self._switch: DeadMansSwitch | None = None
        self._stack_dumps: StackDumps | None = None
        self._last_turn = now()
        """When this thread last ran, ns."""
        self._news: SimpleQueue[None] = SimpleQueue()
        """Wakes the thread. Unlike an event, it allows a second ``put`` during a first: a signal
        handler of the program may issue a call at any moment."""
        if recorder.sources is not None:
            recorder.sources.news = self.wake
        self._may_leave = config.spool == AUTO
        """Whether a spool may take over if a write hangs."""
        self._spool: spool.Spool | None = None
        """The spool that takes over with the next line."""
        self._is_stopped = False
        self._thread = threading.Thread(target=self._watch, name="collectrace", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread to read new sources now: the process may end in a moment."""
        self._news.put(None)

    @property
    def stalls(self) -> int:
        """Return how often this rank has stalled so far."""
        return self._stalls.count

    def arm(self, stack_dumps: StackDumps) -> None:
        """Write the stacks from now on if the GIL is held for as long as a stall takes."""
        native_id = self._thread.native_id
        if stack_dumps.signum is not None and native_id is not None:
            switch = DeadMansSwitch(stack_dumps.signum, native_id)
            switch.set(self._stall_after())
            self._stack_dumps = stack_dumps
            self._switch = switch

    def stop(self) -> None:
        """End the thread, and wait some seconds: it may be in the middle of a slow write."""
        self._is_stopped = True
        self.wake()
        if self._switch is not None:
            self._switch.set(0)
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT)

    def _watch(self) -> None:
        polls = 0
        due = now() + self._pause()
        while not self._is_stopped:
            try:
                self._wait(min(due, self._stalls.due or due))
                if self._is_stopped:
                    break
                is_due = now() >= due
                if is_due:
                    polls += 1
                    due = now() + self._pause()
                self._reset_switch()
                if is_due and not self._can_write():
                    continue
                if is_due:
                    self.poll()
                self._recorder.write_sources(at_last=False)
                if is_due:
                    self.write_blind_spots()
                is_beat = is_due and polls % _POLLS == 0
                if (self._is_stall_due() or is_beat) and self._recorder.active:
                    self._beat()
                if self.reporter is not None:
                    self.reporter.step()
            except Exception as problem:
                self._recorder.count_beside(problem, "watching")
                if not self._recorder.active:
                    break  # if the wait fails, this loop would run without a pause
        with contained(self._recorder.count_beside, "watching"):
            if self._switch is not None:
                self._switch.remove()

    def _stall_after(self) -> float:
        """Return the seconds after which a pending call has stalled.

        At most half of the timeout of the default group: then the record has the stacks of all
        ranks before the backend gives up.
        """
        by_timeout = max(_SHORTEST_STALL, self._recorder.book.timeout / 2)
        return min(self._config.stall_after, by_timeout)

    def _heartbeat(self) -> float:
        """Return the seconds between two heartbeats: less often, stalls would be noticed late."""
        return min(self._config.heartbeat, self._stall_after())

    def _pause(self) -> int:
        """Return the ns between two polls."""
        return int(self._heartbeat() / _POLLS * 1e9)

    def _wait(self, due: int) -> None:
        """Wait until ``due``, ns, or until there is news."""
        with contextlib.suppress(Empty):
            self._news.get(timeout=max(0, due - now()) / 1e9)
            while True:
                self._news.get_nowait()

    def _reset_switch(self) -> None:
        """Reset the dead man's switch; record the stacks if it was triggered meanwhile."""
        before, self._last_turn = self._last_turn, now()
        if self._switch is None or self._stack_dumps is None:
            return
        self._switch.set(self._stall_after())
        dump = self._stack_dumps.collect()
        if dump is not None:
            self._recorder.write(
                records.Stall(pending=now() - before, stacks=dump.stacks, gil_held=True)
            )
            self._values.of_threads(records.STALLED)

    def _beat(self) -> None:
        recorder = self._recorder
        with recorder.lock:
            recorder.writer.check()
        self.write_watermarks()
        doing = activities(recorder)
        recorder.write(records.Alive(in_=doing))
        if self._stalls.check(doing):
            self._values.of_threads(records.STALLED)
            if self.reporter is not None:
                self.reporter.want()

    def _can_write(self) -> bool:
        """Return whether the rank file can be written; if a write hangs, use a spool instead."""
        writer, lock = self._recorder.writer, self._recorder.lock
        if writer.spool is not None or not self._may_leave:
            return True
        # A thread that writes holds the lock. So this check costs nothing in a call.
        if lock.acquire(timeout=_SLOW_WRITE):
            lock.release()
            return True
        if writer.fd >= 0 and proc.is_in_write(writer.fd):
            self._spool = self._spool or spool.make(self._config)
            if self._spool is None:
                self._may_leave = False
            else:
                writer.leave(self._spool)
        return False  # the next loop resets the dead man's switch, as the GIL is free

    def _is_stall_due(self) -> bool:
        """Return whether a stall is due, which needs a heartbeat before its time."""
        due = self._stalls.due
        if not due or now() < due:
            return False
        self._stalls.due = 0
        return True

    def _is_explained(self) -> bool:
        return self.reporter is not None and self.reporter.is_explained()

    def poll(self) -> None:
        """Poll the Works that are held; record those that nobody waited for."""
        works = self._recorder.works
        works.poll(round(self._heartbeat() * _WORK_AGE * 1e9))
        for record in works.unwaited_records():
            self._recorder.write(record)

    def write_blind_spots(self) -> None:
        """Record the blind spots that this process uses by now."""
        if self._recorder.active:
            for record in self._blind_spots.take():
                self._recorder.write_repeated(record)

    def write_watermarks(self) -> None:
        """Write a ``done`` record for each stream and channel with a new watermark."""
        recorder = self._recorder
        old = now() - int(self._heartbeat() * _CALL_AGE * 1e9)
        in_flight: dict[CallCounter, int] = {}
        for state in scopes.all_states():
            call = state.call
            if call is not None:
                counter = call[0].counter
                in_flight[counter] = min(call[1], in_flight.get(counter, call[1]))
        for counter in counters(recorder):
            counter.forget_overtaken(old)
            mark = counter.watermark(in_flight.get(counter))
            if mark <= counter.reported:
                continue
            counter.reported = mark
            recorder.write(_done(counter, mark, recorder))


def counters(recorder: Recorder) -> list[CallCounter]:
    """Return every stream and channel of the run."""
    return [
        counter
        for group in list(recorder.book.states.values())
        for counter in (*list(group.streams.values()), *list(group.channels.values()))
    ]


def _done(counter: CallCounter, mark: int, recorder: Recorder) -> records.Done:
    done = records.Done(group=counter.group, device=counter.device, seq=mark)
    if isinstance(counter, Channel):
        sends = counter.source == recorder.global_rank
        done.op = "send" if sends else "recv"
        done.peer = counter.destination if sends else counter.source
        done.tag = counter.tag
    return done


def activities(recorder: Recorder) -> list[Activity]:
    """Return what each thread of this process and each device is in, without idle ones."""
    found = []
    for state in scopes.all_states():
        activity = _activity(state, recorder)
        if activity is not None:
            found.append(activity)
    for held in recorder.works.oldest_incomplete():
        template = held.template
        found.append(_in_call("device", template.counter.device, template, held.seq, held.since))
    return found


def _activity(state: ThreadState, recorder: Recorder) -> Activity | None:
    # The thread keeps running: each field is read only once.
    wait, call, scope = state.wait, state.call, state.scope
    if wait is not None:
        template, seq, since = wait
        what = "wait"
    elif call is not None:
        template, seq = call
        since, what = state.call_t, "call"
    elif scope.what is not None:
        activity = Activity(thread=state.name, what=scope.what, since=state.since)
        _add_open_bucket(activity, recorder)
        asking = recorder.book.asking
        if scope.what == "group" and asking is not None:
            is_default = asking.description == records.DEFAULT_GROUP
            activity.op = "init_process_group" if is_default else "new_group"
            activity.group, activity.site = asking.group, asking.site
        return activity
    else:
        return None
    return _in_call(what, state.name, template, seq, since)


def _in_call(what: str, thread: str, template: Template, seq: int, since: int) -> Activity:
    counter = template.counter
    return Activity(
        thread=thread, what=what, since=since, group=counter.group, device=counter.device,
        seq=seq, op=template.op, peer=template.peer, tag=template.tag, site=template.site,
    )  # fmt: skip


def _add_open_bucket(activity: Activity, recorder: Recorder) -> None:
    # backward() waits for DDP's buckets at its end, in C++ (Reducer::finalize_backward). Until it
    # returns, it is in the first of them.
    buckets = recorder.buckets
    if activity.what == "backward" and buckets:
        template, seq = buckets[0]
        counter = template.counter
        activity.op = template.op
        activity.group, activity.device, activity.seq = counter.group, counter.device, seq
    if activity.what == "backward":
        activity.site, _ = sites.resolve(scopes.backward.place)

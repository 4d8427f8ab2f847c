"""Find what the threads of one rank wait for when its evidence ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectrace import dumps, roles
from collectrace.align.ranks.clocks import Clock
from collectrace.align.ranks.standing import Waiting
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey, key_of
from collectrace.dumps import MAIN
from collectrace.records import Activity, Call, Done, Group

_INTERRUPTS: Final = ("KeyboardInterrupt", "SystemExit")
"""Exceptions from calls that were ended from outside: by Ctrl-C, or by a handler that exits."""


def last_sign(log: RankLog, *, of_end: bool = True) -> tuple[int, list[Activity]]:
    """Return the last line with the state of each thread: its time, and the activities.

    The time is of the rank's own clock, ns; 0 and an empty list if there is no such line.
    ``of_end``: whether the process's last line counts.
    """
    last = log.exit if of_end else None
    signs = [sign for sign in (log.alive, log.stall, last) if sign is not None]
    if not signs:
        return 0, []
    latest = max(signs, key=lambda sign: sign.t)
    return latest.t, latest.in_


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of one rank's threads, by the last lines of its log; ``when`` is its clock."""

    rank: int
    log: RankLog
    when: Clock

    def at_the_end(self) -> tuple[Waiting, ...]:
        """Return the waits of all threads that wait when the log ends."""
        told, inside = last_sign(self.log)
        last = self.log.last_call
        stale = last is not None and last.t > told
        # A thread that has issued a call since has left its earlier activity.
        moved_on = (last.thread or MAIN) if last is not None and stale else None
        front = None if stale else self._of_device(inside)
        found = [
            waiting
            for activity in inside
            if activity.what != "device" and activity.thread != moved_on
            and (waiting := self._of_activity(activity, front)) is not None
        ]  # fmt: skip
        if not any(w.thread == MAIN for w in found):
            main = front if front is not None else self._infer_main_wait(told)
            main = main if main is not None else self._wait_for_thread(found)
            found += [main] if main is not None else []
        return tuple(found)

    def interrupted(self) -> tuple[Waiting, ...]:
        """Return the waits of a rank that was ended from outside, or by its main thread alone.

        Empty if it ended otherwise, or did not wait.
        """
        leaving, last = self.log.exit, self.log.last_call
        if leaving is None:
            return ()
        if leaving.reason == "finished" and any(a.what in ("call", "wait") for a in leaving.in_):
            return tuple(w for w in self.at_the_end() if w.thread != MAIN and w.observed)
        failed = max(self.log.failed, key=lambda done: done.t, default=None)
        if failed is None or last is None or failed.t < last.t:
            failed = None
        elif (failed.error or "").partition(":")[0] not in _INTERRUPTS:
            return ()
        if failed is None and leaving.error not in _INTERRUPTS:
            return ()
        told, inside = last_sign(self.log, of_end=False)
        if last is None or last.t <= told:
            # The heartbeats show it until the end, and its begin.
            front = self._of_device(inside)
            found = (self._of_activity(a, front) for a in inside if a.what != "device")
            waiting = tuple(w for w in found if w is not None)
            if waiting:
                return waiting
        return (self._of_failed(failed),) if failed is not None and last is not None else ()

    def behind_exception(self, *, by_peers: bool) -> tuple[Waiting, ...]:
        """Return the call that an exception came from, if no thread is known to wait.

        It is the call that raised last, unless the rank continued after it. If no call has failed,
        an exception about peers (``by_peers``) comes from the latest thing that the rank began.
        That is the creation of a group, or a backward(), which raises the errors of its buckets.
        """
        failed = max(self.log.failed, key=lambda done: done.t, default=None)
        asked, last = self._pending_group(), self.log.last_call
        if failed is not None and last is not None and failed.t >= last.t:
            return (self._of_failed(failed),)
        if not by_peers:
            return ()
        if asked is not None and (last is None or asked.t > last.t):
            return (self._of_creation(asked),)
        return (self._of_call(last),) if last is not None else ()

    # -- by what a sign of life says ----------------------------------------------------------

    def _of_device(self, inside: Sequence[Activity]) -> Waiting | None:
        """Return the call that a device is in: the first that it was given and has not completed.

        The host runs ahead of the device, so this call, and not the latest, is what blocks the
        rank.
        """
        devices = (a for a in inside if a.what == "device" and a.group is not None)
        first = min(devices, key=lambda a: a.since, default=None)
        if first is None:
            return None
        return self._of_activity(replace(first, thread=MAIN), None)

    def _of_activity(self, activity: Activity, front: Waiting | None) -> Waiting | None:
        """Return what a thread waits for; None if it only works.

        ``front``: what its device is in.
        """
        if activity.what == "group":
            return self._inside_creation(activity)
        if activity.what in ("backward", "sync") and activity.seq is None:
            return self._beside_device(activity, front)
        return self._inside_call(activity)

    def _inside_creation(self, activity: Activity) -> Waiting:
        """Return the wait for the creation of a group, by its own record if there is one."""
        asked = self._pending_group()
        name, site = activity.group or "", activity.site
        if asked is not None:
            name, site = asked.group, asked.site
        return Waiting(
            self.rank, activity.thread, "group", self.when(activity.since), name, "new_group",
            site=site,
        )  # fmt: skip

    def _beside_device(self, activity: Activity, front: Waiting | None) -> Waiting | None:
        """Return a backward() or a device synchronise as a wait for what the device is in.

        If that is not known, it may wait for the last call that was issued in it: a backward() for
        DDP's calls only. Otherwise it computes, and the result is None.
        """
        last = self.log.last_call
        if front is None:
            if last is None or last.t < activity.since or self.is_done(last):
                return None
            if activity.what == "backward" and not roles.of(last.role).in_backward:
                return None
            front = self._of_call(last)
        return replace(front, thread=activity.thread, what=activity.what)

    def _inside_call(self, activity: Activity) -> Waiting | None:
        """Return a collective, a message, or the wait for one; None if it is known to be over."""
        if activity.group is None or activity.seq is None:
            return None
        stream = StreamKey(activity.group, activity.device or "")
        done = self.log.dones.get(stream)
        if activity.peer is None and done is not None and done.seq >= activity.seq:
            return None
        last = self.log.last_call
        known = last.op if last is not None and last.seq == activity.seq else ""
        return Waiting(
            self.rank, activity.thread, activity.what, self.when(activity.since), stream.group,
            activity.op or known, seq=activity.seq, device=stream.device,
            channel=_channel(self.rank, activity), site=activity.site, started=activity.started,
        )  # fmt: skip

    def _wait_for_thread(self, found: Sequence[Waiting]) -> Waiting | None:
        """Return the main thread's wait if its stack shows that it waits for another thread.

        None unless exactly one other thread is known to wait: the stack does not say for which it
        waits.
        """
        stall, last = self.log.stall, self.log.last_call
        threads = {waiting.thread for waiting in found}
        if stall is None or len(threads) != 1 or (last is not None and last.t > stall.t):
            return None
        if not dumps.is_joining(dumps.of_main(stall.stacks)):
            return None
        return replace(found[0], thread=MAIN, what="thread", observed=True)

    # -- by what was begun last ---------------------------------------------------------------

    def _infer_main_wait(self, told: int) -> Waiting | None:
        """Return the main thread's wait by what it began last after the last sign of life.

        ``told``: when that sign was written, on the rank's own clock, ns.
        """
        asked, last = self._pending_group(), self.log.last_call
        leaving = self.log.exit
        if leaving is not None and leaving.reason != "signal":
            return None
        if asked is not None and asked.t > max(told, last.t if last is not None else 0):
            return self._of_creation(asked)
        if last is None or last.t <= told or last.void or self.is_done(last):
            return None
        # On a device a call returns at once: that it is the last line says nothing.
        waits = last.device == "cpu" and (not last.async_ or roles.of(last.role).in_backward)
        return self._of_call(last) if waits and not self._is_over(last) else None

    def _is_over(self, call: Call) -> bool:
        """Return whether the main thread was not at a call's line any more when SIGTERM came."""
        end = self.log.stack_dumps.end
        frames = end.stacks.get(MAIN, []) if end is not None and end.fatal is None else []
        sites = {chains.site(frame) for frame in frames}
        return bool(sites) and call.site is not None and call.site not in sites

    def _of_creation(self, asked: Group) -> Waiting:
        """Return the wait for a requested group that no sign of life shows a thread in."""
        return Waiting(
            self.rank, MAIN, "group", self.when(asked.t), asked.group, "new_group",
            site=asked.site, observed=False,
        )  # fmt: skip

    def _of_call(self, call: Call) -> Waiting:
        """Return the wait for an issued call that no sign of life shows a thread in."""
        return Waiting(
            self.rank, call.thread or MAIN, "call", self.when(call.t), call.group, call.op,
            seq=call.seq, device=call.device, channel=_channel(self.rank, call), site=call.site,
            observed=False,
        )  # fmt: skip

    def _of_failed(self, failed: Done) -> Waiting:
        """Return a call that raised, with the details of its line if that is known."""
        found = Waiting(
            self.rank, MAIN, "call", self.when(failed.t), failed.group, failed.op or "",
            seq=failed.seq, device=failed.device,
            channel=_channel(self.rank, failed),
        )  # fmt: skip
        call = self.log.call(key_of(self.rank, failed), failed.seq)
        if call is None:
            return found
        return replace(
            found, thread=call.thread or MAIN, since=self.when(call.t), op=found.op or call.op,
            site=call.site,
        )  # fmt: skip

    def _pending_group(self) -> Group | None:
        """Return the last requested group if it never became ready."""
        last = next((g for g in reversed(self.log.groups) if g.phase != "destroyed"), None)
        return last if last is not None and last.phase == "asked" else None

    def is_done(self, call: Call, by: int | None = None) -> bool:
        """Return whether a watermark shows that a call has completed.

        ``by``: at this time of the rank's own clock, ns.
        """
        done = self.log.dones.get(key_of(self.rank, call))
        if done is None or (by is not None and done.t > by):
            return False
        return done.seq >= call.seq


def _channel(rank: int, of: Activity | Call | Done) -> ChannelKey | None:
    """Return the channel of a message that ``rank`` sends or receives; None for anything else."""
    key = key_of(rank, of)
    return key if isinstance(key, ChannelKey) else None

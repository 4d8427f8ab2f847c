"""What every rank was doing when its evidence ends, and how it ended.

The evidence is uneven. A rank that ends by itself says so. One that aborts in C++ or gets SIGKILL
leaves nothing but its last lines: the call it issued before it died, and heartbeats up to then. A
launcher that ends all ranks after one failed changes nothing about what they were doing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from collectrace import roles, words
from collectrace.align.ranks.clocks import Clock, Clocks
from collectrace.align.ranks.deaths import find_dead
from collectrace.align.ranks.standing import MAIN, Standing, Waiting, patience
from collectrace.align.reading.evidence import ChannelKey, RankLog, RunEvidence, StreamKey
from collectrace.findings import Ended, State
from collectrace.ops import POINT_TO_POINT, ends
from collectrace.records import Activity, Call, Exit, Group

# What torch raises where a peer, not the caller, is to blame. Sources: gloo/transport/tcp,
# ProcessGroupNCCL.cpp (watchdog and abort), ProcessGroupGloo.cpp (monitoredBarrier), TCPStore.cpp.
_LOST: Final = re.compile(
    r"connection (was )?(closed|reset|refused)|broken pipe|remote process exited|socket ?closed"
    r"|failed to recv, got 0 bytes",
    re.IGNORECASE,
)
_GAVE_UP: Final = re.compile(r"timed? ?out|timeout|wait timeout", re.IGNORECASE)
_COMMUNICATION: Final = re.compile(r"gloo/|NCCL (error|communicator)|ncclRemoteError|abort")
_ERRORS: Final = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError"})


def standings(evidence: RunEvidence, clocks: Clocks, now: int | None = None) -> dict[int, Standing]:
    """Every rank of the job, and any beyond that left a file. ``now``: ns since 1970."""
    now = time.time_ns() if now is None else now
    everybody = sorted({*range(evidence.world_size), *evidence.logs, *evidence.missing})
    found = {
        rank: _standing(evidence, evidence.logs.get(rank), rank, clocks.of(rank), now)
        for rank in everybody
    }
    find_dead(evidence, found)
    return found


def _standing(
    evidence: RunEvidence, log: RankLog | None, rank: int, when: Clock, now: int
) -> Standing:
    if log is None:
        return Standing(rank, "missing", "gone", detail="left no file")
    waiting = _waiting(log, rank, when)
    standing = Standing(rank, "running", "gone", end=when(log.last_t), log=log, waiting=waiting)
    leaving = log.exit
    if log.disabled and (leaving is None or leaving.reason in ("disabled", "finished")):
        text = "tracing was switched off"
        return replace(standing, state="finished", ended="exit", disabled=True, detail=text)
    if leaving is not None and leaving.reason == "finished" and not leaving.code:
        return replace(standing, state="finished", ended="exit", waiting=())
    if leaving is not None and leaving.reason in ("finished", "exception") and not _ctrl_c(leaving):
        return _raised(standing, leaving, log, when)
    ended: Ended = (
        "signal" if leaving is not None else _how_it_ended(evidence, log, now - standing.end)
    )
    state: State = "running"
    if waiting:
        state = "blocked"
    elif log.last_call is None or _last_sign(log)[0] > log.last_call.t:
        state = "busy"
    standing = replace(standing, state=state, ended=ended)
    return replace(standing, detail=_detail(standing, log, when))


def _how_it_ended(evidence: RunEvidence, log: RankLog, silence: int) -> Ended:
    exists = evidence.still_exists(log)
    if exists is None:
        exists = log.stack_dumps.end is None and 0 <= silence < patience(log)
    if exists:
        return "alive"
    return "gone" if log.stack_dumps.end is None else "signal"


def _ctrl_c(leaving: Exit) -> bool:
    return leaving.error == "KeyboardInterrupt"


def _raised(standing: Standing, leaving: Exit, log: RankLog, when: Clock) -> Standing:
    message = leaving.message or ""
    by_peers = leaving.error in _ERRORS or any(
        pattern.search(message) for pattern in (_LOST, _GAVE_UP, _COMMUNICATION)
    )
    if leaving.error is None:
        detail = f"sys.exit({leaving.code})"
    else:
        detail = words.exception(leaving.error, message)
        detail += f" at {words.site(leaving.site)}" if leaving.site else ""
    inside = standing.waiting or _failed_in(log, standing.rank, when)
    if by_peers and not inside:
        inside = _ran_into(log, standing.rank, when)
    return replace(
        standing, state="raised", ended="exit", waiting=inside, by_peers=by_peers,
        lost_peer=bool(_LOST.search(message)),
        gave_up=by_peers and bool(_GAVE_UP.search(message)), detail=detail,
    )  # fmt: skip


def _ran_into(log: RankLog, rank: int, when: Clock) -> tuple[Waiting, ...]:
    """What an exception about peers came out of, where no call has failed: the latest thing.

    The creation of a group, or a backward(), which raises what its buckets ran into.
    """
    asked, last = _unanswered(log), log.last_call
    if asked is not None and (last is None or asked.t > last.t):
        return (_of_group(rank, asked, when),)
    return (_of_call(rank, last, when),) if last is not None else ()


def _of_group(rank: int, asked: Group, when: Clock) -> Waiting:
    return Waiting(
        rank, MAIN, "group", when(asked.t), asked.group, "new_group", site=asked.site,
        told=False,
    )  # fmt: skip


def _failed_in(log: RankLog, rank: int, when: Clock) -> tuple[Waiting, ...]:
    """The call that raised last, unless the rank went on after it."""
    if not log.failed or log.last_call is None:
        return ()
    failed = max(log.failed, key=lambda done: done.t)
    if failed.t < log.last_call.t:
        return ()
    channel = None
    if failed.op in POINT_TO_POINT and failed.peer is not None:
        between = ends(failed.op, rank, failed.peer)
        channel = ChannelKey(failed.group, failed.device, *between, failed.tag or 0)
    call = log.last_call
    same = (call.group, call.device, call.seq) == (failed.group, failed.device, failed.seq)
    return (
        Waiting(
            rank, (call.thread if same else None) or MAIN, "call",
            since=when(call.t if same else failed.t), group=failed.group,
            op=failed.op or (call.op if same else ""), seq=failed.seq, device=failed.device,
            channel=channel, site=call.site if same else None,
        ),
    )  # fmt: skip


# -- what a rank waits for -------------------------------------------------------------------


def _last_sign(log: RankLog) -> tuple[int, list[Activity]]:
    """The last line that says what each thread is in, and when it was written (its own clock)."""
    signs = [sign for sign in (log.alive, log.stall, log.exit) if sign is not None]
    if not signs:
        return 0, []
    latest = max(signs, key=lambda sign: sign.t)
    return latest.t, latest.in_


def _waiting(log: RankLog, rank: int, when: Clock) -> tuple[Waiting, ...]:
    told, inside = _last_sign(log)
    last = log.last_call
    stale = last is not None and last.t > told
    # A thread that has issued a call since is no longer in what it was in.
    moved_on = (last.thread or MAIN) if last is not None and stale else None
    front = None if stale else _front(log, rank, inside, when)
    found = [
        waiting
        for activity in inside
        if activity.what != "device" and activity.thread != moved_on
        and (waiting := _of_activity(log, rank, activity, front, when)) is not None
    ]  # fmt: skip
    if not any(w.thread == MAIN for w in found):
        found += [front] if front is not None else _inferred(log, rank, told, when)
    return tuple(found)


def _front(log: RankLog, rank: int, inside: Sequence[Activity], when: Clock) -> Waiting | None:
    """What a device is in: of all calls that were asked and are incomplete the one issued first.

    The host runs ahead of it, so this, and not the latest call, is what the rank is held up by.
    """
    devices = (a for a in inside if a.what == "device" and a.group is not None)
    first = min(devices, key=lambda a: a.since, default=None)
    if first is None:
        return None
    return _of_activity(log, rank, replace(first, thread=MAIN), None, when)


def _of_activity(
    log: RankLog, rank: int, activity: Activity, front: Waiting | None, when: Clock
) -> Waiting | None:
    """What a thread waits for; None where it only works. ``front``: what its device is in."""
    since = when(activity.since)
    if activity.what == "group":
        asked = _unanswered(log)
        name = asked.group if asked is not None else activity.group or ""
        return Waiting(
            rank, activity.thread, "group", since, name, "new_group",
            site=asked.site if asked is not None else activity.site,
        )  # fmt: skip
    last = log.last_call
    if activity.what in ("backward", "sync") and activity.seq is None:
        if front is not None:
            return replace(front, thread=activity.thread, what=activity.what)
        # It computes, unless something it issued is still on its way.
        if last is None or last.t < activity.since or _is_done(log, rank, last):
            return None
        if activity.what == "backward" and not roles.of(last.role).in_backward:
            return None
        return replace(_of_call(rank, last, when), thread=activity.thread, what=activity.what)
    if activity.group is None or activity.seq is None:
        return None
    device = activity.device or ""
    done = log.dones.get(StreamKey(activity.group, device))
    if activity.peer is None and done is not None and done.seq >= activity.seq:
        return None
    return Waiting(
        rank, activity.thread, activity.what, since, activity.group,
        activity.op or (last.op if last is not None and last.seq == activity.seq else ""),
        seq=activity.seq, device=device, channel=_channel(rank, activity), site=activity.site,
    )  # fmt: skip


def _inferred(log: RankLog, rank: int, told: int, when: Clock) -> list[Waiting]:
    """What the main thread waits for as far as its last lines tell, no sign of life being newer."""
    asked, last = _unanswered(log), log.last_call
    leaving = log.exit
    if leaving is not None and leaving.reason != "signal":
        return []
    if asked is not None and asked.t > max(told, last.t if last is not None else 0):
        return [_of_group(rank, asked, when)]
    if last is None or last.void or _is_done(log, rank, last):
        return []
    # On a device a call returns at once: that it is the last line says nothing.
    returned = last.async_ and not roles.of(last.role).in_backward
    waits = last.t > told and last.device == "cpu" and not returned
    return [_of_call(rank, last, when)] if waits else []


def _of_call(rank: int, call: Call, when: Clock) -> Waiting:
    return Waiting(
        rank, call.thread or MAIN, "call", when(call.t), call.group, call.op, seq=call.seq,
        device=call.device, channel=_channel(rank, call), site=call.site, told=False,
    )  # fmt: skip


def _channel(rank: int, of: Activity | Call) -> ChannelKey | None:
    if of.peer is None or of.group is None:
        return None
    between = ends(of.op, rank, of.peer)
    return ChannelKey(of.group, of.device or "", *between, of.tag or 0)


def _is_done(log: RankLog, rank: int, call: Call) -> bool:
    channel = _channel(rank, call)
    if channel is not None:
        done = log.channel_dones.get(channel)
    else:
        done = log.dones.get(StreamKey(call.group, call.device))
    return done is not None and done.seq >= call.seq


def _unanswered(log: RankLog) -> Group | None:
    """The last group that was asked for, if it never got ready."""
    last = next((g for g in reversed(log.groups) if g.phase != "destroyed"), None)
    return last if last is not None and last.phase == "asked" else None


def _detail(standing: Standing, log: RankLog, when: Clock) -> str:
    """A few words on what a rank without an end was doing."""
    if standing.waiting:
        waiting = standing.waiting[0]
        where = f" at {words.site(waiting.site)}" if waiting.site else ""
        row = f" {waiting.seq}" if waiting.seq is not None else ""
        held = words.seconds(standing.end - waiting.since)
        return f"in {waiting.op or 'a collective'}{row}{where} for {held}"
    if standing.state != "busy":
        return ""
    _, inside = _last_sign(log)
    doing = next((a for a in inside if a.thread == MAIN), None)
    what = _BUSY.get(doing.what, "") if doing is not None else ""
    if log.last_call is None:
        return what or "no collective so far"
    since = words.seconds(standing.end - when(log.last_call.t))
    return f"{what or 'in no collective'} {since} after its last call"


_BUSY: Final = {
    "batch": "fetching a batch",
    "backward": "in backward()",
    "sync": "synchronising its device",
}

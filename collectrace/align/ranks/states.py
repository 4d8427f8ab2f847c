"""Determine what every rank was doing when its evidence ends, and how it ended.

The evidence is uneven. A rank that exits by itself says so. One that aborts in C++ or gets SIGKILL
leaves only its last lines: the call that it issued before, and heartbeats up to then. A launcher
that ends all ranks after one failed changes nothing about what they were doing.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

from collectrace import exceptions
from collectrace.align.ranks import host_waits
from collectrace.align.ranks.clocks import Clock, Clocks
from collectrace.align.ranks.deaths import find_dead
from collectrace.align.ranks.standing import Standing, patience
from collectrace.align.ranks.waits import Waits, last_sign
from collectrace.align.reading.evidence import RankLog, RunEvidence
from collectrace.dumps import MAIN
from collectrace.findings import Ended
from collectrace.records import Exit


class _Standings(dict[int, Standing]):
    """By rank. A rank that only a damaged log names is missing."""

    def __missing__(self, rank: int) -> Standing:
        return Standing(rank, "missing", "gone")


def standings(
    evidence: RunEvidence, clocks: Clocks, now: int | None = None, cut: Collection[int] = ()
) -> dict[int, Standing]:
    """Return the standing of every rank of the job, and of any other that left a file.

    ``now``: ns since 1970. ``cut``: ranks with a log that has lost its end.
    """
    now = time.time_ns() if now is None else now
    everybody = sorted({*evidence.logs, *evidence.missing})
    found = _Standings(
        {rank: _standing(evidence, rank, clocks.of(rank), now) for rank in everybody}
    )
    find_dead(evidence, found, now, cut)
    for rank, standing in found.items():
        log = standing.log
        is_silent = standing.state == "silent" and log is not None and log.stack_dumps.is_gil_held
        if log is not None and (standing.state in ("busy", "running") or is_silent):
            found[rank] = replace(standing, host_wait=host_waits.find(log, evidence))
    return found


def _standing(evidence: RunEvidence, rank: int, when: Clock, now: int) -> Standing:
    """Return the standing of one rank by its own log, without its peers'."""
    log = evidence.logs.get(rank)
    if log is None:
        lost = rank in evidence.unreadable
        return Standing(rank, *(("unknown", "unknown") if lost else ("missing", "gone")))
    waits = Waits(rank, log, when)
    standing = Standing(
        rank, "running", "gone", end=when(log.last_t), log=log, waiting=waits.at_the_end(),
        last_issued=when(log.last_call.t) if log.last_call is not None else None,
    )  # fmt: skip
    leaving = log.exit
    cut_short = waits.interrupted()
    if leaving is not None and cut_short:
        # Ctrl-C on a hang, or a SIGTERM handler that exits: it waited until then.
        return replace(standing, state="blocked", ended=_left(leaving), waiting=cut_short)
    if leaving is not None and leaving.reason == "disabled" and not log.disabled:
        return replace(standing, state="finished", ended="exit", waiting=())
    if log.disabled and (leaving is None or leaving.reason in ("disabled", "finished")):
        return replace(standing, state="finished", ended="exit", disabled=True)
    if leaving is not None and leaving.is_regular:
        return replace(standing, state="finished", ended="exit", waiting=())
    if (
        leaving is not None
        and leaving.reason in ("finished", "exception")
        and not leaving.is_interrupt
    ):
        return _raised(standing, leaving, waits)
    ended: Ended = (
        "signal" if leaving is not None else _how_it_ended(evidence, log, now - standing.end)
    )
    if standing.waiting:
        return replace(standing, state="blocked", ended=ended)
    told, inside = last_sign(log, of_end=leaving is None or not leaving.is_interrupt)
    if log.last_call is not None and told <= log.last_call.t:
        return replace(standing, state="running", ended=ended)
    doing = next((activity.what for activity in inside if activity.thread == MAIN), "")
    return replace(standing, state="busy", ended=ended, doing=doing)


def _how_it_ended(evidence: RunEvidence, log: RankLog, silence: int) -> Ended:
    """Return how a rank without a last line ended.

    ``silence``: ns since its last line.
    """
    exists = evidence.still_exists(log)
    if exists is None:
        beats = log.header.heartbeat > 0
        exists = beats and log.stack_dumps.end is None and 0 <= silence < patience(log)
    if exists:
        return "alive"
    return "gone" if log.stack_dumps.end is None else "signal"


def _left(leaving: Exit) -> Ended:
    """Return how a rank with an interrupted wait ended."""
    return "signal" if leaving.reason == "signal" or leaving.is_interrupt else "exit"


def _raised(standing: Standing, leaving: Exit, waits: Waits) -> Standing:
    """Return a rank that ended with an exception, or by sys.exit with a status other than 0."""
    message = leaving.message or ""
    by_peers = exceptions.blames_peers(leaving.error, message) or _peers_led_to(leaving, waits)
    by_peers = by_peers and not _was_elsewhere(waits)
    return replace(
        standing, state="raised", ended="exit", by_peers=by_peers,
        waiting=standing.waiting or waits.behind_exception(by_peers=by_peers),
        lost_peer=exceptions.lost_peer(message),
    )  # fmt: skip


def _was_elsewhere(waits: Waits) -> bool:
    """Return whether a rank was in no recorded call when it raised (in the store, for example).

    A heartbeat shows it, written since the last call, which had completed, or since the rank joined
    the job without one. If peers caused the exception there, they do not wait for it because of
    that.
    """
    log, last = waits.log, waits.log.last_call
    told, inside = last_sign(log, of_end=False)
    if last is not None and not waits.is_done(last, told):
        return False
    begun = [*log.groups, *log.failed, *([last] if last is not None else [])]
    return bool(begun) and not inside and told > max(one.t for one in begun)


def _peers_led_to(leaving: Exit, waits: Waits) -> bool:
    """Return whether an exception about peers, out of a call, led to the final one."""
    named = (cause.partition(": ") for cause in leaving.causes)
    return bool(waits.log.failed) and any(
        exceptions.blames_peers(error, text) for error, _, text in named
    )

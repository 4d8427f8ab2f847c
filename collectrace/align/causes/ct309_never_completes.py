"""Every rank reached a call, and it does not complete: a rank stopped in it, or came too late.

What it means
    The program is correct so far: all ranks made the call with the same arguments. One of these is
    the reason:

    - The process of a rank stopped inside the call, and no longer writes heartbeats.
    - A rank made the call after the others had timed out and raised.
    - Something below the collective fails: the network, a driver, or a device that hangs.

Example
    ::

        prepare(shard)              # 11 minutes on rank 1
        dist.all_reduce(loss)       # the others gave up after 10

Not to be confused with
    CT302, if the rank never made the call.

How to fix it
    Find out what delays the rank, or raise the timeout. If no rank is late, check the network, and
    run again with the backend's own log.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import not_moving, phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging import patience
from collectrace.align.judging.candidate import IncompleteRow
from collectrace.align.ranks.host_waits import HostWait
from collectrace.align.ranks.standing import Standing


def find(situation: Situation) -> IncompleteRow | None:
    """Return the call that does not complete."""
    source = situation.candidate.source
    return source if isinstance(source, IncompleteRow) else None


def words(situation: Situation, found: IncompleteRow) -> Words:
    """Return the words for a call that every rank reached."""
    call, stopped = waited_for.call(situation), waited_for.awaited_in(situation, "silent")
    if stopped:
        return _stopped(situation, stopped)
    if found.late:
        return _late(situation, found)
    who = text.ranks(situation.suspects) if situation.suspects else ""
    group = text.group(situation.candidate.group) if situation.candidate.group else "the group"
    return Words(
        phrases.fitting(
            f"{who} made no progress in {call}"
            if who
            else f"every rank reached {call}, and it never completes"
        ),
        (
            f"All ranks of {group} made call {found.seq} alike.",
            f"{text.upper(who)} did not complete it."
            if who
            else "None is known to have stopped, so the fault lies below the collective: the "
            "network, a driver, or a device that hangs.",
        ),
        (
            f"Look at the process of {who}."
            if who
            else "Look at the network between the hosts, and run again with NCCL_DEBUG=INFO or "
            "TORCH_DISTRIBUTED_DEBUG=INFO.",
        ),
    )


def _stopped(situation: Situation, those: tuple[Standing, ...]) -> Words:
    who = text.ranks(one.rank for one in those)
    said = not_moving.stopped(situation, those, who)
    return Words(
        f"{who} {said.did} inside {waited_for.call(situation)}",
        (f"Every rank reached the call. {said.why[0]}", *said.why[1:]),
        said.fixes,
        waited_for.chain(situation),
    )


def _late(situation: Situation, found: IncompleteRow) -> Words:
    late, call = sorted(found.late), waited_for.call(situation)
    who, others = text.ranks(late), [rank for rank in found.calls if rank not in found.late]
    by = text.seconds(max(found.late.values()))
    waited = patience.held_up_by(situation.case, found, late[0])
    return Words(
        phrases.fitting(
            f"{who} reached {call} {by} late, after the others had given up",
            f"{who} reached {call} {by} late",
        ),
        (
            f"{text.upper(text.ranks(others))} waited there in vain; when {who} came, nobody was "
            "left to answer.",
            _before(situation, found, late[0], waited),
        ),
        (
            *((waited.row.fix.format(who=who),) if waited is not None else ()),
            f"Find out what keeps {who} so long before this call: work that only some ranks do, or "
            "that takes longer there. Give it to all ranks, or do it where no rank waits.",
            not_moving.LONGER,
        ),
    )


def _before(situation: Situation, found: IncompleteRow, rank: int, waited: HostWait | None) -> str:
    """Return what a rank did between the call before and the one that it reached late.

    ``waited``: what it waited for meanwhile, outside of calls.
    """
    case = situation.case
    log, call = case.log(rank), found.calls.get(rank)
    if log is None or call is None:
        return f"What rank {rank} did before is not known."
    last = case.call(rank, found.stream, found.seq - 1)
    since = last.t if last is not None else log.header.t
    spent = [(one.t, one.wait, "waited for data", one.site) for one in log.batches]
    spent += [(one.t, one.wait, "waited for its device", one.site) for one in log.syncs]
    for t, wait, doing, site in spent:
        if since < t <= call.t and 2 * wait > call.t - since:
            return f"Rank {rank} {doing} for {text.seconds(wait)} of that{phrases.line(site)}."
    after = f" after {phrases.call(last)}" if last is not None else ""
    stall = log.stall if log.stall is not None and since < log.stall.t < call.t else None
    was = waited_for.place_in(stall.stacks) if stall is not None else ""
    at = f", and was at {was}" if was else ""
    gap = text.seconds(call.t - since)
    doing = f". There it waited for {waited.what}" if waited is not None else ""
    return f"Rank {rank} made no call in this group for {gap}{after}{at}{doing}."

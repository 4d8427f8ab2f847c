"""Ranks that are behind in a call that does not complete, and what they have in common."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.judging.candidate import IncompleteRow
from collectrace.align.ranks.host_waits import HostWait

_MOST: Final = 6
"""Call numbers that a sentence lists."""


def notes(situation: Situation) -> tuple[str, ...]:
    """Return a sentence on how far each rank got in the stream, if some are behind.

    A rank may be behind because others block it, so nobody is blamed.
    """
    case, candidate = situation.case, situation.candidate
    completed: dict[int, list[int]] = {}
    for rank in candidate.ranks if candidate.stream is not None else ():
        log = case.log(rank)
        if log is not None and candidate.stream is not None:
            done = log.dones.get(candidate.stream)
            completed.setdefault(done.seq if done is not None else 0, []).append(rank)
    if len(completed) < 2:
        return ()
    parts = [f"{words.ranks(ranks)} completed {n}" for n, ranks in sorted(completed.items())]
    more = f"; and {len(parts) - _MOST} more" if len(parts) > _MOST else ""
    return (f"Of the calls of this group, {'; '.join(parts[:_MOST])}{more}.",)


def before(situation: Situation, source: IncompleteRow, rank: int, waited: HostWait | None) -> str:
    """Return what a rank did between the call before and the one that it reached late.

    ``waited``: what it waited for meanwhile, outside of calls.
    """
    case = situation.case
    log, call = case.log(rank), source.calls.get(rank)
    if log is None or call is None:
        return f"What rank {rank} did before is not known."
    last = case.call(rank, source.stream, source.seq - 1)
    since = last.t if last is not None else log.header.t
    spent = [(one.t, one.wait, "waited for data", one.site) for one in log.batches]
    spent += [(one.t, one.wait, "waited for its device", one.site) for one in log.syncs]
    for t, wait, doing, site in spent:
        if since < t <= call.t and 2 * wait > call.t - since:
            return f"Rank {rank} {doing} for {words.seconds(wait)} of that{phrases.line(site)}."
    after = f" after {phrases.call(last)}" if last is not None else ""
    stall = log.stall if log.stall is not None and since < log.stall.t < call.t else None
    was = waited_for.place_in(stall.stacks) if stall is not None else ""
    at = f", and was at {was}" if was else ""
    gap = words.seconds(call.t - since)
    doing = f". There it waited for {waited.what}" if waited is not None else ""
    return f"Rank {rank} made no call in this group for {gap}{after}{at}{doing}."

"""Ranks that are behind in a call which does not complete: which they are, and what they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from collectrace import words
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.judging.candidate import IncompleteRow

_MOST_PARTS: Final = 6


def notes(situation: Situation) -> tuple[str, ...]:
    """Return how far each rank got with the stream, and the hosts and groups of those who lag.

    A rank lags if it gives no sign of life, or has completed less than others. It may be the one
    that is held up, so nobody is blamed for it.
    """
    case, candidate = situation.case, situation.candidate
    completed: dict[int, list[int]] = {}
    for rank in candidate.ranks if candidate.stream is not None else ():
        log = case.log(rank)
        if log is not None and candidate.stream is not None:
            done = log.dones.get(candidate.stream)
            completed.setdefault(done.seq if done is not None else 0, []).append(rank)
    most = max(completed, default=0)
    behind = [rank for n, ranks in completed.items() if n < most for rank in ranks]
    lagging = sorted({*candidate.suspects, *behind}) if candidate.stream is not None else []
    if not lagging or len(lagging) == len(candidate.ranks):
        return ()
    told = []
    if behind:
        parts = [f"{words.ranks(ranks)} completed {n}" for n, ranks in sorted(completed.items())]
        told.append(f"Of the calls of this group, {_few(parts)}.")
    hosts: dict[str, list[int]] = {}
    for rank in candidate.ranks:
        log = case.log(rank)
        if log is not None:
            hosts.setdefault(log.header.host, []).append(rank)
    groups = [
        (words.group(info), info.ranks)
        for name, info in case.comparison.groups.items()
        if candidate.stream is not None
        and name != candidate.stream.group
        and 1 < len(info.ranks) < len(candidate.ranks)
    ]
    by_host = _shares(hosts.items(), lagging) if len(hosts) > 1 else []
    for what, shares in (("host", by_host), ("group", _shares(groups, lagging))):
        if shares:
            told.append(f"Lagging, by {what}: {_few(shares)}.")
    return tuple(told)


def _shares(parts: Iterable[tuple[str, Sequence[int]]], lagging: Sequence[int]) -> list[str]:
    """Return the ranks of each part (name, ranks) that lag; parts of which all lag come first."""
    found = []
    for name, members in parts:
        those = sorted(set(members) & set(lagging))
        if those:
            share = "all" if len(those) == len(members) else f"{len(those)} of {len(members)}"
            found.append((len(those) < len(members), f"{name}: {words.ranks(those)} ({share})"))
    return [said for _, said in sorted(found, key=lambda one: one[0])]


def _few(parts: Sequence[str]) -> str:
    more = len(parts) - _MOST_PARTS
    return "; ".join(parts[:_MOST_PARTS]) + (f"; and {more} more" if more > 0 else "")


def before(situation: Situation, source: IncompleteRow, rank: int) -> str:
    """Return what a rank did between the call before and the one that it reached late."""
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
    was = waited_for.place(case.standings[rank])
    at = f", and was at {was}" if was and log.stall and since < log.stall.t < call.t else ""
    gap = words.seconds(call.t - since)
    return f"Rank {rank} made no call in this group for {gap}{after}{at}."

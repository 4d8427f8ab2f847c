"""Which ranks are behind the others in a call that does not complete, and what they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from collectrace import words
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import StreamKey

_MOST_PARTS: Final = 6


def notes(case: Case, candidate: Candidate) -> tuple[str, ...]:
    """How far each rank got with the stream, and the hosts and groups of those who lag.

    A rank lags if it gives no sign of life, or if it has completed less than others have. It may
    be the one that is held up: nobody is blamed for it.
    """
    stream = candidate.stream
    if stream is None:
        return ()
    completed = _completed(case, stream, candidate.ranks)
    most = max(completed, default=0)
    behind = [rank for n, ranks in completed.items() if n < most for rank in ranks]
    lagging = sorted({*candidate.suspects, *behind})
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
    if len(hosts) > 1:
        told.append(f"Lagging, by host: {_few(_shares(hosts.items(), lagging))}.")
    groups = [
        (words.group(info), info.ranks)
        for name, info in case.comparison.groups.items()
        if name != stream.group and 1 < len(info.ranks) < len(candidate.ranks)
    ]
    shares = _shares(groups, lagging)
    if shares:
        told.append(f"Lagging, by group: {_few(shares)}.")
    return tuple(told)


def _completed(case: Case, stream: StreamKey, ranks: Iterable[int]) -> dict[int, list[int]]:
    """Ranks by the last call that they are known to have completed."""
    found: dict[int, list[int]] = {}
    for rank in ranks:
        log = case.log(rank)
        if log is not None:
            done = log.dones.get(stream)
            found.setdefault(done.seq if done is not None else 0, []).append(rank)
    return found


def _shares(parts: Iterable[tuple[str, Sequence[int]]], lagging: Sequence[int]) -> list[str]:
    """The ranks of each part (name, ranks) that lag; parts of which all lag come first."""
    found = []
    for name, members in parts:
        those = sorted(set(members) & set(lagging))
        if those:
            share = "all" if len(those) == len(members) else f"{len(those)} of {len(members)}"
            found.append((len(those) < len(members), f"{name}: {words.ranks(those)} ({share})"))
    return [words_ for _, words_ in sorted(found, key=lambda one: one[0])]


def _few(parts: Sequence[str]) -> str:
    """The first parts of a list, and how many more there are."""
    more = len(parts) - _MOST_PARTS
    return "; ".join(parts[:_MOST_PARTS]) + (f"; and {more} more" if more > 0 else "")

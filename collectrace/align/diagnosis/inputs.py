"""How many batches each rank got, and which rank ran out of them first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from collectrace import words
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.reading import code_lines
from collectrace.align.reading.evidence import RankLog
from collectrace.findings import Side
from collectrace.roles import is_shadow

_LOOK_BACK: Final = 64
"""Calls of a stream that are searched for the latest iteration."""

_WINDOW: Final = 400
"""Rows before a difference that are searched for an earlier visit to its line."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Batches that each rank got, and the ranks that had no more.

    ``told_by`` is what counted them: ``join()``, a DataLoader, or forwards of DDP.
    """

    counts: Mapping[int, int]
    ended: frozenset[int]
    told_by: Literal["join", "loader", "forwards"]

    @property
    def uneven(self) -> bool:
        """A rank ran out of inputs while another had got further."""
        if not self.ended:
            return False
        return min(self.counts[r] for r in self.ended) < max(self.counts.values())

    def phrase(self) -> str:
        """``rank 0 had 5 batches and rank 1 got to its 6th``."""
        by_count: dict[tuple[int, bool], list[int]] = {}
        for rank, count in sorted(self.counts.items()):
            by_count.setdefault((count, rank in self.ended), []).append(rank)
        parts: list[str] = []
        for (count, ended), ranks in sorted(by_count.items()):
            whose = words.verb(ranks, "its", "their")
            what = words.counted(count, *self._noun) if ended else words.ordinal(count)
            what = what if not (ended and parts) else f"{count:,}"
            verb = self._verbs[0] if ended else f"{self._verbs[1]} {whose}"
            parts.append(f"{words.ranks(ranks)} {verb} {what}")
        return words.listed(parts)

    def after(self, ranks: Iterable[int]) -> str:
        """`` after 5 batches``; empty where the ranks did not end alike."""
        counts = {self.counts[r] for r in ranks if r in self.ended}
        return f" after {words.counted(counts.pop(), *self._noun)}" if len(counts) == 1 else ""

    @property
    def _noun(self) -> tuple[str, str]:
        passes = self.told_by == "forwards"
        return ("forward pass", "forward passes") if passes else ("batch", "batches")

    @property
    def _verbs(self) -> tuple[str, str]:
        return ("ran", "began") if self.told_by == "forwards" else ("had", "got to")


def of_ranks(case: Case, ranks: Iterable[int], ended: Iterable[int] = ()) -> Inputs | None:
    """What the logs tell of some ranks' inputs; None where not all of them tell.

    ``ended``: ranks known to have left the loop, by what they did next.
    """
    chosen = sorted({rank for rank in ranks if case.log(rank) is not None})
    logs = {rank: log for rank in chosen if (log := case.log(rank)) is not None}
    finished = {rank for rank in logs if case.standings[rank].state == "finished"}
    over = finished | set(ended)
    for found in (_by_join(logs), _by_loader(logs), _by_forwards(logs, over)):
        if found is not None and len(found.counts) == len(chosen) and len(chosen) > 1:
            return found
    return None


@once
def of_candidate(case: Case, candidate: Candidate) -> Inputs | None:
    """The inputs of the ranks concerned, if they are uneven and explain a candidate; else None."""
    ended = {r for side in candidate.sides for r in side.ranks if _has_left(case, side, candidate)}
    members = candidate.group.ranks if candidate.group is not None else candidate.ranks
    known = [rank for rank in members if rank in case.standings]
    found = of_ranks(case, known, ended)
    if found is None or not found.uneven:
        return None
    # Only a rank that ran out can be missing, or be somewhere else, because of that.
    affected = set(candidate.absent) or {r for side in candidate.sides for r in side.ranks}
    return found if affected & found.ended else None


def _has_left(case: Case, side: Side, candidate: Candidate) -> bool:
    """Whether ranks are known to have left the loop that others are in.

    They shadow in ``join()``, or their call stands behind the loop in the script. If they have
    made that call before, a loop around both brings them back to it, and it proves nothing: the
    others may have left it out, and begun the next round.
    """
    call = side.call
    if call is None:
        return False
    if is_shadow(call.role):
        return True
    if _came_before(case, side, candidate):
        return False
    return any(
        other.call is not None and code_lines.loop_left(call.site, other.call.site) is not None
        for other in candidate.sides
    )


def _came_before(case: Case, side: Side, candidate: Candidate) -> bool:
    """Whether ranks have issued a call from the same line before."""
    log, stream, seq = case.log(side.ranks[0]), candidate.stream, candidate.seq
    if log is None or stream is None or seq is None or side.call is None:
        return False
    calls = log.calls(stream, max(1, seq - _WINDOW), seq)
    return any(c is not None and c.site == side.call.site for c in calls)


def _by_join(logs: Mapping[int, RankLog]) -> Inputs | None:
    """The latest ``join()`` of each rank: forwards between its entry and the last input."""
    counts: dict[int, int] = {}
    ended: set[int] = set()
    for rank, log in logs.items():
        entered = next((j for j in reversed(log.joins) if j.phase == "entered"), None)
        if entered is None:
            return None
        joined = next((j for j in log.joins if j.phase == "joined" and j.t >= entered.t), None)
        before = entered.iteration or 0
        if joined is not None:
            counts[rank] = (joined.iteration or 0) - before
            ended.add(rank)
        else:
            counts[rank] = (last_iteration(log) or 0) - before
    return Inputs(counts, frozenset(ended), "join")


def _by_loader(logs: Mapping[int, RankLog]) -> Inputs | None:
    """The latest pass over the DataLoader that was used last."""
    counts: dict[int, int] = {}
    ended: set[int] = set()
    loaders = {log.batches[-1].loader for log in logs.values() if log.batches}
    if len(loaders) != 1:
        return None
    for rank, log in logs.items():
        if not log.batches:
            return None
        last = log.batches[-1]
        counts[rank] = last.batch
        if last.end:
            ended.add(rank)
    return Inputs(counts, frozenset(ended), "loader")


def _by_forwards(logs: Mapping[int, RankLog], over: set[int]) -> Inputs | None:
    """Forwards of DDP, which do not say that a rank has no more inputs: ``over`` does."""
    counts: dict[int, int] = {}
    for rank, log in logs.items():
        latest = last_iteration(log)
        if latest is None:
            return None
        counts[rank] = latest
    return Inputs(counts, frozenset(over & counts.keys()), "forwards")


def last_iteration(log: RankLog) -> int | None:
    """The ordinal of the latest DDP forward that a rank's calls tell of."""
    last = log.last_call
    if last is not None and last.iteration is not None:
        return last.iteration
    found: list[int] = []
    for stream, seq in log.last_seq.items():
        calls = log.calls(stream, max(1, seq - _LOOK_BACK), seq + 1)
        found += [c.iteration for c in calls if c is not None and c.iteration is not None]
    return max(found, default=None)

"""Ranks that did not come to a call: who held them up, and whether they were never to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace.align.judging import patience
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.ranks import waitgraph
from collectrace.align.ranks.standing import Standing
from collectrace.align.ranks.standing import patience as heartbeats
from collectrace.align.reading.evidence import GroupConflict

_NEVER_CAME: Final = frozenset(
    {"raised", "died", "busy", "silent", "running", "missing", "blocked"}
)

_LEAVING: Final = 20_000_000_000
"""ns that ranks may take from their last word until they are gone. A wait in gloo's C++ notices
Ctrl-C when its connection breaks, and so when the others are."""


def culprits(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Follow absent ranks that are blocked elsewhere to those for which they wait in the end.

    Who raised, died, is busy or silent counts, however many they are; that one is slow only if it
    was waited for long enough.
    """
    ends = waitgraph.follow(case.graph, case.standings, candidate.absent)
    long = waited_long(case, candidate)
    return tuple(sorted(r for r in ends if _is_culprit(case.standings[r], waited_long=long)))


def _is_culprit(standing: Standing, *, waited_long: bool) -> bool:
    if standing.state == "raised":
        return failed_by_itself(standing)
    if standing.state == "died":
        return True
    return waited_long and standing.state in ("busy", "silent", "running")


def failed_by_itself(standing: Standing) -> bool:
    """Whether a rank raised, and not out of a collective or a wait: that is a consequence.

    An exception that a call raised over its own arguments is not: nobody else took part in it.
    """
    return standing.state == "raised" and not standing.by_peers


def is_proven(case: Case, candidate: Candidate) -> bool:
    """Whether ranks that did not come were never to come."""
    ends = waitgraph.follow(case.graph, case.standings, candidate.absent)
    final = [rank for rank in {*ends, *candidate.absent} if case.standings[rank].final]
    until = None
    if final:
        if not _all_were_interrupted(case, candidate, final):
            return True
        until = min(case.standings[rank].end for rank in final)
    return waited_long(case, candidate, until) or _wait_elsewhere(case, candidate)


def _all_were_interrupted(case: Case, candidate: Candidate, finished: Sequence[int]) -> bool:
    """Whether Ctrl-C ended every wait for these ranks, and they ended by themselves about then.

    They may have caught it, in something that they would have come back from.
    """
    times = [
        case.clocks.when(rank, done.t)
        for rank in candidate.present
        for done in case.failed(rank, candidate.stream)
        if (done.error or "").startswith("KeyboardInterrupt")
    ]
    if not times or len(times) < len(candidate.present):
        return False
    return all(
        standing.state == "finished"
        and standing.log is not None
        and standing.end + max(heartbeats(standing.log), _LEAVING) >= min(times)
        for standing in (case.standings[rank] for rank in finished)
    )


def waited_long(case: Case, candidate: Candidate, until: int | None = None) -> bool:
    """Whether the absent ranks were waited for so long that they were not to come any more."""
    if patience.gave_up(case, candidate) or patience.is_of_hang(case, candidate):
        return True
    waited = patience.waited(case, candidate, until)
    return patience.is_long(case, candidate.stream, candidate.seq or 0, waited)


def _wait_elsewhere(case: Case, candidate: Candidate) -> bool:
    """Whether ranks that did not ask for a group wait elsewhere for those that did."""
    if not isinstance(candidate.source, GroupConflict):
        return False
    present = set(candidate.present)
    return any(edge.target[0] in present for r in candidate.absent for edge in case.graph.of(r))


def came_to_nothing(case: Case, candidate: Candidate) -> bool:
    """Whether ranks that never asked for a group came to nothing any more.

    Those that wait for the ranks in it, in a call of their own, did something else instead.
    """
    source = candidate.source
    if not isinstance(source, GroupConflict) or not candidate.absent:
        return False
    asked = [group for _, group in source.variants if group is not None]
    came_nowhere = all(case.standings[rank].state in _NEVER_CAME for rank in candidate.absent)
    return len(asked) == 1 and came_nowhere and not _wait_elsewhere(case, candidate)

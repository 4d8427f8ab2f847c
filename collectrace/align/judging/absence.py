"""Ranks that did not make a call: who blocked them, and whether they would still have made it."""

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
"""Longest time between a rank's last record and its exit, ns. A wait in gloo's C++ code notices
Ctrl-C only when its connection breaks, after the other ranks have exited."""


def culprits(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Follow blocked absent ranks to those that they finally wait for, and return these.

    Ranks that raised, died, are busy or silent count. The last two count only if the others waited
    long enough.
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
    """Whether a rank raised, but not out of a collective or a wait, which would be a consequence.

    A call that rejected its own arguments counts: no other rank took part in it.
    """
    return standing.state == "raised" and not standing.by_peers


def is_proven(case: Case, candidate: Candidate) -> bool:
    """Whether it is certain that the absent ranks were never to make the call."""
    ends = waitgraph.follow(case.graph, case.standings, candidate.absent)
    final = [rank for rank in {*ends, *candidate.absent} if case.standings[rank].final]
    until = None
    if final:
        if not _all_were_interrupted(case, candidate, final):
            return True
        until = min(case.standings[rank].end for rank in final)
    return waited_long(case, candidate, until) or _wait_elsewhere(case, candidate)


def _all_were_interrupted(case: Case, candidate: Candidate, finished: Sequence[int]) -> bool:
    """Whether Ctrl-C ended every wait for these ranks, which ended by themselves at that time.

    They may have caught Ctrl-C, in something that would have ended later.
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
    """Whether others waited so long for the absent ranks that they were not to come any more."""
    if patience.gave_up(case, candidate) or patience.shows_hang(case, candidate):
        return True
    waited = patience.waited(case, candidate, until)
    return patience.is_long(case, candidate.stream, candidate.seq or 0, waited)


def _wait_elsewhere(case: Case, candidate: Candidate) -> bool:
    """Whether ranks that did not create a group wait elsewhere for those that did."""
    if not isinstance(candidate.source, GroupConflict):
        return False
    present = set(candidate.present)
    return any(edge.target[0] in present for r in candidate.absent for edge in case.graph.of(r))


def never_created(case: Case, candidate: Candidate) -> bool:
    """Whether all ranks absent from a group's creation got stuck or ended before it.

    Ranks that wait for the group's members in another call did something else instead.
    """
    source = candidate.source
    if not isinstance(source, GroupConflict) or not candidate.absent:
        return False
    asked = [group for _, group in source.variants if group is not None]
    came_nowhere = all(case.standings[rank].state in _NEVER_CAME for rank in candidate.absent)
    return len(asked) == 1 and came_nowhere and not _wait_elsewhere(case, candidate)

"""A call that only one side made, and that met another of the others without harm to the bytes.

The next row fails: there the one side is where the others were in the row before, from the same
lines. Both calls may be new to all, so that no habit tells of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import parting
from collectrace.align.matching.comparison import Divergence
from collectrace.align.matching.parting import Parting
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import program_text, stands_at_its_line


@dataclass(frozen=True, slots=True)
class TakenFor:
    """One call more, in the row before."""

    side: Side
    """Who made it, and is a call late since."""
    others: Side
    extra: Call
    """On the first rank of the side."""
    met: Call
    """On the first of the others: what the side is at now."""

    @property
    def parting(self) -> Parting:
        """Where the two were apart."""
        ranks = self.side.ranks[0], self.others.ranks[0]
        return Parting(self.extra.seq, ranks, (self.extra, self.met), None)


@once
def taken_for(case: Case, candidate: Candidate) -> TakenFor | None:
    """The call that was taken for another one; None: it was not so, or is not known."""
    source, stream, seq = candidate.source, candidate.stream, candidate.seq
    sides = [side for side in candidate.sides if side.ranks]
    if not isinstance(source, Divergence) or source.gap is not None:
        return None
    if any(case.standings[rank].state != "finished" for rank in candidate.absent):
        return None
    if stream is None or seq is None or len(sides) != 2 or candidate.unknown:
        return None
    logs = [case.log(rank) for side in sides for rank in side.ranks]
    if any(log is None or not log.scanned or parting.has_lost(log) for log in logs):
        return None
    for side, others in (sides, sides[::-1]):
        rank, other, now = side.ranks[0], others.ranks[0], side.call
        extra, met = case.call(rank, stream, seq - 1), case.call(other, stream, seq - 1)
        if now is None or extra is None or met is None or not stands_at_its_line(extra):
            continue
        if program_text(met) != program_text(now) or case.stack(other, met) != side.stack:
            continue
        own = case.stack(rank, extra)
        if own == side.stack or any(_came(case, r, own, candidate) for r in (rank, other)):
            continue
        return TakenFor(side, others, extra, met)
    return None


def _came(case: Case, rank: int, stack: tuple[str, ...], candidate: Candidate) -> bool:
    """Whether a rank had come from these lines before that row."""
    calls = case.before(rank, candidate.stream, (candidate.seq or 1) - 1)
    return any(call is not None and case.stack(rank, call) == stack for call in calls)

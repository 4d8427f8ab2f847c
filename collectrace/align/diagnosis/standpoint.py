"""Where ranks stand when they make a call: the call, and the user's frames above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace import words
from collectrace.align.diagnosis.wording import called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.parting import Parting
from collectrace.align.reading import chains
from collectrace.records import Call


class Standpoint(NamedTuple):
    """Ranks, what they called, and their user frames above it, innermost first."""

    ranks: tuple[int, ...]
    call: Call
    stack: Sequence[str]

    def at(self, frame: str) -> str:
        """``train.py:9``; ``train.py:9 (all_reduce at comm.py:4)`` where the call is further in."""
        place, call = words.site(chains.site(frame)), self.call
        if not call.site or words.site(call.site) == place:
            return place
        return f"{place} ({words.name(call)}{words.at(call)})"


def standpoints(candidate: Candidate) -> list[Standpoint]:
    """Those of a candidate's sides."""
    return [Standpoint(s.ranks, c, s.stack or ()) for s, c in called(candidate)]


def of_call(case: Case, rank: int, call: Call) -> Standpoint:
    """That of one rank in a call of its own."""
    return Standpoint((rank,), call, case.stack(rank, call))


def of_ranks(candidate: Candidate, ranks: Sequence[int]) -> Standpoint | None:
    """That of the side which these ranks are, if it made a call."""
    return next((p for p in standpoints(candidate) if p.ranks == tuple(ranks)), None)


def of_parting(case: Case, candidate: Candidate, found: Parting) -> list[Standpoint]:
    """Those of the two ranks of a parting, each for all ranks of its side.

    Without the frames by which they were apart in the row before already, as in functions that
    only the one or only the other runs, and what is around these: there they did not part.
    """
    stream, seq = candidate.stream, found.seq - 1
    earlier = [case.call(rank, stream, seq) if stream else None for rank in found.ranks]
    before = [
        case.stack(rank, call) if call is not None else ()
        for rank, call in zip(found.ranks, earlier, strict=True)
    ]
    now = [case.stack(rank, call) for rank, call in zip(found.ranks, found.calls, strict=True)]
    while all(frames := chains.outermost_apart(*now)) and frames == chains.outermost_apart(*before):
        inner = -1 - chains.shared(*now)
        now, before = ([stack[:inner] for stack in stacks] for stacks in (now, before))
    return [
        Standpoint(side_of(candidate, rank), call, stack)
        for rank, call, stack in zip(found.ranks, found.calls, now, strict=True)
    ]


def side_of(candidate: Candidate, rank: int) -> tuple[int, ...]:
    """The ranks of the side that a rank is on; itself alone, where it is on none."""
    return next((s.ranks for s in candidate.sides if rank in s.ranks), (rank,))


def sites(point: Standpoint) -> list[str]:
    """The lines of a stack, innermost first."""
    frames = [chains.site(frame) for frame in point.stack]
    return list(dict.fromkeys([point.call.site or "", *frames]))

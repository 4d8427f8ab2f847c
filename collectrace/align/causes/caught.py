"""Exceptions that some ranks caught just before they diverged from the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from collectrace import words
from collectrace.align.causes import phrases, structure
from collectrace.align.causes.situation import Situation
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging.facts_of_states import identity, is_own
from collectrace.align.judging.own_calls import calls_of
from collectrace.findings import Decision
from collectrace.records import HANDLED, Call, Raised

_MOST: Final = 3
"""Ranks that a sentence lists."""


def caught(situation: Situation) -> dict[int, Raised]:
    """Return by rank what ranks raised since the last common call, if the others did not.

    Exceptions that report the failure of other ranks do not count, nor those that the rank handled
    before without diverging.
    """
    if situation.candidate.cycle:
        return {rank: one for rank, (one, _) in in_cycle(situation).items()}
    for row in situation.candidate.evidence:
        if row.fact == "caught_exception" and isinstance(row.shown_by, list):
            return dict(zip(row.ranks, row.shown_by, strict=False))
    found = dict(_latest(situation))
    sides = [set(side.ranks) for side in situation.candidate.sides]
    raising = [side for side in sides if side & found.keys()]
    # An exception that only some ranks of a side raised did not lead the others there.
    if len(raising) != 1 or len(sides) < 2 or not raising[0] <= found.keys():
        return {}
    others = [rank for side in sides if side is not raising[0] for rank in side]
    logs = [log for rank in others if (log := situation.case.log(rank)) is not None]
    known = {identity(one) for log in logs for one in log.caught}
    return {rank: one for rank, one in found.items() if identity(one) not in known}


def in_cycle(situation: Situation) -> dict[int, tuple[Raised, Call]]:
    """Return the one rank of a cycle that waits in a call made in a handler, with both.

    Empty if other ranks of the cycle raised the same: then the exception explains nothing. Also
    empty for messages: the handler of a cache miss may request its part by design.
    """
    case, found = situation.case, dict[int, tuple[Raised, Call]]()
    ranks = {edge.waiting.rank for edge in situation.candidate.cycle}
    for edge in situation.candidate.cycle:
        w = edge.waiting
        log = case.log(w.rank)
        call = case.call(w.rank, w.stream, w.seq) if w.stream is not None and w.seq else None
        for one in log.caught if log is not None and call is not None else ():
            # It made the call while it handled the exception.
            if one.what == HANDLED and call is not None and one.t == call.t and is_own(one):
                found[w.rank] = one, call
    if len(found) != 1:
        return {}
    ((rank, (raised, _)),) = found.items()
    logs = [log for other in ranks - {rank} if (log := case.log(other)) is not None]
    return (
        {}
        if any(identity(one) == identity(raised) for log in logs for one in log.caught)
        else found
    )


def in_handler(situation: Situation, handler: Decision) -> dict[int, tuple[Raised, Entry]]:
    """Return the ranks of one side that ever called in a handler, each with its first such call.

    Since then that rank has made more calls than the others, or fewer: they met calls made outside
    of the handler. Empty if ranks of several sides did, and for a cycle (see ``in_cycle``).
    """
    case, found = situation.case, dict[int, tuple[Raised, Entry]]()
    sides = () if situation.candidate.cycle else situation.candidate.sides
    for rank in (rank for side in sides for rank in side.ranks):
        log, calls = case.log(rank), {one.t: one for one in calls_of(case, rank)}
        for one in log.caught if log is not None else ():
            call = calls.get(one.t)
            if one.what != HANDLED or call is None or not is_own(one):
                continue
            if structure.is_in_handler(situation, handler, call.stack):
                found.setdefault(rank, (one, call))
    return found if sum(bool({*side.ranks} & found.keys()) for side in sides) == 1 else {}


def _latest(situation: Situation) -> Iterator[tuple[int, Raised]]:
    for rank, begin, end in _intervals(situation):
        log = situation.case.log(rank)
        those = log.caught if log is not None else ()
        here = [one for one in those if begin < one.t and (end is None or one.t <= end)]
        before = {identity(one) for one in those if one.t <= begin}
        for one in reversed(here):
            if is_own(one) and identity(one) not in before:
                yield rank, one
                break


def _intervals(situation: Situation) -> Iterator[tuple[int, int, int | None]]:
    """Yield ranks with the times of their last common call and of the next one."""
    case, candidate, pair = situation.case, situation.candidate, situation.pair
    known = set()
    if pair is not None:
        for rank, made, end in zip(pair.ranks, pair.made, pair.times, strict=True):
            if rank not in known:
                known.add(rank)
                yield rank, made[-1].t if made else 0, end
    if candidate.stream is None or candidate.seq is None:
        return
    for rank in candidate.ranks:
        if rank not in known:
            last = case.last_before(rank, candidate.stream, candidate.seq)
            here = case.call(rank, candidate.stream, candidate.seq)
            yield rank, last.t if last is not None else 0, here.t if here is not None else None


def sentence(found: Mapping[int, Raised]) -> str:
    """Return ``Rank 1 raised ValueError: bad size in broadcast (serve.py:51).``."""
    said: dict[str, list[int]] = {}
    for rank, one in sorted(found.items()):
        inside = "" if one.what == HANDLED else f" in {one.what}"
        error = words.exception(one.error, one.message)
        said.setdefault(f"{error}{inside}{phrases.line(one.site)}", []).append(rank)
    parts = [f"{words.ranks(ranks)} raised {what}" for what, ranks in said.items()]
    return f"{words.upper('; '.join(parts[:_MOST]))}."


def note(situation: Situation) -> str:
    """Return a note on exceptions that ranks caught before they went on; empty if none did."""
    found = caught(situation)
    return f"Just before, {words.lower(sentence(found)[:-1])}, and went on." if found else ""

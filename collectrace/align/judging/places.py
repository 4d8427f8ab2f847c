"""Find the places of a candidate's sides when they diverged, and the conditions there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collectrace.align.code.controls import Condition, at_line, can_reach, controls
from collectrace.align.code.files import Frame, Gap
from collectrace.align.code.places import Site
from collectrace.align.code.program import Level
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import frames_of
from collectrace.align.matching import parting
from collectrace.align.matching.parting import Parting
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.findings import KINDS
from collectrace.records import Call


@dataclass(frozen=True, slots=True)
class Place:
    """A call of some ranks, and its stack."""

    ranks: tuple[int, ...]
    call: Call | None
    """The call of the first rank; None: the ranks finished without it."""
    frames: tuple[str, ...]
    """The user's frames above it, innermost first, or only its line."""


@dataclass(frozen=True, slots=True)
class DivergedSides:
    """Two or more sides at different places of the program."""

    seq: int
    """The number of their calls there."""
    places: tuple[Place, ...]

    def others(self, one: Place) -> tuple[Place, ...]:
        """Return the other places."""
        return tuple(place for place in self.places if place is not one)


@once
def first_difference(case: Case, candidate: Candidate) -> Parting | None:
    """Return the first call, before a candidate's, that its sides made from different lines.

    One rank represents each side: the smallest and the largest side that called, or an absent and a
    present rank.
    """
    compared = _compared(case, candidate)
    return parting.find(*compared) if compared is not None else None


def _compared(case: Case, candidate: Candidate) -> tuple[RankLog, RankLog, StreamKey, int] | None:
    """Return the logs of these two ranks, and the call of the candidate."""
    stream, seq = candidate.stream, candidate.seq
    sides = sorted((side for side in candidate.sides if side.ranks), key=lambda s: len(s.ranks))
    if KINDS[candidate.what].family != "call" or len(sides) < 2:
        return None
    one, two = (case.log(side.ranks[0]) for side in (sides[0], sides[-1]))
    if one is None or two is None or stream is None or seq is None:
        return None
    return one, two, stream, seq


@once
def diverged_sides(case: Case, candidate: Candidate) -> DivergedSides | None:
    """Return where the sides were when their lines first differed; None if not known.

    Ranks that finished without the call have no place. Other absent ranks may still be on their way
    to it.
    """
    since = first_difference(case, candidate)
    if since is not None:
        return _sides_at(case, candidate, since)
    if any(case.standings[rank].state != "finished" for rank in candidate.absent):
        return None
    sides = [side for side in candidate.sides if side.ranks]
    if candidate.seq is None or len(sides) < 2:
        return None
    return DivergedSides(
        candidate.seq, tuple(_place(case, s.ranks, s.ranks[0], s.call) for s in sides)
    )


@once
def sides_at_new_place(case: Case, candidate: Candidate) -> DivergedSides | None:
    """Return where the sides were when one first called from a place that was new to it.

    The other side was at a line that both had run. They may have met again since.
    """
    compared = _compared(case, candidate)
    since = parting.passing(*compared) if compared is not None else None
    return _sides_at(case, candidate, since) if since is not None else None


def _sides_at(case: Case, candidate: Candidate, since: Parting) -> DivergedSides | None:
    if len(candidate.sides) != 2:
        return None
    places = tuple(
        _place(case, side.ranks, rank, call)
        for side in candidate.sides
        for rank, call in zip(since.ranks, since.calls, strict=True)
        if rank in side.ranks
    )
    return DivergedSides(since.seq, places) if len(places) == len(candidate.sides) else None


def _place(case: Case, ranks: tuple[int, ...], rank: int, call: Call | None) -> Place:
    return Place(ranks, call, case.frames_or_line(rank, call) if call is not None else ())


@once
def is_whole(case: Case, candidate: Candidate) -> bool:
    """Whether everything is known that the ranks of the group did, so that "never" is certain."""
    if candidate.unknown or candidate.stream is None:
        return False
    logs = [case.log(rank) for rank in case.comparison.streams.get(candidate.stream, ())]
    return all(log is not None and log.scanned and not parting.has_lost(log) for log in logs)


def was_there(
    case: Case, candidate: Candidate, rank: int, frames: tuple[str, ...], seq: int
) -> bool:
    """Whether a rank made a call from these lines before call ``seq``."""
    return any(
        call is not None and case.stack(rank, call) == frames
        for call in case.before(rank, candidate.stream, seq)
    )


# -- conditions around lines ------------------------------------------------------------------


def above(case: Case, place: Place) -> list[Condition]:
    """Return the conditions that decide about a call, outermost first."""
    return [
        one for frame in reversed(place.frames) for one in conditions(case, place.ranks[0], frame)
    ]


@once
def conditions(case: Case, rank: int, frame: str) -> Sequence[Condition]:
    """Return the conditions on the line of a frame, in its function."""
    found = level(case, rank, frame)
    if found is None:
        return ()
    function, graph, line = found
    return controls(function, graph, [*graph.at(line)])


def conditions_at(case: Case, rank: int, site: Site) -> list[Condition]:
    """Return the conditions at a line, with both outcomes."""
    found = level(case, rank, f"{site.path}:{site.line} ")
    return at_line(*found) if found is not None else []


def level(case: Case, rank: int, frame: str) -> Level | None:
    """Return a frame with the graph of its function; None if its source is not known."""
    parsed = Frame.parse(frame if " " in frame else f"{frame} ")
    function = case.program.files.function(rank, parsed)
    graph = case.program.graph(function) if not isinstance(function, Gap) else None
    return Level(function, graph, parsed.line) if graph and not isinstance(function, Gap) else None


def is_under(case: Case, rank: int, frames: Iterable[str], condition: Condition) -> bool:
    """Whether one of a rank's frames is reached by this outcome of a condition."""
    path = condition.function.file.path
    return any(
        one.key == condition.key and one.outcome is condition.outcome
        for frame in frames
        if chains.file(frame) == path
        for one in conditions(case, rank, frame)
    )


def frames_known(
    case: Case, candidate: Candidate, rank: int, place: Place, row: int
) -> frozenset[str]:
    """Return the frames above a rank's calls; for ranks of the place, only before call ``row``."""
    log, stream = case.log(rank), candidate.stream
    if rank not in place.ranks or log is None or stream is None:
        return frames_of(case, rank)
    rows, shift = log.rows(stream)
    seen = set(rows.appearance[: rows.position(row - shift)])
    return frozenset(frame for n in seen for frame in rows.vocabulary.appearances[n].where)


def may_follow(case: Case, one: Place, two: Place) -> bool:
    """Whether control can go from one place to the other within one run of a function.

    The function in which their stacks diverge decides. At a line inside a library's call, control
    stays in what the library runs, again and again.
    """
    if one.frames[len(one.frames) - len(two.frames) :] == two.frames:
        return True
    here, there = chains.outermost_apart(one.frames, two.frames)
    at, to = (level(case, one.ranks[0], frame) for frame in (here, there))
    if at is None or to is None or at.function is not to.function:
        return False
    common = one.frames[len(one.frames) - chains.shared(one.frames, two.frames) :]
    outer = (level(case, one.ranks[0], frame) for frame in common)
    if any(node.loops for found in outer if found for node in found.graph.at(found.line)):
        return True
    return can_reach(at.graph, at.line, to.line)

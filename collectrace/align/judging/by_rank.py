"""Ranks whose call stands under a condition that asks for the rank, and nobody else was there.

Or behind a guard that asks for it, and sends the rest past the call.

Where as many ranks stand on one side as on the other, who issued the calls proves nothing: DDP's
backward() on one side is as good as a barrier on the other. A condition on the rank does: it lets
some ranks through and not the rest, so the call under it is one that the rest will never make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collectrace.align.judging import intervals, sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.counterparts import Conditional, has_counterpart
from collectrace.align.judging.parted import parted, passed_by
from collectrace.align.judging.taken_for import taken_for
from collectrace.align.matching import parting
from collectrace.align.matching.parting import Parting
from collectrace.align.reading import chains, code_lines, statements
from collectrace.align.reading.evidence import RankLog
from collectrace.align.reading.rank_tests import lets_by_rank
from collectrace.findings import Side
from collectrace.records import Call

_Line = tuple[str, str]
"""A file, and ``number text`` of a statement in it."""


@dataclass(frozen=True, slots=True)
class ByRank:
    """Ranks that alone were under a condition that asks for the rank."""

    ranks: tuple[int, ...]
    seq: int
    """The row since which they are there."""
    line: _Line
    """The condition, or the guard."""
    guarded: str = ""
    """``path:line`` of what stands behind the guard; empty: it is a condition around that."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the ranks of a side are at a row; without a call where they never came to it."""

    ranks: tuple[int, ...]
    call: Call | None
    frames: tuple[str, ...]
    """The user's frames above the call, innermost first; at least its line, if that is known."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where the one side is that stands under conditions on the rank, and where the others are."""

    seq: int
    mine: Place
    others: tuple[Place, ...]
    lines: tuple[_Line, ...]
    """The conditions."""


@once
def by_rank(case: Case, candidate: Candidate) -> ByRank | None:
    """The side that alone is, and ever was, under a condition that asks for the rank.

    None where something else may explain it as well: the other side is in another branch of the
    condition, or in a branch that is new to it; it has a line of its own for the call; the line
    stands behind a loop that the others are in; a loop over data ended earlier on one side.

    Where that is not so of the row, the first at which one side was at a line of its own is asked:
    what it issued may have met a step of the others, and not shown on the wire.
    """
    if is_met_elsewhere(case, candidate):
        return None
    found = _asked(case, candidate)
    told = _proven(case, candidate, found) if found is not None else None
    if told is not None or (passing := _asked_in_passing(case, candidate)) is None:
        return told
    return _proven(case, candidate, passing) if not _has_counterpart(case, passing) else None


def _proven(case: Case, candidate: Candidate, found: _Asked) -> ByRank | None:
    """The side under the conditions, where nothing else may explain it; its part is known."""
    mine, seq = found.mine, found.seq
    if mine.call is None or sisters.voted(case, candidate, mine.call):
        return None  # ranks of other groups were there in its turn
    sided = (one for one in found.lines if _is_one_sided(case, candidate, mine, one, seq))
    line = next(sided, None)
    if line is None or any(_may_explain(case, candidate, mine, one, seq) for one in found.others):
        return None
    return ByRank(tuple(sorted(mine.ranks)), seq, line, _guarded(case, mine, line))


@once
def is_met_elsewhere(case: Case, candidate: Candidate) -> bool:
    """Whether a call under conditions on the rank has, or may have, a counterpart for the others.

    Then either of the two may have been left out.
    """
    found = _asked(case, candidate)
    return found is not None and _has_counterpart(case, found)


def _has_counterpart(case: Case, found: _Asked) -> bool:
    others = [place.frames for place in found.others]
    mine = list(filter(None, (_conditional(case, found.mine, line) for line in found.lines)))
    # What is further in than the outermost parts those who have come in: the others have not.
    outermost = max((one.at for one in mine), default=0)
    return any(has_counterpart(case, one, others) for one in mine if one.at == outermost)


def asked_of(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks of the one side that conditions on the rank let through; none: there is none."""
    found = _asked(case, candidate)
    return found.mine.ranks if found is not None else ()


@once
def _asked(case: Case, candidate: Candidate) -> _Asked | None:
    """The one side that conditions on the rank let through, where all that was done is known."""
    if candidate.unknown or not is_whole(case, candidate):
        return None
    return _one_side(case, *places(case, candidate))


def _asked_in_passing(case: Case, candidate: Candidate) -> _Asked | None:
    """The same of the first row at which one side alone was at a line of its own.

    Or of the row before, if there it made a call that the others took for their own.

    None where all of the side were never there, or something may lead the others past the line
    that they were at: then it may be their part of the row.
    """
    if candidate.unknown or not is_whole(case, candidate):
        return None
    since = passed_by(case, candidate)
    if since is None and (taken := taken_for(case, candidate)) is not None:
        since = taken.parting
    found = _one_side(case, *_places_of(case, candidate, since)) if since is not None else None
    if found is None or since is None or found.mine.call != since.calls[0]:
        return None
    if any(_is_optional(case, found.mine, other) for other in found.others):
        return None
    everywhere = [frames_of(log) for r in found.mine.ranks if (log := case.log(r)) is not None]
    is_of_all = all(
        any(is_under(case, frame, line) for frame in frames)
        for frames in everywhere
        for line in found.lines
    )
    return found if is_of_all else None


def _is_optional(case: Case, mine: Place, other: Place) -> bool:
    """Whether a condition that is not around a call as well decides about another's line."""
    known = {line for frame in mine.frames for line in _deciding(case, frame)}
    apart = other.frames[: len(other.frames) - chains.shared(mine.frames, other.frames)]
    return any(line not in known for frame in apart for line in _deciding(case, frame))


def _deciding(case: Case, frame: str) -> list[_Line]:
    """The conditions around a frame's line, and the guards before it."""
    around = statements.branches(case.statements(chains.site(frame)))
    return [(chains.file(frame), n) for n in (*around, *intervals.ways_before(case, frame))]


def _one_side(case: Case, seq: int, places: Sequence[Place]) -> _Asked | None:
    """The one of some places that conditions on the rank let ranks come to."""
    if len(places) < 2:
        return None
    above = [_above(case, place.frames) for place in places]
    asking = [
        (n, found)
        for n, own in enumerate(above)
        if (found := _asking(case, places[n], (one for one in own if one not in _others(above, n))))
    ]
    if len(asking) != 1:
        return None
    n, lines = asking[0]
    others = tuple(place for m, place in enumerate(places) if m != n)
    return _Asked(seq, places[n], others, tuple(lines))


def _conditional(case: Case, place: Place, line: _Line) -> Conditional | None:
    """A side's call as one that a condition lets its ranks come to."""
    at = next((n for n, frame in enumerate(place.frames) if is_under(case, frame, line)), None)
    if at is None or place.call is None:
        return None
    is_guard = bool(_guarded(case, place, line))
    spelled = _spelled_out(case, place, line)
    return Conditional(place.call, place.frames, at, spelled, is_guard)


def chosen_by_rank(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that alone are, and ever were, under a condition that asks for the rank."""
    found = by_rank(case, candidate)
    return found.ranks if found is not None else ()


def places(case: Case, candidate: Candidate) -> tuple[int, list[Place]]:
    """Where the sides are, at the row at which their lines parted, if one before is known.

    Ranks that finished without coming to the row are nowhere; others that did not come may be on
    their way to it.
    """
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None:
        return 0, []
    since = parted(case, candidate)
    if since is not None:
        return _places_of(case, candidate, since)
    if any(case.standings[rank].state != "finished" for rank in candidate.absent):
        return 0, []
    sides = [side for side in candidate.sides if side.ranks]
    return seq, [_place(case, side, side.ranks[0], side.call) for side in sides]


def _places_of(case: Case, candidate: Candidate, since: Parting) -> tuple[int, list[Place]]:
    """The same at a row before."""
    if len(candidate.sides) != 2:
        return 0, []
    return since.seq, [
        _place(case, side, rank, call)
        for side in candidate.sides
        for rank, call in zip(since.ranks, since.calls, strict=True)
        if rank in side.ranks
    ]


def _place(case: Case, side: Side, rank: int, call: Call | None) -> Place:
    if call is None:
        return Place(side.ranks, None, ())
    return Place(side.ranks, call, case.frames_or_line(rank, call))


def is_whole(case: Case, candidate: Candidate) -> bool:
    """Whether all that the group's ranks did is known: what one never did cannot be told else."""
    logs = [case.log(rank) for rank in _members(case, candidate)]
    return all(log is not None and log.scanned and not parting.has_lost(log) for log in logs)


def _members(case: Case, candidate: Candidate) -> Sequence[int]:
    return case.comparison.streams.get(candidate.stream, ()) if candidate.stream else ()


def _above(case: Case, frames: Iterable[str]) -> list[_Line]:
    """The conditions and guards around a call and around its callers, outermost first."""
    found: list[_Line] = []
    for frame in reversed(tuple(frames)):
        site = chains.site(frame)
        lines = [*statements.branches(case.statements(site)), *case.guards(site)]
        found += [(chains.file(frame), line) for line in lines]
    return found


def _others(above: Sequence[Sequence[_Line]], n: int) -> set[_Line]:
    return {line for m, lines in enumerate(above) if m != n for line in lines}


def _asking(case: Case, place: Place, lines: Iterable[_Line]) -> list[_Line]:
    """Those of some conditions that ask for the rank, and let ranks through by it or not."""
    found = []
    for one in lines:
        spelled = _spelled_out(case, place, one)
        is_guard = bool(_guarded(case, place, one))
        is_of_rank = statements.tells_ranks_apart(spelled)
        if not is_of_rank or not lets_by_rank(spelled, is_guard=is_guard):
            continue
        if not case.keeps_out(
            _site_under(case, place, one), one[1], place.ranks, is_guard=is_guard
        ):
            found.append(one)
    return found


def _spelled_out(case: Case, place: Place, line: _Line) -> str:
    """A condition above a place, with the rank in it where it asks by another name."""
    return case.spelled_out(_site_under(case, place, line), line[1])


def _site_under(case: Case, place: Place, line: _Line) -> str | None:
    """The innermost ``path:line`` of a place that is under a condition."""
    sites = (chains.site(frame) for frame in place.frames if is_under(case, frame, line))
    return next(sites, None)


def _is_one_sided(case: Case, candidate: Candidate, mine: Place, line: _Line, seq: int) -> bool:
    """Whether a condition has no way for the others, and nobody was ever under it before.

    Where its own ranks were, the others have met them there, and know what to do about it.
    """
    file, text = line
    is_guard = bool(_guarded(case, mine, line))
    if not is_guard and code_lines.is_fork(case.code, f"{file}:0", text):
        return False
    if candidate.stream is None:
        return False
    frames = set[str]()
    """Of all ranks: most have been at the same lines."""
    for rank in _members(case, candidate):
        log = case.log(rank)
        if log is None:
            return False
        if rank in mine.ranks:
            rows, shift = log.rows(candidate.stream)
            seen = set(rows.appearance[: rows.position(seq - shift)])
            frames.update(frame for n in seen for frame in rows.vocabulary.appearances[n].where)
        else:
            frames |= frames_of(log)
    return not any(is_under(case, frame, line) for frame in frames)


def frames_of(log: RankLog) -> set[str]:
    """The frames above all calls of a rank."""
    found = set[str]()
    streams = [log.rows(stream)[0] for stream in log.last_seq]
    for rows in (*streams, *map(log.channel_rows, log.last_channel_seq)):
        known = rows.vocabulary.appearances
        found |= {frame for n in set(rows.appearance) for frame in known[n].where}
    return found


def is_under(case: Case, frame: str, line: _Line) -> bool:
    """Whether a frame's line stands under a condition, or behind a guard."""
    site = chains.site(frame)
    if chains.file(frame) != line[0]:
        return False
    return line[1] in case.statements(site)[:-1] or line[1] in case.guards(site)


def _guarded(case: Case, place: Place, line: _Line) -> str:
    """``path:line`` of what of a place stands behind a guard; empty: it is none, but around it."""
    file, text = line
    sites = [chains.site(frame) for frame in place.frames if chains.file(frame) == file]
    return next((site for site in sites if text in case.guards(site)), "")


def _may_explain(case: Case, candidate: Candidate, mine: Place, other: Place, seq: int) -> bool:
    """Whether something else than the condition explains that these two are apart."""
    if other.call is None:
        return False  # it finished, and so came past all there is
    known = set(_above(case, mine.frames))
    is_new = any(line not in known for line in _above(case, other.frames))
    if is_new and not was_there(case, candidate, seq, other.ranks[0], other.frames):
        return True
    return not is_past(case, mine.frames, other.frames) or _ran_out(case, mine, other)


def was_there(case: Case, candidate: Candidate, seq: int, rank: int, frames: Sequence[str]) -> bool:
    """Whether a rank has made a call at a line before a row, by the same callers."""
    before = case.before(rank, candidate.stream, seq)
    return any(call is not None and case.stack(rank, call) == tuple(frames) for call in before)


def is_past(case: Case, mine: Sequence[str], others: Sequence[str]) -> bool:
    """Whether the others may have come past the condition: on their way, or in a loop around both.

    Else the line stands behind theirs: what keeps them there parted the two, such as a loop that is
    longer there. Nor may the two stand in two branches of one ``if``. Where others are at the very
    line that led to it, through a framework, they are in what that runs, again and again.
    """
    if mine[len(mine) - len(others) :] == tuple(others):
        return True
    own, theirs = chains.outermost_apart(mine, others)
    if not own or chains.file(own) != chains.file(theirs):
        return False
    here, there = (case.statements(chains.site(frame)) for frame in (own, theirs))
    if statements.function(here) != statements.function(there):
        return False
    if code_lines.parting_if(case.code, chains.site(own), chains.site(theirs)) is not None:
        return False
    if set(statements.loops(here)) & set(statements.loops(there)):
        return True
    outer = mine[len(mine) - chains.shared(mine, others) :]
    is_in_loop = any(statements.loops(case.statements(chains.site(frame))) for frame in outer)
    return is_in_loop or chains.line(own) < chains.line(theirs)


def _ran_out(case: Case, mine: Place, other: Place) -> bool:
    """Whether a DataLoader that both go through gave one of them fewer batches."""
    latest = []
    for place in (mine, other):
        log = case.log(place.ranks[0])
        until = place.call.t if place.call is not None else 0
        batches = log.batches if log is not None else ()
        latest.append({batch.loader: batch for batch in batches if batch.t <= until})
    for loader in latest[0].keys() & latest[1].keys():
        for one, two in (latest, latest[::-1]):
            if one[loader].end and two[loader].batch > one[loader].batch:
                return True
    return False

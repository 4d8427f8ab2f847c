"""How the calls of a rank differ from what they should have been, as one type.

There are three references: the calls of the other ranks, those of the rank's own earlier
iterations, and those of ranks of the same kind in other groups.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from collectrace.align.deciding import timeline
from collectrace.align.judging import places
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_calls import call_of
from collectrace.align.judging.places import Place
from collectrace.align.judging.program import deviation
from collectrace.align.matching import habit, parting
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.align.reading.vocabulary import CallPlace
from collectrace.records import Call


class What(Enum):
    """The kind of a difference."""

    SKIPPED = "skipped"
    EXTRA = "extra"
    SWAPPED = "swapped"
    OTHER_CALL = "other call"
    OTHER_ARGUMENTS = "other arguments"
    FEWER_ITERATIONS = "fewer iterations"
    MORE_ITERATIONS = "more iterations"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Departure:
    """Ranks that departed from a reference at one call, all in the same way."""

    what: What
    ranks: tuple[int, ...]
    """The ranks that departed; sorted."""
    others: tuple[int, ...] = ()
    """The ranks that did not; empty if a rank is only compared with itself."""
    key: StreamKey | ChannelKey | None = None
    """The stream or channel; None: several."""
    seq: int | None = None
    """The number of the first call or message that is out of place."""
    calls: tuple[Call, ...] = ()
    """Skipped calls, as others or an earlier iteration made them; else the ranks' own calls."""
    stack: tuple[str, ...] = ()
    """The user's frames where it happened, innermost first."""
    iteration: int | None = None
    """The rank's iteration in which it happened, from 1."""
    alike: int = 0
    """Earlier iterations without the difference."""


# -- against the rank's own earlier iterations -----------------------------------------------

_MOST_RANKS: Final = 8
"""Ranks of one side that are checked to have departed in the same way."""

_END: Final = None
"""Stands for the call of a rank that finished."""


@once
def from_own(case: Case, candidate: Candidate) -> Departure | None:
    """Return how one side left its usual iteration, if all others kept theirs.

    None if several sides or none did, or if the usual call is not known.
    """
    at = places.diverged_sides(case, candidate)
    if at is None or not isinstance(candidate.source, Divergence) or candidate.source.gap:
        return None
    found = [_own(case, candidate, place, at.seq) for place in at.places]
    gone = [one for one in found if one is not None and one.alike]
    kept = [one for one in found if one is not None and not one.alike]
    return gone[0] if len(gone) == 1 and len(kept) == len(found) - 1 else None


def _own(case: Case, candidate: Candidate, place: Place, seq: int) -> Departure | None:
    """Return how these ranks left their usual iteration; ``alike`` is 0 if they did not.

    None if their usual call is not known, or if they differ.
    """
    departures: list[tuple[What, int, tuple[Call, ...]]] = []
    for rank in place.ranks[:_MOST_RANKS]:
        one = _of_rank(case, rank, candidate, seq)
        if one is None:
            return None
        departures.append(one)
    what, alike, calls = departures[0]
    if any((one[0], one[1] > 0) != (what, alike > 0) for one in departures):
        return None
    return Departure(
        what, tuple(sorted(place.ranks)), key=candidate.stream, seq=seq,
        calls=calls, stack=place.frames, alike=alike,
        iteration=place.call.iteration if place.call is not None else None,
    )  # fmt: skip


def _of_rank(
    case: Case, rank: int, candidate: Candidate, seq: int
) -> tuple[What, int, tuple[Call, ...]] | None:
    log, stream = case.log(rank), candidate.stream
    if log is None or stream is None or not log.scanned or parting.has_lost(log):
        return None
    call = case.call(rank, stream, seq)
    if call is None and case.standings[rank].state != "finished":
        return None
    made = timeline.calls_before(log, call.t if call is not None else None)
    made = [one for one in made if not one.beside]
    here = _place(log, stream, seq) if call is not None else _END
    ids: dict[object, int] = {}
    tokens = [ids.setdefault(one, len(ids)) for one in (*(m.place for m in made), here)]
    at = len(tokens) - 1
    usual = habit.expected(tokens, at)
    if usual is None:
        return None
    if tokens[usual] == tokens[at]:
        return What.EXTRA, 0, ()
    rounds = habit.agreeing(tokens, usual, at) // (at - usual) + 1
    own = (call,) if call is not None else ()
    if call is None:
        return What.ENDED, rounds, own
    if tokens[at] not in tokens[:at]:
        return What.EXTRA, rounds, own
    ahead = next((n for n in range(usual + 1, at) if tokens[n] == tokens[at]), None)
    if ahead is None:
        return What.OTHER_CALL, rounds, own
    skipped = (call_of(case, rank, made[n]) for n in range(usual, ahead))
    return What.SKIPPED, rounds, tuple(one for one in skipped if one is not None)


def _place(log: RankLog, stream: StreamKey, seq: int) -> CallPlace | None:
    """Return the op and the stack of call ``seq`` of a rank."""
    rows, shift = log.rows(stream)
    at = rows.find(seq - shift)
    return rows.vocabulary.appearances[rows.appearance[at]].place if at is not None else None


# -- against the other ranks -----------------------------------------------------------------


@once
def extra(case: Case, candidate: Candidate) -> Departure | None:
    """Return calls that only one side made, after which it did the same as the others."""
    since = places.first_difference(case, candidate)
    if since is None or since.extra is None:
        return None
    more = since.extra
    ranks = next((side.ranks for side in candidate.sides if more.rank in side.ranks), ())
    others = tuple(sorted({*candidate.ranks} - {*ranks}))
    return Departure(
        What.EXTRA, tuple(sorted(ranks)), others, candidate.stream, since.seq,
        more.calls, stack=case.stack(more.rank, more.calls[0]) if more.calls else (),
        alike=more.agreeing,
    )  # fmt: skip


def skipped_iterations(case: Case, candidate: Candidate) -> Departure | None:
    """Return the first iteration in which ranks made no such call as the others.

    The ranks are the suspects, or in a tie those of either side.

    The iteration of a call is that of DDP, of the optimizer, or of the batch. Inside ``join()``
    iterations may differ, so they do not count.
    """
    tried = [candidate.suspects] if candidate.suspects else [s.ranks for s in candidate.sides]
    found = (_skipped_iterations(case, candidate, ranks) for ranks in tried if ranks)
    return next(filter(None, found), None)


def _skipped_iterations(case: Case, candidate: Candidate, ranks: Sequence[int]) -> Departure | None:
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None:
        return None
    members = case.comparison.streams.get(stream, ())
    other = next((rank for rank in members if rank not in ranks), None)
    mine, theirs = case.log(ranks[0]), case.log(other) if other is not None else None
    if other is None or mine is None or theirs is None:
        return None
    if any(not log.scanned or parting.has_lost(log) or log.joins for log in (mine, theirs)):
        return None
    if not candidate.suspects and mine.no_syncs:
        return None  # which of its backwards were inside of no_sync() is not known
    for count in _UNITS:
        own, right = count(mine, stream, seq), count(theirs, stream, seq)
        start = _position_ahead(own, right)
        call = case.call(other, stream, start + 1) if start is not None else None
        if start is None or call is None:
            continue
        # It may have made other calls of that iteration: those of the same forward.
        there = [n + 1 for n, iteration in enumerate(own) if iteration == right[start]]
        if any(not _are_of_one_line(case, (ranks[0], other), stream, n) for n in there):
            continue
        return Departure(
            What.FEWER_ITERATIONS, tuple(ranks), (other,), stream,
            start + 1, (call,), stack=case.stack(other, call), iteration=right[start],
        )  # fmt: skip
    return None


def _position_ahead(own: Sequence[int], right: Sequence[int]) -> int | None:
    """Return the position from which one rank is in later iterations; None: it is not."""
    start = end = min(len(own), len(right))
    while start and own[start - 1] != right[start - 1]:
        start -= 1
    is_ahead = start < end and own[start] > right[start] >= 0
    return start if is_ahead else None


def _are_of_one_line(case: Case, ranks: tuple[int, int], stream: StreamKey, number: int) -> bool:
    """Whether two ranks made the call with this number from the same line."""
    made = [(rank, case.call(rank, stream, number)) for rank in ranks]
    return len({case.stack(rank, call) if call is not None else () for rank, call in made}) == 1


def _iterations(log: RankLog, stream: StreamKey, before: int) -> Sequence[int]:
    rows, shift = log.rows(stream)
    return rows.iteration[: rows.position(before - shift)]


def _batches(log: RankLog, stream: StreamKey, before: int) -> Sequence[int]:
    """Return for each call how many batches the rank had got from its only DataLoader."""
    got = [batch.t for batch in log.batches if not batch.end]
    if len({batch.loader for batch in log.batches}) != 1 or before > _MOST_ROWS:
        return ()
    return [bisect(got, call.t) if call else -1 for call in log.calls(stream, 1, before)]


_MOST_ROWS: Final = 50_000

_UNITS: Final[Sequence[Callable[[RankLog, StreamKey, int], Sequence[int]]]] = (
    _iterations, _batches,
)  # fmt: skip
"""Return the iteration or batch of each call before ``before``."""


# -- against ranks of the same kind in other groups ------------------------------------------

_OF_KIND: Final = {
    "missing": What.SKIPPED, "extra": What.EXTRA, "swapped": What.SWAPPED,
    "other group": What.OTHER_CALL, "ended": What.ENDED, "longer": What.MORE_ITERATIONS,
}  # fmt: skip


@once
def from_kind(case: Case, candidate: Candidate) -> Departure | None:
    """Return how ranks left the program that most ranks of the same kind continued."""
    found = deviation(case, candidate)
    if found is None:
        return None
    return Departure(
        _OF_KIND[found.what], tuple(sorted(found.ranks)), found.others,
        candidate.stream, candidate.seq, found.calls,
    )  # fmt: skip

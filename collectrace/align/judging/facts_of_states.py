"""Evidence from what ranks were doing: absent, raised, stopped, or refused a call."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from collectrace import exceptions
from collectrace.align.judging import absence, patience, places, refusals
from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.candidates import IN_INIT
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.evidence import Evidence, sites_of
from collectrace.align.judging.outside import ignored
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import Side
from collectrace.records import HANDLED, Call, Raised
from collectrace.signature import wire_text

_CONTROL: Final = frozenset(
    {"Empty", "Full", "GeneratorExit", "KeyboardInterrupt", "StopAsyncIteration", "StopIteration",
     "SystemExit"}
)  # fmt: skip
"""Exceptions that programs use for control flow, or that a person causes."""

_WINDOW: Final = 200
"""Calls before a difference in which an exception is searched."""


def stalled(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that made a call late, or stopped without a report.

    Whoever waited for a rank that was in the call, for its lock, say, is not to blame for that.
    """
    source = candidate.source
    if not isinstance(source, IncompleteRow):
        return
    if source.late:
        there = source.calls.keys() - source.late.keys()
        held_up = (
            rank
            for rank in source.late
            if (wait := patience.held_up_by(case, source, rank)) and wait.holder in there
        )
        yield Evidence("came_late", tuple(sorted({*source.late}.difference(held_up))))
    standings = [case.standings[rank] for rank in candidate.ranks]
    stopped = [s.rank for s in standings if s.state in ("silent", "died") or s.early]
    yield Evidence("stopped", tuple(sorted(stopped)))


def held_up(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that never made a call or failed in it, or that those finally wait for."""
    source = candidate.source
    if isinstance(source, GroupConflict):
        if source.seq == IN_INIT:
            yield Evidence("left_no_log", tuple(sorted(candidate.absent)))
        if not absence.never_created(case, candidate):
            return
    elif candidate.what != "missing_call":
        return
    yield Evidence("holds_up_others", absence.culprits(case, candidate))


def refused(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks with calls that were refused for their arguments, and are lacking since."""
    found = refusals.refused(case, candidate)
    if found is not None:
        calls = [one.call for those in found.by_rank.values() for one in those if one.call]
        sites = sites_of(calls)
        yield Evidence("call_refused", found.ranks, sites, found)


def outside(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks with a call that torch ignored, as they are not in the group passed."""
    found = ignored(case, candidate)
    if found is not None:
        sites = tuple(dict.fromkeys(one.site for one in found.by_rank.values() if one.site))
        yield Evidence("outside_of_group", found.ranks, sites, found)


def raised(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the one side of which all ranks caught an exception just before they diverged.

    Or a side that lacks calls since then, namely those of the torch function that raised.
    """
    source = candidate.source
    if not isinstance(source, Divergence) or source.gap is not None or candidate.absent:
        return
    since = places.first_difference(case, candidate)
    row = since.seq if since is not None else source.seq
    called = [side for side in candidate.sides if side.call is not None]
    ranks = candidate.ranks
    lines = {(side.stack, side.call.site) for side in called if side.call is not None}
    for found in (
        [[_just_before(case, candidate, rank, row) for rank in side.ranks] for side in called],
        [[_lacking(case, source, rank, ranks) for rank in side.ranks] for side in called],
    ):
        hit = [n for n, those in enumerate(found) if any(those)]
        if len(hit) == 1 and all(found[hit[0]]) and len(called) > 1:
            those = [one for one in found[hit[0]] if one is not None]
            # At one common line only a torch function's missing result can differ, not a handler's.
            if len(lines) == 1 and any(one.what == HANDLED for one in those):
                continue
            sites = sites_of(those)
            yield Evidence("caught_exception", tuple(sorted(called[hit[0]].ranks)), sites, those)
            return


def made_usual_call(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Protect ranks that made, at another line, what the others had always made at theirs."""
    called = [(side, side.call) for side in candidate.sides if side.call is not None]
    for side, call in called:
        others = [one for one in called if one[0] is not side]
        usual = {_usual(case, candidate, *one) for one in others}
        is_elsewhere = all(one[0].stack != side.stack or one[1].site != call.site for one in others)
        if is_elsewhere and usual == {wire_text(call, "")}:
            yield Evidence("made_usual_call", tuple(sorted(side.ranks)))


def _usual(case: Case, candidate: Candidate, side: Side, call: Call) -> str | None:
    """Return what all earlier calls of a side at its line had on the wire; None: they differed."""
    rank = side.ranks[0]
    lines = case.frames_or_line(rank, call)
    earlier = (one for one in case.before(rank, candidate.stream, candidate.seq) if one is not None)
    usual = {wire_text(one, "") for one in earlier if case.frames_or_line(rank, one) == lines}
    return usual.pop() if len(usual) == 1 else None


def _just_before(case: Case, candidate: Candidate, rank: int, row: int) -> Raised | None:
    """Return the exception that a rank caught between the call before and this one."""
    log, stream = case.log(rank), candidate.stream
    if log is None or stream is None or not log.caught:
        return None
    call, last = case.call(rank, stream, row), case.call(rank, stream, row - 1)
    if call is None:
        return None
    begin = last.t if last is not None else 0
    those = [one for one in log.caught if begin < one.t <= call.t]
    differing = case.call(rank, stream, candidate.seq or row) or call
    return those[-1] if those and _leads_away(case, rank, those[-1], differing.t) else None


def _lacking(case: Case, source: Divergence, rank: int, ranks: Sequence[int]) -> Raised | None:
    """Return the latest exception since which a rank lacks calls that a peer made."""
    log = case.log(rank)
    for one in reversed(log.caught if log is not None else ()):
        if one.what == HANDLED or not _leads_away(case, rank, one, one.t):
            continue
        first = _row_after(case, source, rank, one.t)
        for peer in ranks:
            if case.log(peer) is None or peer == rank or identity(one) in _caught(case, peer):
                continue
            count = 0
            while (call := case.call(peer, source.stream, first + count)) is not None:
                if not _is_of(one, call) or count > _WINDOW:
                    break
                count += 1
                rows = first, source.seq
                if refusals.is_shifted(case, source.stream, (rank, peer), rows, count):
                    return one
    return None


def _is_of(one: Raised, call: Call) -> bool:
    """Whether the function that raised makes this call."""
    return one.what in (call.api, call.op)


def _row_after(case: Case, source: Divergence, rank: int, t: int) -> int:
    """Return the number of the first call that a rank issued after ``t``, near a call."""
    rows = range(source.seq, max(1, source.seq - _WINDOW), -1)
    for seq in rows:
        call = case.call(rank, source.stream, seq - 1)
        if call is None or call.t < t:
            return seq
    return max(1, source.seq - _WINDOW)


def _leads_away(case: Case, rank: int, one: Raised, until: int) -> bool:
    """Whether an exception can have sent a rank elsewhere: it is local, and new to the rank.

    One that the rank handled another time, before it diverged at ``until``, does not count.
    """
    times = _caught(case, rank)[identity(one)]
    return is_own(one) and bisect_right(times, until) <= (one.t <= until)


@once
def _caught(case: Case, rank: int) -> Mapping[Identity, Sequence[int]]:
    """Return when a rank caught which exceptions, sorted."""
    found: dict[Identity, list[int]] = {}
    log = case.log(rank)
    for one in log.caught if log is not None else ():
        insort(found.setdefault(identity(one), []), one.t)
    return found


def is_own(one: Raised) -> bool:
    """Whether an exception is an error, and not one that other ranks caused."""
    return one.error not in _CONTROL and not exceptions.blames_peers(one.error, one.message)


Identity = tuple[str, str | None, str]
"""The type of an exception, its line, and the function that it left."""


def identity(one: Raised) -> Identity:
    """Return what identifies an exception, ignoring its text."""
    return one.error, one.site, one.what

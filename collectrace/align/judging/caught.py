"""Exceptions that ranks caught, and after which they were at another line than the others.

What leaves a function of torch's is recorded, and what is being handled when a call is made. Who
was let down by others is no cause; and a rank that has lived with such an exception before is not
at another line because of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import exceptions
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.parted import parted
from collectrace.align.judging.refusals import is_moved
from collectrace.align.judging.usual import goes_on
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import StreamKey
from collectrace.findings import Side
from collectrace.records import HANDLED, Call, Raised

_CONTROL: Final = frozenset(
    {"Empty", "Full", "GeneratorExit", "KeyboardInterrupt", "StopAsyncIteration", "StopIteration",
     "SystemExit"}
)  # fmt: skip
"""Exceptions by which programs find their way, or a person ends them."""

_MOST_LEFT_OUT: Final = 16
"""Calls that one function of torch's may make."""


@dataclass(frozen=True, slots=True)
class Caught:
    """Exceptions of all ranks of one side of a row, and of none of the others."""

    by_rank: dict[int, Raised]
    """What each raised."""
    side: Side
    others: tuple[int, ...]
    left_out: tuple[Call, ...]
    """The calls of the function of torch's that raised, as another rank made them; empty: it is not
    seen that they were left out, only that the next line was another one."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Who raised."""
        return tuple(sorted(self.by_rank))


@once
def caught(case: Case, candidate: Candidate) -> Caught | None:
    """The exceptions that sent one side of a row elsewhere; None: none did, as far as is seen."""
    source = candidate.source
    if not isinstance(source, Divergence) or source.gap is not None or candidate.absent:
        return None
    called = [side for side in candidate.sides if side.call is not None]
    if len(called) < 2:
        return None
    since = parted(case, candidate)
    row = since.seq if since is not None else source.seq
    return _just_before(case, candidate, called, row) or _left_out(case, source, called)


def _just_before(
    case: Case, candidate: Candidate, called: Sequence[Side], row: int
) -> Caught | None:
    """Raised after a rank's call in the row before, and its next one is another call.

    By its line; or by its arguments, where a function of torch's has not returned what it should.
    """
    found = [[before(case, candidate, row, rank) for rank in side.ranks] for side in called]
    raising = [n for n, those in enumerate(found) if any(those)]
    if len(raising) != 1:
        return None
    if len({(side.stack, side.call and side.call.site) for side in called}) == 1 and any(
        raised.what == HANDLED for those in found[raising[0]] for raised in those
    ):
        return None
    side, those = called[raising[0]], found[raising[0]]
    by_rank = {rank: raised[-1] for rank, raised in zip(side.ranks, those, strict=True) if raised}
    if len(by_rank) < len(side.ranks):
        return None
    if not all(_leads_away(case, rank, raised) for rank, raised in by_rank.items()):
        return None
    return Caught(by_rank, side, _others(called, side), ())


@once
def by_handler(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks of the one side whose call stands under an ``except``, where they never were.

    Whatever was raised, it was on those ranks, and their call comes from what handles it; the
    others go on as ever.
    """
    called = [side for side in candidate.sides if side.call is not None]
    source = candidate.source
    if len(called) < 2 or candidate.absent or not isinstance(source, Divergence):
        return ()
    found = [
        side
        for side in called
        if any(is_under(case, frame, ("except",)) for frame in side.stack or ())
    ]
    if len(found) != 1:
        return ()
    others = ((side.ranks[0], side.call) for side in called if side not in found)
    if not all(call and goes_on(case, rank, source.stream, call) for rank, call in others):
        return ()
    rows = (case.before(rank, candidate.stream, candidate.seq) for rank in found[0].ranks)
    before = {
        case.stack(rank, call)
        for rank, calls in zip(found[0].ranks, rows, strict=True)
        for call in calls
        if call is not None
    }
    return found[0].ranks if found[0].stack not in before else ()


def is_under(case: Case, frame: str, heads: tuple[str, ...]) -> bool:
    """Whether a statement that begins so stands around a frame's line, in its function."""
    around = statements.own(case.statements(chains.site(frame)))[:-1]
    return any(statements.code_of(line).startswith(heads) for line in around)


@dataclass(frozen=True, slots=True)
class Handling:
    """A rank that waits in a call which it issued while it handled an exception."""

    rank: int
    raised: Raised
    call: Call


@once
def handling(case: Case, candidate: Candidate) -> Handling | None:
    """The one rank of a circle of waits that came to its call by an exception; None: not one.

    One that another of the circle had too has parted nobody. And who then waits for a message may
    do so by arrangement: a cache that has missed asks for its part.
    """
    found = list[Handling]()
    for edge in candidate.cycle:
        rank, call = edge.waiting.rank, waited_for(case, edge.waiting)
        log = case.log(rank)
        if call is None or log is None:
            return None
        if edge.waiting.channel is not None:
            continue
        found += [
            Handling(rank, raised, call)
            for raised in log.caught
            if raised.what == HANDLED and raised.t == call.t and _leads_away(case, rank, raised)
        ]
    if len(found) != 1:
        return None
    others = {edge.waiting.rank for edge in candidate.cycle} - {found[0].rank}
    logs = [log for rank in others if (log := case.log(rank)) is not None]
    had = {_what(raised) for log in logs for raised in log.caught}
    return found[0] if _what(found[0].raised) not in had else None


def _left_out(case: Case, source: Divergence, called: Sequence[Side]) -> Caught | None:
    """Raised in a function of torch's whose calls the others made, and moved by those since."""
    found: dict[int, tuple[Raised, tuple[Call, ...]]] = {}
    for side in called:
        others = _others(called, side)
        for rank in side.ranks:
            one = _moved(case, source, rank, others[0])
            if one is not None:
                found[rank] = one
    sides = [side for side in called if set(side.ranks) & set(found)]
    if len(sides) != 1 or set(sides[0].ranks) != set(found):
        return None
    by_rank = {rank: raised for rank, (raised, _) in found.items()}
    return Caught(by_rank, sides[0], _others(called, sides[0]), found[sides[0].ranks[0]][1])


def _moved(
    case: Case, source: Divergence, rank: int, peer: int
) -> tuple[Raised, tuple[Call, ...]] | None:
    """The latest exception since which a rank is some calls short of a peer, and these."""
    log, other = case.log(rank), case.log(peer)
    if log is None or other is None:
        return None
    alike = {_what(raised) for raised in other.caught}
    for raised in reversed(log.caught):
        if _what(raised) in alike or not _leads_away(case, rank, raised):
            continue
        first = _row_after(case, source.stream, rank, source.seq, raised.t)
        if first is None:
            continue
        calls: list[Call] = []
        while len(calls) < _MOST_LEFT_OUT:
            call = case.call(peer, source.stream, first + len(calls))
            if call is None or raised.what not in (call.api, call.op):
                break
            calls.append(call)
            if is_moved(case, source.stream, (rank, peer), (first, source.seq), len(calls)):
                return raised, tuple(calls)
    return None


def _row_after(case: Case, stream: StreamKey, rank: int, last: int, t: int) -> int | None:
    """The first row up to ``last`` that a rank issued after a time, of those just before it."""
    for seq in range(last, max(0, last - _WINDOW), -1):
        call = case.call(rank, stream, seq - 1) if seq > 1 else None
        if call is None or call.t < t:
            return seq
    return None


_WINDOW: Final = 200
"""Rows before a difference in which an exception is looked for."""


def _others(called: Sequence[Side], side: Side) -> tuple[int, ...]:
    return tuple(sorted(r for other in called if other is not side for r in other.ranks))


def before(case: Case, candidate: Candidate, row: int, rank: int) -> Sequence[Raised]:
    """What a rank raised, and went on after, between its calls of the row before and of this."""
    log = case.log(rank)
    if log is None or not log.caught or candidate.stream is None:
        return ()
    call, last = (case.call(rank, candidate.stream, seq) for seq in (row, row - 1))
    if call is None:
        return ()
    begin = last.t if last is not None else 0
    return [raised for raised in log.caught if begin < raised.t <= call.t]


def _leads_away(case: Case, rank: int, raised: Raised) -> bool:
    if raised.error in _CONTROL or exceptions.blames_peers(raised.error, raised.message):
        return False
    log = case.log(rank)
    return log is not None and not any(
        _what(one) == _what(raised) for one in log.caught if one.t < raised.t
    )


def _what(raised: Raised) -> tuple[str, str | None, str]:
    """What makes two exceptions the same, whatever their texts."""
    return raised.error, raised.site, raised.what

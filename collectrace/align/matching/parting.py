"""Where two ranks parted in their programs before they parted on the wire.

Collectives that fit meet without harm to the bytes, whoever issues them: a rank that evaluates
alone issues the same all-gathers as the others do for training. The wire shows a difference
calls later, at a place that is innocent. But the lines differ from the first such call on, and
where one rank has made some calls too many, the rest of its stream is that of the others, moved
by their number.

Legal programs differ in lines too (a root broadcasts from one line, the others receive in
another), always in the same way. So lines have parted only where a line that has been come to
before meets one that it never met.

Where each rank runs a function of its own, as a leader that sends commands from several lines and
a follower that receives them in one, a line may meet another for the first time whenever the other
is come to for the first time. There lines have parted only where two meet for the first time that
both have met others before.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace.align.matching import habit
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.records import Call
from collectrace.roles import is_shadow

_MOST_ROWS: Final = 100_000
"""Rows before a difference that are looked at in logs that were read from end to end."""

_WINDOW: Final = 2000
"""The same in logs of which a part was read: each is looked up."""

_MOST_EXTRA: Final = 512
"""Calls that one rank may have made too many."""


_Where = tuple[str, ...]
"""Where a call was made: its line and those of its callers."""

_Step = tuple[int, _Where]
"""What a call means, and where it was made."""


@dataclass(frozen=True, slots=True)
class Extra:
    """Calls of one rank after which it was again where the other is."""

    rank: int
    calls: tuple[Call, ...]
    agreeing: int
    """Calls behind them that are the same on both, moved by their number; 0: it came back to the
    other's lines, and not at the same place of the program."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first row at which two ranks are in different places of their programs."""

    seq: int
    ranks: tuple[int, int]
    calls: tuple[Call, Call]
    extra: Extra | None


class _Column:
    """What one rank did, row by row: ids of what each call is and of where it was made."""

    def __init__(self, log: RankLog, stream: StreamKey, start: int, stop: int) -> None:
        rows, shift = log.rows(stream)
        self.vocabulary: Vocabulary = rows.vocabulary
        self.meaning: Sequence[int]
        self.appearance: Sequence[int]
        if log.scanned:
            low, high = rows.position(start - shift), rows.position(stop - shift)
            self.meaning = rows.meaning[low:high]
            self.appearance = rows.appearance[low:high]
            return
        meaning, appearance = array("i"), array("i")
        for call in log.calls(stream, start, stop):
            if call is None:
                break
            stack = log.stack(call)
            meaning.append(self.vocabulary.meaning(call))
            frames = stack.frames if stack is not None else ()
            appearance.append(self.vocabulary.appearance(call, frames))
        self.meaning, self.appearance = meaning, appearance

    def __len__(self) -> int:
        return len(self.meaning)

    def where(self, at: int) -> _Where:
        return self.vocabulary.appearances[self.appearance[at]].where

    def places(self) -> set[_Where]:
        """Where the rank ever was."""
        return {self.vocabulary.appearances[n].where for n in set(self.appearance)}

    def is_shadow(self, at: int) -> bool:
        return is_shadow(self.vocabulary.appearances[self.appearance[at]].role)

    def step(self, at: int) -> _Step:
        """What makes two calls of different ranks the same step of one program."""
        return self.meaning[at], self.where(at)


def find(one: RankLog, two: RankLog, stream: StreamKey, before: int) -> Parting | None:
    """Where two ranks parted before row ``before`` of a stream, on which they agree till there.

    Args:
        one: a rank's log.
        two: another's.
        stream: a stream of both.
        before: the first row on which the calls differ, or that one of them lacks.

    """
    window = _MOST_ROWS if one.scanned and two.scanned else _WINDOW
    start = max(1, one.first_row(stream), two.first_row(stream), before - window)
    stop = max(log.last_seq.get(stream, 0) for log in (one, two)) + 1
    a = _Column(one, stream, start, min(stop, before + window))
    b = _Column(two, stream, start, min(stop, before + window))
    at = _first_apart(a, b, min(before - start, len(a), len(b)))
    if at is None:
        return None
    (mine,), (theirs,) = (log.calls(stream, start + at, start + at + 1) for log in (one, two))
    if mine is None or theirs is None:
        return None
    whole = start == 1 and not any(
        has_lost(log) or len(column) < log.last_seq.get(stream, 0)
        for log, column in ((one, a), (two, b))
    )
    found = (
        _extra(one, a, b, stream, start, at, whole=whole),
        _extra(two, b, a, stream, start, at, whole=whole),
    )
    # In a loop, calls too many on one side are as well some too few on the other: the fewest.
    extra = min(filter(None, found), key=lambda more: len(more.calls), default=None)
    return Parting(start + at, (one.rank, two.rank), (mine, theirs), extra)


def passing(one: RankLog, two: RankLog, stream: StreamKey, before: int) -> Parting | None:
    """The first row at which one rank was where it never was, and the other at a line of both.

    Whether they came together again behind it, or not: that each has met the other there, and
    nothing else, says that it is one step of both programs. ``ranks`` has the one that was
    elsewhere first. None where a part of the logs was not read, or there are too many rows.

    Not where that was a step of both all the same, by what they did next.

    Args:
        one: a rank's log.
        two: another's.
        stream: a stream of both.
        before: the first row on which the calls differ, or that one of them lacks.

    """
    if not (one.scanned and two.scanned) or before > _MOST_ROWS:
        return None
    a, b = (_Column(log, stream, 1, before + 1) for log in (one, two))
    met_by_a: dict[_Where, set[_Where]] = {}
    met_by_b: dict[_Where, set[_Where]] = {}
    for at in range(min(len(a), len(b), before - 1)):
        here, there = a.where(at), b.where(at)
        for first, second, is_new, usual in (
            (one, two, here not in met_by_a, met_by_b.get(there) == {there}),
            (two, one, there not in met_by_b, met_by_a.get(here) == {here}),
        ):
            is_parting = is_new and usual and not a.is_shadow(at) and not b.is_shadow(at)
            if is_parting and not _is_step_of_both(a, b, at, before - 1):
                (mine,), (theirs,) = (log.calls(stream, at + 1, at + 2) for log in (first, second))
                if mine is None or theirs is None:
                    return None
                return Parting(at + 1, (first.rank, second.rank), (mine, theirs), None)
        met_by_a.setdefault(here, set()).add(there)
        met_by_b.setdefault(there, set()).add(here)
    return None


def differ_once(one: RankLog, two: RankLog, stream: StreamKey, seq: int) -> bool:
    """Return whether a row is the only one in which two lines differ, and all later rows agree.

    Then the way to these lines does not explain the difference. If the ranks are at one line, they
    may bring other values to it, and nothing is known of the way.

    Args:
        one: a rank's log.
        two: another's.
        stream: a stream of both.
        seq: a row on which the calls differ.

    """
    window = _MOST_ROWS if one.scanned and two.scanned else _WINDOW
    start = max(1, one.first_row(stream), two.first_row(stream), seq - window)
    a, b = (_Column(log, stream, start, seq + window) for log in (one, two))
    at = seq - start
    if len(a) != len(b) or at + 1 >= len(a) or a.meaning[at + 1 :] != b.meaning[at + 1 :]:
        return False
    lines = a.where(at), b.where(at)
    rows = range(len(a)) if lines[0] != lines[1] else ()
    return any(
        n != at and a.meaning[n] == b.meaning[n] and (a.where(n), b.where(n)) == lines for n in rows
    )


def _is_step_of_both(a: _Column, b: _Column, at: int, last: int) -> bool:
    """Whether two that are at lines of their own went on to one of these, and left it together.

    As where a leader says from a line of its own that another word comes: those who listen take a
    turn more of their loop. Had one made a call too many, the other would have left the line first.

    Args:
        a: what one did.
        b: what another did.
        at: the position.
        last: the last that is looked at.

    """
    if at + 1 >= min(len(a), len(b)) or a.where(at + 1) not in (a.where(at), b.where(at)):
        return False
    line = a.where(at + 1)
    for n in range(at + 1, last + 1):
        are_there = [n < len(column) and column.where(n) == line for column in (a, b)]
        if not all(are_there):
            return n > at + 1 and not any(are_there)
    return False


def has_lost(log: RankLog) -> bool:
    """Whether calls of a rank are missing: what it never did cannot be told then."""
    return log.rotated or bool(log.dropped) or log.disabled or log.lossy


def _first_apart(a: _Column, b: _Column, length: int) -> int | None:
    """The position since which the ranks are apart: a place come to before met one it never met.

    Ranks that were at the same places again for longer than a round, as one that logs from a line
    of its own, were not apart for good; nor were those that have come from being together to just
    these two places again and again. Nor those who run functions of their own, and right before
    ``length`` met as they had before. What meets behind ``length`` makes no parting, but confirms
    one.
    """
    places_of_a, places_of_b = a.places(), b.places()
    met_by_a: dict[_Where, set[_Where]] = {}
    met_by_b: dict[_Where, set[_Where]] = {}
    fitting: set[tuple[_Where, _Where]] = set()
    """What met while the ranks were not apart."""
    partings: Counter[tuple[_Where, _Where]] = Counter()
    apart: int | None = None
    maybe: int | None = None
    together = 0
    for at in range(min(length + 1, len(a), len(b))):
        here, there = a.where(at), b.where(at)
        known, theirs = met_by_a.get(here, set()), met_by_b.get(there, set())
        is_own = here not in places_of_b and there not in places_of_a
        is_new = bool(known or theirs) and there not in known
        if not is_new:
            maybe = None
        elif is_own:
            maybe = at if maybe is None else maybe
            is_new = bool(known and theirs)
        if at == length:
            is_confirmed = apart is None and is_new and maybe != at
            return maybe if is_confirmed else _lasting(a, b, apart, length, fitting)
        if here == there or (is_own and (here, there) in fitting):
            together += 1
            if together > len(met_by_a):
                apart = None
        else:
            partings[here, there] += bool(together)
            together = 0
            if apart is None and not a.is_shadow(at) and not b.is_shadow(at):
                if is_new and not _is_step_of_both(a, b, at, length):
                    apart = at if maybe is None else maybe
            elif apart is not None and partings[a.where(apart), b.where(apart)] >= habit.ENOUGH:
                apart = None
        if apart is None:
            fitting.add((here, there))
        met_by_a.setdefault(here, set()).add(there)
        met_by_b.setdefault(there, set()).add(here)
    return _lasting(a, b, apart, length, fitting)


def _lasting(
    a: _Column, b: _Column, apart: int | None, length: int, fitting: set[tuple[_Where, _Where]]
) -> int | None:
    """A position since which ranks are apart; None where lines of their own fitted again."""
    if apart is None or not length:
        return apart
    is_own = a.where(apart) not in b.places() and b.where(apart) not in a.places()
    is_over = (a.where(length - 1), b.where(length - 1)) in fitting
    return None if is_own and is_over else apart


def _extra(
    log: RankLog,
    mine: _Column,
    theirs: _Column,
    stream: StreamKey,
    start: int,
    at: int,
    *,
    whole: bool,
) -> Extra | None:
    """The calls that ``log``'s rank made too many from a position on, if that is what it is."""
    rest = [theirs.step(n) for n in range(at, len(theirs))]
    own = [mine.step(n) for n in range(at, min(len(mine), at + len(rest) + _MOST_EXTRA))]
    places = theirs.places()
    apart = next((n for n, (_, where) in enumerate(own) if where in places), len(own))
    count, agreeing = _shift(own, rest)
    if not agreeing and whole and 0 < apart < len(own):
        # It came back from places where the other never was, though what it left behind (a module
        # that is still unsharded) spares it calls that the other makes.
        count = apart
    if not count:
        return None
    calls = log.calls(stream, start + at, start + at + count)
    return Extra(
        rank=log.rank,
        calls=tuple(call for call in calls if call is not None),
        agreeing=agreeing,
    )


def _shift(own: Sequence[_Step], rest: Sequence[_Step]) -> tuple[int, int]:
    """After how many calls of one rank its steps are the other's again, and how many those are."""
    for count in range(1, min(_MOST_EXTRA, len(own) - 1) + 1):
        moved = own[count : count + len(rest)]
        if moved and moved == rest[: len(moved)]:
            return count, len(moved)
    return 0, 0

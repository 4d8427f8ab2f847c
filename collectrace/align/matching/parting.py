"""Find the call at which the programs of two ranks diverged before their streams did.

Collectives that fit can meet without an error from any line. A rank that evaluates alone issues the
same all-gathers as the others do for training. The streams differ some calls later, at an innocent
place. But the lines differ from the first such call on. If one rank made extra calls, the rest of
its stream equals that of the others, shifted by their number.

Legal programs differ in lines too (a root broadcasts from one line, the others receive in another),
but always in the same way. So lines diverge only if a known line meets one that it never met
before.

Ranks may run different functions, such as a leader with several lines and a follower with one. Then
a line may meet another when either is new. There lines diverge only if two lines meet for the first
time that both met others before.
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
"""Rows before a difference that are examined in logs that were read from end to end."""

_WINDOW: Final = 2000
"""The same in logs that were read in part: each row is looked up."""

_MOST_EXTRA: Final = 512
"""Extra calls that one rank may have made."""


_Where = tuple[str, ...]
"""The line of a call and those of its callers."""

_Step = tuple[int, _Where]
"""The meaning of a call, and the lines that it came through."""


@dataclass(frozen=True, slots=True)
class Extra:
    """Extra calls of one rank, after which it was at the same lines as the other again."""

    rank: int
    calls: tuple[Call, ...]
    agreeing: int
    """Later calls that are the same on both, shifted by the number of extra ones. 0: the rank
    returned to the other's lines, but not to the same position in the program."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first row at which two ranks are in different places of their programs."""

    seq: int
    ranks: tuple[int, int]
    calls: tuple[Call, Call]
    extra: Extra | None


class _Column:
    """The calls of one rank, row by row: ids of what each means and how it appears."""

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
        """Return all lines at which the rank ever was."""
        return {self.vocabulary.appearances[n].where for n in set(self.appearance)}

    def is_shadow(self, at: int) -> bool:
        return is_shadow(self.vocabulary.appearances[self.appearance[at]].role)

    def step(self, at: int) -> _Step:
        """Return what two calls of different ranks have in common if they are the same step."""
        return self.meaning[at], self.where(at)


def find(one: RankLog, two: RankLog, stream: StreamKey, before: int) -> Parting | None:
    """Return the call at which two ranks diverged before row ``before`` of a stream.

    They agree on all rows up to there.

    Args:
        one: a rank's log.
        two: another's.
        stream: a stream of both.
        before: the first row on which the calls differ, or that one of them lacks.

    """
    window = _MOST_ROWS if one.scanned and two.scanned else _WINDOW
    start = max(1, one.first_row(stream), two.first_row(stream), before - window)
    # Rows are compared by their position, so none may be missing in between.
    gaps = (last for log in (one, two) for _, last in log.lost(stream) if last < before)
    start = max(start, *(last + 1 for last in gaps), 1)
    stop = max(log.last_seq.get(stream, 0) for log in (one, two)) + 1
    a = _Column(one, stream, start, min(stop, before + window))
    b = _Column(two, stream, start, min(stop, before + window))
    at = _first_apart(a, b, min(before - start, len(a), len(b)))
    if at is None:
        return None
    mine, theirs = (log.call(stream, start + at) for log in (one, two))
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
    # In a loop, extra calls of one side may be missing ones of the other: take the fewest.
    extra = min(filter(None, found), key=lambda more: len(more.calls), default=None)
    return Parting(start + at, (one.rank, two.rank), (mine, theirs), extra)


def passing(one: RankLog, two: RankLog, stream: StreamKey, before: int) -> Parting | None:
    """Return the first row with one rank at a new line, and the other at a line of both.

    The ranks need not meet again afterwards. The second line has met only itself before, so it is
    one step of both programs. ``ranks`` has the rank at the new line first. A row does not count if
    the next calls show that it was a step of both. None if a part of the logs was not read, or
    there are too many rows.
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
                mine, theirs = (log.call(stream, at + 1) for log in (first, second))
                if mine is None or theirs is None:
                    return None
                return Parting(at + 1, (first.rank, second.rank), (mine, theirs), None)
        met_by_a.setdefault(here, set()).add(there)
        met_by_b.setdefault(there, set()).add(here)
    return None


def _is_step_of_both(a: _Column, b: _Column, at: int, last: int) -> bool:
    """Return whether two ranks continued from different lines to one of them, and left it together.

    A leader that announces another word from its own line is an example: its listeners run one more
    iteration. If one rank had made an extra call, the other would have left the line first.
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
    """Return whether calls of a rank are missing from its log."""
    return log.rotated or bool(log.dropped) or log.disabled or log.lossy


def _first_apart(a: _Column, b: _Column, length: int) -> int | None:
    """Return the position since which two ranks are apart: a known line met a new partner.

    They are not apart in three cases:

    - They were at equal places again for longer than an iteration.
    - They repeatedly went from equal places to just these two.
    - They run different functions, and met as usual right before ``length``.

    A meeting at ``length`` does not begin a divergence, but may confirm one.
    """
    places_of_a, places_of_b = a.places(), b.places()
    met_by_a: dict[_Where, set[_Where]] = {}
    met_by_b: dict[_Where, set[_Where]] = {}
    fitting: set[tuple[_Where, _Where]] = set()
    """Pairs of lines that met while the ranks were not apart."""
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
    """Return the position since which ranks are apart; None if unshared lines fitted again."""
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
    """Return the extra calls of ``log``'s rank from a position on; None if there are none."""
    rest = [theirs.step(n) for n in range(at, len(theirs))]
    own = [mine.step(n) for n in range(at, min(len(mine), at + len(rest) + _MOST_EXTRA))]
    places = theirs.places()
    apart = next((n for n, (_, where) in enumerate(own) if where in places), len(own))
    count, agreeing = _count_extra(own, rest)
    if not agreeing and whole and 0 < apart < len(own):
        # It returned from lines that the other never had, though what it left behind (an unsharded
        # module) spares it calls that the other makes.
        count = apart
    if not count:
        return None
    calls = log.calls(stream, start + at, start + at + count)
    return Extra(
        rank=log.rank,
        calls=tuple(call for call in calls if call is not None),
        agreeing=agreeing,
    )


def _count_extra(own: Sequence[_Step], rest: Sequence[_Step]) -> tuple[int, int]:
    """Return the number of extra calls of one rank, and of equal steps after them; 0, 0 if none."""
    for count in range(1, min(_MOST_EXTRA, len(own) - 1) + 1):
        moved = own[count : count + len(rest)]
        if moved and moved == rest[: len(moved)]:
            return count, len(moved)
    return 0, 0

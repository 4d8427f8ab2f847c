"""Find the first row of a stream on which calls do not pair, in two ways that must agree.

By digest: a few lookups per rank whatever the length of the trace. By scan: the meaning of every
call, row by row, without any digest.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from collectrace.align.matching.comparison import Unclear
from collectrace.align.reading.evidence import Digests, RankLog, StreamKey
from collectrace.align.reading.rows import Rows
from collectrace.records import Call
from collectrace.roles import UNKNOWN
from collectrace.signature import (
    PRIME,
    Attribute,
    difference,
    other_counts,
    program_text,
    stretch,
    wire_text,
)

_ORDER: Final[tuple[Attribute, ...]] = ("op", "dtype", "count", "reduce_op", "root", "role")

_MAX_WAIVED: Final = 32
"""Rows that differ without proof, after which scanning is cheaper than searching on."""

_CHUNK: Final = 4096
"""Rows compared at once."""


_MOST_KINDS: Final = 32
"""Forms of a call that all others are compared with. If every form is different, some of these
differ in every attribute in which any two differ."""


def attribute_of(calls: Sequence[Call], backend: str) -> Attribute | None:
    """Return the first attribute in which calls at one row disagree; None if all pair."""
    # Of a thousand ranks hardly two differ: equal calls are compared once.
    kinds = list({_kind(call, backend): call for call in calls}.values())
    found = {
        difference(a, b, backend) for n, a in enumerate(kinds[:_MOST_KINDS]) for b in kinds[n + 1 :]
    }
    return next((name for name in _ORDER if name in found), None)


def _kind(call: Call, backend: str) -> tuple[object, ...]:
    """Return everything of a call that :func:`difference` reads."""
    looks = wire_text(call, backend), program_text(call), *other_counts(call)
    return *looks, call.void, call.role == UNKNOWN


class Stretch(NamedTuple):
    """Rows, first and last, that the same ranks hold."""

    start: int
    stop: int
    ranks: tuple[int, ...]


class ByDigest:
    """Searches by prefix digests, in logs that were read in part.

    Its methods raise :class:`Unclear` if the digests are not enough.
    """

    def __init__(self, stream: StreamKey, logs: Mapping[int, RankLog], backend: str) -> None:
        self._stream, self._logs, self._backend = stream, logs, backend

    def first(self, ranks: Sequence[int], start: int, stop: int, *, fatal: bool) -> int | None:
        """Return the first row, up to ``stop``, on which calls of these ranks do not pair.

        ``fatal``: only differences on the wire count. Every rank must hold every row.
        """
        base, waived = start - 1, 0
        before = {rank: self._chain(rank, base, fatal=fatal) for rank in ranks}
        if None in before.values():
            # The row before is lost, and its digest with it. So the first row is compared by
            # itself, unless its own digest proves that all agree so far.
            after = {self._chain(rank, start, fatal=fatal) for rank in ranks}
            if (None in after or len(after) > 1) and self._differs(ranks, start, fatal=fatal):
                return start
            base = start
        while base < stop:
            row, odd = self._search(ranks, base, stop, fatal=fatal)
            if row is None:
                return None
            if self._differs(odd, row, fatal=fatal):
                return row
            # Void, or an unknown role: digests are linear, so the search continues from here.
            base, waived = row, waived + 1
            if waived > _MAX_WAIVED:
                raise self._unclear()
        return None

    def exchange(self, ranks: Sequence[int], start: int, stop: int) -> int | None:
        """Return the first all_to_all with pairs that do not fit; ``ranks`` is the whole group."""
        ends = [self._at(rank, self._logs[rank].last_seq.get(self._stream, 0)) for rank in ranks]
        if all(end is not None and end.pairs is None for end in ends):
            return None  # no rank has issued one up to its end
        if self._balance(ranks, stop) == 0:
            return None
        if self._balance(ranks, start - 1) != 0:
            # The ranks were not traced from the same row on.
            raise self._unclear()
        low, high = start - 1, stop
        while high - low > 1:
            middle = (low + high) // 2
            if self._balance(ranks, middle) == 0:
                low = middle
            else:
                high = middle
        calls = self._row(ranks, high)
        if any(call.void or call.splits is None for call in calls):
            raise self._unclear()
        return high

    def _search(
        self, ranks: Sequence[int], base: int, stop: int, *, fatal: bool
    ) -> tuple[int | None, list[int]]:
        """Return the first row with different histories since ``base``, and ranks that differ."""
        before = {rank: self._known(rank, base, fatal=fatal) for rank in ranks}

        def since(rank: int, row: int) -> int:
            return stretch(before[rank], self._known(rank, row, fatal=fatal), row - base)

        # Ranks that agree at the end agreed all along: one of them is enough.
        classes: dict[int, int] = {}
        for rank in ranks:
            classes.setdefault(since(rank, stop), rank)
        odd = list(classes.values())
        if len(odd) == 1:
            return None, []
        low, high = base, stop
        while high - low > 1:
            middle = (low + high) // 2
            if len({since(rank, middle) for rank in odd}) == 1:
                low = middle
            else:
                high = middle
        return high, odd

    def _at(self, rank: int, row: int) -> Digests | None:
        return self._logs[rank].digests(self._stream, row)

    def _chain(self, rank: int, row: int, *, fatal: bool) -> int | None:
        found = self._at(rank, row)
        if found is None:
            return None
        return found.digest if fatal else found.program

    def _known(self, rank: int, row: int, *, fatal: bool) -> int:
        found = self._chain(rank, row, fatal=fatal)
        if found is None:
            raise self._unclear()
        return found

    def _balance(self, ranks: Sequence[int], row: int) -> int:
        total, known = 0, 0
        for rank in ranks:
            found = self._at(rank, row)
            if found is None:
                raise self._unclear()
            if found.pairs is not None:
                total += found.pairs
                known += 1
        if 0 < known < len(ranks):
            raise self._unclear()
        return total % PRIME

    def _unclear(self) -> Unclear:
        return Unclear({rank for rank, log in self._logs.items() if not log.scanned})

    def _row(self, ranks: Sequence[int], row: int) -> list[Call]:
        found = [self._logs[rank].call(self._stream, row) for rank in ranks]
        calls = [call for call in found if call is not None]
        if len(calls) < len(found):
            raise self._unclear()
        return calls

    def _differs(self, ranks: Sequence[int], row: int, *, fatal: bool) -> bool:
        for rank in ranks:
            # The digests of its neighbours prove a row: they must have been read, too.
            self._logs[rank].calls(self._stream, max(1, row - 1), row + 2)
        found = attribute_of(self._row(ranks, row), self._backend)
        return found is not None and not (fatal and found == "role")


class ByScan:
    """Compares the meaning of every row. The logs must have been scanned."""

    def __init__(self, stream: StreamKey, logs: Mapping[int, RankLog], backend: str) -> None:
        self._rows = {rank: log.rows(stream) for rank, log in logs.items()}
        self._backend = backend
        self._verdicts: dict[frozenset[int], Attribute | None] = {}

    def first(self, ranks: Sequence[int], start: int, stop: int, *, fatal: bool) -> int | None:
        """See :class:`ByDigest`."""
        all_rows = [self._rows[rank][0] for rank in ranks]
        columns = [rows.meaning for rows in all_rows]
        for i, row in differing(columns, self._starts(ranks, start), stop - start + 1):
            found = self._verdict(frozenset(row), all_rows[0])
            if found is not None and not (fatal and found == "role"):
                return start + i
        return None

    def _starts(self, ranks: Sequence[int], row: int) -> list[int]:
        return [rows.position(row - shift) for rows, shift in map(self._rows.__getitem__, ranks)]

    def _verdict(self, meanings: frozenset[int], rows: Rows) -> Attribute | None:
        if meanings not in self._verdicts:
            calls = [rows.vocabulary.examples[meaning] for meaning in meanings]
            self._verdicts[meanings] = attribute_of(calls, self._backend)
        return self._verdicts[meanings]

    def exchange(self, ranks: Sequence[int], start: int, stop: int) -> int | None:
        """See :class:`ByDigest`."""
        all_rows = [self._rows[rank] for rank in ranks]
        common: set[int] = set.intersection(
            *({row + shift for row in rows.steps} for rows, shift in all_rows)
        )
        for row in sorted(row for row in common if start <= row <= stop):
            steps = [rows.steps[row - shift] for rows, shift in all_rows]
            known = [step for step in steps if step is not None]
            if len(known) == len(steps) and sum(known) % PRIME:
                return row
        return None


def differing(
    columns: Sequence[array[int]], starts: Sequence[int], length: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the positions at which columns disagree, and the values there.

    Column k begins at index ``starts[k]``. Memory is compared first, so that equal stretches cost
    next to nothing.
    """
    for begin in range(0, length, _CHUNK):
        size = min(_CHUNK, length - begin)
        parts = [
            column[start + begin : start + begin + size]
            for column, start in zip(columns, starts, strict=True)
        ]
        reference = parts[0].tobytes()
        if all(part.tobytes() == reference for part in parts):
            continue
        for i, row in enumerate(zip(*parts, strict=True)):
            if row.count(row[0]) < len(row):
                yield begin + i, row

"""Prove rows of one rank by the digests in its lines.

The line of call n contains d(n) = d(n-1) * BASE + s(n) mod PRIME, where s(n) follows from the
line's description of the call. So the digests of two lines prove all rows between them at once.
Rows that do not fit the digests around them are disproved: they count as lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from collectrace.align.reading.keys import Digests
from collectrace.align.reading.rows import Rows, Strand, Strands, by_rows
from collectrace.signature import EMPTY, PRIME, retract, skip, stretch

LineDigests = Callable[[int], Digests | None]
"""Returns the digests in the line of a row, by its index; None: the line has none."""


class _Anchor(NamedTuple):
    """A digest in a line or a checkpoint."""

    seq: int
    digest: int


Fits = Callable[[_Anchor, _Anchor], bool]
"""Returns whether the rows between two anchors lead from one digest to the other."""


class Chain:
    """The rows of one stream of one rank, and the digests in its lines.

    ``begins``: the history of the digests begins with the first row that there is.
    """

    def __init__(self, rows: Rows, told: LineDigests, *, begins: bool = False) -> None:
        self.rows, self._told, self._begins = rows, told, begins

    def is_settled(self) -> bool:
        """Return whether the strands are up to date with what has been read so far."""
        return self.rows.strands is not None and self.rows.strands[0] == self._state()

    def fits(self) -> bool:
        """Return whether no run of rows contradicts the digests at its ends."""
        return all(
            first == last or self._run(first, last) is not None or self._is_plain(first, last)
            for first, last, _ in self.rows.runs()
        ) and not any(self._broken_pairs())

    def settle_at_once(self) -> bool:
        """Find the strands if nothing is wrong; false if rows must be examined one by one."""
        found = [self._run(first, last) for first, last, _ in self.rows.runs()]
        if any(strand is None for strand in found) or any(self._broken_pairs()):
            return False
        self._keep([strand for strand in found if strand is not None])
        return True

    def settle(self) -> None:
        """Find the strands, and drop the rows that are disproved."""
        for seq in list(self._broken_pairs()):
            self.rows.disprove(seq)
        strands: list[Strand] = []
        for first, last, _ in list(self.rows.runs()):
            whole = self._run(first, last)
            strands += [whole] if whole is not None else self._walk(first, last)
        self._keep(strands)

    def steps(self) -> Iterator[tuple[int, int]]:
        """Yield for each row after another its meaning, and what its digest adds."""
        rows = self.rows
        for first, last, at in rows.runs():
            lines = [self._program(seq) for seq in range(first, last + 1)]
            for n, (before, after) in enumerate(pairwise(lines), at + 1):
                if before is not None and after is not None:
                    yield rows.meaning[n], stretch(before, after, 1)

    # -- strands ------------------------------------------------------------------------------

    def _state(self) -> tuple[int, ...]:
        rows = self.rows
        return len(rows), len(rows.disproved), len(rows.checkpoints)

    def _keep(self, strands: Sequence[Strand]) -> None:
        proven = Strands(one for one in strands if one.proven)
        known = [
            Strand(seq + 1, seq, program, program, proven=False)
            for seq, (_, program, _) in self.rows.checkpoints.items()
            if program is not None and proven.after(seq) is None
        ]
        self.rows.strands = self._state(), tuple(sorted([*strands, *known], key=by_rows))

    def _program(self, seq: int) -> int | None:
        """Return the digest after a row, by its line or a checkpoint."""
        at = self.rows.find(seq)
        told = self._told(at) if at is not None else None
        return told.program if told is not None and told.program is not None else self._noted(seq)

    def _noted(self, seq: int) -> int | None:
        found = self.rows.checkpoints.get(seq)
        return None if found is None else found[1]

    def _before(self, first: int) -> int | None:
        """Return the digest before a run of rows."""
        if first == 1:
            return EMPTY
        noted = self._noted(first - 1)
        if noted is None and self._begins and first == self.rows.seq[0]:
            # If nothing is lost before it, any other digest contradicts its line.
            is_first = first - 1 in self.rows.checkpoints
            is_first |= self._program(first) == self._fold(EMPTY, first, first)
            return EMPTY if is_first else None
        return noted

    def _fold(self, digest: int, first: int, last: int) -> int:
        """Return the digest after some rows, computed from their calls."""
        at = self.rows.position(first)
        return self.rows.vocabulary.fold(digest, self.rows.meaning[at : at + last - first + 1])

    def _run(self, first: int, last: int) -> Strand | None:
        """Return a run of rows with ends that agree; None if they do not, or lack a digest."""
        before, after = self._before(first), self._program(last)
        if after is None:
            return Strand(first, last) if self._is_plain(first, last) else None
        if before is not None:
            is_whole = self._fold(before, first, last) == after
            return Strand(first, last, before, after) if is_whole else None
        begin = self._program(first)
        if begin is None or first == last or self._fold(begin, first + 1, last) != after:
            return None
        # Rows of runs before it may have been dropped since it was found.
        step = self.rows.vocabulary.steps[self.rows.meaning[self.rows.position(first)]]
        return Strand(first, last, retract(begin, step), after)

    def _is_plain(self, first: int, last: int) -> bool:
        some = {first, (first + last) // 2, last}
        return all(self._program(seq) is None for seq in some)

    def _walk(self, first: int, last: int) -> Iterator[Strand]:
        """Yield the strands of a run with ends that do not agree."""
        anchors = [] if (begin := self._before(first)) is None else [_Anchor(first - 1, begin)]
        for seq in range(first, last + 1):
            at = self.rows.position(seq)
            told = self._told(at)
            digests = (told.program if told is not None else None, self._noted(seq))
            anchors += [_Anchor(seq, digest) for digest in digests if digest is not None]
        if not anchors:
            yield Strand(first, last, proven=False)
            return
        if anchors[0].seq > first:
            yield Strand(first, anchors[0].seq - 1, proven=False)

        def fits(a: _Anchor, b: _Anchor) -> bool:
            return self._fold(a.digest, a.seq + 1, b.seq) == b.digest

        end = first - 1
        for n, (a, b, is_linked) in enumerate(_parts(anchors, fits)):
            before, begins = a.digest, a.seq + 1
            if n:
                for seq in range(end + 1, begins):
                    self.rows.disprove(seq)
            elif a.seq >= first:
                # Only the digest of the first line is known to be right, if any is.
                step = self.rows.vocabulary.steps[self.rows.meaning[self.rows.position(a.seq)]]
                before, begins = retract(a.digest, step), a.seq
            if begins <= b.seq:
                yield Strand(begins, b.seq, before, b.digest, is_linked)
            end = b.seq
        if anchors[-1].seq < last:
            yield Strand(anchors[-1].seq + 1, last, proven=False)

    # -- all_to_all ---------------------------------------------------------------------------

    def _broken_pairs(self) -> Iterator[int]:
        """Yield all_to_all calls with sizes that do not fit the ``pairs`` digests around them."""
        steps = self.rows.steps
        if not steps or None in steps.values():
            return
        for first, last, at in self.rows.runs():
            exchanges = [seq for seq in sorted(steps) if first <= seq <= last]
            if not exchanges:
                continue

            def fits(a: _Anchor, b: _Anchor, exchanges: Sequence[int] = exchanges) -> bool:
                total, seen = a.digest, a.seq
                for seq in (seq for seq in exchanges if a.seq < seq <= b.seq):
                    total = (skip(total, seq - seen) + (steps[seq] or 0)) % PRIME
                    seen = seq
                return skip(total, b.seq - seen) == b.digest

            begin = [_Anchor(0, EMPTY)] if first == 1 else self._pairs(first, first, at)
            end = self._pairs(last, last, at + last - first)
            if begin and end and fits(begin[0], end[0]):
                continue
            anchors = self._pairs(first, last, at)
            anchors = [*begin, *anchors] if first == 1 else anchors
            for (_, one, _), (other, _, _) in pairwise(_parts(anchors, fits)):
                yield from (seq for seq in exchanges if one.seq < seq <= other.seq)

    def _pairs(self, first: int, last: int, at: int) -> list[_Anchor]:
        lines = ((seq, self._told(at + seq - first)) for seq in range(first, last + 1))
        return [
            _Anchor(seq, told.pairs or EMPTY)
            for seq, told in lines
            if told is not None and told.program is not None
        ]


def _parts(anchors: Sequence[_Anchor], fits: Fits) -> Iterator[tuple[_Anchor, _Anchor, bool]]:
    """Yield the stretches of anchors that fit: the first, the last, whether there are several.

    An anchor that fits neither the one before it nor the one after it is skipped: that digest alone
    is damaged.
    """
    if not anchors:
        return
    begin = end = anchors[0]
    is_linked, n = False, 1
    while n < len(anchors):
        if fits(end, anchors[n]):
            end, is_linked, n = anchors[n], True, n + 1
        elif n + 1 < len(anchors) and fits(end, anchors[n + 1]):
            end, is_linked, n = anchors[n + 1], True, n + 2
        else:
            yield begin, end, is_linked
            begin = end = anchors[n]
            is_linked, n = False, n + 1
    yield begin, end, is_linked


def prove(chains: Iterable[Chain]) -> None:
    """Find the strands of streams of all ranks with logs that were read from end to end."""
    open_ = [chain for chain in chains if not chain.is_settled()]
    odd = [chain for chain in open_ if not chain.settle_at_once()]
    if odd:
        _learn(odd, open_)
    for chain in odd:
        chain.settle()


def _learn(odd: Sequence[Chain], all_: Sequence[Chain]) -> None:
    """Take the hash of a call's signature from the lines, if another version computed it.

    All lines of one meaning must have the same hash. There must be at least two, and no other call
    may be known by it.
    """
    vocabulary = odd[0].rows.vocabulary
    told: dict[int, Counter[int]] = {}
    for meaning, step in (pair for chain in odd for pair in chain.steps()):
        told.setdefault(meaning, Counter())[step] += 1
    passed = [chain for chain in all_ if chain not in odd]
    known = set(vocabulary.steps)
    for meaning, steps in told.items():
        ((step, count), *others) = steps.most_common(2)
        if count < 2 or others or step in known:
            continue
        if not any(meaning in chain.rows.meaning for chain in passed):
            vocabulary.steps[meaning] = step
            vocabulary.learned.add(meaning)
            vocabulary.folded.clear()

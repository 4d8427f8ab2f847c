"""Prove from digests on both sides of a gap that ranks agree on lost calls.

Equal digests prove that nothing differs in the gap. Different digests prove a difference, unless
the gap may hold a call that pairs with anything (undescribed, or with an unknown role).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from collectrace.align.matching.comparison import Gap, Proof
from collectrace.align.reading.evidence import Digests, RankLog, StreamKey
from collectrace.align.reading.rows import Strand, Strands, by_rows
from collectrace.signature import EMPTY, PRIME, stretch


def _mark(seq: int, digest: int | None) -> Strand:
    """Return a strand without rows that carries the digest after a row."""
    return Strand(seq + 1, seq, digest, digest)


class Bridges:
    """The proven rows of a stream, per rank, and what digests prove of the gaps between them.

    All logs must have been read from end to end.
    """

    def __init__(self, stream: StreamKey, logs: Mapping[int, RankLog]) -> None:
        self._stream, self._logs = stream, logs
        self._proven: dict[int, Strands] = {}
        self.gaps: list[Gap] = []
        """In row order."""
        strands = _confirmed_by_others({rank: log.strands(stream) for rank, log in logs.items()})
        for rank, log in logs.items():
            proven = (one for one in strands[rank] if one.proven)
            self._proven[rank] = Strands([*self._start(log), *proven])
        for rank, those in strands.items():
            self.gaps += self._gaps(rank, those)
        self.gaps.sort()
        self.spans = {
            rank: [(one.first, one.last) for one in those if one.first <= one.last]
            for rank, those in self._proven.items()
        }
        """Per rank, the proven rows (first, last)."""

    def last(self, rank: int) -> int:
        """Return the last proven row of a rank; the one before its first if none is proven."""
        ends = [one.last for one in self._proven[rank]]
        return max(ends, default=self._logs[rank].first_row(self._stream) - 1)

    def exchanges(self, stop: int) -> Proof:
        """Return what ``pairs`` proves of the all_to_all calls up to a row: whether each fits."""
        logs = self._logs.values()
        start = max(log.first_row(self._stream) for log in logs) - 1
        ends = [(log.digests(self._stream, start), log.digests(self._stream, stop)) for log in logs]
        is_told = any(b is not None and b.pairs is not None for _, b in ends)
        if not is_told and not any(log.rows(self._stream)[0].steps for log in logs):
            return "agrees"  # no all_to_all was made
        if any(a is None or b is None or b.program is None for a, b in ends):
            return "open"
        parts = [stretch(_pairs(a), _pairs(b), stop - start) for a, b in ends]
        if sum(parts) % PRIME == 0:
            return "agrees"
        is_sure = all(log.is_described(self._stream, start, stop) for log in logs)
        return "differs" if is_sure else "unequal"

    def _start(self, log: RankLog) -> list[Strand]:
        """Return the empty history before the first row; nothing for a ring that has lost it."""
        is_cut = log.imported is not None and log.imported.lost
        return [] if is_cut else [_mark(log.first_row(self._stream) - 1, EMPTY)]

    def _gaps(self, rank: int, strands: Sequence[Strand]) -> Iterator[Gap]:
        """Yield the gaps between the strands of one rank, and adjust the proven strands."""
        proven = next(iter(self._proven[rank]), None)
        at = proven.last if proven is not None and proven.first > proven.last else None
        for one in strands:
            strand: Strand | None = one
            if at is not None and not one.proven:
                strand = self._confirmed(rank, at, one)
            if strand is None or not strand.proven or (at is not None and strand.last <= at):
                continue
            if at is not None and strand.first - 1 > at:
                proof = self._proof(rank, at, strand)
                if proof != "agrees" and (rest := self._behind_first(rank, at, strand)) is not None:
                    strand, proof = rest, "agrees"
                yield Gap(at + 1, strand.first - 1, rank, proof)
            at = strand.last
        last = self._logs[rank].last_seq.get(self._stream, 0)
        if at is None and strands:
            at = strands[0].first - 1
        if at is not None and last > at:
            yield Gap(at + 1, last, rank, "open")

    def _confirmed(self, rank: int, at: int, strand: Strand) -> Strand | None:
        """Return a strand with a single digest if another rank has the same digest; otherwise None.

        A single digest may be damaged. Only the part that another rank confirms is returned.
        """
        end = _mark(strand.last, strand.after)
        if strand.last <= at or self._proof(rank, at, end) != "agrees":
            return None
        is_right = strand.first - 1 <= at or self._proof(rank, at, strand) == "agrees"
        found = strand._replace(proven=True) if is_right else end
        self._proven[rank].add(found)
        return found

    def _behind_first(self, rank: int, at: int, strand: Strand) -> Strand | None:
        """Return a strand without its first row if all ranks agree by the digest in that row.

        No digest before that row proves its other content. If that contradicts the digest, it is
        damaged.
        """
        told = self._logs[rank].digests(self._stream, strand.first)
        if told is None or told.program is None or strand.first >= strand.last:
            return None
        rest = strand._replace(first=strand.first + 1, before=told.program)
        if self._proof(rank, at, rest) != "agrees":
            return None
        self._proven[rank].shorten(strand, rest)
        return rest

    # -- proofs -------------------------------------------------------------------------------

    def _proof(self, rank: int, at: int, behind: Strand) -> Proof:
        """Return what digests prove of a rank's rows between ``at`` and a later strand."""
        holders = [
            other
            for other, those in self._proven.items()
            if other != rank and those.covers(at + 1, behind.first - 1)
        ]
        # Ranks that hold the lines are compared with each other: one of them is enough.
        proofs: list[Proof] = []
        for other in holders or self._proven:
            proof = self._against(rank, other, at, behind) if other != rank else None
            if proof == "agrees" or (proof is not None and not holders):
                return proof
            proofs += [proof] if proof is not None else []
        return "differs" if "differs" in proofs else proofs[0] if proofs else "open"

    def _against(self, rank: int, other: int, at: int, behind: Strand) -> Proof | None:
        """Return the same from one other rank; None if their digests cannot be compared."""
        start, end = self._common(rank, other, at), self._next(other, behind)
        if start is None or end is None:
            return None
        mine = self._digest(rank, start), self._digest(rank, end, behind)
        theirs = self._digest(other, start), self._digest(other, end)
        if None in mine or None in theirs:
            return None
        if _between(mine, end - start) == _between(theirs, end - start):
            return "agrees"
        return "differs" if self._is_proven((rank, other), start, end) else "unequal"

    def _common(self, rank: int, other: int, at: int) -> int | None:
        """Return the last row up to ``at`` after which the digests of both ranks are known."""
        ranks, n = (rank, other), 0
        while n < len(ranks):
            end = self._proven[ranks[n]].end(at + 1)
            if end is None:
                return None
            at, n = (at, n + 1) if end >= at else (end, 0)
        return at

    def _next(self, other: int, behind: Strand) -> int | None:
        """Return the first row, from just before a strand on, with another rank's digest known."""
        one = self._proven[other].reaching(behind.first - 1)
        if one is None:
            return None
        found = max(one.first, behind.first) - 1
        return found if found <= behind.last else None

    def _digest(self, rank: int, seq: int, strand: Strand | None = None) -> int | None:
        """Return the ``program`` digest after a row, from a given strand or a proven one."""
        strand = strand or self._proven[rank].after(seq)
        if strand is None or strand.before is None or seq == strand.last:
            return None if strand is None else strand.after
        rows, shift = self._logs[rank].rows(self._stream)
        start = rows.position(strand.first - shift)
        meanings = rows.meaning[start : start + seq + 1 - strand.first]
        return rows.vocabulary.fold(strand.before, meanings)

    def _is_proven(self, ranks: Sequence[int], start: int, end: int) -> bool:
        """Return whether different digests cannot come from calls that pair with anything."""
        logs = [self._logs[rank] for rank in ranks]
        if not all(log.is_described(self._stream, start, end) for log in logs):
            return False
        # An unknown role changes ``program`` alone. The line after the gap has both digests.
        for stop in (end, end + 1):
            ends = [[log.digests(self._stream, seq) for seq in (start, stop)] for log in logs]
            wires = [[told.digest for told in one if told is not None] for one in ends]
            if all(len(one) == 2 and None not in one for one in wires):
                mine, theirs = (_between(one, stop - start) for one in wires)
                return mine != theirs
        return False


def _confirmed_by_others(strands: Mapping[int, Sequence[Strand]]) -> dict[int, list[Strand]]:
    """Return each rank's strands; a single digest is right if another rank has the same one."""
    single = [one for those in strands.values() for one in those if not one.proven]
    begins = Counter((one.first - 1, one.before) for one in single)
    ends = Counter((one.last, one.after) for one in single)

    def judged(one: Strand) -> Strand:
        if one.proven or one.after is None or ends[one.last, one.after] < 2:
            return one
        if begins[one.first - 1, one.before] < 2:
            return _mark(one.last, one.after)
        return one._replace(proven=True)

    return {rank: sorted(map(judged, those), key=by_rows) for rank, those in strands.items()}


def _between(ends: Sequence[int | None], length: int) -> int:
    before, after = ends
    return stretch(before or EMPTY, after or EMPTY, length)


def _pairs(told: Digests | None) -> int:
    return (told.pairs if told is not None else None) or EMPTY

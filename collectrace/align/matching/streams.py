"""Per stream: the first row on which the ranks' programs differ, and the first fatal one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Literal

from collectrace import ops
from collectrace.align.matching.comparison import Divergence
from collectrace.align.matching.matchers import (
    ByDigest,
    ByScan,
    Matcher,
    Stretch,
    attribute_of,
)
from collectrace.align.matching.oddities import scan
from collectrace.align.reading.evidence import RankLog, StreamKey, is_placed
from collectrace.findings import GroupInfo, OtherLines
from collectrace.records import Call, backend_for
from collectrace.signature import Attribute, stretch

_MAX_GAPS: Final = 64
"""Losses of one rank that are looked into; more are as good as no log."""


@dataclass(slots=True)
class Verdict:
    """What one stream has to tell."""

    agreed: int = 0
    """The last row on which all agree."""
    divergences: list[Divergence] = field(default_factory=list)
    warnings: list[Divergence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    other_lines: OtherLines | None = None


def compare_stream(stream: StreamKey, group: GroupInfo, logs: Mapping[int, RankLog]) -> Verdict:
    """Compare a stream over the ranks of its group that left a log.

    Logs that were read in part are searched by digest.

    Raises:
        Unclear: the digests cannot tell; the rows themselves must be looked at.

    """
    present = {
        rank: logs[rank]
        for rank in group.ranks
        if rank in logs and not logs[rank].provisional and is_placed(logs[rank], stream)
    }
    backend = backend_for(group.backend, stream.device)
    whole = all(log.scanned for log in present.values())
    matcher = (ByScan if whole else ByDigest)(stream, present, backend)
    return _StreamComparison(stream, group, present, backend, matcher).verdict()


class _StreamComparison:
    def __init__(
        self,
        stream: StreamKey,
        group: GroupInfo,
        logs: Mapping[int, RankLog],
        backend: str,
        matcher: Matcher,
    ) -> None:
        self._stream, self._group, self._logs = stream, group, logs
        self._backend, self._matcher = backend, matcher
        self._last = {
            rank: log.last_seq.get(stream, log.first_row(stream) - 1) for rank, log in logs.items()
        }
        self._spans = {rank: log.spans(stream) for rank, log in logs.items()}
        # Where a tracer was switched off, the end of the log is not the end of the stream.
        ends = [self._last[rank] for rank, log in logs.items() if not log.disabled]
        self._top = max(self._last.values(), default=0)
        self._stop = min(ends, default=self._top)
        self._stretches = self._cut(1, self._stop)

    def verdict(self) -> Verdict:
        """Root and fatal row, odd rows, and what losses hide."""
        verdict = Verdict(agreed=self._stop)
        if len(self._logs) < 2:
            return verdict
        root = self._ill_sized(self._root())
        gap = self._gap(root.seq if root is not None else self._stop + 1)
        if root is not None:
            verdict.agreed = root.seq - 1
            if gap is not None:
                root = replace(root, gap=gap[1])
            verdict.divergences.append(root)
            fatal = self._fatal(root.seq + 1) if root.attribute == "role" else None
            if fatal is not None:
                verdict.divergences.append(fatal)
        elif gap is not None:
            rank, (first, last) = gap
            verdict.notes.append(
                f"group {self._group.name}: the ranks differ between calls {first} and {last}, "
                f"which the log of rank {rank} has lost"
            )
        if all(log.scanned for log in self._logs.values()):
            rows = self._cut(1, verdict.agreed)
            odd, verdict.other_lines = scan(self._stream, self._logs, rows)
            for row, attribute, swapped in odd:
                found = self._divergence(row, "root", attribute, swapped=swapped)
                if attribute != "model":
                    verdict.warnings.append(found)
                    continue
                # Proven, though every byte and digest agrees; what differs later follows from it.
                later = [replace(one, mark="fatal") for one in verdict.divergences[:1]]
                verdict.divergences[:1] = [found, *later]
                verdict.agreed = row - 1
        verdict.agreed = min(verdict.agreed, self._recorded())
        return verdict

    def _recorded(self) -> int:
        """The last row up to which every rank's calls are known: described, and its tracer on."""
        lasts = [log.voids.get(self._stream, self._top + 1) - 1 for log in self._logs.values()]
        lasts += [self._last[rank] for rank, log in self._logs.items() if log.disabled]
        return min(lasts)

    # -- rows ---------------------------------------------------------------------------------

    def _cut(self, start: int, stop: int) -> list[Stretch]:
        """The rows cut where a rank's evidence begins or ends; at least two ranks hold each."""
        clipped = {
            rank: [(max(a, start), min(b, stop)) for a, b in spans if b >= start and a <= stop]
            for rank, spans in self._spans.items()
        }
        edges = sorted({e for spans in clipped.values() for a, b in spans for e in (a, b + 1)})
        position = dict.fromkeys(clipped, 0)
        stretches = []
        for a, after in pairwise(edges):
            holders = []
            for rank, spans in clipped.items():
                while position[rank] < len(spans) and spans[position[rank]][1] < a:
                    position[rank] += 1
                if position[rank] < len(spans) and spans[position[rank]][0] <= a:
                    holders.append(rank)
            if len(holders) > 1:
                stretches.append(Stretch(a, after - 1, tuple(holders)))
        return stretches

    def _first(self, start: int, *, fatal: bool) -> int | None:
        """The first row from ``start`` on that does not pair."""
        for a, b, ranks in self._stretches:
            if b < start:
                continue
            found = self._matcher.first(ranks, max(a, start), b, fatal=fatal)
            if found is not None:
                return found
        return None

    def _exchange(self, start: int, stop: int) -> int | None:
        """The first all_to_all, up to a row, whose pairs do not fit; told by whole groups only."""
        for a, b, ranks in self._stretches:
            low, high = max(a, start), min(b, stop)
            if low > high or set(ranks) != set(self._group.ranks):
                continue
            found = self._matcher.exchange(ranks, low, high)
            if found is not None:
                return found
        return None

    def _root(self) -> Divergence | None:
        row = self._first(1, fatal=False)
        split = self._exchange(1, self._stop if row is None else row - 1)
        if split is not None:
            return self._divergence(split, "root", "split")
        if row is not None:
            return self._divergence(row, "root")
        return self._absence("root")

    def _ill_sized(self, root: Divergence | None) -> Divergence | None:
        """The first row on which a call does not fit itself, if that comes first."""
        size, before = len(self._group.ranks), root.seq if root is not None else self._stop + 1
        first = before
        for log in self._logs.values():
            rows, shift = log.rows(self._stream)
            known = rows.vocabulary.ill_sized(size)
            for meaning in known:
                if meaning in rows.meaning:
                    first = min(first, rows.seq[rows.meaning.index(meaning)] + shift)
        return self._divergence(first, "root", "count") if first < before else root

    def _fatal(self, start: int) -> Divergence | None:
        row = self._first(start, fatal=True)
        split = self._exchange(start, self._stop if row is None else row - 1)
        if split is not None:
            return self._divergence(split, "fatal", "split")
        if row is not None:
            return self._divergence(row, "fatal")
        return self._absence("fatal")

    def _absence(self, mark: Literal["root", "fatal"]) -> Divergence | None:
        """The row on which the first rank has no call though others have."""
        return self._divergence(self._stop + 1, mark) if self._top > self._stop else None

    def _divergence(
        self,
        seq: int,
        mark: Literal["root", "fatal"],
        attribute: Attribute | Literal["absent", "split", "shape", "model"] | None = None,
        *,
        swapped: bool = False,
    ) -> Divergence:
        calls: dict[int, Call | None] = {}
        for rank, log in self._logs.items():
            if seq <= self._last[rank]:
                call = log.calls(self._stream, seq, seq + 1)[0]
                if call is not None:
                    calls[rank] = call
            elif not log.disabled:
                calls[rank] = None
        issued = {rank: call for rank, call in calls.items() if call is not None}
        if attribute is None:
            attribute = attribute_of(list(issued.values()), self._backend)
            if len(issued) < len(calls) and attribute in (None, "role"):
                attribute = "absent"
        return Divergence(
            stream=self._stream,
            group=self._group,
            seq=seq,
            mark=mark,
            attribute=attribute or "absent",
            calls=calls,
            unknown=tuple(rank for rank in self._group.ranks if rank not in calls),
            bad_pairs=bad_pairs(self._group.ranks, issued) if attribute == "split" else (),
            swapped=swapped,
        )

    # -- losses -------------------------------------------------------------------------------

    def _gap(self, before: int) -> tuple[int, tuple[int, int]] | None:
        """The first rows before ``before`` that a rank lost and that differ from another's."""
        found = []
        for rank, spans in self._spans.items():
            for (_, a), (b, _) in pairwise(spans[:_MAX_GAPS]):
                if b > before:
                    break
                # Without a checkpoint the digest of the last lost row is lost too; the row after
                # it will do, where that one pairs.
                lasts = (b - 1, b) if b < before else (b - 1,)
                if any(self._gap_differs(rank, a, last) for last in lasts):
                    found.append(((a + 1, b - 1), rank))
        return (min(found)[1], min(found)[0]) if found else None

    def _gap_differs(self, rank: int, before: int, last: int) -> bool:
        mine = self._stretch(rank, before, last)
        if mine is None:
            return False
        for other, spans in self._spans.items():
            if any(a <= before and last <= b for a, b in spans):
                theirs = self._stretch(other, before, last)
                if theirs is not None:
                    return mine != theirs
        return False

    def _stretch(self, rank: int, before: int, last: int) -> int | None:
        log = self._logs[rank]
        a, b = log.digests(self._stream, before), log.digests(self._stream, last)
        if a is None or b is None or a.program is None or b.program is None:
            return None
        return stretch(a.program, b.program, last - before)


def bad_pairs(members: Sequence[int], calls: Mapping[int, Call]) -> tuple[tuple[int, int], ...]:
    """all_to_all: the (sender, receiver) whose sizes do not fit, of calls at one row."""
    splits = {
        rank: call.splits
        for rank, call in calls.items()
        if call.op in ops.ALL_TO_ALL
        and call.splits is not None
        and len(call.splits) == 2
        and all(len(sizes) == len(members) for sizes in call.splits)
    }
    index = {rank: i for i, rank in enumerate(members)}
    return tuple(
        (sender, receiver)
        for sender in splits
        for receiver in splits
        if splits[sender][0][index[receiver]] != splits[receiver][1][index[sender]]
    )

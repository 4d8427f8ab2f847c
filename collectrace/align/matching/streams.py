"""Find per stream the first row on which programs differ, and the first fatal one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Literal

from collectrace import ops
from collectrace.align.matching.bridges import Bridges
from collectrace.align.matching.comparison import Divergence, Gap, Unclear, Unproven, Window
from collectrace.align.matching.matchers import ByDigest, ByScan, Stretch, attribute_of
from collectrace.align.matching.oddities import scan
from collectrace.align.reading.evidence import RankLog, StreamKey, is_placed
from collectrace.findings import GroupInfo, OtherLines
from collectrace.records import Call, backend_for
from collectrace.signature import Attribute, stretch

_MOST_GAPS: Final = 64
"""Gaps of one rank that are examined if a log was not read completely."""


@dataclass(slots=True)
class Verdict:
    """The result for one stream."""

    agreed: int = 0
    """The last row on which all agree."""
    divergences: list[Divergence] = field(default_factory=list)
    warnings: list[Divergence] = field(default_factory=list)
    unproven: list[Unproven] = field(default_factory=list)
    bridged: list[Gap] = field(default_factory=list)
    """Gaps on which the ranks agree, by their digests."""
    window: Window | None = None
    other_lines: OtherLines | None = None


def compare_stream(
    stream: StreamKey, group: GroupInfo, logs: Mapping[int, RankLog], cut: Collection[int] = ()
) -> Verdict:
    """Compare a stream over the ranks of its group that left a log.

    Logs that were read in part are searched by digest. The logs of the ranks ``cut`` have lost
    their end.

    Raises:
        Unclear: the digests are not enough; the rows themselves must be read.

    """
    present = {
        rank: logs[rank]
        for rank in group.ranks
        if rank in logs and not logs[rank].provisional and is_placed(logs[rank], stream)
    }
    unread = {rank for rank, log in present.items() if not log.scanned}
    if unread and not all(_is_whole(log, stream) for log in present.values() if log.scanned):
        raise Unclear(unread)
    return _StreamComparison(stream, group, present, cut).verdict()


def _is_whole(log: RankLog, stream: StreamKey) -> bool:
    """Return whether the digests prove every row of a log that was read from end to end."""
    last = log.last_seq.get(stream)
    strands = [one for one in log.strands(stream) if one.first <= one.last]
    ends = [(log.first_row(stream), last)] if last is not None else []
    return [(one.first, one.last) for one in strands if one.proven] == ends


class _StreamComparison:
    def __init__(
        self,
        stream: StreamKey,
        group: GroupInfo,
        logs: Mapping[int, RankLog],
        cut: Collection[int],
    ) -> None:
        self._stream, self._group, self._logs = stream, group, logs
        self._backend = backend_for(group.backend, stream.device)
        self._last = {
            rank: log.last_seq.get(stream, log.first_row(stream) - 1) for rank, log in logs.items()
        }
        is_whole = all(log.scanned for log in logs.values())
        self._matcher = (ByScan if is_whole else ByDigest)(stream, logs, self._backend)
        self._bridges = Bridges(stream, logs) if is_whole else None
        if self._bridges is not None:
            self._spans = self._bridges.spans
            proven = {rank: self._bridges.last(rank) for rank in logs}
        else:
            self._spans = {rank: log.spans(stream) for rank, log in logs.items()}
            proven = self._last
        self._without_end = cut
        # If a tracer was switched off, or lines are lost, the end of the log is not the end of the
        # stream.
        self._endless = {
            rank for rank, log in logs.items() if log.disabled or log.is_open(stream) or rank in cut
        }
        ends = [self._last[rank] for rank in logs if rank not in self._endless]
        # Lines that the rank's own count contradicts do not prove further calls.
        tops = [n for rank, n in proven.items() if logs[rank].unaccounted >= 0]
        self._top = max(tops, default=0)
        self._stop = min(ends, default=max(self._last.values(), default=0))
        self._stretches = self._cut(1, self._stop)

    def verdict(self) -> Verdict:
        """Return the root and fatal rows, odd rows, and the gaps of lost rows."""
        verdict = Verdict(agreed=self._stop, unproven=list(self._open_ends()))
        if len(self._logs) < 2:
            return verdict
        root = self._ill_sized(self._difference("root", 1))
        gaps = self._gaps() if self._bridges is not None else self._skimmed_gaps()
        unequal = [gap for gap in gaps if gap.proof in ("differs", "unequal")]
        hidden = next((gap for gap in unequal if gap.proof == "differs"), None)
        if root is not None:
            verdict.agreed = root.seq - 1
            if unequal and unequal[0].first < root.seq and root.gap is None:
                root = replace(root, gap=(unequal[0].first, unequal[0].last))
            verdict.divergences.append(root)
            if root.attribute == "role" and (fatal := self._difference("fatal", root.seq + 1)):
                verdict.divergences.append(fatal)
        elif hidden is not None:
            verdict.divergences.append(self._hidden(hidden))
        verdict.unproven += [
            Unproven(gap.rank, "lines", self._stream, gap.first, gap.last)
            for gap in gaps
            if gap.proof in ("open", "unequal")
        ]
        verdict.bridged = [gap for gap in gaps if gap.proof == "agrees"]
        if self._bridges is not None:
            rows = self._cut(1, verdict.agreed)
            odd, verdict.other_lines = scan(self._stream, self._logs, rows)
            for row, attribute, swapped in odd:
                found = self._divergence(row, "root", attribute, swapped=swapped)
                if attribute != "model":
                    verdict.warnings.append(found)
                    continue
                # Proven, though every byte and digest agrees; later differences follow from it.
                later = [replace(one, mark="fatal") for one in verdict.divergences[:1]]
                verdict.divergences[:1] = [found, *later]
                verdict.agreed = row - 1
        unknown = [gap.first - 1 for gap in gaps if gap.proof != "agrees"]
        verdict.agreed = min(verdict.agreed, self._recorded(), *unknown)
        verdict.window = self._window(verdict.agreed)
        return verdict

    def _recorded(self) -> int:
        """Return the last row up to which every rank's calls are recorded and described."""
        lasts = [log.voids.get(self._stream, self._top + 1) - 1 for log in self._logs.values()]
        lasts += [
            self._last[rank]
            for rank, log in self._logs.items()
            if log.disabled or rank in self._without_end
        ]
        return min(lasts)

    def _window(self, agreed: int) -> Window | None:
        """Return the common rows of rings that have lost their first calls."""
        cut = [log for log in self._logs.values() if log.imported is not None and log.imported.lost]
        firsts = [spans[0][0] for spans in self._spans.values() if spans]
        if not cut or len(firsts) < 2:
            return None
        return Window(self._group, max(firsts), agreed)

    # -- rows ---------------------------------------------------------------------------------

    def _cut(self, start: int, stop: int) -> list[Stretch]:
        """Return stretches of rows that the same ranks hold, for at least two ranks."""
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
        """Return the first row from ``start`` on that does not pair."""
        for a, b, ranks in self._stretches:
            if b < start:
                continue
            low = max(a, start)
            while (found := self._matcher.first(ranks, low, b, fatal=fatal)) is not None:
                if not self._is_disproved(ranks, found):
                    return found
                low = found + 1
        return None

    def _is_disproved(self, ranks: Sequence[int], row: int) -> bool:
        """Return whether digests are equal at a row: then a line that differs is damaged."""
        first = self._logs[ranks[0]].digests(self._stream, row)
        if first is None or first.program is None:
            return False
        return all(self._logs[rank].digests(self._stream, row) == first for rank in ranks[1:])

    def _exchange(self, start: int, stop: int) -> int | None:
        """Return the first all_to_all of whole groups with pairs that do not fit."""
        for a, b, ranks in self._stretches:
            low, high = max(a, start), min(b, stop)
            if low > high or set(ranks) != set(self._group.ranks):
                continue
            found = self._matcher.exchange(ranks, low, high)
            if found is not None:
                return found
        return None

    def _difference(self, mark: Literal["root", "fatal"], start: int) -> Divergence | None:
        """Return the first difference of this kind from a row on."""
        row = self._first(start, fatal=mark == "fatal")
        split = self._exchange(start, self._stop if row is None else row - 1)
        if split is not None:
            return self._divergence(split, mark, "split")
        if row is not None:
            return self._divergence(row, mark)
        return self._absence(mark)

    def _ill_sized(self, root: Divergence | None) -> Divergence | None:
        """Return the first row with a call that is invalid by itself, if it precedes ``root``."""
        size, before = len(self._group.ranks), root.seq if root is not None else self._stop + 1
        first = before
        for log in self._logs.values():
            rows, shift = log.rows(self._stream)
            known = rows.vocabulary.ill_sized(size)
            for meaning in known:
                if meaning in rows.meaning:
                    first = min(first, rows.seq[rows.meaning.index(meaning)] + shift)
        return self._divergence(first, "root", "count") if first < before else root

    def _absence(self, mark: Literal["root", "fatal"]) -> Divergence | None:
        """Return the first row without a call of some rank though others have one."""
        if self._top <= self._stop:
            return None
        after = self._stop + 1
        rows = [max(a, after) for those in self._spans.values() for a, b in those if b >= after]
        seq = min(rows, default=after)
        found = self._divergence(seq, mark)
        return replace(found, gap=(after, seq - 1)) if seq > after else found

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
                call = log.call(self._stream, seq)
                if call is not None:
                    calls[rank] = call
            elif rank not in self._endless:
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

    def _open_ends(self) -> list[Unproven]:
        """Return ranks that may have issued more calls than known, in lost lines."""
        return [
            Unproven(rank, "end", self._stream, self._last[rank] + 1)
            for rank, log in self._logs.items()
            if not log.disabled and not log.unaccounted and log.is_open(self._stream)
        ]

    def _gaps(self) -> list[Gap]:
        """Return the gaps of logs that were read completely, with what digests prove of each."""
        assert self._bridges is not None
        gaps = self._bridges.gaps
        if set(self._logs) != set(self._group.ranks):
            return gaps
        untold = [
            Gap(row + shift, row + shift, rank, "agrees")
            for rank, log in self._logs.items()
            for rows, shift in [log.rows(self._stream)]
            for row, step in rows.steps.items()
            if step is None
        ]
        if not gaps and not untold:
            return gaps
        proof = self._bridges.exchanges(min(self._bridges.last(rank) for rank in self._logs))
        if proof == "agrees":
            return gaps
        # The sum over all of them does not show which all_to_all it is.
        proof = "unequal" if untold else proof
        those = sorted([*gaps, *untold])
        return [gap._replace(proof=proof) if gap.proof == "agrees" else gap for gap in those]

    def _skimmed_gaps(self) -> list[Gap]:
        """Return the gaps of logs that were read in part; Unclear if ranks may disagree there."""
        found = []
        for rank, spans in self._spans.items():
            for (_, before), (after, _) in pairwise(spans[:_MOST_GAPS]):
                # Without a checkpoint the digest of the last lost row is lost too; the row after it
                # will do.
                if not any(self._agrees(rank, before, last) for last in (after - 1, after)):
                    raise Unclear({r for r, log in self._logs.items() if not log.scanned})
                found.append(Gap(before + 1, after - 1, rank, "agrees"))
        return sorted(found)

    def _agrees(self, rank: int, before: int, last: int) -> bool:
        mine = self._stretch(rank, before, last)
        others = (self._stretch(one, before, last) for one in self._logs if one != rank)
        return mine is not None and mine in others

    def _stretch(self, rank: int, before: int, last: int) -> int | None:
        log = self._logs[rank]
        a, b = log.digests(self._stream, before), log.digests(self._stream, last)
        if a is None or b is None or a.program is None or b.program is None:
            return None
        return stretch(a.program, b.program, last - before)

    def _hidden(self, gap: Gap) -> Divergence:
        """Return a difference in lost calls, with what else is known of the first of them."""
        calls = {
            rank: call
            for rank, log in self._logs.items()
            if (call := log.call(self._stream, gap.first)) is not None
        }
        return Divergence(
            stream=self._stream,
            group=self._group,
            seq=gap.first,
            mark="root",
            attribute="lost",
            calls=calls if gap.first == gap.last else {},
            unknown=tuple(r for r in self._group.ranks if r not in calls) or (gap.rank,),
            gap=(gap.first, gap.last),
        )


def bad_pairs(members: Sequence[int], calls: Mapping[int, Call]) -> tuple[tuple[int, int], ...]:
    """Return the (sender, receiver) pairs of an all_to_all with sizes that do not fit."""
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

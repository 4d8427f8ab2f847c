"""Find asynchronous work without a wait, or with a write to its tensor before the wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import StreamKey, key_of
from collectrace.findings import Finding, Side
from collectrace.records import Unwaited

_HARM_OF_COLLECTIVE: Final = (
    "Until its Work has been waited for, the collective reads and writes the tensor: what was "
    "written meanwhile may be lost, or reach some ranks and not others."
)
_HARM: Final = {
    "send": "Until its Work has been waited for, the send reads the tensor: the other rank may "
    "receive the old values, the new ones, or part of each.",
    "recv": "Until its Work has been waited for, the recv writes to the tensor: what was written "
    "meanwhile may be lost, or may replace what was received.",
}
"""The harm of a write to the tensor of a message, by its op."""

_IN_A_LIST: Final = " If a loop starts several, keep all of them: a list, and no single variable."

_Line = tuple[str | None, str, bool]
"""Site, op and whether the tensor was written to."""


def unwaited_work(case: Case) -> list[Finding]:
    """Return a finding per line of code, first those with a write to the tensor."""
    by_line: dict[_Line, dict[int, list[Unwaited]]] = {}
    for rank, log in case.evidence.logs.items():
        for record in log.unwaited:
            line = (record.site, record.op, bool(record.touched))
            by_line.setdefault(line, {}).setdefault(rank, []).append(record)
    ordered = sorted(by_line.items(), key=lambda item: (not item[0][2], item[0][0] or ""))
    counting = len(ordered) <= _MOST_LINES
    return [_finding(case, line, by_rank, counting=counting) for line, by_rank in ordered]


def _finding(
    case: Case, line: _Line, by_rank: dict[int, list[Unwaited]], *, counting: bool
) -> Finding:
    """Return a finding; ``counting``: with how many such calls were waited for."""
    site, op, touched = line
    ranks = tuple(sorted(by_rank))
    count = sum(record.count for records in by_rank.values() for record in records)
    at = f" at {words.site(site)}" if site else ""
    counts = {sum(record.count for record in records) for records in by_rank.values()}
    calls = words.counted(count, f"{op} call")
    first = by_rank[ranks[0]][0]
    own = counts.pop() if len(counts) == 1 else 0
    made = max(own, _made(case, ranks[0], first)) if own and counting else own
    if made > 1:
        of = f"{own} of " if own < made else ""
        each = " each" if len(ranks) > 1 else ""
        calls = f"{of}{words.counted(made, f'{op} call')}{each}"
    waited = [] if touched else _waited(case, site, by_rank)
    its = words.verb(waited, "its", "theirs")
    others = f"; {words.ranks(waited)} waited for {its}" if waited else ""
    where = " on every rank" if waited else ""
    return Finding(
        kind="unwaited_work",
        severity="warning" if touched or waited else "info",
        headline=(
            f"{words.ranks(ranks)} wrote to the tensor of an asynchronous {op}{at} before waiting "
            "for it"
            if touched
            else f"{words.ranks(ranks)} never waited for {calls} started{at}{others}"
        ),
        cause=(
            _HARM.get(op, _HARM_OF_COLLECTIVE)
            if touched
            else "Nothing says when the result is there: what is read from the tensor may be the "
            "old value, the new one, or part of each. An error of the call goes unseen too."
        ),
        fix=(
            f"Move the write after wait(), or pass a copy of the tensor to the {op}."
            if touched
            else f"Keep what {op}(..., async_op=True) returns{at}, and call wait() on it{where} "
            f"before the tensor is used; or leave async_op out.{_IN_A_LIST if own < made else ''}"
        ),
        group=case.comparison.groups.get(first.group),
        seq=first.seq,
        sides=tuple(_sides(case, by_rank)),
        suspects=ranks,
    )


def _made(case: Case, rank: int, record: Unwaited) -> int:
    """Return how many calls a rank made from the line in this stream; 0: not all are known."""
    log, stream = case.log(rank), StreamKey(record.group, record.device)
    if log is None or not log.scanned or log.rotated or record.peer is not None:
        return 0
    rows, _ = log.rows(stream)
    seen = rows.vocabulary.appearances
    return sum(seen[n].site == record.site for n in rows.appearance[-_MOST:])


_MOST: Final = 10_000
"""Latest calls of a stream among which those of a line are counted."""

_MOST_LINES: Final = 10
"""Lines of which the calls are counted: each reads the stream."""


def _waited(case: Case, site: str | None, by_rank: dict[int, list[Unwaited]]) -> list[int]:
    """Return the ranks that made the same call from the same line, and waited for it.

    If only some ranks wait, the result is not meant to be ignored: one of the two is a mistake.
    """
    record = next(iter(by_rank.values()))[0]
    stream = StreamKey(record.group, record.device)
    found = []
    for rank in case.comparison.streams.get(stream, ()):
        log, done = case.log(rank), None
        call = case.call(rank, stream, record.seq)
        if log is not None and log.exit is not None and log.exit.reason == "finished":
            done = log.dones.get(stream)
        if rank in by_rank or call is None or done is None or done.seq < record.seq:
            continue
        if call.async_ and call.site == site:
            found.append(rank)
    return found


def _sides(case: Case, by_rank: dict[int, list[Unwaited]]) -> Iterator[Side]:
    for rank, records in sorted(by_rank.items()):
        call = case.call(rank, key_of(rank, records[0]), records[0].seq)
        if call is not None:
            yield Side(ranks=(rank,), call=call, state=case.standings[rank].state)

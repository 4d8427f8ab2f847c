"""Ranks that ended with an exception though their streams agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis import ddp, rank_words, ways_past
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.judging.case import Case
from collectrace.align.matching import habit
from collectrace.align.observations.unwaited import unwaited_work
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import StreamKey
from collectrace.findings import Finding, Side
from collectrace.ops import BARRIERS

_MOST_NAMES: Final = 4


def raised(case: Case) -> Finding | None:
    """The job crashed of itself; None: no rank did."""
    those = [s for s in case.standings.values() if s.state == "raised"]
    if not those:
        return None
    first = min(those, key=lambda s: s.end)
    headline, fix = _told(case, those)
    doubts = _doubts(case, those)
    if doubts:
        fix = "\n".join(
            ("First see whether it comes of that. " + doubts[0].fix, *(d.fix for d in doubts[1:]))
        )
        fix += "\nIf it raises all the same, fix what raised."
    known = ddp.from_exception(first.message, f"rank {first.rank}")
    return Finding(
        kind="raised",
        severity="warning",
        headline=headline,
        cause=f"{_by_detail(those)}. Rank {first.rank} was the first."
        + "".join(f" {doubt.cause}" for doubt in doubts)
        + (f" {known.cause}" if known is not None else ""),
        fix=known.fix if known is not None else fix,
        sides=tuple(Side(ranks=(s.rank,), call=None, state=s.state) for s in those[:_MOST_NAMES]),
    )


def _by_detail(those: Sequence[Standing]) -> str:
    """What ended them, ranks that say the same together."""
    ranks: dict[str, list[int]] = {}
    for standing in those:
        ranks.setdefault(rank_words.detail(standing), []).append(standing.rank)
    parts = [f"{words.ranks(alike)}: {text}" for text, alike in ranks.items()]
    more = f"; and {len(parts) - _MOST_NAMES} more" if len(parts) > _MOST_NAMES else ""
    return words.upper("; ".join(parts[:_MOST_NAMES])) + more


def _told(case: Case, those: Sequence[Standing]) -> tuple[str, str]:
    """Headline and advice."""
    who, missing = words.ranks(s.rank for s in those), words.ranks(case.evidence.missing)
    headline = f"the job crashed: {who} ended with an exception, though the collectives agree"
    fix = "Fix what raised; no collective has to be changed."
    if all(s.by_peers for s in those):
        lost = f"{who} lost a connection or timed out"
        headline = f"the job crashed: {lost}, though the collectives agree"
        fix = (
            "Look at the network, and for a rank that came late or died; a longer timeout goes to "
            "init_process_group."
        )
        if case.evidence.missing:
            headline = f"{lost}, and nothing is known of {missing}"
            fix = (
                f"Have {missing} traced: enable() belongs at the top of the script, on every rank "
                "and host, or their files gathered. What broke the connection is told there."
            )
    return headline, fix


# -- what may be behind it -------------------------------------------------------------------


class _Doubt(NamedTuple):
    """What ranks raise over may have been computed from this: a check of the replicas, a NaN."""

    cause: str
    fix: str


def _doubts(case: Case, those: Sequence[Standing]) -> list[_Doubt]:
    """Work that ranks which raised never waited for; and a row that they came to from two lines."""
    if all(s.by_peers for s in those):
        return []
    ranks = {s.rank for s in those}
    unwaited = [found for found in unwaited_work(case) if ranks & {*found.suspects}]
    doubts = [
        _Doubt(
            f"{words.upper(one.headline)}: until then nothing says what the tensor holds, and what "
            "raised may come of that.",
            one.fix,
        )
        for one in unwaited[:_MOST_NAMES]
    ]
    apart = _came_apart(case, those)
    return doubts if apart is None else [*doubts, apart]


def _came_apart(case: Case, those: Sequence[Standing]) -> _Doubt | None:
    """The call behind which all raised, where it is the only one that they came to from two lines.

    Two callers of a helper, say, one of which some ranks went past: what is combined there is of
    two meanings, and the bytes agree all the same. Two arms of an ``if`` may be meant to meet, and
    nothing leads past either.
    """
    rows = {_last_row(case, s.rank) for s in those if not s.by_peers}
    row = rows.pop() if len(rows) == 1 else None
    if row is None or len(those) < len(case.standings):
        return None
    stream, seq = row
    known = (one for one in case.comparison.other_lines if one.group == stream.group)
    found = next((one for one in known if (one.count, one.seq) == (1, seq)), None)
    if found is None or seq <= habit.ENOUGH:
        return None
    points = [p for line in found.lines if (p := _point(case, line.ranks, stream, seq)) is not None]
    past = _way_past(case, points) if len(points) == len(found.lines) else None
    if past is None or any(point.call.op in BARRIERS for point in points):
        return None
    lines = "; ".join(f"{words.ranks(p.ranks)} from {p.at(_telling(p, points))}" for p in points)
    return _Doubt(
        f"The last call, {seq}, is the only one to which they came from different lines: {lines}. "
        f"So it may have combined what does not belong together, and what raised may come of that."
        f"{past.sentence}",
        past.fix,
    )


def _last_row(case: Case, rank: int) -> tuple[StreamKey, int] | None:
    """The collective that a rank issued last."""
    log = case.log(rank)
    last = log.last_call if log is not None else None
    if last is None or last.peer is not None:
        return None
    return StreamKey(last.group, last.device), last.seq


def _point(case: Case, ranks: Sequence[int], stream: StreamKey, seq: int) -> Standpoint | None:
    call = case.call(ranks[0], stream, seq)
    return Standpoint(tuple(ranks), call, case.stack(ranks[0], call)) if call is not None else None


def _telling(point: Standpoint, points: Sequence[Standpoint]) -> str:
    """The outermost frame by which one is told from another."""
    other = next(one for one in points if one is not point)
    return chains.outermost_apart(point.stack, other.stack)[0] or (point.call.site or "")


def _way_past(case: Case, points: Sequence[Standpoint]) -> ways_past.Past | None:
    """What may have led past the line of one of two sides, where nothing leads past the other's."""
    if len(points) != 2:
        return None
    found = []
    for left, gone in (points, points[::-1]):
        apart = left.stack[: len(left.stack) - chains.shared(left.stack, gone.stack)]
        ways = ways_past.few(case, apart)
        if ways:
            found.append(ways_past.Past(left, gone, tuple(ways)))
    return found[0] if len(found) == 1 else None

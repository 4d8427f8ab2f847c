"""Ranks that each decided by what only the root of a collective was given.

``reduce`` and ``gather`` give their result to one rank. Where the ranks part at a condition that
reads it right behind, each followed the value that it happened to hold: no majority is right then.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collectrace import ops
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains, statements, values
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_user

_MOST_BARRIERS: Final = 4
"""Barriers that may lie between: they carry nothing."""


class AtTheRoot(NamedTuple):
    """A condition that the sides of a row parted at, and what gave its value to the root only."""

    call: Call
    """To the root, as a rank issued it."""
    rank: int
    """That rank."""
    name: str
    """Of what the condition reads."""
    file: str
    line: str
    """Of the condition, as ``number text``."""


@once
def at_the_root(case: Case, candidate: Candidate) -> AtTheRoot | None:
    """The condition at which the sides parted, if it reads what only a root has got just before."""
    source, seq = candidate.source, candidate.seq
    if not isinstance(source, Divergence) or source.gap is not None or candidate.mark == "fatal":
        return None
    if seq is None or len(candidate.sides) < 2:
        return None
    latest = [_latest(case, candidate, side) for side in candidate.sides]
    calls = [call for call in latest if call is not None]
    if len(calls) < len(latest) or len({(c.seq, c.op, c.root, c.site) for c in calls}) > 1:
        return None
    call, rank = calls[0], candidate.sides[0].ranks[0]
    if call.op not in ops.TO_ROOT or call.root is None or not is_user(call) or not call.site:
        return None
    reading = values.read_by(case.code, call.site)
    deciding = _deciding(case, candidate, call) if reading else []
    if not deciding or not set(map(statements.number_of, deciding)) <= set(reading):
        return None  # something else may have decided
    line = deciding[0]
    name = reading[statements.number_of(line)]
    return AtTheRoot(call, rank, name, call.site.rpartition(":")[0], line)


def _latest(case: Case, candidate: Candidate, side: Side) -> Call | None:
    """A side's last call before the row that carries something."""
    before = case.before(side.ranks[0], candidate.stream, candidate.seq, _MOST_BARRIERS)
    return next((c for c in reversed(before) if c is None or c.op not in ops.BARRIERS), None)


def _deciding(case: Case, candidate: Candidate, call: Call) -> list[str]:
    """The conditions in the function of a call that tell the sides apart, as ``number text``.

    Around one side's call and not another's, or in front of a way past it. All sides have come to
    the call, so that what stands around the loop it is in does not.
    """
    before = list(statements.own(case.statements(call.site)))
    loops = statements.loops(before)
    outer = before[: before.index(loops[0])] if loops else before
    frames = [_frames(case, side, call) for side in candidate.sides]
    around = [
        [line for site in reversed(sites) for line in statements.branches(case.statements(site))]
        for sites in frames
    ]
    shared = set(outer).union(set.intersection(*map(set, around)))
    # What stands within the outermost comes after it.
    apart = ([line for line in one if line not in shared] for one in around)
    lines = [one[0] for one in apart if one]
    lines += [_head(text) for sites in frames for site in sites for text in case.ways(site)]
    return [
        line
        for line in dict.fromkeys(lines)
        if line not in shared and statements.number_of(line) and "__name__" not in line
    ]


def _frames(case: Case, side: Side, call: Call) -> list[str]:
    """The lines of a side's stack that are in the function that a call was made from."""
    file = (call.site or "").rpartition(":")[0]
    function = statements.function(case.statements(call.site))
    sites = [chains.site(frame) for frame in side.stack or ()]
    sites += [side.call.site] if side.call is not None and side.call.site else []
    return [
        site
        for site in dict.fromkeys(sites)
        if site.rpartition(":")[0] == file
        and statements.function(case.statements(site)) == function
    ]


def _head(way: str) -> str:
    """``number text`` of a way past a line, which has what it leaves between."""
    number, _, rest = way.partition(" ")
    return f"{number} {rest.partition(' ')[2]}"

"""Ranks that run what handles an exception since some row, while the others run what raised none.

As where one rank cannot resume and begins anew: the ``try`` and its ``except`` make the same calls,
which meet for long, and fail where the two are no longer alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.caught import is_under
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains, code_lines, statements
from collectrace.align.reading.evidence import LOOK_BACK
from collectrace.findings import Side
from collectrace.records import HANDLED, Raised


@dataclass(frozen=True, slots=True)
class InHandler:
    """One side in an ``except``, the other in the body of its ``try``, for some rows."""

    side: Side
    others: Side
    frame: str
    """Of the one, in the handler."""
    within: str
    """Of the other, in the body."""
    line: str
    """``number text`` of the ``except``."""
    since: int
    """The first row."""
    raised: Raised | None
    """What was handled there, on the first of the ranks."""


@once
def in_handler(case: Case, candidate: Candidate) -> InHandler | None:
    """Who is in a handler since a row before; None: nobody, or it did not begin there.

    Before that row nobody was in the handler, as far as is seen.
    """
    source, stream, seq = candidate.source, candidate.stream, candidate.seq
    sides = [side for side in candidate.sides if side.call is not None]
    if not isinstance(source, Divergence) or source.gap is not None or candidate.absent:
        return None
    if stream is None or seq is None or len(sides) != 2:
        return None
    for side, others in (sides, sides[::-1]):
        mine, theirs = side.stack or (), others.stack or ()
        frame, within = chains.outermost_apart(mine, theirs)
        line = _handler(case, frame, within)
        if not line:
            continue
        rows = [
            [case.stack(rank, call) if call is not None else () for call in calls]
            for rank in (side.ranks[0], others.ranks[0])
            if (calls := case.before(rank, stream, seq))
        ]
        if len(rows) != 2 or len(rows[0]) != len(rows[1]):
            continue
        pairs = list(zip(*rows, strict=True))
        run = 0
        while run < len(pairs) and frame in pairs[-1 - run][0] and within in pairs[-1 - run][1]:
            run += 1
        earlier = pairs[: len(pairs) - run]
        if not run or any(frame in stack for pair in earlier for stack in pair):
            continue
        if not earlier and len(pairs) == LOOK_BACK:
            continue
        since = seq - run
        return InHandler(
            side,
            others,
            frame,
            within,
            line,
            since,
            _raised(case, side.ranks[0], candidate, since, line),
        )
    return None


def _handler(case: Case, frame: str, within: str) -> str:
    """The ``except`` that a frame is in, where another is in its ``try``; else empty."""
    if not frame or chains.scope(frame) != chains.scope(within):
        return ""
    if not is_under(case, frame, ("except",)):
        return ""
    around = statements.own(case.statements(chains.site(frame)))
    heads = [line for line in around if statements.code_of(line).startswith("except")]
    numbers = {
        statements.number_of(line) for line in code_lines.handlers(case.code, chains.site(within))
    }
    return next((line for line in heads if statements.number_of(line) in numbers), "")


def _raised(case: Case, rank: int, candidate: Candidate, row: int, line: str) -> Raised | None:
    """What a rank handled when it made its call of a row."""
    log, call = case.log(rank), case.call(rank, candidate.stream, row) if candidate.stream else None
    if log is None or call is None:
        return None
    raised = (r for r in log.caught if r.what == HANDLED and r.t == call.t)
    return next((one for one in raised if _is_for(line, one)), None)


def _is_for(line: str, raised: Raised) -> bool:
    """Whether an ``except`` is for what was raised, by its name, and not for one further in."""
    head = statements.code_of(line)
    name = raised.error.rpartition(".")[2]
    return re.search(rf"\b{re.escape(name)}\b", head) is not None or bool(_ANY.match(head))


_ANY: Final = re.compile(r"except( (Base)?Exception\b.*)?:")

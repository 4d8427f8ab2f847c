"""One of two ranks that left out calls of its round after an exception, as the other never could.

One against one proves nothing where a loop, or a condition, on either side may have been wrong. An
exception that a rank takes by itself is known to nobody else; and a rank whose call nothing leads
past makes it in every round.
"""

from __future__ import annotations

import re
from typing import Final

from collectrace import exceptions
from collectrace.align.judging import choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import LeftRound, kept_round, left_own_round
from collectrace.align.matching import habit
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import statements
from collectrace.align.reading.evidence import StreamKey

_TWO: Final = 2


@once
def dropped(case: Case, candidate: Candidate) -> LeftRound | None:
    """The one of a circle of two that can only have come past a call by a handler; else None."""
    source = candidate.source
    if not isinstance(source, tuple) or len(source) != _TWO:
        return None
    left = [left_own_round(case, edge.waiting.rank) for edge in source]
    if left[0] is None:
        source, left = source[::-1], left[::-1]
    one, other = left
    if one is None or other is not None or not _has_left_out(one):
        return None
    if source[1].waiting.channel != one.key or not kept_round(case, source[1].waiting.rank):
        return None  # the other awaits something else, or more than in the rounds before
    past = choices.of_call(case, case.stack(one.rank, one.usual), case.stack(one.rank, one.made))
    if past is None or len(past) != 1 or not _is_handler(past[0]):
        return None
    if _was_let_down(case, one):
        return None
    return one if _is_bound(case, source[1], one) else None


def _has_left_out(left: LeftRound) -> bool:
    """Whether a rank went on to the collective of its round, as it never had so early."""
    return bool(left.skipped) and left.rounds >= habit.ENOUGH and left.made.peer is None


def _is_handler(way: str) -> bool:
    """Whether a way past a call takes an exception, of those that no program finds its way by."""
    leaves, line = statements.way_of(way)
    if leaves not in ("continue", "pass") or not choices.is_handler(way):
        return False
    return _CONTROL.search(statements.code_of(line)) is None


_CONTROL: Final = re.compile(
    r"\b(Empty|EOFError|Full|GeneratorExit|IndexError|KeyError|KeyboardInterrupt|LookupError"
    r"|Stop(Async)?Iteration|SystemExit)\b"
)
"""What comes where data, or a queue, is at its end: all ranks may have come to that."""


def _was_let_down(case: Case, left: LeftRound) -> bool:
    """Whether a rank had gone on after an exception that its peer may be to blame for."""
    log = case.log(left.rank)
    return log is None or any(
        one.t < left.made.t
        for one in (
            *log.failed,
            *(one for one in log.caught if exceptions.blames_peers(one.error, one.message)),
        )
    )


def _is_bound(case: Case, edge: Edge, left: LeftRound) -> bool:
    """Whether nothing leads the other past what it waits in, up to the collective behind it."""
    rank, made = edge.waiting.rank, left.made
    call = waited_for(case, edge.waiting)
    last = case.call(rank, StreamKey(made.group, made.device), made.seq - 1)
    if call is None or last is None:
        return False
    return choices.of_call(case, case.stack(rank, call), case.stack(rank, last)) == []

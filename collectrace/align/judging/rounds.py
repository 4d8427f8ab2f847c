"""Ranks that are at another place of the round which all ranks have gone through alike.

Equal rounds tell what comes next. A rank that does not make that call, but one which stands at
another place of each round, from the same chain of lines, has left out the calls between (or goes
through them in another order): neither the call nor its tensors are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.parted import parted
from collectrace.align.matching import habit, parting
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains, code_lines
from collectrace.align.reading.evidence import StreamKey
from collectrace.findings import Side
from collectrace.records import Call

_WINDOW: Final = 400
"""Rows before a candidate's in which rounds are looked for."""

_ENOUGH: Final = 3
"""Equal rounds that make a habit which is proof against who left it."""

_Step = tuple[int, int]
"""What a call means, and how it appears: the line and its callers, the op, the role."""


@dataclass(frozen=True, slots=True)
class Leap:
    """A call of the round that was made before its turn."""

    side: Side
    """Who made it."""
    others: Side
    """Who went on as in the rounds before."""
    rounds: int
    """Equal rounds before, as far as was looked."""
    skipped: tuple[Call, ...]
    """What stands in each round between the others' call, itself included, and the one made."""
    is_one_place: bool
    """Whether the two calls come from one line, called from the same lines."""
    is_new: bool
    """Whether no rank of the two ever came from the call before straight to this one."""


@once
def leap(case: Case, candidate: Candidate) -> Leap | None:
    """Who of two sides is at another place of the round; None: nobody, or it is not known."""
    source, stream, seq = candidate.source, candidate.stream, candidate.seq
    if not isinstance(source, Divergence) or source.gap is not None or candidate.mark == "fatal":
        return None
    if stream is None or seq is None or candidate.unknown or len(candidate.sides) != 2:
        return None
    if candidate.is_warning or candidate.absent or parted(case, candidate) is not None:
        return None  # a place before this row tells more
    steps = [_steps(case, side.ranks[0], stream, seq) for side in candidate.sides]
    rounds = [habit.repetition(own[:-1][-_WINDOW:]) for own in steps]
    if len({period for period, _ in rounds}) > 1 or rounds[0][0] < 2:
        return None
    period = rounds[0][0]
    gone = [n for n, own in enumerate(steps) if own[-1] != own[-1 - period]]
    if len(gone) != 1:
        return None
    own, side, others = steps[gone[0]], candidate.sides[gone[0]], candidate.sides[1 - gone[0]]
    ahead = next((n for n in range(1, period) if own[-1 - period + n] == own[-1]), None)
    if ahead is None:
        return None
    calls = case.before(side.ranks[0], stream, seq, period)[:ahead]
    rank, other = side.ranks[0], others.ranks[0]
    mine, theirs = case.call(rank, stream, seq), case.call(other, stream, seq)
    if mine is None or theirs is None or None in calls:
        return None
    return Leap(
        side=side,
        others=others,
        rounds=min(length for _, length in rounds) // period,
        skipped=tuple(call for call in calls if call is not None),
        is_one_place=case.stack(rank, mine) == case.stack(other, theirs)
        and mine.site == theirs.site,
        is_new=all(
            own[-2:] != one[n : n + 2] for one in steps for n in range(max(0, len(one) - 2))
        ),
    )


def _steps(case: Case, rank: int, stream: StreamKey, seq: int) -> list[_Step]:
    """A rank's steps up to a row; none where they are not all known."""
    log = case.log(rank)
    if log is None or not log.scanned or parting.has_lost(log):
        return []
    rows, shift = log.rows(stream)
    stop = rows.position(seq - shift) + 1
    if stop > len(rows) or rows.seq[stop - 1] != seq - shift:
        return []
    return list(zip(rows.meaning[:stop], rows.appearance[:stop], strict=True))


def left_round(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that left out calls of a round, where none of its rounds was ever cut so.

    Only where the calls stand in one loop and under the same conditions as the one they went on
    to: a loop of their own may have ended too early on one side or too late on the other, and of
    a condition either may have had the right value.
    """
    found = leap(case, candidate)
    if found is None or found.rounds < _ENOUGH or not found.is_new or not is_straight(case, found):
        return ()
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None:
        return ()
    for side in (found.side, found.others):
        steps = [_steps(case, rank, stream, seq)[-_WINDOW:] for rank in side.ranks]
        if any(one != steps[0] for one in steps):
            return ()
    return tuple(sorted(found.side.ranks))


def is_straight(case: Case, found: Leap) -> bool:
    """Whether one run of one function leads through the call made and through those left out.

    The same loops and conditions stand around all of them. Of calls in several functions it is not
    seen what runs those, and how often: a framework may.
    """
    rank = found.side.ranks[0]
    if found.side.call is None or found.is_one_place:
        return False
    made = case.stack(rank, found.side.call)
    around = _deciding(case, made)
    stacks = [case.stack(rank, call) for call in found.skipped]
    return around is not None and all(
        _is_one_function(made, stack) and _deciding(case, stack) == around for stack in stacks
    )


def _is_one_function(one: Sequence[str], two: Sequence[str]) -> bool:
    """Whether two stacks, innermost first, part in one function, at two lines of it."""
    pairs = zip(reversed(one), reversed(two), strict=False)
    apart = next(((a, b) for a, b in pairs if a != b), None)
    if apart is None:
        return False
    here, there = apart
    return chains.scope(here) == chains.scope(there)


def _deciding(case: Case, stack: Sequence[str]) -> set[tuple[str, str]] | None:
    """File and line of each loop and condition above a call; None where some are not known."""
    found: set[tuple[str, str]] = set()
    for frame in stack:
        lines = case.statements(chains.site(frame))
        if not lines:
            return None
        found |= {
            (chains.file(frame), line)
            for line in code_lines.deciding(lines)
            if not code_lines.statement(line).startswith(("with ", "async with "))
        }
    return found if stack else None

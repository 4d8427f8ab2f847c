"""Ranks that are at another place of the round which all ranks have gone through alike.

Equal rounds tell what comes next. A rank that does not make that call, but one which stands at
another place of each round, from the same chain of lines, has left out the calls between (or goes
through them in another order): neither the call nor its tensors are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace.align.judging import choices, intervals, sisters
from collectrace.align.judging.by_rank import is_met_elsewhere
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.one_loop import is_one_function, part_in_loop, part_in_one_loop
from collectrace.align.judging.parted import parted
from collectrace.align.matching import habit, parting
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import LOOK_BACK, StreamKey
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_asked

_CONSTRUCTS: Final = "ddp.construct"
"""What a script asks for at a line of its own, of all that DDP issues."""

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
    """Equal rounds before."""
    skipped: tuple[Call, ...]
    """What stands in each round between the others' call, itself included, and the one made."""
    is_one_place: bool
    """Whether the two calls come from one line, called from the same lines."""
    is_new: bool
    """Whether no rank of the two ever came from the call before straight to this one."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Two sides after equal rounds, of which one does not go on with the next."""

    side: Side
    others: Side
    own: Sequence[_Step]
    """What a rank of ``side`` did, up to the row."""
    theirs: Sequence[_Step]
    """What a rank of the others did."""
    period: int
    """Steps of a round."""
    rounds: int
    """Equal rounds before."""

    @property
    def both(self) -> tuple[Sequence[_Step], Sequence[_Step]]:
        """What the two did."""
        return self.own, self.theirs


@once
def turn(case: Case, candidate: Candidate) -> Turn | None:
    """Where one of two sides left equal rounds; None: neither did, or both."""
    source, stream, seq = candidate.source, candidate.stream, candidate.seq
    if not isinstance(source, Divergence) or source.gap is not None or candidate.mark == "fatal":
        return None
    if stream is None or seq is None or candidate.unknown or len(candidate.sides) != 2:
        return None
    if candidate.is_warning or candidate.absent or parted(case, candidate) is not None:
        return None  # a place before this row tells more
    steps = [_steps(case, side.ranks[0], stream, seq) for side in candidate.sides]
    rounds = [habit.repetition(own[:-1][-LOOK_BACK:]) for own in steps]
    if len({period for period, _ in rounds}) > 1 or not rounds[0][0]:
        return None
    period = rounds[0][0]
    gone = [n for n, own in enumerate(steps) if own[-1] != own[-1 - period]]
    if len(gone) != 1:
        return None
    n = gone[0]
    equal = min(habit.reach(own[:-1], period) for own in steps) // period
    return Turn(candidate.sides[n], candidate.sides[1 - n], steps[n], steps[1 - n], period, equal)


def went_on(case: Case, candidate: Candidate, ranks: Sequence[int]) -> Turn | None:
    """Where these ranks went on with at least three equal rounds, and the other side did not."""
    left = turn(case, candidate)
    if left is None or left.rounds < habit.ENOUGH or left.others.ranks != tuple(ranks):
        return None
    return left


@once
def leap(case: Case, candidate: Candidate) -> Leap | None:
    """Who of two sides is at another place of the round; None: nobody, or it is not known."""
    found, stream, seq = turn(case, candidate), candidate.stream, candidate.seq
    if found is None or found.period < 2 or stream is None or seq is None:
        return None
    own, period = found.own, found.period
    ahead = next((n for n in range(1, period) if own[-1 - period + n] == own[-1]), None)
    if ahead is None:
        return None
    rank, other = found.side.ranks[0], found.others.ranks[0]
    calls = case.before(rank, stream, seq, period)[:ahead]
    mine, theirs = case.call(rank, stream, seq), case.call(other, stream, seq)
    if mine is None or theirs is None or None in calls:
        return None
    return Leap(
        side=found.side,
        others=found.others,
        rounds=found.rounds,
        skipped=tuple(call for call in calls if call is not None),
        is_one_place=case.stack(rank, mine) == case.stack(other, theirs)
        and mine.site == theirs.site,
        is_new=all(
            own[-2:] != one[n : n + 2] for one in found.both for n in range(max(0, len(one) - 2))
        ),
    )


def _steps(
    case: Case, rank: int, stream: StreamKey, seq: int, most: int | None = None
) -> list[_Step]:
    """A rank's steps up to a row, the last ``most``; none where they are not all known."""
    log = case.log(rank)
    if log is None or not log.scanned or parting.has_lost(log):
        return []
    rows, shift = log.rows(stream)
    stop = rows.position(seq - shift) + 1
    if stop > len(rows) or rows.seq[stop - 1] != seq - shift:
        return []
    start = 0 if most is None else max(0, stop - most)
    return list(zip(rows.meaning[start:stop], rows.appearance[start:stop], strict=True))


def left_round(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that left out calls of a round, where none of its rounds was ever cut so.

    Only where the calls stand in one loop and under the same conditions as the one they went on
    to: a loop of their own may have ended too early on one side or too late on the other, and of
    a condition, such as one that returns before them, either may have had the right value.
    """
    found = leap(case, candidate)
    if found is None or found.rounds < habit.ENOUGH or not found.is_new or may_be_cached(found):
        return ()
    if not is_straight(case, found) or _is_led_past(case, found):
        return ()
    return tuple(sorted(found.side.ranks)) if are_of_one_mind(case, candidate) else ()


def may_be_cached(found: Leap) -> bool:
    """Whether what was left out is a metric's sync, which its ``compute()`` may do without.

    It returns what it has computed, where nothing was updated since: ``Metric._wrap_compute``,
    torchmetrics 1.9. So the rank may have come to its line as ever.
    """
    return bool(found.skipped) and found.skipped[0].role == "torchmetrics.sync"


def _is_led_past(case: Case, found: Leap) -> bool:
    """Whether something may lead past a call left out, to the one made, but an error's handler."""
    rank = found.side.ranks[0]
    if found.side.call is None:
        return False
    made = case.stack(rank, found.side.call)
    for call in found.skipped:
        stack = case.stack(rank, call)
        ways = choices.of_call(case, stack, made)
        if ways is None or not all(choices.is_error_handler(case, way, stack) for way in ways):
            return True
    return False


@once
def novelty(case: Case, candidate: Candidate) -> Turn | None:
    """Where a side did what no rank had ever done, after at least three equal rounds.

    For arguments it proves nothing: they may be meant to change, and one side have missed it.
    """
    left = turn(case, candidate)
    if left is None or left.rounds < habit.ENOUGH:
        return None
    if any(left.own[-1] in one[:-1] for one in left.both):
        return None
    made, usual = left.side.call, left.others.call
    if made is None or usual is None or not (is_asked(made) or made.role == _CONSTRUCTS):
        return None
    if sisters.voted(case, candidate, made):
        return None
    return left if are_of_one_mind(case, candidate) else None


def out_of_round(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that alone ever came to a line, in the loop that the others are in.

    Behind the loop it proves nothing: it may have ended too early on one side, or too late on the
    other. Nor does it where they come there at intervals, or where the others may have a line of
    their own for the call.
    """
    found, stream, seq = novelty(case, candidate), candidate.stream, candidate.seq
    if found is None or stream is None or seq is None:
        return ()
    made, usual = found.side.call, found.others.call
    if made is None or usual is None or is_met_elsewhere(case, candidate):
        return ()
    rank, other = found.side.ranks[0], found.others.ranks[0]
    here, there = case.stack(rank, made), case.stack(other, usual)
    line, _ = chains.outermost_apart(here, there)
    if not part_in_one_loop(case, here, there) and not _has_begun_anew(case, candidate, found):
        return ()
    if any(line in frames_before(case, one, stream, seq) for one in (rank, other)):
        return ()
    return () if intervals.decides(case, here, there) else tuple(sorted(found.side.ranks))


def _has_begun_anew(case: Case, candidate: Candidate, found: Turn) -> bool:
    """Whether the others have begun the next turn of a loop, in which a side went on to its end.

    So it is where both come from a line between the two: a loop behind that line, in which the
    others are by now, had not yet begun on the side, and cannot have been over. Not where no turn
    leads through that line and the side's: then the side is in the next turn, too.
    """
    made, usual = found.side.call, found.others.call
    if made is None or usual is None:
        return False
    rank, other = found.side.ranks[0], found.others.ranks[0]
    new, old = case.stack(rank, made), case.stack(other, usual)
    if not part_in_loop(case, new, old):
        return False
    here, there = chains.outermost_apart(new, old)
    common = chains.shared(new, old)
    for one in (rank, other):
        latest = case.last_before(one, candidate.stream, candidate.seq)
        stack = case.stack(one, latest) if latest is not None else ()
        frame = chains.beside(stack, new, common)
        if chains.scope(frame) != chains.scope(here):
            return False
        if not chains.line(there) < chains.line(frame) < chains.line(here):
            return False
        if choices.fork(case, chains.site(frame), chains.site(here)) is not None:
            return False
    return True


def frames_before(case: Case, rank: int, stream: StreamKey, seq: int) -> set[str]:
    """The frames above a rank's calls before a row."""
    log = case.log(rank)
    if log is None:
        return set()
    rows, shift = log.rows(stream)
    known = rows.vocabulary.appearances
    seen = set(rows.appearance[: rows.position(seq - shift)])
    return {frame for n in seen for frame in known[n].where}


def are_of_one_mind(case: Case, candidate: Candidate) -> bool:
    """Whether the ranks of each side have come to the row in one way."""
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None:
        return False
    for side in candidate.sides:
        steps = [_steps(case, rank, stream, seq, LOOK_BACK) for rank in side.ranks]
        if any(own != steps[0] for own in steps):
            return False
    return True


def is_straight(case: Case, found: Leap) -> bool:
    """Whether one run of one function leads through the call made and through those left out.

    The same loops and conditions stand around all of them.
    Of calls in several functions it is not seen what runs those, and how often: a framework may.
    """
    rank = found.side.ranks[0]
    if found.side.call is None or found.is_one_place:
        return False
    made = case.stack(rank, found.side.call)
    around = _deciding(case, made)
    stacks = [case.stack(rank, call) for call in found.skipped]
    return around is not None and all(
        is_one_function(made, stack) and _deciding(case, stack) == around for stack in stacks
    )


def _deciding(case: Case, stack: Sequence[str]) -> set[tuple[str, str]] | None:
    """File and line of each loop and condition above a call; None where some are not known."""
    found: set[tuple[str, str]] = set()
    for frame in stack:
        lines = case.statements(chains.site(frame))
        if not lines:
            return None
        found |= {(chains.file(frame), line) for line in statements.deciding(lines)}
    return found if stack else None

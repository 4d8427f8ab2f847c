"""Who has gone past whose call: by the order of the lines where the ranks' stacks part.

In the function where they part who is further on has gone past the other's call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile, islice, pairwise, takewhile, zip_longest
from typing import Final

from collectrace.align.diagnosis import visits
from collectrace.align.diagnosis.loop_lines import (
    LoopLine,
    is_fixed,
    loops_around,
    may_differ,
)
from collectrace.align.diagnosis.standpoint import Standpoint, of_call, of_parting, standpoints
from collectrace.align.diagnosis.ways_past import MOST, Past, WayPast, of_frame, open_to
from collectrace.align.judging import choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.circles.dropped import dropped
from collectrace.align.judging.own_round import LeftRound, program_of
from collectrace.align.judging.parted import parted
from collectrace.align.judging.rounds import went_on
from collectrace.align.reading import chains, code_lines, statements
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call

Earlier = Callable[[int], Iterator[Call | None]]
"""The calls of a rank before the point at which it stands, the latest first; None: not known."""


@once
def of_sides(case: Case, candidate: Candidate) -> Past | None:
    """The ways past the call at the row where the sides parted, if any is seen."""
    order = order_of_sides(case, candidate)
    return order.past() if order is not None else None


@once
def order_of_sides(case: Case, candidate: Candidate) -> Order | None:
    """Who is further on at the row where the sides parted in their programs; None: not seen.

    Between two sides: that of the suspects, or the smallest, and the largest of the others.
    """
    found = parted(case, candidate)
    if found is not None and found.seq < (candidate.seq or 0):
        return _between(case, candidate, of_parting(case, candidate, found), found.seq)
    points = sorted(standpoints(candidate), key=lambda point: len(point.ranks))
    if len(points) < 2:
        return None
    wrong = [point for point in points if set(point.ranks) <= set(candidate.suspects)]
    one = (wrong or points)[0]
    two = next(point for point in reversed(points) if point is not one)
    return _between(case, candidate, (one, two), candidate.seq)


def of_left_round(case: Case, candidate: Candidate, left: LeftRound) -> Past | None:
    """The ways past what a rank of a circle left out of its round, if any is seen."""
    points = [of_call(case, left.rank, call) for call in (left.usual, left.made)]
    program = program_of(case, left.rank)

    def earlier(_: int) -> Iterator[Call | None]:
        """All calls of the rank before the one by which it left its round, the latest first."""
        known = map(program.call, reversed(range(len(program.steps)))) if program else ()
        return islice(dropwhile(lambda call: call != left.made, known), 1, None)

    order = _in_one_function(case, candidate, points, [left.before, left.before], earlier)
    found = order.past() if order is not None else None
    if found is not None and len(found.ways) == 1 and dropped(case, candidate) is left:
        return replace(found, is_only=True)
    return found


def _between(
    case: Case, candidate: Candidate, points: Sequence[Standpoint], row: int | None
) -> Order | None:
    if candidate.stream is None or row is None:
        return None
    before = [case.call(point.ranks[0], candidate.stream, row - 1) for point in points]

    def earlier(rank: int) -> Iterator[Call | None]:
        return reversed(case.before(rank, candidate.stream, row))

    found = _in_one_function(case, candidate, points, before, earlier, row)
    if found is None or _came_elsewhere(case, candidate.stream, found, row):
        return None
    return found


def _in_one_function(
    case: Case,
    candidate: Candidate,
    points: Sequence[Standpoint],
    calls_before: Sequence[Call | None],
    earlier: Earlier,
    row: int | None = None,
) -> Order | None:
    """The order of two points that part in one function, each with the call before it.

    ``row``: theirs in the candidate's stream, if they are of one.
    """
    one, two = points
    common = chains.shared(one.stack, two.stack)
    if common >= min(len(one.stack), len(two.stack)):
        return None
    function, other = (chains.scope(point.stack[-1 - common]) for point in points)
    if function != other:
        return None
    before, further = set(), []
    for point, call in zip(points, calls_before, strict=True):
        stack = case.stack(point.ranks[0], call) if call is not None else ()
        frame = chains.beside(stack, one.stack, common)
        before.add(frame if chains.scope(frame) == function else "")
        is_further = _is_further_in(case, point.stack, stack, common)
        if is_further and not _was_through(case, candidate, point, common, row):
            further.append(point)
    if len(before) > 1:
        return None  # they had parted before
    return Order(case, candidate, points, common, before.pop(), further, earlier)


def _is_further_in(case: Case, stack: Sequence[str], before: Sequence[str], common: int) -> bool:
    """Whether a call may be one of the same visit to a line from which the call before came.

    By the lines, or loops, of the functions that are called there. ``common``: how many frames are
    around that line.
    """
    inner, earlier = ([*reversed(one)][common + 1 :] for one in (stack, before))
    for frame, last in zip_longest(inner, earlier, fillvalue=""):
        if chains.scope(frame) != chains.scope(last) or _may_repeat(case, frame):
            return bool(frame)
        if frame != last:
            return chains.line(frame) > chains.line(last) or _is_head_of(case, frame, last)
    return False


def _is_head_of(case: Case, frame: str, inside: str) -> bool:
    """Whether a line is the head of a loop that another is in: it is come to for the next turn."""
    head = next(reversed(case.statements(chains.site(frame))), "")
    return bool(head) and head in statements.loops(case.statements(chains.site(inside)))


def _was_through(
    case: Case, candidate: Candidate, point: Standpoint, common: int, row: int | None
) -> bool:
    """Whether the visit to a line before a row was as long as each before, by the calls from there.

    And has one length by what is written: then the next call from there is of another visit.
    """
    frame, inner = point.stack[-1 - common], point.stack[: -1 - common]
    around = list(loops_around(case, inner))
    if row is None or not around or any(may_differ(case, loop) for loop in around):
        return False
    rank = point.ranks[0]
    before = case.before(rank, candidate.stream, row)
    known = visits.before(before, lambda one: frame in case.stack(rank, one))
    return len(known) > _ENOUGH and len({*map(len, known)}) == 1


_ENOUGH: Final = 2
"""Visits before the latest that make it a habit how long they are."""


def _may_repeat(case: Case, frame: str) -> bool:
    """Whether a line may be come to again in one visit: in a loop, or by a ``map`` of its own."""
    own = statements.own(case.statements(chains.site(frame)))
    return bool(case.loops((frame,))) or (bool(own) and statements.decides_itself(own))


def _came_elsewhere(case: Case, stream: StreamKey, found: Order, row: int) -> bool:
    """Whether those who are gone came to the very line since, and called in another group there."""
    rank = found.gone.ranks[0]
    log, last = case.log(rank), case.call(rank, stream, row - 1)
    if log is None:
        return True
    since = last.t if last is not None else 0
    for other in log.last_seq:
        if other != stream:
            rows, _ = log.rows(other)
            known = rows.vocabulary.appearances
            later = set(rows.appearance[bisect_left(rows.t, since) :])
            if any(known[n].site == found.left.call.site for n in later):
                return True
    return False


class Order:
    """Which of two is further on, who part in one function and were at one line of it before."""

    def __init__(
        self,
        case: Case,
        candidate: Candidate,
        points: Sequence[Standpoint],
        common: int,
        before: str,
        further: Sequence[Standpoint],
        earlier: Earlier,
    ) -> None:
        """``further``: those whose call may be one of the same visit to the line of that before."""
        self._case, self._earlier = case, earlier
        self._common = common
        self._before = before
        self._further = further
        self.left, self.gone = sorted(points, key=self._order)
        if self._frame(self.left) == before and went_on(case, candidate, self.gone.ranks):
            # The call behind came after as many turns in every round: it is what was left out.
            self.left, self.gone = self.gone, self.left
        if before:
            was_in = set(self._loops(before))
            mine, theirs = (set(self._loops(self._frame(p))) for p in (self.left, self.gone))
            once_more = (theirs - mine) & was_in
            if not (mine - theirs) & was_in and once_more and not self._were_through(once_more):
                # It goes through an inner loop once more, which the other has left.
                self.left, self.gone = self.gone, self.left
        self._here, self.there = self._frame(self.left), self._frame(self.gone)
        self._around, self._beyond = self._loops(self._here), self._loops(self.there)

    def past(self) -> Past | None:
        """The ways, if there are any and not too many."""
        ways = self.ways
        if not ways or len(ways) > MOST:
            return None
        loop = self._loop()
        is_fixed = not choices.loops(self._case, self.apart, self.there)
        is_only = (
            len(ways) == 1
            and is_fixed
            and not self._is_conditional()
            and all(choices.calls_it_alone(self._case, *pair) for pair in pairwise(self.apart))
        )
        again = chains.scope(self._here)[1].rpartition(".")[2] if self._is_again else ""
        return Past(self.left, self.gone, ways, is_only and not again, again, loop)

    @property
    def ways(self) -> tuple[WayPast, ...]:
        """All that may have led past the call of who is behind, each once."""
        ways = open_to(self._case, self._ways(), self.gone.ranks)
        return tuple({(way.file, way.line): way for way in ways}.values())

    @property
    def _goes_back(self) -> bool:
        return chains.line(self.there) < chains.line(self._here)

    @property
    def _is_again(self) -> bool:
        """Whether the function was left and begun again: no loop in it leads back."""
        return self._goes_back and not set(self._around) & set(self._beyond)

    @property
    def apart(self) -> Sequence[str]:
        """The frames of who is behind, innermost first, as far as the two part."""
        return self.left.stack[: len(self.left.stack) - self._common]

    def _frame(self, point: Standpoint) -> str:
        return point.stack[-1 - self._common]

    def _order(self, point: Standpoint) -> tuple[bool, int]:
        """How soon a line comes after the one before, with those of the next round last."""
        line, last = chains.line(self._frame(point)), chains.line(self._before)
        return line < last or (line == last and point not in self._further), line

    def _loops(self, frame: str) -> list[str]:
        return statements.loops(self._case.statements(chains.site(frame)))

    def _ways(self) -> Iterator[WayPast]:
        for frame in self.apart:
            for way in of_frame(self._case, frame):
                if frame != self._here or self._fits(way):
                    yield way
        if not self._is_again:
            return
        is_driven = code_lines.has_yielded(self._case.code, chains.site(self._here))
        for frame in self.left.stack[len(self.apart) :]:
            for way in of_frame(self._case, frame):
                leads_on = way.leaves in ("pass", "continue") and way.is_handler
                if leads_on or (is_driven and way.leaves in ("break", "return")):
                    yield way
            if self._loops(frame):
                return

    def _fits(self, way: WayPast) -> bool:
        """Whether a way in the function where they part leads to where the others are."""
        match way.leaves:
            case "return":
                return self._is_again
            case "break":
                return not self._around or self._around[-1] not in self._beyond
            case "continue":
                return self._goes_back or not self._around or self._around[-1] not in self._beyond
            case _:
                tries = _heads(self._case, self._here, "try:", "with ", "async with ")
                others = _heads(self._case, self.there, "try:", "with ", "async with ")
                caught = _heads(self._case, self.there, "except")
                return self._goes_back or bool(caught) or bool(set(tries) - set(others))

    def _loop(self) -> LoopLine | None:
        for frame in reversed(self.apart):
            for line in self._loops(frame):
                if line not in self._beyond or chains.file(frame) != chains.file(self.there):
                    return LoopLine(frame, line, self._case.code)
        return None

    def _were_through(self, loops: Collection[str]) -> bool:
        """Whether who may be in loops once more had made a call in each of their turns by then.

        Of loops that have so many turns on every rank, by the latest calls that came from there.
        """
        frame = self._frame(self.gone)
        turns = [
            inner.turns
            for line in loops
            if is_fixed(self._case, inner := LoopLine(frame, line, self._case.code))
        ]
        if len(turns) != len(loops) or len(turns) != 1 or not turns[0]:
            return False
        rank, stack = self.gone.ranks[0], tuple(self.gone.stack)
        before = (self._case.stack(rank, call) if call else () for call in self._earlier(rank))
        inside = takewhile(lambda one: frame in one, before)
        count = sum(one == stack for one in inside)
        return count > 0 and count % turns[0] == 0

    def _is_conditional(self) -> bool:
        """Whether something around the call, in functions that the others are not in, decides."""
        found = choices.conditions(self._case, self.apart, self.there)
        return found is None or bool(found)


def _heads(case: Case, frame: str, *kinds: str) -> list[str]:
    around = case.statements(chains.site(frame))[:-1]
    return [line for line in around if statements.code_of(line).startswith(kinds)]

"""All that may have decided about a call, where nothing more is known than that some went past it.

By the lines of the functions that lead to it, from where the ranks part: conditions, loops that may
have had another number of turns, lines that decide by themselves (``x and f()``), jumps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis import gone_past, loop_lines, ways_past, ways_told
from collectrace.align.diagnosis.conditions import goes_back
from collectrace.align.diagnosis.fewer_rounds import left_out_by
from collectrace.align.diagnosis.loop_lines import LoopLine
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    LOOK_ABOVE,
    ONE_LENGTH,
    Reason,
    is_vague,
    place_of_line,
    quoted,
    without_vague,
)
from collectrace.align.judging import choices, intervals
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements
from collectrace.signature import is_asked, program_text

_MOST: Final = 3
"""Statements of a kind that are named; where there are more, they tell nothing."""

Around = Mapping[str, Sequence[str]]
"""By frame, the innermost first, the statements around its line that count, itself last."""


class Deciders(NamedTuple):
    """What decides whether, and how often, a call is made; innermost first, as they are quoted."""

    loops: Sequence[str]
    conditions: Sequence[str]
    """Those around it, and lines that decide by themselves."""
    places: Sequence[str]
    """``train.py:12``, of these."""
    ways: Sequence[ways_past.WayPast] = ()
    calls: Sequence[str] = ()
    """Lines that may call another function on another rank, where nothing else is seen."""
    origins: Sequence[str] = ()
    """What conditions go back to where that is not said in themselves, a sentence each."""

    @property
    def quotes(self) -> Iterator[str]:
        """All of them."""
        yield from (*self.loops, *self.conditions, *self.calls)
        yield from (way.quoted for way in self.ways)

    @property
    def is_telling(self) -> bool:
        """Whether there are any, and not too many of a kind."""
        each = [len(those) for those in (self.loops, self.conditions, self.ways, self.calls)]
        return sum(each) > 0 and max(each) <= _MOST


def added(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """A reason with these, where it names nothing that decided."""
    is_open = is_vague(reason.cause) or EVERY_RANK in reason.fix or LOOK in reason.fix.lower()
    is_by_turns = ways_told.by_turns(case, candidate, reason)
    if candidate.cause is not None or not (is_open or is_by_turns):
        return reason
    order = gone_past.order_of_sides(case, candidate)
    if order is None or words.at(order.left.call) not in reason.cause:
        return reason
    ahead = _turns_apart(case, order)
    if ahead is not None:
        return reason._replace(cause=without_vague(reason.cause) + ahead.cause, fix=ahead.fix)
    found = _of_order(case, order)
    if not found.is_telling or any(quote in reason.cause for quote in found.quotes):
        return reason
    rest = [line for line in reason.fix.split("\n") if line not in (EVERY_RANK, LOOK_ABOVE)]
    if is_by_turns:
        rest = []  # what is alike on every rank is not to be changed
    return reason._replace(
        cause=without_vague(reason.cause) + _sentence(found, order.left, order.gone.ranks),
        fix="\n".join(dict.fromkeys([*_fixes(found, order.left), *rest])),
    )


def _turns_apart(case: Case, order: gone_past.Order) -> Reason | None:
    """That a call is made at the same turns of a loop on all, so that these were counted otherwise.

    Where nothing else stands on the way to it, and what may have led past a turn of the others is
    seen. A sentence after a space.
    """
    here, left, gone = order.apart[-1], order.left, order.gone
    vote = _by_turns(case, order, here)
    if not vote:
        return None
    others = _apart(case, order.apart, order.there)
    others = {frame: lines for frame, lines in others.items() if frame != here}
    if _deciders(case, others).is_telling:
        return None
    past = ways_past.further_in(case, gone, left.stack, left.ranks)
    if past is None:
        return None
    who, at_vote = words.ranks(left.ranks), quoted(chains.file(here), vote)
    return Reason(
        f" At one turn of its loop {at_vote} asks on every rank or on none: so {who} "
        f"{words.verb(left.ranks, 'has', 'have')} counted other turns than "
        f"{words.ranks(gone.ranks)}, or left out a call in one.{past.sentence}",
        f"{past.fix}\nA rank that has nothing to do in a turn makes its calls all the same, with "
        "empty or dummy tensors.",
    )


def _by_turns(case: Case, order: gone_past.Order, frame: str) -> str:
    """What asks at the same turns on all ranks, as ``number text``: the line of a frame itself.

    Or the conditions around it, if there are no others. Empty where there is no such thing.
    """
    site = chains.site(frame)
    own = statements.own(case.statements(site))
    if own and intervals.is_asked_by_turns(case, site, own[-1]):
        return own[-1]
    beside = _apart(case, (frame,), order.there)[frame]
    around = [line for line in statements.branches(beside) if line not in statements.loops(own)]
    alike = all(intervals.is_by_turns(case, site, line) for line in around)
    return around[-1] if around and alike else ""


def of_sides(case: Case, candidate: Candidate) -> Reason | None:
    """All that may have decided at a candidate's row; None: nothing, or too much, is seen."""
    order = gone_past.order_of_sides(case, candidate)
    found = _of_order(case, order) if order is not None else None
    if order is None or found is None or not found.is_telling:
        return None
    told = _sentence(found, order.left, order.gone.ranks)
    return Reason(told, "\n".join(_fixes(found, order.left)))


def _of_order(case: Case, order: gone_past.Order) -> Deciders:
    return _deciders(case, _apart(case, order.apart, order.there), order.ways)


LOOK: Final = "look above "
"""Begins what advises no more than to look for a branch."""


def within(
    case: Case, candidate: Candidate, point: Standpoint, who: Sequence[int], loop: LoopLine
) -> Reason | None:
    """What in a loop may have left out, or added, a call of a turn; None: nothing, or too much.

    ``point``: of those who go through the loop once more than ``who``. The cause has a place,
    ``ended``, for how the loop ended; none where it goes so often on every rank.
    """
    if not is_asked(point.call):
        return None  # what a model runs is told by its modules
    caught = any(way.is_handler for way in ways_past.of_frames(case, point.stack))
    is_fixed = loop_lines.is_fixed(case, loop) and not caught
    # What leads past the others' own call is told by the caller.
    each = [(point, _deciders(case, _inside(case, point, loop)))]
    if is_fixed:
        each += [
            (one, _deciders(case, _inside(case, one, loop), left_out_by(case, one, loop)))
            for one in _others_in(case, candidate, point, loop)
        ]
    known = next(((one, found) for one, found in each if found.is_telling), None)
    if known is None:
        return None
    point, found = known
    told = _sentence(found, point, who)
    if is_fixed:
        told = f"that goes equally often on every rank.{told}"
        return Reason(told, "\n".join(_fixes(found, point)))
    return Reason(
        f"{{ended}} Or it was as long:{told[:1]}{words.lower(told[1:])}",
        "\n".join(dict.fromkeys([ONE_LENGTH, *_fixes(found, point)])),
    )


def _others_in(
    case: Case, candidate: Candidate, point: Standpoint, loop: LoopLine
) -> Iterator[Standpoint]:
    """The other lines of a loop from which equal calls came: one of those may be the odd one."""
    rank, seen = point.ranks[0], {tuple(point.stack)}
    for call in reversed(case.before(rank, candidate.stream, candidate.seq, _MOST_ROWS)):
        stack = case.stack(rank, call) if call is not None else ()
        if call is None or stack in seen or not loop_lines.is_in(case, stack, loop):
            continue
        seen.add(stack)
        if program_text(call) == program_text(point.call):
            yield Standpoint(point.ranks, call, stack)


_MOST_ROWS: Final = 64
"""Rows before a candidate's that are looked at."""


def of_stack(case: Case, point: Standpoint, who: Sequence[int]) -> Reason | None:
    """The same of all around a call that ranks never came to; None: nothing, or too much."""
    frames = {frame: statements.own(case.statements(chains.site(frame))) for frame in point.stack}
    found = _deciders(case, frames)
    if not found.is_telling:
        return None
    return Reason(_sentence(found, point, who), "\n".join(_fixes(found, point)))


def _apart(case: Case, apart: Sequence[str], there: str) -> Around:
    """Without what is around another line as well, in the function of the last of some frames."""
    theirs = set(case.statements(chains.site(there)))
    return {
        frame: [
            line
            for line in statements.own(case.statements(chains.site(frame)))
            if line not in theirs or chains.file(frame) != chains.file(there)
        ]
        for frame in apart
    }


def _inside(case: Case, point: Standpoint, loop: LoopLine) -> Around:
    """Only of the frames above a call within a loop, and of what is in that."""
    around = dict[str, Sequence[str]]()
    for frame in point.stack:
        within = loop_lines.inside(case, frame, loop)
        if within is not None:
            around[frame] = within
            return around
        around[frame] = statements.own(case.statements(chains.site(frame)))
    return {}


def _deciders(case: Case, around: Around, ways: Sequence[ways_past.WayPast] = ()) -> Deciders:
    loops, conditions, places, origins = list[str](), list[str](), list[str](), list[str]()
    for frame, own in around.items():
        file, site = chains.file(frame), chains.site(frame)
        inside = statements.loops(own)
        around_it = (LoopLine(frame, line, case.code) for line in reversed(inside))
        loops += [one.quoted for one in around_it if loop_lines.may_differ(case, one)]
        deciding = [
            line
            for line in reversed(statements.branches(own))
            if line not in inside and "__name__" not in line
            if not intervals.is_by_turns(case, site, line)
        ]
        if own and statements.decides_itself(own):
            deciding.insert(0, own[-1])
        conditions += [quoted(file, line) for line in deciding]
        places += [place_of_line(file, line) for line in deciding]
        origins += filter(
            None, (goes_back(file, line, case.origin(site, line)) for line in deciding)
        )
    calls = [] if loops or conditions or ways else list(_calling(case, list(around)))
    return Deciders(loops, conditions, places, ways, calls, origins)


def _calling(case: Case, frames: Sequence[str]) -> Iterator[str]:
    """Lines of frames, innermost first, by which another function may be called."""
    for inner, outer in pairwise(frames):
        own = case.statements(chains.site(outer))
        if own and not choices.calls_it_alone(case, inner, outer):
            yield quoted(chains.file(outer), own[-1])


def _sentence(found: Deciders, left: Standpoint, who: Sequence[int]) -> str:
    """What may have led some past a call, after a space."""
    whose, parts = words.ranks(who), list[str]()
    if found.loops:
        parts.append(
            f"{words.listed(list(found.loops))} may have had more turns on "
            f"{words.ranks(left.ranks)} than on {whose}"
        )
    if found.conditions:
        parts.append(f"{_either(found.conditions)} may have sent {whose} another way")
    if found.ways:
        parts.append(f"{ways_past.told(found.ways)} may have led {whose} past it")
    if found.calls:
        parts.append(f"{_either(found.calls)} may have called another function on {whose}")
    told = f" On the way to {words.name(left.call)}{words.at(left.call)} {'; '.join(parts)}."
    return " ".join([told, *dict.fromkeys(found.origins)])


def _either(quotes: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(quotes))


def _fixes(found: Deciders, left: Standpoint) -> list[str]:
    """What to change about them, a line each."""
    told = []
    if found.conditions:
        told.append(
            f"Let all ranks decide together at {_either(found.places)}: combine what each finds "
            "first (an all_reduce of the flag, MIN or MAX), and let every rank take the same way."
        )
    if found.ways:
        told.append(ways_past.fix(found.ways, words.name(left.call)))
    if found.loops:
        told.append(ONE_LENGTH)
    if found.calls:
        told.append(f"Let {_either(found.calls)} call the same function on every rank.")
    return told

"""What the turns of a loop tell: calls of a round left out, or made in another order, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    decided,
    gone_past,
    loop_lines,
    object_lists,
    undecided,
    ways_past,
)
from collectrace.align.diagnosis import loop as habits
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.loop_lines import LoopLine
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    ONE_LENGTH,
    Reason,
    called,
    place_of_line,
    quoted,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.rounds import Leap, is_straight, leap, may_be_cached, novelty
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import RankLog
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_asked, is_user


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """One side made a call of the round before its turn, and the other went on as ever."""
    found = leap(case, candidate)
    if found is None or (candidate.suspects and candidate.suspects != found.side.ranks):
        return None
    mine, theirs = found.side.call, found.others.call
    if mine is None or theirs is None:
        return None
    if found.is_one_place:
        # With less than whole turns between, one turn further would have left out more than those.
        turns = _whole_turns(case, found, mine)
        return _one_place(case, found, mine, theirs, turns) if turns else None
    return _left_out(case, candidate, found, mine, theirs)


def _whole_turns(case: Case, found: Leap, mine: Call) -> int:
    """How many turns of one loop, alike in their lines, were skipped; 0: less, or other lines."""
    rank = found.side.ranks[0]
    own = [case.stack(rank, call) for call in (*found.skipped, mine)]
    if len(set(own)) == 1:
        return len(found.skipped)
    loop = loop_lines.innermost_loop(case, own[-1])
    starts = [n for n, stack in enumerate(own) if stack == own[-1]]
    turn = own[: starts[1]] if len(starts) > 1 else []
    count, rest = divmod(len(found.skipped), len(turn) or 1)
    is_whole = bool(turn) and not rest and own[:-1] == turn * count
    is_in_it = loop is not None and all(loop_lines.is_in(case, stack, loop) for stack in turn)
    if loop is None or not is_whole or not is_in_it or starts[0] != 0:
        return 0
    # A tensor that has changed may be of the size of a later turn's.
    return count if _past_a_turn(case, loop, "", mine).cause else 0


def _one_place(case: Case, found: Leap, mine: Call, theirs: Call, turns: int) -> Reason:
    """The same line, called from the same lines, with tensors that it has another turn for.

    Tensors of one size need not be the same thing: it may be a further one.
    """
    if words.name(mine) != words.name(theirs):
        return _one_more(case, found, mine, theirs)
    who, others = words.ranks(found.side.ranks), words.ranks(found.others.ranks)
    comes = words.verb(found.side.ranks, "comes", "come")
    calls = len(found.skipped)
    loop = loop_lines.innermost_loop(case, found.side.stack or ())
    if loop is not None and not statements.code_of(loop.line).startswith("for "):
        loop = None
    past = _past_a_turn(case, loop, who, mine)
    of = f" They are turns of {loop.quoted}" if loop is not None else " They come from one line"
    between = "the one between" if turns == 1 else f"the {turns} between"
    if not past.cause and loop is not None:
        past = _under_in_turn(case, loop)
    return Reason(
        f"{words.upper(who)} called {closed(named(case, found.side.ranks[0], mine))} with "
        f"{words.tensors(mine)}, as it had {words.counted(calls, 'call')} later in each of the "
        f"{found.rounds} equal rounds before; {others} went on with {words.tensors(theirs)}, as "
        f"always.{of}: {who} {comes} to them {_unordered(loop)}without "
        f"{between} or with one more.{past.cause}",
        f"{past.fix}{_one_order(loop)}",
        "some ranks",
    )


def _one_more(case: Case, found: Leap, mine: Call, theirs: Call) -> Reason:
    """A library, called at one line by all, made another of its calls for some ranks."""
    rank, other = found.side.ranks[0], found.others.ranks[0]
    who, others = words.ranks(found.side.ranks), words.ranks(found.others.ranks)
    name = words.name(mine)
    later = words.counted(len(found.skipped), "call")
    return Reason(
        f"{words.upper(who)} called {closed(named(case, rank, mine))} where in each of the "
        f"{found.rounds} equal rounds before {closed(named(case, other, theirs, brief=True))} came "
        f"next, and {name} only {later} later; {others} went on as in those. So {who} made one "
        f"{name} more, or left out what comes between, or goes through them in another order.",
        f"Make as many {name} calls on every rank, for the same things and in one order: also "
        "where a rank has nothing for one of them.",
        "some ranks",
    )


_ON_STATE: Final = re.compile(
    r"\bis (not )?None\b|\blen\(|\bnumel\(|\bis(nan|inf|finite)\(|\.(any|all|item)\("
)
"""Of a condition on what a turn has come to on a rank; names and kinds are alike on all."""


def _past_a_turn(case: Case, loop: LoopLine | None, who: str, call: Call) -> Reason:
    """What may lead past the calls of one turn of a loop, after a space, and what to change."""
    ways = ways_past.past_a_turn(case, loop.frame) if loop is not None else []
    ways = [way for way in ways if _ON_STATE.search(statements.code_of(way.line))]
    if not ways:
        return Reason("", "")
    return Reason(
        ways_past.led(ways, who, "a turn"),
        f"{ways_past.fix(ways, words.name(call))}\n"
        f"Or let {who} take part in that turn with zeros.\n",
    )


def _under_in_turn(case: Case, loop: LoopLine) -> Reason:
    """The conditions within a loop that may leave out its calls in a turn, after a space."""
    lines = statements.branches(loop_lines.inside(case, loop.frame, loop) or [])
    if not lines:
        return Reason("", "")
    file = chains.file(loop.frame)
    told = words.listed([quoted(file, line) for line in lines])
    places = " or ".join(place_of_line(file, line) for line in lines)
    return Reason(
        f" Within it {words.verb(lines, 'stands', 'stand')} {told}.",
        f"Let all ranks decide together at {places} which turns make the call (an all_reduce of "
        "the flag, MIN or MAX), or let a rank that has nothing in a turn take part with zeros.\n",
    )


def _left_out(case: Case, candidate: Candidate, found: Leap, mine: Call, theirs: Call) -> Reason:
    """Another line of the round, without what stood between."""
    gone, inside = (_point(candidate, side) for side in (found.side, found.others))
    again = loop_lines.loop_of_one(case, gone, inside)
    who, others = words.ranks(found.side.ranks), words.ranks(found.others.ranks)
    made, first = _told_apart(case, (found.side.ranks[0], mine), (found.others.ranks[0], theirs))
    more = len(found.skipped) - 1
    rest = f" and {words.counted(more, 'more call')}" if more else ""
    without = f"{first}{rest}".removesuffix(",")
    rounds = f"in each of the {found.rounds} equal rounds before"
    as_ever = f"{others} went on as in those."
    told = f"{words.upper(who)} went on to {made} without {without}, which came first {rounds}; "
    told += as_ever
    if again is not None:
        those = "it" if len(found.skipped) == 1 else "them"
        told = (
            f"{words.upper(who)} called {made} where {rounds} {first}{rest} came first; {as_ever} "
            f"{words.upper(who)} left {those} out, or went through {again.quoted} once more and "
            f"would not have come to {those} before its end."
        )
    known = way(case, candidate)
    if known is not None:
        return Reason(told + known.cause, known.fix, "some ranks")
    why = decided.sentence(case, candidate) + decided.skipped_by(
        case.code, found.others.stack or ()
    )
    fix = decided.fix(case, candidate)
    if not fix and again is not None and gone_past.of_sides(case, candidate) is None:
        turn = f"If {who} had one more turn of {again.quoted}: {words.lower(ONE_LENGTH)}"
        return Reason(told + why, f"{EVERY_RANK}\n{turn}", "some ranks")
    return Reason(told + why, fix or EVERY_RANK, "some ranks")


def _told_apart(case: Case, *calls: tuple[int, Call]) -> list[str]:
    """Two calls, each named with the line that told it from the other where a model made it."""
    apart = chains.outermost_apart(*(case.stack(rank, call) for rank, call in calls))
    return [
        closed(named(case, rank, call, within="" if is_asked(call) else frame))
        for (rank, call), frame in zip(calls, apart, strict=True)
    ]


def way(case: Case, candidate: Candidate) -> Reason | None:
    """What may have led past calls of the round, a sentence after a space; None: it is not seen."""
    found = leap(case, candidate)
    mine, theirs = (found.side.call, found.others.call) if found is not None else (None, None)
    if found is None or mine is None or theirs is None or found.is_one_place:
        return None
    gone, inside = (_point(candidate, side) for side in (found.side, found.others))
    if loop_lines.loop_of_one(case, gone, inside) is not None:
        return None
    shorter = loop_lines.loop_of_one(case, inside, gone)
    if shorter is not None:
        stands = f" The {words.name(theirs)} stands in {shorter.quoted}"
        who = words.ranks(gone.ranks)
        if _was_in(case, candidate, gone, shorter):
            return Reason(f"{stands}: {who} had fewer turns of it than before.", ONE_LENGTH)
        told = f"{stands}, in which {who} made no call this time."
        if gone_past.of_sides(case, candidate) is not None:
            return Reason(told, EVERY_RANK)  # what leads past it is told of besides
        why = decided.skipped_by(case.code, found.others.stack or ())
        return Reason(told + why, f"{EVERY_RANK}\n{_NO_TURN}")
    if not is_straight(case, found):
        return None
    if may_be_cached(found):
        return Reason(
            f" compute(){words.at(theirs)} may have been called on {words.ranks(gone.ranks)} as "
            "well: it answers from its cache, and gathers nothing, where the metric was not "
            "updated since the last time.",
            "Update the metric on every rank between two compute(), or on none; or construct it "
            "with compute_with_cache=False.",
        )
    agree = (
        f"Let all ranks agree, before {words.name(theirs)}{words.at(theirs)}, whether they go on "
        "(an all_reduce of a flag, MIN; an error that was caught counts as no): then every rank "
        "takes the same way. Or let a rank that has nothing take part with zeros."
    )
    handler = decided.skipped_by(case.code, found.others.stack or ())
    if handler or gone_past.of_sides(case, candidate) is not None:
        return Reason(handler, agree)  # what leads past it is told of besides
    seen = undecided.of_sides(case, candidate)
    if seen is not None:
        return Reason(seen.cause, f"{seen.fix}\n{agree}")
    return Reason(
        f" The same loops and conditions stand around {words.name(theirs)}{words.at(theirs)} "
        f"and {words.name(mine)}{words.at(mine)}: most likely a `continue`, a `return` or an "
        "exception that was caught led past the one to the other.",
        agree,
    )


def _was_in(case: Case, candidate: Candidate, gone: Standpoint, loop: LoopLine) -> bool:
    """Whether the call before a row came from inside a loop: else nobody saw it entered."""
    rank = gone.ranks[0]
    last = case.last_before(rank, candidate.stream, candidate.seq)
    return last is not None and loop_lines.is_in(case, case.stack(rank, last), loop)


_NO_TURN: Final = f"If it was come to, and had no turn: {words.lower(ONE_LENGTH)}"


def _point(candidate: Candidate, side: Side) -> Standpoint:
    return next(
        Standpoint(s.ranks, c, s.stack or ()) for s, c in called(candidate) if s.ranks == side.ranks
    )


def as_before(case: Case, candidate: Candidate) -> str:
    """Whose tensor is a new one at the line of both: a sentence after a space, or nothing."""
    found = novelty(case, candidate)
    if candidate.kind not in ("shape_mismatch", "dtype_mismatch") or found is None:
        return ""
    made, usual = found.side.call, found.others.call
    if made is None or usual is None or made.site != usual.site:
        return ""
    if case.stack(found.side.ranks[0], made) != case.stack(found.others.ranks[0], usual):
        return ""
    return (
        f" In each of the equal rounds before it was "
        f"{object_lists.entries(usual) or words.tensors(usual)} on every rank: that of "
        f"{words.ranks(found.side.ranks)} is the first other one."
    )


def turns(case: Case, candidate: Candidate) -> Reason | None:
    """One line of a ``for`` whose turns bring other tensors, on every rank: they may be apart."""
    if candidate.kind not in ("op_mismatch", "shape_mismatch", "dtype_mismatch"):
        return None
    sides = called(candidate)
    if candidate.absent or not is_one_request(candidate):
        return None
    right = next((s for s, _ in sides if not set(s.ranks) & set(candidate.suspects)), sides[0][0])
    loop, call = _for_around(case, right), right.call
    # Of a library's calls at one line those for another purpose are no other turn.
    before = [
        one for one in _turns_before(case, candidate, right) if call is None or one.via == call.via
    ]
    if loop is None or call is None or {_given(c) for c in before} <= {_given(call)}:
        return None
    if _brings_others(case, candidate, right, loop):
        return None
    got = words.listed([f"{_given(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    last = next(c for c in before if _given(c) != _given(call))
    return Reason(
        f"The {closed(named(case, right.ranks[0], call))} got {got}. It stands "
        f"in {loop.quoted}, whose turns bring different tensors on every rank: the one "
        f"before, call {last.seq}, {_given(last)}. So the ranks are at different turns of "
        f"it, {_unordered(loop)}with one left out or one more; or they are at "
        "the same turn, and its tensor differs.",
        f"{_one_order(loop)}\nIf they are at the same turn: make its tensor of one size and dtype "
        f"on every rank{' (pad it to the largest)' if 'gather' in call.op else ''}.",
    )


def is_one_request(candidate: Candidate) -> bool:
    """Whether all sides come from the same lines, which ask for the same thing by name.

    By its arguments a library may answer that with one collective or with another.
    """
    sides = called(candidate)
    return (
        len({side.stack for side, _ in sides}) == 1
        and len({words.name(call) for _, call in sides}) == 1
        and bool(sides[0][0].stack)
        and all(is_asked(call) for _, call in sides)
    )


def _given(call: Call) -> str:
    """``float32[8]``; with the collective that a library makes of it: ``float32[8] (scatter)``."""
    return words.tensors(call) + ("" if is_user(call) else f" ({call.op})")


def _for_around(case: Case, side: Side) -> LoopLine | None:
    """The innermost loop around a side's call and its callers, if it is a ``for`` over things."""
    loop = loop_lines.innermost_loop(case, side.stack or ())
    return loop if loop is not None and loop.is_over_things else None


def one_more_turn(case: Case, candidate: Candidate, ranks: Sequence[int]) -> Reason | None:
    """That a side's call is a further turn of the ``for`` that its call before came from."""
    side = next((s for s in candidate.sides if s.ranks == tuple(ranks) and s.call), None)
    loop = _for_around(case, side) if side is not None else None
    if side is None or loop is None or candidate.seq is None:
        return None
    before = case.before(side.ranks[0], candidate.stream, candidate.seq, 1)
    if not before or before[0] is None or not side.stack:
        return None
    stack = case.stack(side.ranks[0], before[0])
    outside = len(side.stack) - side.stack.index(loop.frame) - 1
    if not loop_lines.is_in(case, stack, loop) or chains.shared(stack, side.stack) < outside:
        return None
    others = [other for other, _ in called(candidate) if other.ranks != side.ranks]
    if stack != side.stack and any(loop_lines.is_in(case, s.stack or (), loop) for s in others):
        return None  # in a loop of both the others are at another place of a turn
    return Reason(
        f" It is a further turn of {loop.quoted}, as the call before was.",
        f"Let {loop.quoted} go over the same things on every rank.",
    )


def _brings_others(case: Case, candidate: Candidate, side: Side, around: LoopLine) -> bool:
    """Whether each turn of a loop around a side's call makes calls from other lines, too.

    Then ranks at different turns of it would differ in those first.
    """
    rank = side.ranks[0]
    if candidate.stream is None or candidate.seq is None:
        return False
    habit = habits.before(case, rank, candidate.stream, candidate.seq)
    period = habit.period if habit is not None else 0
    calls = case.before(rank, candidate.stream, candidate.seq, period)
    stacks = {case.stack(rank, call) for call in calls if call is not None}
    return any(
        loop_lines.is_in(case, one, around) for one in stacks if one != tuple(side.stack or ())
    )


def _turns_before(case: Case, candidate: Candidate, side: Side) -> list[Call]:
    """A rank's calls just before the row from the same lines, the latest first.

    Batches of a DataLoader are no turns: their sizes differ from rank to rank by nature.
    """
    rank, found = side.ranks[0], list[Call]()
    log, later = case.log(rank), side.call
    for call in reversed(case.before(rank, candidate.stream, candidate.seq, _MOST_TURNS)):
        if call is None or later is None or log is None or _fetched(log, call.t, later.t):
            break
        if case.stack(rank, call) != tuple(side.stack or ()) or call.iteration != later.iteration:
            break
        found.append(call)
        later = call
    return found


_MOST_TURNS: Final = 64
"""Calls before a row that are looked at."""


def _fetched(log: RankLog, after: int, before: int) -> bool:
    return any(after < batch.t <= before for batch in log.batches if not batch.end)


def _unordered(loop: LoopLine | None) -> str:
    """``in another order``, and how that may have come to be; of what has one: nothing."""
    if loop is not None and loop_lines.has_own_order(loop.line):
        return ""
    return (
        "in another order (of a set, which depends on PYTHONHASHSEED, or of a dict that was filled "
        "in another order), "
    )


def _one_order(loop: LoopLine | None) -> str:
    where = loop.quoted if loop is not None else "them"
    if loop is not None and loop_lines.has_own_order(loop.line):
        return f"Go through {where} over the same things on every rank."
    return (
        f"Go through {where} in one order on every rank, over the same things: sorted(...) of what "
        "all ranks hold, never a set, or a dict that each rank fills by itself."
    )

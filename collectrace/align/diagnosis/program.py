"""Ranks that left the program which most ranks of their kind went on with: in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import conditions, decided, inputs, loop_lines, ways_past
from collectrace.align.diagnosis.callers import closed, lines, named, telling, through_model
from collectrace.align.diagnosis.standpoint import Standpoint, of_call
from collectrace.align.diagnosis.wording import EVERY_RANK, ONE_LENGTH, Reason, each_once
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case
from collectrace.align.judging.program import deviation
from collectrace.align.matching.deviations import Deviation
from collectrace.align.matching.dimensions import NAMELESS
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import StreamKey
from collectrace.ops import BARRIERS
from collectrace.records import Call
from collectrace.signature import is_asked

_FEW: Final = 2
"""Calls that are named."""


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Which rank left out, added or swapped a call, where most of its like did otherwise."""
    found = deviation(case, candidate)
    if found is None or set(candidate.suspects) != set(found.ranks):
        return None
    others = words.ranks(found.others)
    if found.is_turn:
        return _other_turn(case, found)
    text = (
        f"{words.upper(told(case, found))}. Up to there {words.ranks(found.ranks)} and {others} "
        "issued the same calls in the same order over all their groups."
    )
    if found.then is not None:
        who = words.ranks(found.ranks)
        went = words.verb(found.ranks, "has gone", "have gone")
        text += f" {words.upper(who)} {went} on to {_call(found.then)}, and waits there."
    if found.what not in ("missing", "extra"):
        return Reason(text, _fix(case, found))
    led = _led(case, found) or Reason("", "")
    again = _once_more(case, found)
    fix = _fix(case, found, led.fix) + again.fix
    return Reason(text + led.cause + again.cause, fix, "some ranks")


def _once_more(case: Case, found: Deviation) -> Reason:
    """That a rank may have left out nothing, but gone through an inner loop once more than others.

    Its call is the next of a row of calls from one place, and the loop there may have another
    number of turns. A sentence after a space, and a line; empty where it is not so.
    """
    then, rank = found.then, found.ranks[0]
    if then is None:
        return Reason("", "")
    stack, stream = case.stack(rank, then), StreamKey(then.group, then.device)
    loop = loop_lines.innermost_loop(case, stack)
    row = case.before(rank, stream, then.seq, _ROW)
    is_row = len(row) == _ROW and all(
        one is not None and case.stack(rank, one) == stack for one in row
    )
    if not is_row or loop is None or not loop_lines.may_differ(case, loop):
        return Reason("", "")
    who, others = words.ranks(found.ranks), words.ranks(found.others)
    inner = stack[: stack.index(loop.frame) + 1]
    ways = ways_past.open_to(case, ways_past.few(case, inner), found.others)
    out = tuple(way for way in ways if way.leaves in ("break", "return"))
    goes = words.verb(found.ranks, "goes", "go")
    at = words.at_site(chains.site(loop.frame))
    return Reason(
        f" Or {who} {goes} through {loop.quoted} once more than {others},{at}"
        f"{f': {ways_past.told(out)} may have led {others} out of it' if out else ''}.",
        f"\n{ways_past.fix(out, words.name(then)) if out else ONE_LENGTH}",
    )


_ROW: Final = 2
"""Calls before from the same place that make a row."""


def _led(case: Case, found: Deviation) -> Reason | None:
    """What may have led some past a call, or to it alone: a sentence after a space; None: unseen.

    Beside what is around the call in which those who did not make it are held up.
    """
    point, other = points(case, found)
    if other is None:
        return None
    others = other.ranks
    if found.what == "extra" and _is_new(case, point):
        under = conditions.own(case, point, other, is_new=True)
        if under is not None and under.asks == "rank":
            return decided.extra(case, under)
    apart = point.stack[: len(point.stack) - chains.shared(point.stack, other.stack)]
    ways = ways_past.open_to(case, ways_past.few(case, apart), others)
    if ways:
        what = words.name(point.call) + words.at(point.call)
        return Reason(
            ways_past.led(ways, words.ranks(others), what),
            ways_past.fix(ways, words.name(point.call)),
        )
    as_ever = other._replace(stack=(*_usual_way(case, point), *other.stack))
    own = decided.own(case, point, as_ever)
    own = own if own.cause else decided.own(case, point, other)
    return own if own.cause else _out_of_loop(case, found, point, other)


def points(case: Case, found: Deviation) -> tuple[Standpoint, Standpoint | None]:
    """Where some made a call that others did not, and what these are held up in, if that is known.

    Of calls that are missing, or extra.
    """
    makers, others = found.others, found.ranks
    if found.what == "extra":
        makers, others = others, makers
    waits = case.standings[others[0]].waiting if others[0] in case.standings else ()
    there = found.then or next((waited_for(case, one) for one in waits), None)
    point = of_call(case, makers[0], found.calls[0])._replace(ranks=makers)
    if there is None:
        return point, None
    return point, of_call(case, others[0], there)._replace(ranks=others)


def _usual_way(case: Case, point: Standpoint) -> Sequence[str]:
    """The inner frames of a call that were around it before as well, when it was come to otherwise.

    What stands around those is as it was; what brought the call this time is further out.
    """
    rank, call = point.ranks[0], point.call
    before = case.before(rank, StreamKey(call.group, call.device), call.seq)
    stacks = [case.stack(rank, one) for one in before if one is not None and one.site == call.site]
    if not stacks or point.stack in stacks:
        return ()
    same = takewhile(lambda pair: pair[0] == pair[1], zip(point.stack, stacks[-1], strict=False))
    return [frame for frame, _ in same]


def _out_of_loop(
    case: Case, found: Deviation, inside: Standpoint, gone: Standpoint
) -> Reason | None:
    """That who left out calls is out of a loop that the others are in: a sentence after a space.

    With the batches that a DataLoader gave in it, where one ended sooner on that rank.
    """
    loop = loop_lines.loop_of_one(case, inside, gone)
    if found.what != "missing" or loop is None or not loop_lines.may_differ(case, loop):
        return None
    heads = [f"{file}:{statements.number_of(line)}" for file, line in case.loops(inside.stack)]
    had = inputs.in_passes(case, heads, gone.ranks, inside.ranks)
    return Reason(
        f" {loop_lines.told_out_of(loop, gone.ranks, inside.ranks)}"
        f"{f': {had.phrase()}' if had is not None else ''}.",
        loop_lines.even_length(case, loop) if had is not None else ONE_LENGTH,
    )


def _is_new(case: Case, point: Standpoint) -> bool:
    """Whether no rank of the call's group had come to its line before."""
    call = point.call
    stream = StreamKey(call.group, call.device)
    before = (
        (rank, one)
        for rank in case.comparison.groups[call.group].ranks
        for one in case.before(rank, stream, call.seq)
        if one is not None
    )
    line = point.stack[:1]
    return bool(line) and all(case.stack(rank, one)[:1] != line for rank, one in before)


def _other_turn(case: Case, found: Deviation) -> Reason:
    """One line goes through several groups, and a rank is at the turn of another one."""
    who, at = words.ranks(found.ranks), words.at(found.calls[0])
    one = len(found.ranks) == 1
    goes, it_has, has = ("goes", "it has", "has") if one else ("go", "they have", "have")
    return Reason(
        f"{words.upper(told(case, found))}. Up to there {who} and {words.ranks(found.others)} "
        "issued the same calls in the same order over all their groups, the groups of this line "
        f"in one order in the round before. Either {who} {goes} through the groups in another "
        "order here (of a set, or of a dict that was filled in another order), or "
        f"{it_has} left one out.",
        f"Go through the groups in the same order on every rank{at}: sorted(...), or a list made "
        "once, never a set, or a dict that each rank fills by itself.\n"
        f"If {who} {has} nothing to send to one of them: take part with zeros.",
    )


def told(case: Case, found: Deviation, *, short: bool = False) -> str:
    """``rank 2 left out all_to_all_single at moe.py:22; ranks 0-1,3 made it``.

    ``short``: with one line for each call, in a headline.
    """
    who, others = words.ranks(found.ranks), words.ranks(found.others)
    calls = each_once([_of_maker(case, found, call, short) for call in found.calls], _FEW)
    them = words.verb(found.calls, "it", "them")
    match found.what:
        case "missing" if found.is_turn and found.then is not None:
            then, theirs = found.then, _theirs(case, found, found.calls[0])
            return (
                f"{who} called {_call(then)} on {_group(case, then)} without that on {theirs}, "
                f"which {others} made first"
            )
        case "missing":
            return f"{who} left out {calls.removesuffix(',')}; {others} made {them}"
        case "extra":
            return f"{who} made {calls.removesuffix(',')}, and {others} did not"
        case "swapped":
            first, second = (_call(call) for call in found.calls)
            return f"{who} called {first} before {second}, {others} the other way round"
        case "other group":
            mine = found.calls[0]
            same = _named(case, found.ranks[0], mine, short)
            theirs = _theirs(case, found, found.calls[1])
            return f"{who} called {same} on {_group(case, mine)}, {others} on {theirs}"
        case "ended":
            return f"{who} ended where {others} went on with {calls}"
        case "longer":
            return f"{who} went on with {calls} where {others} ended"


def _fix(case: Case, found: Deviation, known: str = "") -> str:
    """``known``: what to change about what led there."""
    first = found.calls[0]
    at, who = words.at(first), words.ranks(found.ranks)
    match found.what:
        case "missing" | "extra":
            call = words.verb(found.calls, "this call", "these calls")
            takes = words.verb(found.ranks, "takes", "take")
            makers = found.others if found.what == "missing" else found.ranks
            named = lines(case, makers[0], first)
            where = words.site(named[1]) if len(named) > 1 else words.name(first) + at
            look = (
                f": look above {where} for a branch that only {who} {takes}, on the rank or on its "
                "data"
            )
            advice = f"Make {call} on every rank alike, in one order{look}."
            if known:
                advice = f"{known}\nMake {call} ({where}) on every rank alike, in one order."
            if all(one.op in BARRIERS for one in found.calls):
                return advice
            return f"{advice} A rank that has nothing to send takes part with an empty tensor."
        case "swapped":
            return "Issue the two in one order on every rank."
        case "other group":
            fix = f"Pass the same group on every rank{at}: {_meant(case, found)}."
            stacks = [
                case.stack(found.ranks[0], first),
                case.stack(found.others[0], found.calls[1]),
            ]
            loop = loop_lines.without_order(case, stacks[0]) if stacks[0] == stacks[1] else None
            if loop is None:
                return fix
            return (
                f"{fix}\nIf {loop.quoted} is to go through several groups: in one order on every "
                "rank, sorted(...) by what all ranks hold alike."
            )
        case _:
            return f"Give the loop the same length on every rank.\n{EVERY_RANK}"


def _theirs(case: Case, found: Deviation, call: Call) -> str:
    """The groups of those that went on: sister groups have names of their own."""
    those = {rank: _sister(case, rank, call) for rank in found.others}
    names = dict.fromkeys(name for name in those.values() if name)
    infos = [case.comparison.groups[name] for name in names]
    descriptions = {info.description for info in infos}
    if len(descriptions) == 1 and len(infos) > 1 and not descriptions & {*NAMELESS}:
        return words.group(infos[0])  # one name for all of them
    return words.listed([words.group(info) for info in infos]) or _group(case, call)


def _meant(case: Case, found: Deviation) -> str:
    """The group that a rank that left its program should have given."""
    names = dict.fromkeys(_sister(case, rank, found.calls[1]) for rank in found.ranks)
    infos = [case.comparison.groups[name] for name in names if name]
    if len(infos) != 1:
        return _group(case, found.calls[1])
    whom = words.ranks(found.ranks)
    return words.group(infos[0]) + (f" on {whom}" if infos[0].name != found.calls[1].group else "")


def _sister(case: Case, rank: int, call: Call) -> str | None:
    """A rank's own group that stands for the one of a call: of its dimension."""
    dimension = next(
        (d[call.group] for d in case.dimensions.of_ranks.values() if call.group in d), None
    )
    mine = case.dimensions.of_ranks.get(rank, {})
    return next((name for name, one in mine.items() if one == dimension), None)


def _of_maker(case: Case, found: Deviation, call: Call, short: bool) -> str:
    """A call that some made and others did not, with who called it."""
    makers = {"missing": found.others, "extra": found.ranks}.get(found.what)
    if not makers:
        return _call(call)
    return _named(case, makers[0], call, short) + words.in_thread(call)


def _named(case: Case, rank: int, call: Call, short: bool) -> str:
    if short:
        return words.name(call) + words.at(telling(case, rank, call))
    ran = through_model(case, rank, call) if not is_asked(call) else ""
    return closed(named(case, rank, call, within=ran, brief=True))


def _call(call: Call) -> str:
    """``all_reduce at train.py:9``; ``... in thread saver``."""
    return f"{words.name(call)}{words.at(call)}{words.in_thread(call)}"


def _group(case: Case, call: Call) -> str:
    info = case.comparison.groups.get(call.group)
    return words.group(info) if info is not None else words.named_group(call.group)

"""What decided it, in words: the conditions that tell the sides apart, and what to change."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import alone, conditions, lone_line, loop_lines, ways_past
from collectrace.align.diagnosis.callers import closed, lines, named
from collectrace.align.diagnosis.conditions import Condition
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.diagnosis.wording import Reason, called, quoted
from collectrace.align.judging import intervals
from collectrace.align.judging.by_rank import asked_of, is_met_elsewhere
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.parted import around
from collectrace.align.reading import chains, code_lines, statements
from collectrace.align.reading.code_files import CodeFiles
from collectrace.align.reading.statements import Asks, Origin
from collectrace.records import Call
from collectrace.signature import is_asked, is_user


def sentence(case: Case, candidate: Candidate) -> str:
    """What stands above the calls, in sentences after a space; empty where nothing is known."""
    found = conditions.of_sides(case, candidate)
    text = _sentence(case, found, _alone(case, candidate, found, candidate.suspects))
    return text + lone_line.told(case, candidate) if text else ""


def of_suspects(case: Case, candidate: Candidate) -> Condition | None:
    """The one condition that the suspects, and no other ranks, are known to have been under."""
    found = conditions.of_sides(case, candidate)
    return _alone(case, candidate, found, candidate.suspects)


def _alone(
    case: Case, candidate: Candidate, found: Sequence[Condition], suspects: Collection[int]
) -> Condition | None:
    """The one of these that the suspects, and no other ranks, are known to have been under."""
    if len(found) != 1 or set(found[0].ranks) != set(suspects):
        return None
    return found[0] if alone.is_known(case, candidate, found[0]) else None


def _sentence(case: Case, found: Sequence[Condition], of_one_side: Condition | None = None) -> str:
    told: list[str] = []
    for one in found:
        who, seen = words.ranks(one.ranks), one.seen
        if one.forks:
            also = f": {seen.replace('which ', 'it ', 1)}" if seen else ""
            told.append(f"{words.upper(one.quoted)} parted them{also}")
            continue
        what = words.listed([f"{one.quoted}{f', {seen}' if seen else ''}", *one.further])
        by_way, under = _under_it(case, one, "by way of"), f"{_stands(one)} {what}"
        if one is of_one_side:
            made = f", and made the call{by_way}" if by_way else ""
            told.append(f"Only {who} {words.verb(one.ranks, 'was', 'were')} {under}{made}")
        else:
            told.append(
                f"The {words.name(one.call)} of {who} stands {under}{by_way and f',{by_way}'}"
            )
    return "".join(f" {one}." for one in dict.fromkeys(told))


def _under_it(case: Case, one: Condition, link: str) -> str:
    """`` by way of train.py:70``: what is under a condition, if not named with the call."""
    if one.forks or one.site in {one.call.site, *lines(case, one.ranks[0], one.call)}:
        return ""
    return f" {link} {words.site(one.site)}" if one.site else ""


def _stands(one: Condition) -> str:
    return "behind the guard" if one.is_guard else "under"


def of_points(
    case: Case,
    candidate: Candidate,
    points: Sequence[Standpoint],
    suspects: Collection[int],
    *,
    by_line: bool = False,
) -> Reason | None:
    """What stands above such calls, after a space, and what to change; None: nothing is known.

    ``by_line``: it is known that the calls' own lines were come to, or not, whoever issues them.
    """
    guard = conditions.guard_on_rank(case, candidate)
    arms = conditions.arms_that_met(case, candidate)
    found = conditions.between(case, points, suspects, by_line=by_line, guard=guard, met=arms)
    if not found:
        return None
    known = _alone(case, candidate, found, suspects)
    skipped = _turn_skipped(case, found[0])
    return Reason(
        f"{_sentence(case, found, known)}{skipped.cause}",
        f"{_fix(case, candidate, found)}{skipped.fix}",
    )


def _turn_skipped(case: Case, one: Condition) -> Reason:
    """What may have led some past a turn, where all decide alike at one turn; empty: nothing."""
    if not intervals.is_by_turns(case, one.site, one.line):
        return Reason("", "")
    ways = ways_past.past_a_turn(case, one.site)
    if not ways:
        return Reason("", "")
    return Reason(
        ways_past.led(ways, "some", "a turn before"),
        f"\n{ways_past.fix(ways, 'calls of a turn')}",
    )


def of_one(case: Case, found: Condition) -> Reason:
    """That a call stands under a condition, after a space, and that all must decide about it."""
    fix = _FIXES["data"].format(place=found.place)
    return Reason(_sentence(case, [found]), fix)


def extra(case: Case, found: Condition) -> Reason:
    """The same of a call that only some ranks made: a condition on the rank is to be left."""
    told = of_one(case, found)
    return told._replace(fix=fix_of(case, found)) if found.asks == "rank" else told


def own(case: Case, point: Standpoint, other: Standpoint) -> Reason:
    """The same of the condition that one call stands under, and another does not; empty: none."""
    found = conditions.own(case, point, other)
    return of_one(case, found) if found is not None else Reason("", "")


def of_round(case: Case, ranks: Sequence[int], call: Call, stack: Sequence[str]) -> Reason | None:
    """The conditions around a call within the outermost loop of its stack, after a space.

    Whoever left out the call in a turn of that loop may have found one false. None: there is none.
    """
    found = conditions.within_loop(case, ranks, call, stack)
    most = conditions.most_telling(found)
    if most is None:
        return None
    most_around = found[: conditions.MOST_AROUND]
    told = [one.quoted + (f", {one.seen}" if one.seen else "") for one in most_around]
    known = most if most.asks else replace(most, origin=Origin("data"))
    return Reason(f" It stands under {words.listed(told)}.", fix_of(case, known))


def around_all(case: Case, candidate: Candidate) -> str:
    """The innermost condition around the one line that all sides' calls came from: after a space.

    All ranks stand under it there, but not for the same turn of a loop: it may have let some skip
    a turn. Empty where it does not look at anything that is known to differ between ranks.
    """
    sides = called(candidate)
    if len({call.site for _, call in sides}) != 1:
        return ""
    (side, call) = sides[0]
    for line in reversed(statements.branches(around(case, side))):
        origin = case.origin(call.site, line)
        file = (call.site or "").rpartition(":")[0]
        if origin.asks:
            return f" The line stands under {quoted(file, line)}, {conditions.seen(file, origin)}."
    return ""


def unordered(case: Case, candidate: Candidate) -> Reason | None:
    """Both sides' lines are in one ``for``, in whose order there may be something of the rank's.

    Not where a condition tells them apart that is known to differ between ranks by itself.
    """
    points = standpoints(candidate)
    found = conditions.of_sides(case, candidate)
    if len(points) != 2 or not all(is_user(point.call) for point in points):
        return None
    if not found or any(one.asks not in ("", "data") for one in found):
        return None
    loop = loop_lines.around_both(case, *(point.stack for point in points))
    if loop is None or not loop.is_over_things or loop_lines.has_own_order(loop.line):
        return None
    if not _is_by_item(case, points, found[0], loop):
        return None
    return Reason(
        f" Both lines are in {loop.quoted}: over a set, or a dict that is filled in another order, "
        "the ranks come to them in other orders.",
        f"If {loop.quoted} goes over a set or a dict: in one order on every rank, sorted(...).",
    )


def _is_by_item(
    case: Case, points: Sequence[Standpoint], one: Condition, loop: loop_lines.LoopLine
) -> bool:
    """Whether a condition may ask for what a loop has come to in a turn.

    Right in the loop any may; in a function that is called there one that asks for a parameter,
    if the loop's own name is given to that function.
    """
    innermost = [case.loops(point.stack[:1])[-1:] for point in points]
    if all(lines == [(loop.file, loop.line)] for lines in innermost):
        return True
    stack = next(point.stack for point in points if point.ranks == one.ranks)
    if loop.frame not in stack or not stack.index(loop.frame):
        return False
    inner = stack[stack.index(loop.frame) - 1]
    call = statements.code_of(case.statements(chains.site(loop.frame))[-1])
    given = set(_given(call, chains.scope(inner)[1].rpartition(".")[2], loop.names))
    names = statements.parameters(case.statements(chains.site(inner)))
    items = {n for place, n in enumerate(names) if place in given} | {
        n for n in names if n in given
    }
    asked = statements.names(statements.code_of(statements.head_of(one.line)))
    return bool(asked & items)


def _given(line: str, name: str, items: Collection[str]) -> Iterator[int | str]:
    """The places, or the keywords, by which a line gives a function what a loop has come to."""
    try:
        nodes = list(ast.walk(ast.parse(line)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
            yield from (n for n, one in enumerate(node.args) if ast.unparse(one) in items)
            yield from (
                one.arg for one in node.keywords if one.arg and ast.unparse(one.value) in items
            )


def skipped_by(code: CodeFiles, stack: Sequence[str]) -> str:
    """How an exception that was caught would have left out a call: a sentence after a space.

    ``stack``: the user's frames above the call where it was made. By the ``try`` around them.
    """
    for frame in stack:
        site = chains.site(frame)
        for line in code_lines.handlers(code, site):
            handler = quoted(site.rpartition(":")[0], line)
            return (
                f" It stands in a `try:`: an exception that was caught by {handler} would have "
                "left it out."
            )
    return ""


def fix(case: Case, candidate: Candidate) -> str:
    """What to change about the condition; empty where none is known."""
    return _fix(case, candidate, conditions.of_sides(case, candidate))


def _fix(case: Case, candidate: Candidate, found: Sequence[Condition]) -> str:
    if not found:
        return ""
    one = found[0]
    if not (one.forks or candidate.suspects) and _is_for_others_too(case, candidate, one):
        return fix_of(case, replace(one, origin=Origin("rank"), further=()), decides=False)
    if one.asks == "rank" and not candidate.suspects:
        return fix_of(case, one, decides=alone.is_proven(case, candidate, one))
    return fix_of(case, one, decides=alone.is_known(case, candidate, one))


def _is_for_others_too(case: Case, candidate: Candidate, one: Condition) -> bool:
    """Whether a call that is also under a condition on the rank is met by others elsewhere."""
    return one.ranks == asked_of(case, candidate) and is_met_elsewhere(case, candidate)


def fix_of(case: Case, one: Condition, *, decides: bool = True) -> str:
    """What to change about one condition.

    ``decides``: it is known that who comes through it makes the call, and nobody else.
    """
    if intervals.is_by_turns(case, one.site, one.line):
        return (
            f"At one turn {one.quoted} is alike on every rank: look for what set the ranks' turns "
            "apart, a round that some left out before, or one more. Let every rank go through as "
            "many, and count them alike."
        )
    if one.forks:
        return (
            f"Every rank of a group must issue the same collectives in the same order: let "
            f"{one.quoted} not decide about them."
        )
    made = named(case, one.ranks[0], one.call, brief=True)
    through = _under_it(case, one, "reached from")
    name = closed(f"{made},{through}" if through else made)
    statement = _statement(case, one)
    asks = "" if one.further else one.asks
    fix = _BEFORE_GUARD if one.is_guard else _FIXES[asks]
    if not decides:
        fix = _UNSURE.get(asks, fix)
    return fix.format(
        name=statement or name,
        what=statement or (name if name.startswith("DDP's ") else f"the {name}"),
        make="Run" if statement else "Make",
        quoted=one.quoted,
        head=words.listed([one.head, *one.further]),
        place=one.place,
    )


def _statement(case: Case, one: Condition) -> str:
    """```evaluate()` (train.py:39)``: what of the script's own brought a framework's call.

    Empty where the script asks for the call by name, or the line is not known.
    """
    lines = case.statements(one.site)
    if is_asked(one.call) or not lines:
        return ""
    return quoted(chains.file(one.site), lines[-1])


_BEFORE_GUARD: Final = "{make} {what} on every rank, before {quoted}, or on none."


_UNSURE: Final[dict[Asks, str]] = {
    "rank": (
        "Let every rank meet {what} by this line or by one of its own, or none: {quoted} may keep "
        "some from it."
    ),
    "": (
        "{make} {what} on every rank or on none: nothing on the way to it, {head} included, may "
        "depend on what differs between ranks."
    ),
}
"""Where others may have come through the condition too, or have a part of their own."""


_FIXES: Final[dict[Asks, str]] = {
    "rank": "Take {what} out of {quoted}: make the call on every rank, or on none.",
    "exception": (
        "Issue no collective from an `except` block that not every rank enters: let all ranks "
        "learn of it first (an all_reduce of an error flag behind the `try`), then make the call "
        "on every rank."
    ),
    "cleanup": (
        "Issue no collective from a `finally` block: a rank that raises comes to {name} alone, and "
        "the others do not. Make the call behind the block, on every rank; and let all ranks learn "
        "of an exception first (an all_reduce of an error flag)."
    ),
    "clock": (
        "Let one rank read the clock and broadcast what it decides, so that every rank takes the "
        "same way at {place}; or decide by the number of steps."
    ),
    "random": (
        "Draw the number on one rank and broadcast it, or seed the generator alike on every rank, "
        "so that all take the same way at {place}."
    ),
    "data": (
        "Let all ranks decide together at {place}: combine what each finds first (an all_reduce of "
        "the flag, MIN or MAX), and let every rank take the same way."
    ),
    "": (
        "{make} {what} on every rank or on none: let {head} depend on nothing that differs "
        "between ranks."
    ),
}

"""What decided it: the conditions that one side's call stands under and the others' do not.

From the statements around the lines, recorded or read; said only as it is seen: that a condition
reads a clock does not prove that the clock was the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import loop_lines
from collectrace.align.diagnosis.callers import closed, named, telling
from collectrace.align.diagnosis.standpoint import Standpoint, sites, standpoints
from collectrace.align.diagnosis.wording import Reason, called, place_of_line, quoted
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.parted import around, have_met
from collectrace.align.matching import parting
from collectrace.align.reading import arms, chains, code_lines, statements
from collectrace.align.reading.statements import Asks, Origin
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_asked, is_user, stands_at_its_line


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that tells one side's line from the others'."""

    ranks: tuple[int, ...]
    call: Call
    file: str
    line: str
    """``number text`` of its statement."""
    forks: bool
    """Whether other ranks stand in another branch of the same ``if``."""
    origin: Origin
    """What it is seen to look at, and by which assignment."""
    site: str = ""
    """``path:line`` of what stands under it: of the call, or of a caller."""

    @property
    def asks(self) -> Asks:
        """What it is seen to look at."""
        return self.origin.asks

    @property
    def seen(self) -> str:
        """``which asks for the rank``; empty: nothing known."""
        return seen(self.file, self.origin)

    @property
    def quoted(self) -> str:
        """```if rank == 0:` (train.py:12)``."""
        return quoted(self.file, self.line)

    @property
    def head(self) -> str:
        """The same, of the condition alone where the call is in its ``else``."""
        return quoted(self.file, statements.head_of(self.line))

    @property
    def place(self) -> str:
        """``train.py:12``, of the condition."""
        return place_of_line(self.file, self.line)


_STRENGTH: Final[tuple[Asks, ...]] = ("rank", "exception", "cleanup", "clock", "random", "data", "")

_SEEN: Final[dict[Asks, str]] = {
    "rank": "which asks for the rank",
    "exception": "so an exception was caught there",
    "cleanup": "which an exception comes to as well, before anything behind it",
    "clock": "which reads a clock, and clocks differ",
    "random": "which draws a random number",
    "data": "which looks at data",
    "": "",
}

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


def seen(file: str, origin: Origin) -> str:
    """``which asks for the rank``: what a condition is seen to do; empty: nothing known.

    ``which goes back to `done = time.time() > end` (train.py:12), which reads a clock ...``.
    """
    what = _SEEN[origin.asks]
    return f"which goes back to {quoted(file, origin.line)}, {what}" if origin.line else what


@once
def conditions(case: Case, candidate: Candidate) -> tuple[Condition, ...]:
    """Per side that made a call the most telling condition of its own, if any.

    The suspects' come first. None where the sides' lines have met before, as the arms of a
    condition do; nor one of a side whose ranks have come from several lines.
    """
    if have_met(case, candidate):
        return ()
    found = _between(case, standpoints(candidate), candidate.suspects)
    return tuple(one for one in found if _is_of_all(case, candidate, one))


def _is_of_all(case: Case, candidate: Candidate, one: Condition) -> bool:
    """Whether all ranks of a condition's side are under it: a side is one by what it called."""
    if candidate.stream is None or candidate.seq is None or one.forks:
        return True
    for rank in one.ranks[1:]:
        call = case.call(rank, candidate.stream, candidate.seq)
        frames = case.stack(rank, call) if call is not None else ()
        sites = [chains.site(frame) for frame in frames] or [call.site or "" if call else ""]
        if not any(one.line in case.statements(site) for site in sites):
            return False
    return True


def _between(
    case: Case,
    points: Sequence[Standpoint],
    suspects: Collection[int],
    *,
    by_line: bool = False,
) -> list[Condition]:
    """For each of these the most telling condition that it stands under and the others do not.

    The suspects' come first. What a framework shadows stands where another call has brought it.
    The entry guard of a script is no condition.
    """
    above = [_above(case, point) for point in points]
    found = []
    for n, point in enumerate(points):
        if not by_line and not stands_at_its_line(point.call):
            continue
        foreign = {one[:2] for m, lines in enumerate(above) if m != n for one in lines}
        own = [(*one, False) for one in above[n] if one[:2] not in foreign]
        for m, other in enumerate(points):
            own += [(*fork, True) for fork in _fork(point, other) if m != n]
        telling = [
            Condition(point.ranks, point.call, file, line, forks, case.origin(site, line), site)
            for file, line, site, forks in reversed(own)
            if statements.code_of(line).startswith(_TELLING) and "__name__" not in line
        ]
        if telling:
            found.append(min(telling, key=lambda one: _STRENGTH.index(one.asks)))
    return sorted(found, key=lambda one: not set(one.ranks) <= set(suspects))


_TELLING: Final = ("if ", "elif ", "except", "case ", "finally", arms.CONTRARY)


def _above(case: Case, point: Standpoint) -> list[tuple[str, str, str]]:
    """The conditions above a call and its callers, outermost first.

    File, ``number text``, and ``path:line`` of the call or the caller that stands under it.
    """
    found = []
    for site in reversed(sites(point)):
        lines = statements.branches(case.statements(site))
        found += [(site.rpartition(":")[0], line, site) for line in lines]
    return found


def _fork(point: Standpoint, other: Standpoint) -> list[tuple[str, str, str]]:
    """The ``if`` of which two stand in different branches, in the outermost frames that differ.

    As :func:`_above` has it.
    """
    pairs = [(point.call.site, other.call.site)]
    mine, theirs = chains.outermost_apart(point.stack, other.stack)
    if mine and theirs:
        pairs.append((chains.site(mine), chains.site(theirs)))
    for site, there in pairs:
        fork = code_lines.parting_if(site, there)
        if fork is not None:
            return [((site or "").rpartition(":")[0], fork, site or "")]
    return []


def of_round(case: Case, ranks: Sequence[int], call: Call, stack: Sequence[str]) -> Reason | None:
    """The conditions around a call within the outermost loop of its stack, after a space.

    Whoever left out the call in a turn of that loop may have found one false. None: there is none.
    """
    found: list[Condition] = []
    within: list[Condition] = []
    for frame in stack:
        site = chains.site(frame)
        lines = list(statements.own(case.statements(site)))
        loops = statements.loops(lines)
        first = lines.index(loops[0]) if loops else 0
        for n in reversed(range(len(lines) - 1)):
            text = statements.code_of(lines[n])
            if text.startswith(_TELLING) and "__name__" not in text:
                one = Condition(
                    tuple(ranks), call, chains.file(frame), lines[n], False,
                    case.origin(site, lines[n]), site,
                )  # fmt: skip
                within += [one]
            if loops and n == first:
                found = list(within)
    if not found:
        return None
    told = [one.quoted + (f", {one.seen}" if one.seen else "") for one in found[:_MOST_AROUND]]
    most = min(found, key=lambda one: _STRENGTH.index(one.asks))
    known = most if most.asks else replace(most, origin=Origin("data"))
    return Reason(f" It stands under {words.listed(told)}.", fix_of(case, known))


_MOST_AROUND: Final = 3
"""Conditions around a call that are named, the innermost first."""


def skipped_by(stack: Sequence[str]) -> str:
    """How an exception that was caught would have left out a call: a sentence after a space.

    ``stack``: the user's frames above the call where it was made. By the ``try`` around them.
    """
    for frame in stack:
        site = chains.site(frame)
        for line in code_lines.handlers(site):
            handler = quoted(site.rpartition(":")[0], line)
            return (
                f" It stands in a `try:`: an exception that was caught by {handler} would have "
                "left it out."
            )
    return ""


def unordered(case: Case, candidate: Candidate) -> Reason | None:
    """Both sides' lines are in one ``for``, in whose order there may be something of the rank's.

    Not where a condition tells them apart that is known to differ between ranks by itself.
    """
    points = standpoints(candidate)
    found = conditions(case, candidate)
    if len(points) != 2 or not all(is_user(point.call) for point in points):
        return None
    if not found or any(one.asks not in ("", "data") for one in found):
        return None
    one, two = (case.loops(point.stack[:1]) for point in points)
    if not one or not two or one[-1] != two[-1]:
        return None
    loop = loop_lines.LoopLine(points[0].stack[0], one[-1][1])
    text = statements.code_of(loop.line)
    if not text.startswith("for ") or " range(" in text:
        return None
    return Reason(
        f" Both lines are in {loop.quoted}: over a set, or a dict that is filled in another order, "
        "the ranks come to them in other orders.",
        f"If {loop.quoted} goes over a set or a dict: in one order on every rank, sorted(...).",
    )


def sentence(case: Case, candidate: Candidate) -> str:
    """What stands above the calls, in sentences after a space; empty where nothing is known."""
    text = _sentence(conditions(case, candidate), candidate.suspects)
    return text + alone(case, candidate) if text else ""


def _sentence(found: Sequence[Condition], suspects: Collection[int]) -> str:
    told: list[str] = []
    for one in found:
        who, seen = words.ranks(one.ranks), one.seen
        if one.forks:
            also = f": {seen.replace('which ', 'it ', 1)}" if seen else ""
            told.append(f"{words.upper(one.quoted)} parted them{also}")
            continue
        is_alone = len(found) == 1 and set(one.ranks) == set(suspects)
        under = f"under {one.quoted}{f', {seen}' if seen else ''}"
        if is_alone:
            told.append(f"Only {who} {words.verb(one.ranks, 'was', 'were')} {under}")
        else:
            told.append(f"The {words.name(one.call)} of {who} stands {under}")
    return "".join(f" {one}." for one in dict.fromkeys(told))


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
            return f" The line stands under {quoted(file, line)}, {seen(file, origin)}."
    return ""


def fix(case: Case, candidate: Candidate) -> str:
    """What to change about the condition; empty where none is known."""
    return _fix(case, conditions(case, candidate))


def of_points(
    case: Case, points: Sequence[Standpoint], suspects: Collection[int], *, by_line: bool = False
) -> Reason | None:
    """What stands above such calls, after a space, and what to change; None: nothing is known.

    ``by_line``: it is known that the calls' own lines were come to, or not, whoever issues them.
    """
    found = _between(case, points, suspects, by_line=by_line)
    return Reason(_sentence(found, suspects), _fix(case, found)) if found else None


def own(case: Case, point: Standpoint, other: Standpoint) -> Condition | None:
    """The most telling condition that one call stands under and another does not.

    None of those that are the same for a rank in every round.
    """
    foreign = {one[:2] for one in _above(case, other)}
    found = [
        Condition(point.ranks, point.call, file, line, False, case.origin(site, line), site)
        for file, line, site in reversed(_above(case, point))
        if (file, line) not in foreign and statements.code_of(line).startswith(_TELLING)
    ]
    found = [
        o for o in found if not _LASTING.fullmatch(statements.code_of(statements.head_of(o.line)))
    ]
    return min(found, key=lambda one: _STRENGTH.index(one.asks), default=None)


_LASTING: Final = re.compile(
    r"(el)?if (not )?[\w.]*rank[\w.]*(\(\))?( *(==|!=|<=?|>=?|%) *[\w.+-]+(\(\))?)*:"
    r"|if __name__ .*"
)
"""A condition that asks for the rank alone, or for the script that runs."""


def of_one(found: Condition) -> Reason:
    """That a call stands under a condition, after a space, and that all must decide about it."""
    fix = _FIXES["data"].format(place=found.place)
    return Reason(_sentence([found], ()), fix)


def _fix(case: Case, found: Sequence[Condition]) -> str:
    return fix_of(case, found[0]) if found else ""


def fix_of(case: Case, one: Condition) -> str:
    """What to change about one condition."""
    if one.forks:
        return (
            f"Every rank of a group must issue the same collectives in the same order: let "
            f"{one.quoted} not decide about them."
        )
    name = closed(named(case, one.ranks[0], one.call, brief=True))
    statement = _statement(case, one)
    return _FIXES[one.asks].format(
        name=statement or name,
        what=statement or (name if name.startswith("DDP's ") else f"the {name}"),
        make="Run" if statement else "Make",
        quoted=one.quoted,
        head=one.head,
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


def alone(case: Case, candidate: Candidate) -> str:
    """That no other rank of the group ever came to the suspects' line: after a space.

    So it is, too, of a line behind a loop that ended there only: by itself it tells no branch.
    """
    found = only_here(case, candidate)
    if found is None:
        return ""
    side, call = found
    return f" Only {words.ranks(side.ranks)} ever came to {words.site(call.site or '')}."


@once
def only_here(case: Case, candidate: Candidate) -> tuple[Side, Call] | None:
    """The suspects' call of their own, if its line is one to which no other rank ever came.

    None where a log was not read from end to end, or has lost calls.
    """
    own = [
        (side, telling(case, side.ranks[0], call))
        for side, call in called(candidate)
        if stands_at_its_line(call) and call.site and set(side.ranks) <= set(candidate.suspects)
    ]
    if len(own) != 1 or candidate.stream is None or candidate.unknown:
        return None
    side, call = own[0]
    members = case.comparison.streams.get(candidate.stream, ())
    for rank in members:
        log = case.log(rank)
        if log is None or not log.scanned or parting.has_lost(log):
            return None
        if rank in side.ranks:
            continue
        rows, _ = log.rows(candidate.stream)
        stacks = (rows.vocabulary.appearances[n].where for n in set(rows.appearance))
        if any(call.site == chains.site(frame) for frames in stacks for frame in frames):
            return None
    return (side, call) if len(members) > len(side.ranks) else None

"""What decided it: the conditions that one side's call stands under and the others' do not.

From the statements around the lines, recorded or read; said only as it is seen: that a condition
reads a clock does not prove that the clock was the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.parted import around
from collectrace.align.matching import parting
from collectrace.align.reading import code_lines
from collectrace.align.reading.code_lines import Asks
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import stands_at_its_line


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that tells one side's line from the others'."""

    side: Side
    call: Call
    file: str
    line: str
    """``number text`` of its statement."""
    forks: bool
    """Whether another side stands in another branch of the same ``if``."""

    @property
    def asks(self) -> Asks:
        """What it is seen to look at."""
        return code_lines.asks(self.line)

    @property
    def quoted(self) -> str:
        """```if rank == 0:` (train.py:12)``."""
        return f"`{words.brief(code_lines.statement(self.line), _LONGEST)}` ({self.place})"

    @property
    def place(self) -> str:
        """``train.py:12``."""
        return words.site(f"{self.file}:{self.line.partition(' ')[0]}")


_LONGEST: Final = 80

_STRENGTH: Final[tuple[Asks, ...]] = ("rank", "exception", "clock", "random", "data", "")

_SEEN: Final[dict[Asks, str]] = {
    "rank": "which asks for the rank",
    "exception": "so an exception was caught there",
    "clock": "which reads a clock, and clocks differ",
    "random": "which draws a random number",
    "data": "which looks at data",
    "": "",
}

_FIXES: Final[dict[Asks, str]] = {
    "rank": "Take {name} out of {quoted}: make the call on every rank, or on none.",
    "exception": (
        "Issue no collective from an `except` block that not every rank enters: let all ranks "
        "learn of it first (an all_reduce of an error flag behind the `try`), then make the call "
        "on every rank."
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
        "Make the call on every rank or on none: let {quoted} depend on nothing that differs "
        "between ranks."
    ),
}


@once
def conditions(case: Case, candidate: Candidate) -> tuple[Condition, ...]:
    """Per side that made a call of the user's the most telling condition of its own, if any.

    The suspects' come first. The entry guard of a script is none.
    """
    sides = called(candidate)
    above = {side.ranks: _above(case, side) for side, _ in sides}
    found = []
    for side, call in sides:
        if not stands_at_its_line(call):
            continue
        foreign = {one for other, lines in above.items() if other != side.ranks for one in lines}
        own = [(*one, False) for one in above[side.ranks] if one not in foreign]
        own += [(*fork, True) for s, c in sides if s is not side for fork in _fork(call, c)]
        telling = [
            Condition(side, call, *one)
            for one in reversed(own)
            if code_lines.statement(one[1]).startswith(("if ", "elif ", "except", "case "))
            and "__name__" not in one[1]
        ]
        if telling:
            found.append(min(telling, key=lambda one: _STRENGTH.index(one.asks)))
    suspects = set(candidate.suspects)
    return tuple(sorted(found, key=lambda one: not set(one.side.ranks) <= suspects))


def _above(case: Case, side: Side) -> list[tuple[str, str]]:
    """File and ``number text`` of the conditions above a call and its callers, outermost first."""
    frames = [frame.partition(" ")[0] for frame in side.stack or ()]
    found = []
    for site in reversed(list(dict.fromkeys([(side.call and side.call.site) or "", *frames]))):
        lines = case.evidence.sources.get(site) or code_lines.enclosing(site)
        found += [(site.rpartition(":")[0], line) for line in code_lines.branches(lines)]
    return found


def _fork(call: Call, other: Call) -> list[tuple[str, str]]:
    fork = code_lines.parting_if(call.site, other.site)
    return [((call.site or "").rpartition(":")[0], fork)] if fork is not None else []


def sentence(case: Case, candidate: Candidate) -> str:
    """What stands above the calls, in sentences after a space; empty where nothing is known."""
    found = conditions(case, candidate)
    told: list[str] = []
    for one in found:
        who, seen = words.ranks(one.side.ranks), _SEEN[one.asks]
        if one.forks:
            also = f": {seen.replace('which ', 'it ', 1)}" if seen else ""
            told.append(f"{words.upper(one.quoted)} parted them{also}")
            continue
        is_alone = len(found) == 1 and set(one.side.ranks) == set(candidate.suspects)
        under = f"under {one.quoted}{f', {seen}' if seen else ''}"
        if is_alone:
            told.append(f"Only {who} {words.verb(one.side.ranks, 'was', 'were')} {under}")
        else:
            told.append(f"The {words.name(one.call)} of {who} stands {under}")
    text = "".join(f" {one}." for one in dict.fromkeys(told))
    return text + alone(case, candidate) if text else ""


def around_all(case: Case, candidate: Candidate) -> str:
    """The innermost condition around the one line that all sides' calls came from: after a space.

    All ranks stand under it there, but not for the same turn of a loop: it may have let some skip
    a turn. Empty where it does not look at anything that is known to differ between ranks.
    """
    sides = called(candidate)
    if len({call.site for _, call in sides}) != 1:
        return ""
    (side, call) = sides[0]
    for line in reversed(code_lines.branches(around(case, side))):
        one = Condition(side, call, (call.site or "").rpartition(":")[0], line, forks=False)
        if one.asks:
            return f" The line stands under {one.quoted}, {_SEEN[one.asks]}."
    return ""


def fix(case: Case, candidate: Candidate) -> str:
    """What to change about the condition; empty where none is known."""
    found = conditions(case, candidate)
    if not found:
        return ""
    one = found[0]
    if one.forks:
        return (
            f"Every rank of a group must issue the same collectives in the same order: let "
            f"{one.quoted} not decide about them."
        )
    return _FIXES[one.asks].format(name=words.name(one.call), quoted=one.quoted, place=one.place)


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
        (side, call)
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
        if any(rows.vocabulary.appearances[n].site == call.site for n in set(rows.appearance)):
            return None
    return (side, call) if len(members) > len(side.ranks) else None


def left_loop(case: Case, candidate: Candidate) -> tuple[Side, Side, str] | None:
    """Who stands behind a loop, who is still in it, and the loop as ``number text``.

    By the lines alone: whether a loop around both brings the one back is for the caller to ask.
    """
    sides = called(candidate)
    if len(sides) != 2:
        return None
    for (gone, call), (inside, other) in (sides, sides[::-1]):
        first = code_lines.loop_left(call.site, other.site)
        if first is not None:
            lines = [line for line in around(case, inside) if line.startswith(f"{first} ")]
            return gone, inside, (lines or [""])[0]
    return None

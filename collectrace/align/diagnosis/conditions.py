"""Conditions that one side's call stands under and the others' do not.

From the statements around the lines, recorded or read; said only as it is seen: that a condition
reads a clock does not prove that the clock was the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.standpoint import Standpoint, sites, standpoints
from collectrace.align.diagnosis.wording import place_of_line, quoted
from collectrace.align.judging.by_rank import ByRank, by_rank
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.caught import by_handler
from collectrace.align.judging.parted import have_met, parted
from collectrace.align.reading import (
    arms,
    chains,
    code_lines,
    guards,
    rank_only,
    rank_tests,
    statements,
)
from collectrace.align.reading.statements import Asks, Origin
from collectrace.records import Call
from collectrace.signature import stands_at_its_line

MOST_AROUND: Final = 3
"""Conditions around a call that are named, the innermost first."""


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
    is_guard: bool = False
    """Whether that stands behind it: it sends other ranks past."""
    further: tuple[str, ...] = ()
    """Other conditions that it stands under and the others do not, as they are quoted, the
    innermost first: where this one is not seen to differ between ranks, any of them may."""

    matched: str = ""
    """Of a ``case``: the ``match`` that it is in, as ``number text``."""

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
        """```if rank == 0:` (train.py:12)``; of a ``case`` with what is matched."""
        told = quoted(self.file, self.line)
        return f"{told} of {quoted(self.file, self.matched)}" if self.matched else told

    @property
    def head(self) -> str:
        """The same, of the condition alone where the call is in its ``else``."""
        if self.matched:
            return quoted(self.file, self.matched)
        return quoted(self.file, statements.head_of(self.line))

    @property
    def place(self) -> str:
        """``train.py:12``, of the condition."""
        return place_of_line(self.file, self.matched or self.line)


def seen(file: str, origin: Origin) -> str:
    """``which asks for the rank``: what a condition is seen to do; empty: nothing known.

    ``which goes back to `done = time.time() > end` (train.py:12), which reads a clock ...``.
    """
    what = _SEEN[origin.asks]
    return f"which goes back to {quoted(file, origin.line)}, {what}" if origin.line else what


def goes_back(file: str, line: str, origin: Origin) -> str:
    """```if done:` (train.py:12) goes back to ...`` as a sentence; empty: it tells all by itself.

    The condition is given as ``number text``.
    """
    if not origin.line:
        return ""
    return f"{words.upper(quoted(file, line))} {seen(file, origin).removeprefix('which ')}."


_SEEN: Final[dict[Asks, str]] = {
    "rank": "which asks for the rank",
    "exception": "so an exception was caught there",
    "cleanup": "which an exception comes to as well, before anything behind it",
    "clock": "which reads a clock, and clocks differ",
    "random": "which draws a random number",
    "data": "which looks at data",
    "": "",
}


def most_telling(found: Iterable[Condition]) -> Condition | None:
    """Of the first of those by which ranks differ most surely; None: there is none."""
    return min(found, key=lambda one: _STRENGTH.index(one.asks), default=None)


_STRENGTH: Final[tuple[Asks, ...]] = ("rank", "exception", "cleanup", "clock", "random", "data", "")


@once
def of_sides(case: Case, candidate: Candidate) -> tuple[Condition, ...]:
    """Per side that made a call the most telling condition of its own, if any.

    The suspects' come first. None where the sides' lines have met before, as the arms of a
    condition do; nor one of a side whose ranks have come from several lines.
    """
    if have_met(case, candidate):
        return ()
    guard = guard_on_rank(case, candidate)
    points = standpoints(candidate)
    met = arms_that_met(case, candidate)
    handled = by_handler(case, candidate)
    found = between(
        case, points, candidate.suspects,
        guard=guard, met=met, handled=handled,
        entered=_entered_by_all(case, candidate, points),
    )  # fmt: skip
    return tuple(one for one in found if _is_of_all(case, candidate, one))


_Line = tuple[str, str]
"""A file, and ``number text`` of a condition in it."""

Arms = frozenset[tuple[str, str]]
"""Pairs of lines, ``path:line``, of two sides."""


@once
def arms_that_met(case: Case, candidate: Candidate) -> Arms:
    """The outermost lines by which the sides were apart while they still met as ever.

    A leader has its part of the program, and so have those who follow, whose lines it never comes
    to: what sent them there has parted them from the first call on, and not at a candidate's.
    """
    ranks = [side.ranks[0] for side in candidate.sides if side.call is not None]
    if len(ranks) < 2 or candidate.seq is None:
        return frozenset()
    since = parted(case, candidate)
    until = min(candidate.seq, since.seq) if since is not None else candidate.seq
    rows = zip(*(case.before(r, candidate.stream, until) for r in ranks), strict=False)
    found, visited = set[tuple[str, str]](), {rank: set[str]() for rank in ranks}
    for row in rows:
        known = [(r, c, case.stack(r, c)) for r, c in zip(ranks, row, strict=True) if c is not None]
        for rank, call, stack in known:
            visited[rank] |= {call.site or "", *map(chains.site, stack)}
        for (_, call, stack), (_, theirs, other) in permutations(known, 2):
            mine, there = chains.outermost_apart(stack, other)
            found.add((call.site or "", theirs.site or ""))
            found.add((chains.site(mine), chains.site(there)))
    common = set.union(*(one & other for one, other in combinations(visited.values(), 2)), {""})
    return frozenset(pair for pair in found if not common & set(pair))


def _entered_by_all(
    case: Case, candidate: Candidate, points: Sequence[Standpoint]
) -> list[frozenset[_Line]]:
    """For each of the sides the conditions that all ranks were under in the row before.

    Where it has gone on in them: in one visit to the function, by the order of its lines. There the
    sides parted further in.
    """
    calls = [case.last_before(p.ranks[0], candidate.stream, candidate.seq) for p in points]
    stacks = {
        case.stack(p.ranks[0], call)
        for p, call in zip(points, calls, strict=True)
        if call is not None
    }
    if None in calls or len(stacks) != 1:
        return [frozenset() for _ in points]
    (before,) = stacks
    return [_gone_on_in(case, point, before) for point in points]


def _gone_on_in(case: Case, point: Standpoint, before: Sequence[str]) -> frozenset[_Line]:
    """The conditions around both a call and, in the same visit to them, the one before."""
    common = chains.shared(point.stack, before)
    if common >= min(len(point.stack), len(before)):
        return frozenset()
    here, last = point.stack[-1 - common], before[-1 - common]
    if chains.scope(here) != chains.scope(last) or chains.line(here) <= chains.line(last):
        return frozenset()
    around = [_around(case, frame) for frame in (here, last)]
    outside = (_around(case, frame) for frame in before[len(before) - common :])
    further = (_around(case, frame) for frame in point.stack[: -1 - common])
    # A function that calls itself comes under a condition of its own once more.
    anew = frozenset().union(around[0] - around[1], *further)
    return frozenset().union(around[0] & around[1], *outside) - anew


def _around(case: Case, frame: str) -> frozenset[_Line]:
    lines = statements.branches(case.statements(chains.site(frame)))
    return frozenset((chains.file(frame), line) for line in lines)


def guard_on_rank(case: Case, candidate: Candidate) -> ByRank | None:
    """The guard on the rank that some ranks alone are, and ever were, behind; None: there is none.

    Not where others are to blame: that it led those past the call is told with the ways past it.
    """
    found = by_rank(case, candidate)
    if found is None or not found.guarded:
        return None
    return found if set(candidate.suspects) <= set(found.ranks) else None


def _is_of_all(case: Case, candidate: Candidate, one: Condition) -> bool:
    """Whether all ranks of a condition's side are under it: a side is one by what it called."""
    if candidate.stream is None or candidate.seq is None or one.forks or one.is_guard:
        return True
    for rank in one.ranks[1:]:
        call = case.call(rank, candidate.stream, candidate.seq)
        frames = case.stack(rank, call) if call is not None else ()
        sites = [chains.site(frame) for frame in frames] or [call.site or "" if call else ""]
        if not any(one.line in case.statements(site) for site in sites):
            return False
    return True


def between(
    case: Case,
    points: Sequence[Standpoint],
    suspects: Collection[int],
    *,
    by_line: bool = False,
    guard: ByRank | None = None,
    met: Arms = frozenset(),
    handled: Collection[int] = (),
    entered: Sequence[Collection[_Line]] = (),
) -> list[Condition]:
    """For each of these the most telling condition that it stands under and the others do not.

    The suspects' come first; ``guard`` counts as one around the call; lines that ``met`` are in no
    branches that parted anybody, nor do those tell that its like had ``entered`` with it; of who
    ``handled`` an exception the handler tells. What a framework shadows stands where another call
    has brought it.
    """
    above = [_above(case, point) for point in points]
    arms = {mine for mine, _ in met}
    found = []
    for n, point in enumerate(points):
        if not by_line and not stands_at_its_line(point.call):
            continue
        foreign = {one[:2] for m, lines in enumerate(above) if m != n for one in lines}
        foreign.update(entered[n] if entered else ())
        own = [(*one, False) for one in above[n] if one[:2] not in foreign and one[2] not in arms]
        for m, other in enumerate(points):
            own += [(*fork, True) for fork in _fork(case, point, other, met) if m != n]
        around = [
            _condition(case, point.ranks, point.call, site, line, forks=forks)
            for _, line, site, forks in reversed(own)
            if tells(line) and (forks or not _is_made_anyway(case, points, point, site, line))
        ]
        if set(point.ranks) <= set(handled):
            around = [one for one in around if one.asks == "exception"] or around
        one = most_telling(around)
        if one is not None and one.asks in ("data", "") and not one.forks:
            rest = [other.quoted for other in around if other.quoted != one.quoted]
            one = replace(one, further=tuple(dict.fromkeys(rest))[: MOST_AROUND - 1])
        if guard is not None and guard.ranks == point.ranks and (one is None or one.asks != "rank"):
            behind, line = guard.guarded, guard.line[1]
            one = _condition(case, guard.ranks, point.call, behind, line, is_guard=True)
        found += [one] if one is not None else []
    return sorted(found, key=lambda one: not set(one.ranks) <= set(suspects))


def _is_made_anyway(
    case: Case, points: Sequence[Standpoint], point: Standpoint, site: str, line: str
) -> bool:
    """Whether a condition leads to the call in either way, and the others made another one."""
    mine = words.name(point.call)
    if any(words.name(one.call) == mine for one in points if one is not point):
        return False
    names = guards.names_called(" ".join(case.statements(site)[-1:]))
    callee = _callee(point.stack, site)
    names = {callee} if callee in names else names
    return bool(names) and code_lines.is_called_either_way(case.code, site, line, names)


def _callee(stack: Sequence[str], site: str) -> str:
    """The name of the function that a line of a stack called; empty: it is not known."""
    frames = [chains.site(frame) for frame in stack]
    depth = frames.index(site) if site in frames else 0
    return chains.scope(stack[depth - 1])[1].rpartition(".")[2] if depth else ""


def _condition(
    case: Case,
    ranks: Sequence[int],
    call: Call,
    site: str,
    line: str,
    *,
    forks: bool = False,
    is_guard: bool = False,
) -> Condition:
    file = site.rpartition(":")[0]
    is_another = not forks and case.keeps_out(site, line, ranks, is_guard=is_guard)
    origin = Origin() if is_another else case.origin(site, line)
    return Condition(
        tuple(ranks), call, file, line, forks, origin, site, is_guard,
        matched=statements.match_of(case.statements(site), line),
    )  # fmt: skip


def tells(line: str) -> bool:
    """Whether it is a condition by which ranks may differ: the entry guard of a script is none."""
    text = statements.code_of(line)
    if rank_only.is_one(text):
        return True
    return text.startswith(_TELLING) and "__name__" not in text


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


def _fork(
    case: Case, point: Standpoint, other: Standpoint, met: Arms
) -> list[tuple[str, str, str]]:
    """The ``if`` of which two stand in different branches, in the outermost frames that differ.

    As :func:`_above` has it.
    """
    pairs = [(point.call.site, other.call.site)]
    mine, theirs = chains.outermost_apart(point.stack, other.stack)
    if mine and theirs:
        pairs.append((chains.site(mine), chains.site(theirs)))
    for site, there in pairs:
        if (site, there) in met:
            continue
        fork = code_lines.parting_if(case.code, site, there)
        if fork is not None:
            return [((site or "").rpartition(":")[0], fork, site or "")]
    return []


def own(
    case: Case, point: Standpoint, other: Standpoint, *, is_new: bool = False
) -> Condition | None:
    """The most telling condition that one call stands under and another does not.

    None of those that are the same for a rank in every round, unless it ``is_new``: nobody had come
    there in a round before.
    """
    foreign = {one[:2] for one in _above(case, other)}
    return most_telling(
        _condition(case, point.ranks, point.call, site, line)
        for file, line, site in reversed(_above(case, point))
        if (file, line) not in foreign and tells(line)
        if is_new or not rank_tests.asks_alone(case.spelled_out(site, line))
    )


def innermost(case: Case, rank: int, call: Call) -> Condition | None:
    """The innermost condition around a rank's call, in the function that made it."""
    for site in map(chains.site, case.stack(rank, call)[:1]):
        for line in reversed(statements.branches(statements.own(case.statements(site)))):
            if tells(line):
                return _condition(case, (rank,), call, site, line)
    return None


def within_loop(
    case: Case, ranks: Sequence[int], call: Call, stack: Sequence[str]
) -> list[Condition]:
    """The conditions around a call within the outermost loop of its stack, innermost first."""
    found: list[Condition] = []
    within: list[Condition] = []
    for frame in stack:
        site = chains.site(frame)
        lines = statements.own(case.statements(site))
        loops = statements.loops(lines)
        for line in reversed(lines[:-1]):
            if tells(line):
                within.append(_condition(case, ranks, call, site, line))
            if loops and line == loops[0]:
                found = list(within)
    return found

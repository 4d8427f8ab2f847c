"""What else stands on the way to the calls that part the ranks, where no finding tells of it.

A finding tells of what is known to have decided, or is likeliest to have. Where that is not proven,
whoever reads it has to know what else could have: conditions, jumps past the call, and, if nothing
else is told at all, loops of no fixed length.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis import conditions, decided, loop_lines, program, ways_past
from collectrace.align.diagnosis.callers import at_its_line, closed
from collectrace.align.diagnosis.standpoint import Standpoint, of_call, of_parting, standpoints
from collectrace.align.diagnosis.wording import Wording, place_of_line, quoted
from collectrace.align.judging import intervals
from collectrace.align.judging.blame import failed_by_itself
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.caught import caught
from collectrace.align.judging.own_round import left_own_round
from collectrace.align.judging.parted import parted
from collectrace.align.judging.program import deviation
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading import chains, rank_tests, statements
from collectrace.align.reading.evidence import ChannelKey, StreamKey

_MOST: Final = 4
"""Statements that are named, the innermost first."""


class _Step(NamedTuple):
    """A statement on the way to a call."""

    place: str
    """``train.py:12``."""
    told: str
    point: Standpoint
    is_choice: bool = False
    """Whether the ranks can decide about it together: no handler, no loop, nothing of the rank."""


class _Way(NamedTuple):
    """A call to which not all ranks came."""

    point: Standpoint
    rivals: Sequence[Standpoint]
    """What others came to instead."""


def added(case: Case, candidate: Candidate, told: Wording) -> Wording:
    """What is told of a candidate, with a note of it and what to change there.

    As it was where what decided is known, or nothing else is seen.
    """
    if candidate.cause is not None or candidate.severity == "info":
        return told
    if candidate.kind == "p2p_mismatch" or _is_decided(case, candidate, told):
        return told
    text = f"{told.headline} {told.cause} {' '.join(told.notes)}"
    ways = list(_ways(case, candidate))
    found = [step for way in ways for step in _steps(case, way)]
    if not any(words.names_site(text, step.place) for step in found):
        found += [step for way in ways for step in _loops(case, way)]
    rest = dict[str, _Step]()
    for step in found:
        if not words.names_site(text, step.place):
            rest.setdefault(step.place, step)
    by_point = dict[int, list[_Step]]()
    for step in islice(rest.values(), _MOST):
        by_point.setdefault(id(step.point), []).append(step)
    if not by_point:
        return told
    seen = "; ".join(_on_the_way(case, steps) for steps in by_point.values())
    note = f"{words.upper(seen)}. Whether all ranks took one way there, the logs do not show."
    choices = [step.place for steps in by_point.values() for step in steps if step.is_choice]
    fix = told.fix
    if choices and _TOGETHER not in fix:
        fix += (
            f"\nIf the ranks parted at {' or '.join(choices)}: {_TOGETHER} there (an all_reduce of "
            "the flag, MIN or MAX), and let every rank take the same way."
        )
    return Wording(told.headline, told.cause, fix, (*told.notes, note))


_TOGETHER: Final = "let all ranks decide together"


def _on_the_way(case: Case, steps: Sequence[_Step]) -> str:
    """``on the way to barrier at train.py:20 (rank 0) stands `if is_new:` (train.py:12)``."""
    point = steps[0].point
    call = closed(f"{words.name(point.call)}{at_its_line(case, point.ranks[0], point.call)}")
    stand = words.verb(steps, "stands", "stand")
    return (
        f"on the way to {call} ({words.ranks(point.ranks)}) {stand} "
        f"{words.listed([step.told for step in steps])}"
    )


def _is_decided(case: Case, candidate: Candidate, told: Wording) -> bool:
    """Whether what is told is known to have decided."""
    absent = [case.standings[rank] for rank in candidate.absent]
    if any(failed_by_itself(one) or one.state in _ELSEWHERE for one in absent):
        return True
    if caught(case, candidate) is not None:
        return True
    known = decided.of_suspects(case, candidate)
    if known is not None and known.quoted in told.cause:
        return True
    return any(known_by in told.cause for known_by in _DECIDED)


_ELSEWHERE: Final = ("busy", "silent", "running", "missing")
"""States in which it is no branch that keeps a rank from a call."""

_DECIDED: Final = ("In the source only ", "join()", "Uneven inputs")
"""Words by which a cause tells what is proven, or counted."""


def _ways(case: Case, candidate: Candidate) -> Iterator[_Way]:
    left = deviation(case, candidate)
    if left is not None and left.what in ("missing", "extra"):
        point, other = program.points(case, left)
        yield _Way(point, [other] if other is not None else [])
    for edge in candidate.cycle:
        own = left_own_round(case, edge.waiting.rank)
        if own is not None and not own.is_turn:
            yield _Way(of_call(case, own.rank, own.usual), [of_call(case, own.rank, own.made)])
    since = parted(case, candidate)
    points = standpoints(candidate)
    if since is not None and since.seq < (candidate.seq or 0):
        points = of_parting(case, candidate, since)
    for point in points:
        yield _Way(point, [other for other in points if other is not point])
    if isinstance(candidate.source, ChannelIssue):
        yield from _ends(case, candidate.source.channel, points)


def _ends(case: Case, channel: ChannelKey, points: Sequence[Standpoint]) -> Iterator[_Way]:
    """The last message of a channel at the end that is at none: what may have ended them there."""
    for rank in (channel.source, channel.destination):
        log = case.log(rank)
        if log is None or any(rank in point.ranks for point in points):
            continue
        call = log.channel_call(channel, log.last_channel_seq.get(channel, 0))
        if call is not None:
            yield _Way(of_call(case, rank, call), [])


def _steps(case: Case, way: _Way) -> Iterator[_Step]:
    """Conditions and jumps, innermost first."""
    point, rivals = way
    shared = {
        line for one in rivals if one.stack != point.stack for _, line in case.branches(one.stack)
    }
    was_here = _came_before(case, point)
    others = [rank for one in rivals for rank in one.ranks]
    for frame in _apart(case, way):
        site, file = chains.site(frame), chains.file(frame)
        around = [line for _, (_, line) in case.branches((frame,))]
        for line in reversed(around):
            if (file, line) in shared or not conditions.tells(line):
                continue
            if intervals.is_by_turns(case, site, line):
                continue
            of_rank = rank_tests.asks_alone(case.spelled_out(site, line))
            if was_here and of_rank:
                continue
            is_choice = not of_rank and _is_choice(case, site, line)
            yield _Step(place_of_line(file, line), quoted(file, line), point, is_choice)
        for past in ways_past.open_to(case, ways_past.of_frame(case, frame), others):
            if not intervals.is_by_turns(case, past.site, past.line):
                is_choice = not past.is_handler and _is_choice(case, past.site, past.line)
                place = place_of_line(past.file, past.line)
                yield _Step(place, past.told.rstrip(","), point, is_choice)


def _is_choice(case: Case, site: str, line: str) -> bool:
    """Whether ranks may decide otherwise about a condition, each by what it has itself.

    Not where it asks only for what a turn of the loop is about: that is told by their order.
    """
    if case.origin(site, line).asks in ("rank", "exception", "cleanup"):
        return False
    text = _STRING.sub("", statements.code_of(statements.head_of(line)))
    asked = {name for name in statements.names(text) if not keyword.iskeyword(name)}
    items = [statements.turn_names(one) for one in statements.loops(case.statements(site))]
    return not asked or not asked <= frozenset().union(*items)


_STRING: Final = re.compile(r"\"[^\"]*\"|'[^']*'")


def _loops(case: Case, way: _Way) -> Iterator[_Step]:
    """Loops of no fixed length that the others are not in, innermost first."""
    shared = {loop for one in way.rivals for loop in case.loops(one.stack)}
    for loop in loop_lines.of_unlike_length(case, _apart(case, way)):
        if (loop.file, loop.line) not in shared:
            yield _Step(place_of_line(loop.file, loop.line), loop.quoted, way.point)


def _apart(case: Case, way: _Way) -> Sequence[str]:
    """The frames above a call that no rival is in as well, innermost first.

    Where one is in all of them, it may be at another turn of the innermost loop: those within.
    """
    stack = way.point.stack
    common = max((chains.shared(stack, one.stack) for one in way.rivals), default=0)
    if common < len(stack):
        return stack[: len(stack) - common]
    within = next((n for n, frame in enumerate(stack) if case.loops((frame,))), len(stack))
    return stack[: within + 1]


def _came_before(case: Case, point: Standpoint) -> bool:
    """Whether a rank had come by the same line before; always of a message: its part goes by rank.

    Then it is not its rank that brought it there this time.
    """
    rank, call = point.ranks[0], point.call
    if call.peer is not None:
        return True
    before = case.before(rank, StreamKey(call.group, call.device), call.seq)
    return any(one is not None and case.stack(rank, one) == point.stack for one in before)

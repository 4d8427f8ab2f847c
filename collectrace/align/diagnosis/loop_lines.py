"""Loops that one side is in and another is not, by the lines of the program."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.diagnosis.wording import (
    EVEN_BATCHES,
    ONE_LENGTH,
    called,
    loads_data,
    quoted,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.reading import chains, code_lines, statements
from collectrace.align.reading.code_files import CodeFiles
from collectrace.records import Call


@dataclass(frozen=True, slots=True)
class LoopLine:
    """A loop that a frame of a stack is in."""

    frame: str
    """``path:line function`` of the frame."""
    line: str
    """``number text`` of the loop's first line."""
    code: CodeFiles = field(compare=False, repr=False)
    """The files of the run."""

    @property
    def file(self) -> str:
        """Of the frame."""
        return chains.file(self.frame)

    @property
    def site(self) -> str:
        """``path:line`` of the loop's first line."""
        return f"{self.file}:{self.line.partition(' ')[0]}"

    @property
    def quoted(self) -> str:
        """```for x in y:` (train.py:12)``."""
        return quoted(self.file, self.line)

    @property
    def is_counted(self) -> bool:
        """Whether it goes by a count or a condition, and not over data."""
        return bool(_COUNTED.search(self.line)) and "len(" not in self.line

    @property
    def is_over_things(self) -> bool:
        """Whether it is a ``for`` over something else than a ``range``."""
        text = statements.code_of(self.line)
        return text.startswith("for ") and " range(" not in text

    @property
    def names(self) -> frozenset[str]:
        """Those that each turn gives another value to."""
        return statements.turn_names(statements.code_of(self.line))

    @property
    def is_over_model(self) -> bool:
        """Whether it goes over what a model consists of, which is as much on every rank."""
        return _OF_MODEL.search(self.line) is not None

    @property
    def turns(self) -> int:
        """How often it goes by the numbers written there; 0: not known, or there is a way out.

        Nor is it known if the text of its file is not.
        """
        found = _NUMBERED.search(self.line)
        known = code_lines.of_site(self.code, self.site)
        if found is None or known is None or known.text not in self.line or self.way_out:
            return 0
        return len(range(*(int(n) for n in found[1].split(","))))

    @property
    def way_out(self) -> str:
        """``train.py:14``: the first line that can end it before its end; empty: none is seen."""
        found = code_lines.way_out(self.code, self.file, statements.number_of(self.line))
        return "" if found is None else words.site(f"{self.file}:{found}")

    @property
    def left_by(self) -> str:
        """```if done:` (train.py:13)``: the condition before that line; empty: none is seen."""
        found = code_lines.way_out(self.code, self.file, statements.number_of(self.line))
        around = self.code.at(f"{self.file}:{found}").statements if found is not None else []
        inside = around[around.index(self.line) + 1 :] if self.line in around else []
        conditions = statements.branches(inside)
        return quoted(self.file, conditions[-1]) if conditions else ""


_COUNTED: Final = re.compile(r"\bin (t?range|(itertools\.)?count)\(|^\d+ \s*while\b")


_NUMBERED: Final = re.compile(r"\bin range\(([0-9]{1,9}(?:, ?[0-9]{1,9})?)\) ?:")

_OF_MODEL: Final = re.compile(r"\b(named_)?(parameters|buffers|modules|children)\(")


def is_fixed(case: Case, loop: LoopLine) -> bool:
    """Whether a loop has one length for good, and nothing is seen to lead out of it."""
    if statements.code_of(loop.line).startswith("while ") or loop.way_out:
        return False
    return statements.is_of_fixed_length(loop.line, case.bindings(loop.site).numbers)


def can_end(loop: LoopLine) -> str:
    """What can end a loop before its end, a sentence after a space, or nothing."""
    return f" {words.upper(loop.left_by)} leads out of it." if loop.left_by else ""


def may_differ(case: Case, loop: LoopLine) -> bool:
    """Whether a loop may well have another number of turns on another rank."""
    return not loop.is_over_model and not is_fixed(case, loop)


MOST: Final = 2
"""Loops around a call that are named; of more it is not known which."""


def of_unlike_length(case: Case, stack: Sequence[str]) -> list[LoopLine]:
    """The loops around a call that may have another number of turns on another rank."""
    return [one for one in loops_around(case, stack) if may_differ(case, one)]


def longer_there(case: Case, stack: Sequence[str]) -> list[LoopLine]:
    """The same, where they are few enough to be named; else none."""
    around = of_unlike_length(case, stack)
    return around if len(around) <= MOST else []


def even_length(case: Case, loop: LoopLine | None = None) -> str:
    """What makes a loop equally long on every rank; by what is seen of it."""
    is_loaded = loads_data(case)
    if is_loaded and not _are_alike(case):
        return EVEN_BATCHES
    if loop is not None and loop.way_out:
        return (
            f"Let all ranks leave the loop together: what ends it at {loop.way_out} must be "
            "decided by all of them (an all_reduce of the flag in each round); and give every "
            "rank the same number of batches."
        )
    if is_loaded:
        return ONE_LENGTH
    return (
        "Give every rank the same number of batches: cut or pad its data to one length (a "
        "DataLoader does it by DistributedSampler and drop_last=True)."
    )


def _are_alike(case: Case) -> bool:
    """Whether each DataLoader is known to have had as many batches on every rank, in each pass."""
    lengths = defaultdict[int, list[int | None]](list)
    for log in case.evidence.logs.values():
        for one in log.batches:
            if one.end:
                lengths[one.loader].append(one.batch)
            elif one.batch == 1:
                lengths[one.loader].append(one.length)
    return bool(lengths) and all(
        len({*of_one}) == 1 and None not in of_one for of_one in lengths.values()
    )


def as_long(case: Case, loop: LoopLine | None) -> str:
    """The same, of a loop that may go by a count, where no DataLoader was seen."""
    if loop is not None and loop.is_counted and not loads_data(case):
        return equally_often(loop)
    return even_length(case, loop)


def equally_often(loop: LoopLine) -> str:
    """What makes a loop that goes by a count or a condition equally long on every rank."""
    out = f", such as at {loop.way_out}" if loop.way_out else ""
    return (
        f"Let the loop {loop.quoted} go equally often on every rank: let its bounds be the same, "
        f"and let all ranks decide together where one could leave it{out} (one rank decides and "
        "broadcasts it, or an all_reduce of the flag in each round)."
    )


def even_at(case: Case, candidate: Candidate) -> str:
    """What makes the loop that one side has left equally long, by what is seen of it."""
    seen = left(case, candidate)
    return even_length(case, seen.loop if seen is not None else None)


def loop_of_one(case: Case, inside: Standpoint, gone: Standpoint) -> LoopLine | None:
    """The outermost loop that one stack is in, from where it parts from the other, and not both."""
    apart = inside.stack[: len(inside.stack) - chains.shared(inside.stack, gone.stack)]
    around = set(case.loops(gone.stack))
    for frame in reversed(apart):
        for file, line in case.loops((frame,)):
            if (file, line) not in around:
                return LoopLine(frame, line, case.code)
    return None


def inside(case: Case, frame: str, loop: LoopLine) -> list[str] | None:
    """The statements around a frame's line within a loop, itself last; None: it is not in that."""
    own = list(statements.own(case.statements(chains.site(frame))))
    if chains.file(frame) != loop.file or loop.line not in own:
        return None
    return own[own.index(loop.line) + 1 :]


def frame_in(stack: Sequence[str], loop: LoopLine) -> str:
    """The frame of a stack that is in a loop, where that is none of the call itself; or nothing."""
    function = chains.scope(loop.frame)
    return next((frame for frame in stack[1:] if chains.scope(frame) == function), "")


def loops_around(case: Case, stack: Sequence[str]) -> Iterator[LoopLine]:
    """The loops around a stack, innermost first."""
    for frame in stack:
        for line in reversed(statements.loops(case.statements(chains.site(frame)))):
            yield LoopLine(frame, line, case.code)


def innermost_loop(case: Case, stack: Sequence[str]) -> LoopLine | None:
    """The innermost loop around a stack."""
    return next(loops_around(case, stack), None)


def outermost_loop(case: Case, stack: Sequence[str]) -> tuple[int, int] | None:
    """Which frame of a stack the outermost loop around its call is in, and its line there."""
    for n, frame in reversed(list(enumerate(stack))):
        lines = statements.loops(case.statements(chains.site(frame)))
        if lines:
            return n, statements.number_of(lines[0])
    return None


def told_out_of(loop: LoopLine, gone: Sequence[int], inside: Sequence[int]) -> str:
    """``Rank 2 is out of the loop `for x in xs:` (train.py:9), which ranks 0-1 are in``."""
    is_out, are_in = words.verb(gone, "is", "are"), words.verb(inside, "is", "are")
    return (
        f"{words.upper(words.ranks(gone))} {is_out} out of the loop {loop.quoted}, which "
        f"{words.ranks(inside)} {are_in} in"
    )


def stands_in(loop: LoopLine, told: str) -> str:
    """``It stands in `for x in xs:` (train.py:9), by way of train.py:10``.

    ``told``: how the call is named before; where that has the line in the loop it is left out.
    """
    site = chains.site(loop.frame)
    by_way = "" if words.names_site(told, site) else f", by way of {words.site(site)}"
    return f"It stands in {loop.quoted}{by_way}"


def is_in(case: Case, stack: Sequence[str], loop: LoopLine) -> bool:
    """Whether a call with such a stack was made from inside a loop."""
    return (loop.file, loop.line) in case.loops(stack)


def has_own_order(line: str) -> bool:
    """Whether a loop, given as ``number text``, goes over what has one order on every rank.

    What is sorted by a key may be so by what only the rank has.
    """
    text = statements.code_of(line)
    if " in range(" in text:
        return True
    return _ORDERED.search(text) is not None and " else " not in text and "key=" not in text


_ORDERED: Final = re.compile(
    rf"\b(sorted|range)\(|{_OF_MODEL.pattern}|\b\w*([Ll]oader|batches)\b"
    r"|\bin (enumerate\()?[(\[][^)\]]*[)\]]\)?:"
)


def come_out_of(
    case: Case, inside: Standpoint, gone: Standpoint, before: Call | None
) -> LoopLine | None:
    """The outermost loop that one is in and the other is not, who was in it by its call before."""
    loop = loop_of_one(case, inside, gone)
    if loop is None or before is None:
        return None
    return loop if is_in(case, case.stack(gone.ranks[0], before), loop) else None


class Left(NamedTuple):
    """Who is out of a loop that others are in."""

    gone: Standpoint
    inside: Standpoint
    loop: LoopLine


@once
def left(case: Case, candidate: Candidate) -> Left | None:
    """Who has left a loop, perhaps in a function, that the other side is in; None: not seen.

    By the stacks, and the calls before: the lines alone do not tell who has left a loop and who has
    not yet come to it. Those who left have made calls in it, and not the one that they are at; and
    the others have not begun it anew.
    """
    points = standpoints(candidate)
    if len(points) != 2 or entered(case, candidate) is not None:
        return None
    for gone, inside in (points, points[::-1]):
        loop = loop_of_one(case, inside, gone)
        if loop is None:
            continue
        rank = gone.ranks[0]
        before = case.before(rank, candidate.stream, candidate.seq)
        stacks = [case.stack(rank, call) for call in before if call is not None]
        was_in = any(is_in(case, stack, loop) for stack in stacks)
        if was_in and tuple(gone.stack) not in stacks:
            return Left(gone, inside, loop)
    return None


@once
def entered(case: Case, candidate: Candidate) -> Left | None:
    """Who has come to a loop anew, by their call before out of it; None: not seen.

    Both sides were out of it then: it did not end earlier on the one that still is.
    """
    points = standpoints(candidate)
    if len(points) != 2 or candidate.stream is None or candidate.seq is None:
        return None
    for gone, inside in (points, points[::-1]):
        loop = loop_of_one(case, inside, gone)
        if loop is None:
            continue
        stacks = [_stacks_before(case, candidate, point) for point in (inside, gone)]
        if not all(stacks) or any(is_in(case, before[-1], loop) for before in stacks):
            continue
        if any(is_in(case, stack, loop) for stack in stacks[0]):
            return Left(gone, inside, loop)
    return None


def _stacks_before(case: Case, candidate: Candidate, point: Standpoint) -> list[tuple[str, ...]]:
    """The stacks above a rank's calls before a row; none where the latest is not known."""
    calls = case.before(point.ranks[0], candidate.stream, candidate.seq)
    stacks = [case.stack(point.ranks[0], call) if call is not None else () for call in calls]
    return stacks if stacks and stacks[-1] else []


def without_order(case: Case, stack: Sequence[str]) -> LoopLine | None:
    """The innermost loop around a stack, if it goes over what may have another order on a rank.

    Or comprehension.
    """
    for frame in stack:
        around = case.loops((frame,))
        if around:
            _, line = around[-1]
            goes = statements.turn_names(statements.code_of(line))
            is_ordered = not goes or " range(" in line or has_own_order(line)
            return None if is_ordered else LoopLine(frame, line, case.code)
    return None


def around_both(case: Case, gone: Sequence[str], inside: Sequence[str]) -> LoopLine | None:
    """The innermost loop around two stacks, in the function where they part or further out."""
    common = chains.shared(gone, inside)
    here, there = chains.outermost_apart(gone, inside)
    if here and chains.scope(here) == chains.scope(there):
        mine, theirs = (statements.loops(case.statements(chains.site(f))) for f in (here, there))
        both = [line for line in mine if line in theirs]
        if both:
            return LoopLine(here, both[-1], case.code)
    return innermost_loop(case, gone[len(gone) - common :])


def is_behind(case: Case, candidate: Candidate) -> bool:
    """Whether one of two sides stands behind a loop that the other is in, by the lines alone.

    Whether a loop around both brings the one back is for the caller to ask.
    """
    sites = [call.site for _, call in called(candidate)]
    return len(sites) == 2 and any(
        code_lines.loop_before(case.code, *p) for p in (sites, sites[::-1])
    )

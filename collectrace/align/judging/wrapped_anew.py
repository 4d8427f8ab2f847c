"""A model that some ranks alone wrap anew, in a loop in which the others went on with training.

Training is a loop over batches within that over epochs. That the others are in the inner loop does
not say that it was longer there, where all were behind it in the row before: they began it anew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from collectrace.align.judging import intervals, sisters
from collectrace.align.judging.by_rank import is_met_elsewhere
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.one_loop import part_in_loop
from collectrace.align.judging.rounds import are_of_one_mind, frames_before
from collectrace.align.matching import parting
from collectrace.align.reading import chains, code_lines, rank_tests, statements
from collectrace.align.reading.bindings import assignments
from collectrace.findings import Side
from collectrace.records import Call


def wrapped_anew(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that are in a wrapper's constructor, where no rank ever was.

    None where they may come there at intervals, or in a branch of which the others took another;
    nor where something was not recorded, or the others may have left out a line of their own. Nor
    where a function of what each rank has gathered decides: that of the others may be wrong.
    """
    sides = [side for side in candidate.sides if side.call is not None]
    making = [side for side in sides if side.call is not None and _constructs(side.call)]
    if len(sides) != 2 or len(making) != 1 or candidate.absent or candidate.unknown:
        return ()
    mine, others = making[0], sides[0] if making[0] is sides[1] else sides[1]
    here, there = (side.stack or () for side in (mine, others))
    if mine.call is None or sisters.voted(case, candidate, mine.call):
        return ()
    if not are_of_one_mind(case, candidate) or is_met_elsewhere(case, candidate):
        return ()
    if not _goes_on(case, candidate, mine, others) or _was_there(case, candidate, here, there):
        return ()
    if intervals.decides(case, here, there) or _is_by_what_was_gathered(case, here, there):
        return ()
    return tuple(sorted(mine.ranks))


def _constructs(call: Call) -> bool:
    return call.role.endswith(".construct")


def _goes_on(case: Case, candidate: Candidate, mine: Side, others: Side) -> bool:
    """Whether the others went on in the loop in which all were, behind what is within it."""
    stream, seq = candidate.stream, candidate.seq
    here, there = mine.stack or (), others.stack or ()
    if stream is None or seq is None or not part_in_loop(case, here, there):
        return False
    own, theirs = (chains.site(frame) for frame in chains.outermost_apart(here, there))
    if code_lines.parting_if(case.code, own, theirs) is not None:
        return False
    before = [case.call(side.ranks[0], stream, seq - 1) for side in (mine, others)]
    last, met = (
        case.stack(side.ranks[0], call) if call is not None else ()
        for side, call in zip((mine, others), before, strict=True)
    )
    common = chains.shared(here, there)
    if (
        last != met
        or len(last) <= common
        or tuple(last[len(last) - common :]) != tuple(here[len(here) - common :])
    ):
        return False
    at = chains.site(last[-1 - common])
    loop = statements.innermost_loop(case.statements(theirs))
    return at != theirs and loop in case.statements(at)[:-1]


def _was_there(case: Case, candidate: Candidate, here: Sequence[str], there: Sequence[str]) -> bool:
    """Whether a rank was ever at the line before by which the two parted, or that is not known."""
    line, _ = chains.outermost_apart(here, there)
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None:
        return True
    for rank in case.comparison.streams.get(stream, ()):
        log = case.log(rank)
        if log is None or not log.scanned or parting.has_lost(log):
            return True
        if line in frames_before(case, rank, stream, seq):
            return True
    return False


def _is_by_what_was_gathered(case: Case, here: Sequence[str], there: Sequence[str]) -> bool:
    """Whether a condition that only one side is under may look at all of a history.

    It calls a function, or takes something out of a list, and does not ask for the rank.
    """
    apart = here[: len(here) - chains.shared(here, there)]
    lines = (
        (chains.site(frame), statements.head_of(line))
        for frame in apart
        for line in (
            *statements.branches(case.statements(chains.site(frame))),
            *intervals.ways_before(case, frame),
        )
    )
    return any(
        statements.asks(case.spelled_out(site, head)) != "rank" and _takes_out(case, site, head)
        for site, head in lines
    )


def _takes_out(case: Case, site: str, head: str) -> bool:
    """Whether a test, or what a flag in it goes back to, calls or takes out something.

    So, too, one that cannot be read.
    """
    test = rank_tests.parsed(statements.code_of(head))
    if test is None:
        return True
    flags = {ast.unparse(part) for part in _flags(test)}
    number = str(statements.number_of(head))
    given = (one.partition(" ") for one in case.assigned(site))
    values = [
        value
        for known, _, line in given
        if known == number
        for name, value in assignments(statements.code_of(line))
        if name in flags
    ]
    return any(
        isinstance(node, ast.Call | ast.Subscript)
        for one in (test, *values)
        for node in ast.walk(one)
    )


def _flags(test: ast.expr) -> Iterator[ast.expr]:
    """The names of which a test asks no more than whether they are true."""
    match test:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _flags(part)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from _flags(inner)
        case ast.Name() | ast.Attribute():
            yield test
        case _:
            pass

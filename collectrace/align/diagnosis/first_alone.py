"""A collective in the body of ``with main_process_first():``, at whose entry the others are held.

Such managers let one rank do something before the others (a download, a cache): accelerate's
``PartialState.main_process_first``, transformers' ``TrainingArguments.main_process_first``, YOLO's
``torch_distributed_zero_first``. The others wait in a barrier until it has left the body.
"""

from __future__ import annotations

import re
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import Reason, called, quoted
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.reading import chains, guards, statements
from collectrace.findings import Side
from collectrace.ops import BARRIERS
from collectrace.records import Call

_LETS_ONE_FIRST: Final = re.compile(r"with \b.*_first\(", re.IGNORECASE)
_MOST: Final = 64
"""Calls of a body that are looked at."""


@once
def reason(case: Case, candidate: Candidate) -> Reason | None:
    """One side is in the body of such a ``with``, the other at its line; None: it is not so."""
    sides = called(candidate)
    if len(sides) != 2 or candidate.absent:
        return None
    for (within, call), (held, waits) in (sides, sides[::-1]):
        if waits.op not in BARRIERS:
            continue
        head = _with_of(case, candidate, within, held)
        if head is not None:
            return _told(within, call, held, head)
        release = _release(case, held, within)
        if release is not None:
            is_past = _has_passed(case, candidate, held, within)
            return _not_released(within, call, held, release, is_past=is_past)
    return None


def _with_of(case: Case, candidate: Candidate, within: Side, held: Side) -> str | None:
    """The ``with`` in whose body one side is, and at whose line the other, as it is quoted.

    Not where those within made a call at its line before the body: then it held them as well.
    """
    inside, line = chains.outermost_apart(within.stack or (), held.stack or ())
    if not inside or not line or chains.scope(inside) != chains.scope(line):
        return None
    head = next(reversed(case.statements(chains.site(line))), "")
    number, code = statements.number_of(head), statements.code_of(head)
    if number != chains.line(line) or not _LETS_ONE_FIRST.match(code):
        return None
    if not _is_around(case, inside, number):
        return None
    rank, outside = within.ranks[0], chains.shared(within.stack or (), held.stack or ())
    for call in reversed(case.before(rank, candidate.stream, candidate.seq, _MOST)):
        stack = case.stack(rank, call) if call is not None else ()
        frame = stack[-1 - outside] if len(stack) > outside else ""
        if frame == line:
            return None
        if not frame or not _is_around(case, frame, number):
            break
    return quoted(chains.file(line), head)


def _release(case: Case, held: Side, gone: Side) -> str | None:
    """The line, ``path:line``, by which others would let go who is held at a manager's entry.

    It stands behind the ``yield`` of the function in which those wait, for the rank that they are
    not. None where it is not seen, or those who are gone are in that function.
    """
    stack = held.stack or ()
    if not stack or not chains.function(stack[0]):
        return None
    site, scope = chains.site(stack[0]), chains.scope(stack[0])
    if any(chains.scope(frame) == scope for frame in gone.stack or ()):
        return None
    conditions = [
        n for n in statements.branches(case.statements(site)) if _asks_rank(case, site, n)
    ]
    lines = case.code.lines(chains.file(stack[0]))
    for condition in conditions:
        for n in guards.counterparts(case.code, site, BARRIERS, condition, is_guard=False):
            there = f"{chains.file(stack[0])}:{n}"
            function = statements.function(case.statements(there))
            between = lines[chains.line(stack[0]) : n - 1]
            if function != chains.method(stack[0]) or not any(map(_YIELDS.match, between)):
                continue
            heads = (statements.code_of(line) for line in case.statements(there))
            if not any(head.startswith("finally") for head in heads):
                return there
    return None


def _has_passed(case: Case, candidate: Candidate, held: Side, gone: Side) -> bool:
    """Whether who is gone is behind the line at which the others are held, in the same turn.

    Both were at one line before: from there the way leads through the line of those who are held.
    """
    here, there = gone.stack or (), held.stack or ()
    inside, line = chains.outermost_apart(here, there)
    ranks = [side.ranks[0] for side in (gone, held)]
    calls = [case.last_before(rank, candidate.stream, candidate.seq) for rank in ranks]
    last, other = (
        case.stack(rank, call) if call is not None else ()
        for rank, call in zip(ranks, calls, strict=True)
    )
    if not inside or None in calls or _is_around(case, inside, chains.line(line)):
        return False
    common = chains.shared(here, there)
    if last != other or chains.scope(inside) != chains.scope(line):
        # Of one line that calls both, the call within the brackets of the other comes first.
        text = " ".join(case.statements(chains.site(there[-common]))[-1:]) if common else ""
        names = re.escape(chains.method(inside)), re.escape(chains.method(line))
        return last == other and bool(re.search(r"\b{}\(.*\b{}\(".format(*names), text))
    before = chains.beside(last, here, common)
    if not before:
        return False
    came, at, to = (chains.line(frame) for frame in (before, line, inside))
    return came < at < to or at < to < came


def _asks_rank(case: Case, site: str, line: str) -> bool:
    return statements.tells_ranks_apart(case.spelled_out(site, line))


_YIELDS: Final = re.compile(r"\s*yield\b")


def _not_released(gone: Side, call: Call, held: Side, release: str, *, is_past: bool) -> Reason:
    """Those who are held, and where the others are; ``is_past``: they went past the release."""
    who, others = words.ranks(gone.ranks), words.ranks(held.ranks)
    manager, at = chains.function((held.stack or ("",))[0]), words.site(release)
    made = f"{words.name(call)}{words.at(call)}"
    holds = (
        f"{manager}() holds {others} at its entry, in a barrier, which {who} "
        f"{words.verb(gone.ranks, 'joins', 'join')} at {at}, behind its `yield`. {words.upper(who)}"
    )
    if not is_past:
        return Reason(
            f"{holds} {words.verb(gone.ranks, 'is', 'are')} in {made} instead: not there yet, or "
            "past it.",
            f"Let every rank enter {manager}() equally often, at one place of the program, and "
            f"make {made} on every rank, before it or behind it.",
        )
    wait = words.verb(held.ranks, "waits", "wait")
    return Reason(
        f"{holds} went past that, to {made}, and {others} {wait} for ever. An exception that is "
        "raised in the body, and caught further out, leads past what stands behind the `yield`.",
        f"Let {manager}() make the call at {at} in any case: in a `finally:` of a `try:` around "
        f"the `yield`. And mend what was raised in the body on {who}; where one rank may fail "
        "alone there, let all ranks learn of it behind it.",
    )


def _is_around(case: Case, frame: str, number: int) -> bool:
    """Whether the statement in a line is around another line of its file."""
    return number in statements.numbers_around(case.statements(chains.site(frame)))


def _told(within: Side, call: Call, held: Side, head: str) -> Reason:
    who, others = words.ranks(within.ranks), words.ranks(held.ranks)
    line = chains.site(chains.outermost_apart(within.stack or (), held.stack or ())[0])
    by = "" if line == call.site else f", called{words.at_site(line)},"
    made = f"{call.op}{words.at(call)}{by}"
    has, comes = words.verb(within.ranks, "has", "have"), words.verb(held.ranks, "comes", "come")
    return Reason(
        f"{words.upper(head)} holds {others} at its entry, in a barrier, until {who} {has} left "
        f"its body. In that body {who} called {made} to which {others} {comes} only behind the "
        "entry. So they wait for each other.",
        f"Keep collectives out of the body of {head}: what one rank is to do before the others (a "
        "download, a cache) belongs there, and nothing that all must take part in. Move the "
        f"{call.op} behind it.",
    )

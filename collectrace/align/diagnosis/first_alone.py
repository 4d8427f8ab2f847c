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
from collectrace.align.reading import chains, statements
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
        head = _with_of(case, candidate, within, held) if waits.op in BARRIERS else None
        if head is not None:
            return _told(within, call, held, head)
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

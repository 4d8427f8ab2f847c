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
from collectrace.records import Call

_LETS_ONE_FIRST: Final = re.compile(r"(?:async )?with \b.*\w*first\w*\(", re.IGNORECASE)


@once
def reason(case: Case, candidate: Candidate) -> Reason | None:
    """One side is in the body of such a ``with``, the other at its line; None: it is not so."""
    sides = called(candidate)
    if len(sides) != 2 or candidate.absent:
        return None
    for (within, call), (held, _) in (sides, sides[::-1]):
        head = _with_of(case, candidate, within, held)
        if head is not None:
            return _told(within, call, held, head)
    return None


def _with_of(case: Case, candidate: Candidate, within: Side, held: Side) -> str | None:
    """The ``with`` in whose body one side is, and at whose line the other, as it is quoted.

    Not where those within made a call at its line themselves before: then it holds them as well.
    """
    inside, line = chains.outermost_apart(within.stack or (), held.stack or ())
    if not inside or not line or chains.scope(inside) != chains.scope(line):
        return None
    head = next(reversed(case.statements(chains.site(line))), "")
    number, code = statements.number_of(head), statements.code_of(head)
    if number != chains.line(line) or not _LETS_ONE_FIRST.match(code):
        return None
    around = case.statements(chains.site(inside))[:-1]
    if number not in {statements.number_of(one) for one in around}:
        return None
    rank = within.ranks[0]
    before = case.before(rank, candidate.stream, candidate.seq, 1)
    if any(call is not None and line in case.stack(rank, call) for call in before):
        return None
    return quoted(chains.file(line), head)


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

"""Calls of a ``forward()`` that runs again within ``backward()``, as activation checkpointing does.

``torch.utils.checkpoint`` (checkpoint.py, torch 2.13) keeps a module's inputs and runs its forward
a second time where the gradients need what it had computed: its collectives are issued twice.
"""

from __future__ import annotations

import re
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.callers import through_model
from collectrace.align.diagnosis.wording import Reason, called, quoted
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.parted import parted
from collectrace.align.matching.habit import ENOUGH
from collectrace.align.reading import chains, statements
from collectrace.records import Call

_BACKWARD: Final = re.compile(r"\bbackward\(|\bautograd\.grad\(")

_ALONE: Final = re.compile(r"[\w.]+\.backward\([^()]*\)")
"""A statement that runs nothing but a backward."""


def added(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """A reason with the ranks whose call is of a forward that ran again, where others' is not."""
    since = parted(case, candidate)
    those = [(side.ranks, side.ranks[0], call) for side, call in called(candidate)]
    if since is not None and candidate.seq != since.seq:
        those += [((r,), r, call) for r, call in zip(since.ranks, since.calls, strict=True)]
    found = [
        (ranks, call, line)
        for ranks, rank, call in those
        if (line := _within(case, candidate, rank, call))
    ]
    if candidate.cause is not None or not found or len(found) == len(those):
        return reason
    ranks, call, line = found[0]
    who, name = words.ranks(ranks), words.name(call)
    return reason._replace(
        cause=f"{reason.cause} The {name} of {who} is of a forward() that ran again within "
        f"{line}, as a checkpointed module's does (torch.utils.checkpoint recomputes it).",
        fix=f"{reason.fix}\nCheckpoint a module that makes collectives on every rank or on none, "
        "for the same inputs; or keep its collectives out of what is recomputed.",
    )


def _within(case: Case, candidate: Candidate, rank: int, call: Call) -> str:
    """The statement that ran ``backward()``, quoted, for a call of a forward in that; or nothing.

    Where one statement may run both, a forward ran again if its module was run by another before,
    or always by another line of the function.
    """
    ran, stack = through_model(case, rank, call), case.stack(rank, call)
    if not ran or not chains.function(stack[stack.index(ran) - 1]).endswith("forward"):
        return ""
    lines = case.statements(chains.site(ran))
    statement = statements.code_of(lines[-1]) if lines else ""
    if not _BACKWARD.search(statement):
        return ""
    if not _ALONE.fullmatch(statement) and not _was_run_before(case, candidate, rank, call, ran):
        return ""
    return quoted(chains.file(ran), lines[-1])


def _was_run_before(case: Case, candidate: Candidate, rank: int, call: Call, ran: str) -> bool:
    """Whether the same forward has come from elsewhere, by which it runs for the first time.

    Through further ones from the same statement; or from another line of that function, as ever.
    """
    stack = case.stack(rank, call)
    at = stack.index(ran)
    inner, outer = stack[:at], stack[at:]
    calls = case.before(rank, candidate.stream, call.seq)
    before = [case.stack(rank, one) for one in calls if one is not None]
    same = [
        one
        for one in before
        if one[:at] == inner
        and len(one) >= len(stack)
        and one[len(one) - len(outer) + 1 :] == outer[1:]
        and chains.place(one[-len(outer)]) == chains.place(ran)
    ]
    through = any(one[-len(outer)] == ran and len(one) > len(stack) for one in same)
    return through or (stack not in before and len(same) >= ENOUGH)

"""Calls of a ``forward()`` that runs again within ``backward()``, as activation checkpointing does.

``torch.utils.checkpoint`` (checkpoint.py, torch 2.13) keeps a module's inputs and runs its forward
a second time where the gradients need what it had computed: its collectives are issued twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import Reason, called, quoted
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.own_round import program_of
from collectrace.align.judging.parted import parted
from collectrace.align.matching.habit import ENOUGH
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import LOOK_BACK
from collectrace.records import Call

_BACKWARD: Final = re.compile(r"\bbackward\(|\bautograd\.grad\(")

_CHECKPOINT: Final = re.compile(r"checkpoint|recompute|remat", re.IGNORECASE)
"""How what checkpoints a module is called: by torch, and by those who wrap it."""

_ALONE: Final = re.compile(r"(?:[\w.]+|\([\w.\s*/+-]+\))\.backward\([^()]*\)")
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
        if (
            line := _within(
                case, rank, call, partial(case.before, rank, candidate.stream, call.seq)
            )
        )
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


def of_message(case: Case, rank: int, call: Call) -> Reason | None:
    """That a rank's last message is of a forward that ran again; None: it is not, or not known."""
    program = program_of(case, rank)
    if program is None or call.peer is None:
        return None
    last = len(program.steps) - 1
    before = range(max(0, last - LOOK_BACK), last)
    line = _within(case, rank, call, lambda: [program.call(n) for n in before])
    if not line:
        return None
    return Reason(
        f"The {words.name(call)} of rank {rank} is of a forward() that ran again within {line}, as "
        "a checkpointed part's does (torch.utils.checkpoint recomputes it): so it is one more than "
        "those of the forward.",
        "Keep messages out of what is recomputed: pass the checkpointed part what was received "
        "before it, and send behind it; or run that part without checkpoint().",
    )


def _within(case: Case, rank: int, call: Call, before: Callable[[], Sequence[Call | None]]) -> str:
    """The statement that ran ``backward()``, quoted, for a call of a forward in that; or nothing.

    Where one statement may run both, a forward ran again if its module was run by another before,
    or always by another line of the function. So did another function that led to the forward.
    """
    stack = case.stack(rank, call)
    at = next((n for n in range(1, len(stack)) if _BACKWARD.search(_statement(case, stack[n]))), 0)
    functions = [chains.method(frame) for frame in stack[:at]]
    if "forward" not in functions or functions[-1] == "backward":
        return ""  # a gradient's own calls
    is_proven = functions[-1] == "forward" and _ALONE.fullmatch(_statement(case, stack[at]))
    if not is_proven and not _was_run_before(case, rank, stack, at, before()):
        return ""
    return quoted(chains.file(stack[at]), case.statements(chains.site(stack[at]))[-1])


def _statement(case: Case, frame: str) -> str:
    """The code of a frame's statement; empty: it is not known."""
    lines = case.statements(chains.site(frame))
    return statements.code_of(lines[-1]) if lines else ""


def _was_run_before(
    case: Case, rank: int, stack: Sequence[str], at: int, calls: Sequence[Call | None]
) -> bool:
    """Whether the same forward has come from elsewhere, by which it runs for the first time.

    Through further ones from the same statement; or from another line of that function, as ever.
    And one that was checkpointed: a module may be run twice by the same statement, too.
    """
    inner, outer, ran = stack[:at], stack[at:], stack[at]
    before = [case.stack(rank, one) for one in calls if one is not None]
    same = [
        one
        for one in before
        if one[:at] == inner
        and len(one) >= len(stack)
        and one[len(one) - len(outer) + 1 :] == outer[1:]
        and chains.place(one[-len(outer)]) == chains.place(ran)
    ]
    if not any(_CHECKPOINT.search(_statement(case, frame)) for one in same for frame in one):
        return False
    through = any(one[-len(outer)] == ran and len(one) > len(stack) for one in same)
    return through or (stack not in before and len(same) >= ENOUGH)

"""A loop that had turns on some ranks, and may have had none on the others.

Where a side is at its first turn of a ``for`` over things, and the other has gone past that, no
condition need have led it there: it had nothing to go through.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.loop_lines import LoopLine, is_in
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.diagnosis.wording import EVERY_RANK, Reason, is_vague, without_vague
from collectrace.align.judging import intervals
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements


def added(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """A reason with such a loop, where nothing is known that decided it, or what is so for all."""
    if candidate.cause is not None or reason.because != "some ranks":
        return reason
    found = _found(case, candidate)
    if found is None:
        return reason
    inside, gone, loop = found
    if not is_vague(reason.cause) and not _is_alike(case, inside, reason):
        return reason
    cause = without_vague(reason.cause)
    rest = "" if reason.fix == EVERY_RANK else f"\n{reason.fix}"
    return reason._replace(
        cause=f"{cause} {words.upper(words.ranks(inside.ranks))} "
        f"{words.verb(inside.ranks, 'is', 'are')} at the first turn of {loop.quoted}, which may "
        f"have had none on {words.ranks(gone.ranks)}.",
        fix=f"Let {loop.quoted} go over as many things on every rank, also where they are empty "
        f"there.{rest}",
    )


def _found(case: Case, candidate: Candidate) -> tuple[Standpoint, Standpoint, LoopLine] | None:
    """Who is at a first turn, who has passed it, and the innermost such loop."""
    points = standpoints(candidate)
    if len(points) != 2:
        return None
    found = []
    for inside, gone in (points, points[::-1]):
        apart = inside.stack[: len(inside.stack) - chains.shared(inside.stack, gone.stack)]
        around = set(case.loops(gone.stack))
        loops = (
            LoopLine(frame, line, case.code)
            for frame in apart
            for line in reversed(statements.loops(case.statements(chains.site(frame))))
            if (chains.file(frame), line) not in around
        )
        loop = next((one for one in loops if _may_be_empty(one)), None)
        if loop is not None and _is_conditional(case, apart, loop):
            continue
        if loop is not None and not any(_was_in(case, candidate, p, loop) for p in points):
            found.append((inside, gone, loop))
    return found[0] if len(found) == 1 else None


def _is_conditional(case: Case, apart: Sequence[str], loop: LoopLine) -> bool:
    """Whether a line by which the loop's function was come to decides about that by itself."""
    outer = apart[list(apart).index(loop.frame) + 1 :]
    return any(
        statements.decides_itself(statements.own(case.statements(chains.site(frame))))
        for frame in outer
    )


def _may_be_empty(loop: LoopLine) -> bool:
    """Whether it goes over things that a rank may lack: not a model's, nor what is constant."""
    is_constant = _CONSTANT.search(statements.code_of(loop.line)) is not None
    return loop.is_over_things and not loop.is_over_model and not is_constant


_CONSTANT: Final = re.compile(r"\bin (\w+\()?([\w.]+\.)?([A-Z][A-Z_\d]+\b|[(\[{\"'])")
"""Names in capitals, and what is written there."""


def _was_in(case: Case, candidate: Candidate, point: Standpoint, loop: LoopLine) -> bool:
    """Whether a rank was in a loop by its call before; or ever, where it is past that."""
    calls = case.before(point.ranks[0], candidate.stream, candidate.seq)
    is_there = is_in(case, point.stack, loop)
    asked = calls[-1:] if is_there else calls
    return any(
        call is not None and is_in(case, case.stack(point.ranks[0], call), loop) for call in asked
    )


def _is_alike(case: Case, inside: Standpoint, reason: Reason) -> bool:
    """Whether all conditions that a reason names are by turns: alike on ranks at one turn."""
    told = [
        (site, line)
        for site, (_, line) in case.branches(inside.stack)
        if f"`{statements.code_of(statements.head_of(line))}`" in reason.cause
    ]
    return bool(told) and all(intervals.is_by_turns(case, *one) for one in told)

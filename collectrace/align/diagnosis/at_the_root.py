"""Ranks that decided by what only the root of a collective was given: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason, quoted
from collectrace.align.judging.at_the_root import at_the_root
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Which condition reads what only the root has got, and how the ranks went on."""
    found = at_the_root(case, candidate)
    if found is None:
        return None
    call, root = found.call, found.call.root
    what = named(case, found.rank, call, brief=True)
    went = words.listed([
        f"{words.ranks(side.ranks)} went on to {named(case, side.ranks[0], side.call, brief=True)}"
        if side.call is not None
        else f"{words.ranks(side.ranks)} came to no further call of this group"
        for side in candidate.sides
    ])  # fmt: skip
    decides = quoted(found.file, found.line)
    return Reason(
        f"{words.upper(what)} just before gave its result to rank {root} only, the root (dst "
        f"{root}); then {decides} decided by `{found.name}`, of which every other rank holds a "
        f"value of its own: {went}.",
        f"Use all_reduce instead of {words.name(call)} (or all_gather instead of a gather), or "
        f"broadcast what rank {root} decided, so that {decides} is decided alike on every rank.",
    )

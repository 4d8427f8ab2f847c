"""A collective in a function that a framework calls on one rank alone: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.one_rank_hooks import in_hook
from collectrace.align.reading import chains


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Which call, in which function, and where it belongs; None: there is none."""
    found = in_hook(case, candidate)
    if found is None or set(candidate.suspects) != {found.rank}:
        return None
    call = named(case, found.rank, found.call, brief=True)
    function = chains.scope(found.frame)[1]
    return Reason(
        f"Rank {found.rank} alone is in {function}(), at "
        f"{words.site(chains.site(found.frame))}, and there in {call}: {found.hook.calls}. So no "
        "other rank comes to that call.",
        f"Make no collective in {function}(): move it to {found.hook.instead}.",
    )

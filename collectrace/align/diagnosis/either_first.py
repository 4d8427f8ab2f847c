"""Two all_to_all of one line that differ in size, of which every rank makes both, and as often.

Then it is no size that is wrong, most likely: one rank is at the one of them where another is at
the other. gloo aborts there, so that nothing of what follows tells it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from collectrace import words
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching import habit
from collectrace.records import Call
from collectrace.signature import is_user


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Sizes that the ranks had met in equally often, by the calls before; else None."""
    sides = called(candidate)
    calls = {_size(call): call for _, call in sides}
    sites = {(call.op, call.site) for call in calls.values()}
    if len(calls) != 2 or len(sites) != 1 or not all(map(is_user, calls.values())):
        return None
    made = set[int]()
    for side, _ in sides:
        before = case.before(side.ranks[0], candidate.stream, candidate.seq)
        counts = Counter(_size(one) for one in before if one is not None and _is_of(one, sites))
        made |= {counts[size] for size in calls}
    times = made.pop()
    if made or times < habit.ENOUGH:
        return None
    by_size: dict[str, list[int]] = {}
    for side, one in sides:
        by_size.setdefault(words.tensors(one), []).extend(side.ranks)
    who = "; ".join(f"{words.ranks(ranks)} with {size}" for size, ranks in by_size.items())
    return Reason(
        f"Both sizes are usual: up to here each rank had made this call with "
        f"{words.listed([*by_size])} equally often, {times:,} times each. Here they are at it "
        f"{who}. So it seems that they come to these calls in another order, or that some are past "
        "one of them.",
        "Make these calls in the same order on every rank, and all of them: order them by what all "
        "ranks share, as a name or an index, never by values of a rank's own.",
    )


def _size(call: Call) -> Hashable:
    return str((call.dtype, call.shape, call.out_shape, call.splits))


def _is_of(call: Call, sites: set[tuple[str, str | None]]) -> bool:
    return (call.op, call.site) in sites

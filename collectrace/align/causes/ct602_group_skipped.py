"""Some ranks did not create a group that the others created.

What it means
    torch numbers groups in the order of their creation. If a rank skips a ``new_group`` call, even
    for a group that it is not in, every later group has another number there. Its members then wait
    for each other in different groups.

Example
    ::

        if rank in members:
            group = dist.new_group(members)   # the others must call it, too

Not to be confused with
    CT601, if all ranks create a group at this place, with other members. CT302, if a rank
    did not come.

How to fix it
    Call ``new_group`` on every rank, in the same order. Or pass ``use_local_synchronization=True``
    and let only the members call it.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import deciders, group_requests, phrases, wait_cycle
from collectrace.align.causes.group_requests import COUNTS, ON_EVERY, Requests
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> Requests | None:
    """Return what the ranks asked for, if some skipped a group."""
    found = group_requests.requests(situation)
    return found if found is not None and found.skipped and not found.own else None


def words(situation: Situation, found: Requests) -> Words:
    """Return the words for a group that some ranks did not create."""
    decision, why = group_requests.decided(situation)
    apart = group_requests.lines_apart(situation, found)
    told = [
        COUNTS,
        group_requests.parted(situation, found),
        apart,
        *why,
        group_requests.went_on(situation, found.none),
    ]
    ranks, group = _suspected(situation, found)
    if situation.is_tie:
        told.append(group_requests.called(found))
    if not found.none:
        told.insert(
            1, f"{words_.upper(words_.ranks(ranks))} never called {wait_cycle.creation(group)}."
        )
    fixes = []
    if found.is_default:
        fixes.append("Let every rank call init_process_group at the same point.")
    elif decision is not None and deciders.form(decision) in ("condition", "loop"):
        call = f"new_group{phrases.line(group.site)}"
        fixes.append(f"{ON_EVERY}: move {call} out of the reach of {deciders.quoted(decision)}.")
    else:
        fixes.append(f"{ON_EVERY}.")
    if apart:
        fixes.append(
            "Or create all groups in one place that every rank reaches, before their first use."
        )
    if not {*ranks} & {*group.ranks}:
        fixes.append(
            "Or pass use_local_synchronization=True, and call new_group on the members only."
        )
    said = [one for one in told if one]
    return Words(
        group_requests.headline(situation, found), tuple(said[:3]), tuple(fixes), tuple(said[3:])
    )  # fmt: skip


def _suspected(situation: Situation, found: Requests) -> group_requests.Asked:
    """Return who skipped which group; of several the one that is to blame."""
    mine = (one for one in found.skipped if {*one[0]} & {*situation.suspects})
    return next(mine, found.skipped[0])

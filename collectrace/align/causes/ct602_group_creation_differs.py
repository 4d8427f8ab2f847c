"""Some ranks did not create a group that the others created, or created it with other members.

What it means
    torch numbers groups in the order of their creation. If a rank skips a ``new_group`` call, every
    later group has a different number on that rank, even if it is not a member. The members then
    wait for each other in different groups. The same happens if the lists of ranks differ:
    different groups then share one name.

Example
    ::

        if rank in members:
            group = dist.new_group(members)     # the others must call it, too
        ranks = [0, 2] if rank == 1 else [0, 1, 2]
        group = dist.new_group(ranks)           # rank 1 requests another group

Not to be confused with
    CT302, if a rank did not reach the call. CT603, if groups are made by their members only
    (``use_local_synchronization=True``).

How to fix it
    Call ``new_group`` on every rank, in the same order. Compute the list of ranks from values that
    are the same on every rank. The number of visible devices and environment variables may differ.
"""

from __future__ import annotations

import re
from typing import Final

from collectrace import words as words_
from collectrace.align.causes import (
    deciders,
    group_requests,
    phrases,
    remedies,
    structure,
    wait_cycle,
)
from collectrace.align.causes.group_requests import Requests
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading.rank_names import RANK
from collectrace.findings import Decision

_COUNTS: Final = (
    "torch counts groups: every rank must create the same groups in the same order, also on ranks "
    "that are no members."
)
_OWN: Final = "Each rank called new_group only for the group that it is in."
_ON_EVERY: Final = (
    "Call new_group on every rank, with the same ranks and in the same order, also on ranks that "
    "are no members"
)
_ONE_PLACE: Final = (
    "Create all groups in one place that every rank reaches, before their first use."
)
_SAME: Final = ": the number of visible devices or an environment variable may differ"
_MESHES: Final = re.compile(r"\b(init_device_mesh|DeviceMesh|init_mesh)\(")


def find(situation: Situation) -> Requests | None:
    """Return the different requests for a group, if every rank had to create it."""
    found = group_requests.requests(situation)
    if found is None:
        return None
    is_other = not found.none and len(found.asked) > 1
    return found if is_other or (found.skipped and not found.own) else None


def words(situation: Situation, found: Requests) -> Words:
    """Return the words for groups that were created differently."""
    decision, why = _deciding(situation, found)
    apart = group_requests.lines_apart(situation, found)
    return Words.of(
        group_requests.headline(situation, found),
        (
            _never_called(situation, found) or group_requests.earlier_difference(situation, found),
            *why[:2],
            _COUNTS,
            apart,
            *why[2:],
            group_requests.describe_waits(situation, found.none),
        ),
        _fixes(situation, found, decision, is_apart=bool(apart)),
    )


def _deciding(situation: Situation, found: Requests) -> tuple[Decision | None, tuple[str, ...]]:
    """Return the statement that decided, and the reasons.

    What chose each rank's own group was meant to, unless a condition led past the other groups.
    """
    decision, why = group_requests.deciding_statement(situation, found)
    if found.own and (decision is None or deciders.form(decision) != "condition"):
        return None, (_OWN,)
    return decision, why


def _is_skip(found: Requests) -> bool:
    return bool(found.skipped) and not found.own


def _never_called(situation: Situation, found: Requests) -> str:
    """Return a sentence on the skipped group and its ranks, suspects first."""
    if not _is_skip(found) or found.none:
        return ""
    mine = (one for one in found.skipped if {*one[0]} & {*situation.suspects})
    ranks, group = next(mine, found.skipped[0])
    return f"{words_.upper(words_.ranks(ranks))} never called {wait_cycle.creation(group)}."


def _fixes(
    situation: Situation, found: Requests, decision: Decision | None, *, is_apart: bool
) -> tuple[str, ...]:
    own = remedies.fixes(situation, decision)[:1] if decision is not None else ()
    if found.own:
        every = (
            "Let every rank call new_group for each of these groups, in the same order, and keep "
            "the one that it is in; new_subgroups() and init_device_mesh do so."
        )
        return (every, *own)
    if _is_skip(found):
        group, move = found.skipped[0][1], ""
        rank = next((ranks[0] for ranks, one in found.asked if one is group), None)
        stack = situation.case.stack(rank, group) if rank is not None else ()
        is_control = decision is not None and deciders.form(decision) in ("condition", "loop")
        lines = stack or (group.site or "",)
        if decision and is_control and structure.is_in_function(situation, decision, lines):
            call = f"new_group{phrases.line(group.site)}"
            through = structure.calling_line(situation, decision, stack)
            moved = f"{deciders.shown(through)}, which calls {call}," if through else call
            move = f": move {moved} out of the reach of {deciders.quoted(decision)}"
        local = "Or pass use_local_synchronization=True, and call new_group on the members only."
        none_is_member = not {*found.skipped[0][0]} & {*group.ranks}
        return (
            f"{_ON_EVERY}{move}.",
            *(own if is_control and not move else ()),
            *((f"Or {words_.lower(_ONE_PLACE)}",) if is_apart else ()),
            *((local,) if none_is_member else ()),
        )
    text = phrases.text(situation.case, found.site or "")
    hint = "" if decision is not None or RANK.search(text) else _SAME
    if mesh := _mesh(situation, found):
        return (f"Give {mesh}() the same shape and names on every rank{hint}.", *own)
    if is_apart:
        return (f"{_ON_EVERY}. {_ONE_PLACE}", *own)
    line = phrases.line(found.site)
    same = f"Pass new_group{line} the same ranks on every rank, in the same order{hint}."
    return (same, *own)


def _mesh(situation: Situation, found: Requests) -> str:
    """Return the function that makes a mesh, if a line of the script calls one."""
    stacks = (situation.case.stack(ranks[0], group) for ranks, group in found.asked)
    texts = (phrases.text(situation.case, frame) for stack in stacks for frame in stack)
    return next((m[1] for one in texts if (m := _MESHES.search(one))), "")

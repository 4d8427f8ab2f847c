"""At one place in the program, ranks created groups with different members.

What it means
    Every rank called ``new_group``, but not with the same list of ranks. torch gives the n-th group
    one name on all ranks. So ranks of different groups look for each other under one name.

Example
    ::

        ranks = [0, 2] if rank == 1 else [0, 1, 2]
        group = dist.new_group(ranks)   # rank 1 asks for another group

Not to be confused with
    CT602, if some ranks skipped a group that the others created. CT603, if groups are made by their
    members only (``use_local_synchronization=True``).

How to fix it
    Compute the list of ranks from values that are the same on every rank. Neither the number of
    visible devices nor an environment variable is.
"""

from __future__ import annotations

import re
from typing import Final

from collectrace.align.causes import deciders, group_requests, phrases
from collectrace.align.causes.group_requests import COUNTS, ON_EVERY, Requests
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words

_MESHES: Final = re.compile(r"\b(init_device_mesh|DeviceMesh|init_mesh)\(")

_SAME: Final = "the number of visible devices or an environment variable may differ"


def find(situation: Situation) -> Requests | None:
    """Return what the ranks asked for, if all of them asked for a group."""
    found = group_requests.requests(situation)
    return found if found is not None and not found.none and len(found.asked) > 1 else None


def words(situation: Situation, found: Requests) -> Words:
    """Return the words for groups with different members."""
    decision, why = group_requests.decided(situation)
    apart = group_requests.lines_apart(situation, found)
    frames = {
        frame for ranks, group in found.asked for frame in situation.case.stack(ranks[0], group)
    }
    texts = (phrases.text(situation.case, frame) for frame in frames)
    mesh = next((m for text in texts if (m := _MESHES.search(text))), None)
    sites = {group.site for _, group in found.asked}
    place = phrases.line(sites.pop()) if len(sites) == 1 else ""
    if found.own:
        fixes = [
            (
                "Let every rank call new_group for each of these groups, in the same order, and "
                "keep the one that it is in; new_subgroups() and init_device_mesh do so."
            ),
        ]
    elif mesh is not None:
        fixes = [f"Give {mesh[1]}() the same shape and names on every rank: {_SAME}."]
    elif apart:
        fixes = [
            (
                f"{ON_EVERY}. Create all groups in one place that every rank reaches, before their "
                "first use."
            )
        ]
    else:
        fixes = [f"Pass new_group{place} the same ranks on every rank, in the same order: {_SAME}."]
    if decision is not None and not mesh:
        fixes.append(deciders.fixes(situation, decision)[0])
    return Words(
        group_requests.headline(situation, found),
        tuple(one for one in (COUNTS, apart, *why) if one)[:3],
        tuple(fixes),
    )

"""Find sides that are in different modules of a sharded model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from collectrace.align.causes import apart
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation

GATHERS: Final = frozenset({"fsdp.unshard", "fsdp_one.unshard", "deepspeed.fetch"})
REDUCES: Final = frozenset(
    {"fsdp.reduce_scatter", "fsdp.all_reduce", "fsdp_one.reduce_scatter", "fsdp_one.all_reduce"}
)


class DifferentModules(NamedTuple):
    """Two sides in different modules."""

    mine: NextCall
    other: NextCall
    in_backward: bool


def different_modules(situation: Situation) -> DifferentModules | None:
    """Return the sides that are in different modules of one statement, or None."""
    first = apart.next_calls(situation)
    if first is None or first[0].stack != first[1].stack:
        return None
    for mine, other in (first, apart.at_finding(situation)[:2]):
        if mine.call is None or other.call is None:
            continue
        roles = {mine.call.role, other.call.role}
        if mine.stack != other.stack:
            continue
        if "deepspeed.fetch" in roles and len(roles) > 1 and _are_deepspeeds(roles):
            return DifferentModules(mine, other, in_backward=False)
        if not roles <= GATHERS | REDUCES:
            continue
        if (mine.call.role, mine.call.part) == (other.call.role, other.call.part):
            continue
        runs = [
            step.call.role in GATHERS
            and was_run(situation, step.rank, step.call.part, step.call.seq)
            for step in (mine, other)
            if step.call is not None
        ]
        return DifferentModules(mine, other, bool(roles & REDUCES) or any(runs))
    return None


def _are_deepspeeds(roles: Collection[str]) -> bool:
    """Whether ZeRO stage 3 made all calls.

    It gathers ahead in the recorded order of modules, and starts over if another module comes
    (deepspeed/runtime/zero/partitioned_param_coordinator.py, 0.19.8). So a rank that skipped a
    module makes one extra call.
    """
    return all(role.startswith("deepspeed.") for role in roles)


def was_run(situation: Situation, rank: int, part: str | None, seq: int) -> bool:
    """Whether a rank gathered a module since it last reduced its gradients, and did no more.

    Then the module's next call is in its backward.
    """
    before = situation.case.before(rank, situation.candidate.stream, seq)
    own = [one.role for one in before if one is not None and one.part == part][-2:]
    if not any(one is not None and one.role in REDUCES for one in before):
        return False
    return own[-1:] != [] and own[-1] in GATHERS and (len(own) == 1 or own[0] in REDUCES)

"""Modules of a sharded model that some ranks ran, or that reached the loss, on some ranks only."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis import decided, edits, ways_told
from collectrace.align.diagnosis.callers import place_of
from collectrace.align.diagnosis.wording import EVERY_RANK, Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.findings import Side
from collectrace.records import Call

_GATHER: Final = frozenset({"fsdp.unshard", "fsdp_one.unshard"})
_REDUCE: Final = frozenset(
    {"fsdp.reduce_scatter", "fsdp.all_reduce", "fsdp_one.reduce_scatter", "fsdp_one.all_reduce"}
)
_FEW: Final = 3


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """FSDP works on other modules on some ranks: which of them were left out, if that shows."""
    calls = [call for _, call in called(candidate)]
    if not all(call.role in _GATHER | _REDUCE and call.part for call in calls):
        return None
    if len({(call.role, call.part) for call in calls}) == 1:
        return None
    if (freed := _freed_on_some(case, candidate)) is not None:
        return freed
    why = decided.sentence(case, candidate) or decided.around_all(case, candidate)
    why = why or _turns_left_out(case, candidate)
    found = edits.edit(case, candidate)
    if found is None or found.what not in ("extra", "missing"):
        listed = words.listed(
            [f"{words.ranks(s.ranks)} in {words.name(c)}" for s, c in called(candidate)]
        )
        return Reason(
            f"FSDP works on other modules here: {listed}. A module was run, or reached the loss, "
            f"on some ranks only, or in another order.{why}",
            EVERY_RANK,
            "some ranks",
        )
    made, left = found.ranks, found.others
    if found.what == "missing":
        made, left = left, made
    who, others = words.upper(words.ranks(made)), words.ranks(left)
    first = found.calls[0]
    at = place_of(case, made[0], first)
    if first.role in _REDUCE:
        return Reason(
            f"{who} reduced the gradients of {_modules(found.calls, _REDUCE)}{at}, and {others} "
            "did not. Either no gradient reached the module there: it was not run, or what it "
            f"computed took no part in the loss. Or {others} "
            f"{words.verb(left, 'was', 'were')} told not to reduce them this time: "
            f"{_UNSYNCED[first.role.partition('.')[0]]}.{why}",
            f"{_KEEP_IN_LOSS}\n{_ACCUMULATE}",
        )
    if _was_run(case, candidate, left[0], first.part):
        return Reason(
            f"{who} gathered the parameters of {first.part} once more{at}, for its backward, and "
            f"{others} did not. All ranks had run the module, but on {others} no gradients came "
            f"back to it: what it computed took no part in the loss.{why}",
            _KEEP_IN_LOSS,
        )
    return Reason(
        f"{who} gathered the parameters of {_modules(found.calls, _GATHER)}{at}, and {others} did "
        f"not: it left the module out.{why}",
        decided.fix(case, candidate) or EVERY_RANK,
        "some ranks",
    )


_KEEP_IN_LOSS: Final = (
    "Let what the module computes take part in the loss on every rank, times zero where it is not "
    "wanted (loss + 0 * out.sum()): then its gradients are reduced everywhere."
)


_UNSYNCED: Final = {"fsdp": "set_requires_gradient_sync(False)", "fsdp_one": "no_sync()"}

_ACCUMULATE: Final = (
    "Where gradients are accumulated: let every rank reduce them after the same number of "
    "micro-batches, which all agree on first."
)


def _freed_on_some(case: Case, candidate: Candidate) -> Reason | None:
    """One backward() gathers a module's parameters again, and on other ranks has them still."""
    sides = called(candidate)
    gathers = [(side, call) for side, call in sides if call.role in _GATHER]
    reduces = [(side, call) for side, call in sides if call.role in _REDUCE]
    places = {(call.part, call.site, side.stack) for side, call in sides}
    if len(places) > 1 or not gathers or not reduces:
        return None
    if not all(_was_run(case, candidate, side.ranks[0], call.part) for side, call in sides):
        return None
    if any(_may_be_forward(case, candidate, side, call) for side, call in gathers):
        return None
    freed, held = (words.ranks(r for s, _ in one for r in s.ranks) for one in (gathers, reduces))
    (side, call), *_ = gathers
    option, setter = _RESHARDING[call.role]
    at = place_of(case, side.ranks[0], call)
    return Reason(
        f"All ranks had run {call.part}, and are in its backward{at}: {freed} gathered its "
        f"parameters again, {held} reduced its gradients without, for its parameters were still "
        f"there. So they were freed after the forward on {freed}, and kept on {held}: {option} is "
        f"not the same on all ranks, or {held} gathered them by hand.",
        f"Give {option} one value on every rank, at the same step{setter}. Where a rank decides by "
        "what it alone knows (its memory, its batch), let all decide together first: an all_reduce "
        "of it (MIN or MAX), or one rank broadcasts the choice.",
    )


def _may_be_forward(case: Case, candidate: Candidate, side: Side, call: Call) -> bool:
    """Whether a module may be gathered for its next forward: from where it was for the last one.

    So it is behind a backward() that reduced nothing, as of gradients that are accumulated.
    """
    rank = side.ranks[0]
    before = case.before(rank, candidate.stream, candidate.seq)
    own = (c for c in reversed(before) if c is not None and c.part == call.part)
    last = next(own, None)
    return last is None or (last.site, case.stack(rank, last)) == (call.site, side.stack or ())


# torch 2.13: torch/distributed/fsdp/_fully_shard/_fully_shard.py, fully_shard() and FSDPModule;
# torch/distributed/fsdp/api.py, ShardingStrategy.
_RESHARDING: Final = {
    "fsdp.unshard": (
        "reshard_after_forward",
        ", in fully_shard() as in set_reshard_after_forward(); and so each unshard()",
    ),
    "fsdp_one.unshard": ("the sharding strategy (FULL_SHARD or SHARD_GRAD_OP)", ""),
}


def _turns_left_out(case: Case, candidate: Candidate) -> str:
    """What may lead past the one line that all sides are at, in a turn of its loop."""
    stacks = {side.stack for side, _ in called(candidate)}
    stack = stacks.pop()
    ways = ways_told.of_round(case, stack) if stack and not stacks else None
    return ways.cause if ways is not None else ""


def _was_run(case: Case, candidate: Candidate, rank: int, part: str | None) -> bool:
    """Whether a rank has run a module since its gradients were last reduced, and no more than that.

    Then what comes next of the module is its backward.
    """
    before = case.before(rank, candidate.stream, candidate.seq)
    roles = [call.role for call in before if call is not None and call.part == part][-2:]
    if not any(call is not None and call.role in _REDUCE for call in before):
        return False
    return roles[-1:] != [] and roles[-1] in _GATHER and (len(roles) == 1 or roles[0] in _REDUCE)


def fetched_again(_: Case, candidate: Candidate) -> Reason | None:
    """ZeRO stage 3 gathers parameters on one side only: its modules came in another order there.

    From the third step on it gathers ahead, in the order of modules that it has recorded
    (deepspeed/runtime/zero/partitioned_param_coordinator.py, 0.19.8): so whoever *left out* a
    module has one call more, which gathers the next one anew.
    """
    sides = called(candidate)
    fetching = [(s, c) for s, c in sides if c.role == "deepspeed.fetch"]
    others = [(s, c) for s, c in sides if c.role != "deepspeed.fetch"]
    if not fetching or not others or not all(c.role.startswith("deepspeed.") for _, c in others):
        return None
    who = words.ranks(rank for s, _ in fetching for rank in s.ranks)
    went = "; ".join(f"{words.ranks(s.ranks)} went on to {words.call(c)}" for s, c in others)
    return Reason(
        f"{words.upper(who)} gathered parameters{words.at(fetching[0][1])} where {went}. ZeRO "
        "stage 3 gathers them in the order of modules that it has recorded, and anew where another "
        f"module comes: so the ranks did not run the same modules in this step. {words.upper(who)} "
        "left one out, or ran one more.",
        EVERY_RANK,
        "some ranks",
    )


def _modules(calls: tuple[Call, ...], roles: frozenset[str]) -> str:
    """``layers.2``, or the first few of several."""
    names = list(dict.fromkeys(call.part or "?" for call in calls if call.role in roles))
    rest = len(names) - _FEW
    return words.listed([*names[:_FEW], *([f"{rest} more"] if rest > 0 else [])])

"""Backwards of DistributedDataParallel that differ: buckets, ``no_sync``, unused parameters.

Sources: torch 2.13, ``torch/nn/parallel/distributed.py`` and ``csrc/distributed/c10d/reducer.cpp``.
"""

from __future__ import annotations

from typing import Final

from collectrace import roles, words
from collectrace.align.diagnosis import lone_line, slip
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.slip import Slip
from collectrace.align.diagnosis.standpoint import side_of
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.roles import pairing_class
from collectrace.signature import is_asked, is_user

_WINDOW: Final = 400
"""Rows before a difference that are searched for an exchange of the parameters used."""

UNUSED_FIX: Final = (
    "Let every parameter take part in the loss on every rank.\n"
    "Or construct DDP with find_unused_parameters=True, on all ranks."
)


def unused_setting(case: Case, candidate: Candidate) -> Reason | None:
    """``find_unused_parameters`` or ``static_graph`` given on some ranks only."""
    sides = called(candidate)
    exchange = [(s, c) for s, c in sides if pairing_class(c.role) == "ddp.unused_params"]
    plain = [s for s, c in sides if pairing_class(c.role) != "ddp.unused_params"]
    if not exchange or not plain or candidate.stream is None or candidate.seq is None:
        return None
    before = case.before(plain[0].ranks[0], candidate.stream, candidate.seq, _WINDOW)
    if any(c is not None and pairing_class(c.role) == "ddp.unused_params" for c in before):
        return None
    who = words.ranks(r for s, _ in exchange for r in s.ranks)
    others = words.ranks(r for s in plain for r in s.ranks)
    return Reason(
        f"In backward(){words.at(exchange[0][1])} DDP on {who} exchanges which parameters were "
        f"used. On {others} it never did: the model was wrapped with find_unused_parameters=True "
        f"(or static_graph=True) on {who} only.",
        "Give DistributedDataParallel the same arguments on every rank.",
    )


def no_sync(case: Case, candidate: Candidate) -> Reason | None:
    """``no_sync()`` entered for other micro-batches on some ranks."""
    sides = called(candidate)
    if not any(roles.of(c.role).in_backward for _, c in sides):
        return None
    entered = {}
    for side in candidate.sides:
        log = case.log(side.ranks[0]) if side.ranks else None
        if log is None:
            return None
        until = side.call.t if side.call is not None else None
        entered[side.ranks] = sum(
            1 for n in log.no_syncs if n.phase == "entered" and (until is None or n.t <= until)
        )
    if len(set(entered.values())) == 1:
        return None
    found = slip.slip(case, candidate)
    if found is not None and not _is_of_no_sync(case, candidate, found):
        return None
    listed = words.listed(
        [f"{words.ranks(r)} entered it {words.counted(n, 'time')}" for r, n in entered.items()]
    )
    told = f": up to here {listed}."
    if found is not None and found.unit == "iteration":
        others, who = side_of(candidate, found.rank), words.ranks(candidate.suspects)
        told = (
            f": in iteration {found.skipped[0]} {words.ranks(others)} issued "
            f"{closed(named(case, found.rank, found.call))}, call {found.seq}, and {who} issued "
            f"nothing. Since then the gradients of {who} have met those of an earlier iteration of "
            f"the others, which look alike. Up to call {candidate.seq} {listed}."
        )
    return Reason(
        f"no_sync() was not entered for the same micro-batches on all ranks{told} A backward() "
        "inside it issues no gradient buckets; outside it does, and waits.",
        "Decide about no_sync() from what all ranks share: the step number, and as many "
        "micro-batches everywhere; never from the length of a rank's own data.",
    )


def _is_of_no_sync(case: Case, candidate: Candidate, found: Slip) -> bool:
    """Whether a slip may come of ``no_sync()``, and not of a round that was left out.

    It was entered for each iteration since the call before; or, where it is entered for several
    together, oftener than by the others up to one iteration of both.
    """
    stream, rank = candidate.stream, candidate.suspects[0]
    mine = case.call(rank, stream, found.seq) if stream is not None else None
    if mine is None or mine.iteration is None:
        return True
    last = next(iter(case.before(rank, stream, found.seq, 1)), None)
    since, before = (last.t, last.iteration or 0) if last is not None else (0, 0)
    if _entered(case, rank, mine.t, since) >= mine.iteration - before - 1:
        return True
    reached = case.before(found.rank, stream, candidate.seq, _WINDOW)
    theirs = next((c for c in reached if c and c.iteration == mine.iteration), None)
    return theirs is None or _entered(case, rank, mine.t) > _entered(case, found.rank, theirs.t)


def _entered(case: Case, rank: int, until: int, since: int = 0) -> int:
    """How often a rank entered ``no_sync()`` between two times, ns on its own clock."""
    log = case.log(rank)
    entered = (n.t for n in (log.no_syncs if log else ()) if n.phase == "entered")
    return sum(since < t <= until for t in entered)


def other_backward(_: Case, candidate: Candidate) -> Reason | None:
    """All are in a backward(), and not in the same one."""
    sides = called(candidate)
    if any(not roles.of(c.role).in_backward for _, c in sides):
        return None
    if len({c.site for _, c in sides}) == 1 or len({c.iteration for _, c in sides}) == 1:
        return None
    listed = words.listed([f"{words.ranks(s.ranks)}{words.at(c)}" for s, c in sides])
    return Reason(
        f"The ranks are in different backward passes, {listed}, so gradients meet that do not "
        "belong together. Either a branch has left out a step on some ranks, or a loop was longer "
        "there, or they take the steps in different orders.",
        "Run the same forward and backward passes in one order on every rank: not by the rank, and "
        "not by data that differs between ranks.",
    )


def unused(case: Case, candidate: Candidate) -> Reason | None:
    """One rank's backward issued a bucket that another's did not, or one of another size."""
    sides = called(candidate)
    inside = [(s, c) for s, c in sides if roles.of(c.role).in_backward]
    if not inside:
        return None
    outside = [(s, c) for s, c in sides if not roles.of(c.role).in_backward]
    if not outside and candidate.kind in ("shape_mismatch", "role_mismatch", "dtype_mismatch"):
        listed = words.listed([f"{words.op(c)} on {words.ranks(s.ranks)}" for s, c in inside])
        if candidate.kind == "dtype_mismatch":
            return Reason(
                f"The gradient buckets differ in dtype: {listed}. Either a communication hook that "
                "compresses them (register_comm_hook) is there on some ranks only, or the model "
                "was converted on some.",
                "Register the same hook on every rank, before the first backward(); convert the "
                "model to one dtype on every rank.",
            )
        return Reason(
            f"The gradient buckets differ in size: {listed}. DDP fills them as backward() produces "
            "gradients, as it was constructed, and a communication hook may reduce other tensors "
            "in their place: the ranks' models, their frozen parameters, DDP's arguments "
            "(bucket_cap_mb), or what a hook has kept from the steps before are not the same.",
            "Build the same model, freeze the same parameters before DDP is constructed, give DDP "
            "the same arguments on every rank, and register the same hook, in the same state.",
        )
    if not outside or any(c.role.startswith("join.") for _, c in sides):
        return None
    own = [c for _, c in outside if not is_user(c)]
    alone = lone_line.only_here(case, candidate) is not None
    if any(is_asked(c) or (alone and roles.of(c.role).is_library) for c in own):
        return None  # a call that is made for its own sake takes the place of no bucket
    who = words.ranks(r for s, _ in outside for r in s.ranks)
    others = words.ranks(r for s, _ in inside for r in s.ranks)
    beyond = "; ".join(f"{words.name(c)}{words.at(c)}" for _, c in outside)
    return Reason(
        f"In backward(){words.at(inside[0][1])} {others} issued a gradient bucket that {who} did "
        f"not: {who} had gone on to {beyond}. DDP issues a bucket when all its parameters have "
        f"their gradients, so on {who} some took no part in the loss, or that backward() never "
        "ran.",
        UNUSED_FIX,
    )

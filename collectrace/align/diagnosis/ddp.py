"""What goes wrong around DistributedDataParallel: its constructor, forward, no_sync, buckets.

Sources: torch 2.13, ``torch/nn/parallel/distributed.py`` and ``csrc/distributed/c10d/reducer.cpp``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectrace import roles, words
from collectrace.align.diagnosis import decided, loop_lines
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    Reason,
    called,
    place_of,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.parted import in_one_loop
from collectrace.records import Call
from collectrace.roles import ROLES, pairing_class
from collectrace.signature import is_asked, is_user

_WINDOW: Final = 400
"""Rows before a difference that are searched for the place where iterations parted."""

_FORWARD: Final = "ddp.forward."
_BACKWARD: Final = frozenset(role.pairs for role in ROLES.values() if role.in_backward)

UNUSED_FIX: Final = (
    "Let every parameter take part in the loss on every rank.\n"
    "Or construct DDP with find_unused_parameters=True, on all ranks."
)


@dataclass(frozen=True, slots=True)
class IterationGap:
    """The row from which on some ranks are in a later DDP iteration than others."""

    seq: int
    ahead: Call
    """The row's call on the ranks that are ahead."""
    behind: Call
    """The row's call on the ranks that are behind."""
    leaders: tuple[int, ...]
    """The ranks that are ahead."""
    others: tuple[int, ...]
    """The ranks that are behind."""


def iteration_gap(case: Case, candidate: Candidate) -> IterationGap | None:
    """The first row, up to the candidate's, on which two of its sides are in different iterations.

    Forwards that are run from different lines count as different though their numbers are equal.
    None where the iterations are equal at the candidate's row, or not known.
    """
    sides = called(candidate)
    if len(sides) < 2 or candidate.stream is None or candidate.seq is None:
        return None
    (one, a), (two, b) = sides[0], sides[1]
    if a.iteration is None or b.iteration is None or a.iteration == b.iteration:
        return None
    leaders, others = (one, two) if a.iteration > b.iteration else (two, one)
    start = max(1, candidate.seq - _WINDOW)
    rows = (
        case.before(side.ranks[0], candidate.stream, candidate.seq + 1, _WINDOW + 1)
        for side in (leaders, others)
    )
    for n, (front, back) in enumerate(zip(*rows, strict=False)):
        if front is None or back is None or front.iteration is None or back.iteration is None:
            continue
        elsewhere = front.role.startswith(_FORWARD) and (
            front.role == back.role and front.site != back.site
        )
        if front.iteration > back.iteration or elsewhere:
            return IterationGap(start + n, front, back, leaders.ranks, others.ranks)
    return None


def constructor(_: Case, candidate: Candidate) -> Reason | None:
    """DDP's constructor compares the models; or only some ranks construct one."""
    sides = called(candidate)
    inside = [(s, c) for s, c in sides if c.role == "ddp.construct"]
    if not inside:
        return None
    if len(inside) == len(sides):
        listed = words.listed([f"{words.op(c)} on {words.ranks(s.ranks)}" for s, c in inside])
        return Reason(
            f"The models given to DDP differ: its constructor issued {listed}.",
            "Build the same model on every rank: the same parameters, in the same order, with the "
            "same shapes and the same requires_grad.",
        )
    who = words.ranks(r for s, _ in inside for r in s.ranks)
    others = "; ".join(
        f"{words.ranks(s.ranks)} issued {words.call(c)}" for s, c in sides if (s, c) not in inside
    )
    return Reason(
        f"DDP was constructed{words.at(inside[0][1])} on {who} only, and its constructor compares "
        f"the models over the group: {others}.",
        "Construct DistributedDataParallel on every rank of its group, in the same order.",
    )


def forward_alone(case: Case, candidate: Candidate) -> Reason | None:
    """A forward of the DDP module that the other ranks did not run."""
    gap = iteration_gap(case, candidate)
    if gap is None or not gap.ahead.role.startswith(_FORWARD):
        return None
    if (
        gap.ahead.iteration != gap.behind.iteration
        and _ran_backward(case, candidate, gap)
        and not _is_from_a_line_of_its_own(case, candidate, gap)
    ):
        return None
    who, others = words.ranks(gap.leaders), words.ranks(gap.others)
    cause = (
        f"{words.upper(who)} ran a forward of the DDP model{words.at(gap.ahead)} that {others} "
        f"did not run. From call {gap.seq} on, what that forward issues "
        f"({words.issuer(gap.ahead)}) meets what {others} issue{words.at(gap.behind)}."
    )
    return Reason(cause, _ALONE_FIX)


_ALONE_FIX: Final = (
    "Run the forward on every rank.\n"
    "Or, to evaluate on one rank only, call the wrapped module, model.module(...), which issues "
    "no collective; broadcast_buffers=False spares a model whose buffers do not matter."
)


def _is_from_a_line_of_its_own(case: Case, candidate: Candidate, gap: IterationGap) -> bool:
    """Whether suspects run a forward where they never ran one, while the others call their own."""
    if not set(gap.leaders) <= set(candidate.suspects) or not is_user(gap.behind):
        return False
    before = case.before(gap.leaders[0], candidate.stream, gap.seq, _WINDOW)
    sites = {c.site for c in before if c is not None and c.role.startswith(_FORWARD)}
    return bool(sites) and gap.ahead.site not in sites


def _ran_backward(case: Case, candidate: Candidate, gap: IterationGap) -> bool:
    """Whether the ranks that are ahead had run the backward() of the iteration the others are in.

    Then they have run no forward too many: they issue more calls in one iteration.
    """
    before = case.before(gap.leaders[0], candidate.stream, gap.seq, _WINDOW)
    return any(
        c is not None and c.iteration == gap.behind.iteration and pairing_class(c.role) in _BACKWARD
        for c in before
    )


def evaluated_alone(case: Case, candidate: Candidate) -> Reason | None:
    """The ranks that came run a forward from a line that they had run none from before.

    As evaluation after training is, on some ranks only.
    """
    came = called(candidate)
    if not came or not came[0][1].role.startswith(_FORWARD) or candidate.seq is None:
        return None
    (side, call), who = came[0], words.ranks(candidate.absent)
    before = case.before(side.ranks[0], candidate.stream, candidate.seq, _WINDOW)
    if any(c is not None and c.role.startswith(_FORWARD) and c.site == call.site for c in before):
        return None
    return Reason(
        f"{words.upper(words.ranks(side.ranks))} ran forward {call.iteration} of the DDP model"
        f"{words.at(call)}, and {who} ran none such: a forward of DDP issues collectives "
        f"({words.issuer(call)}), in evaluation too.",
        _ALONE_FIX,
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


def models(_: Case, candidate: Candidate) -> Reason | None:
    """Several DDP models on one group, used in different orders."""
    sides = called(candidate)
    if len({c.role for _, c in sides}) > 1 or not sides[0][1].role.startswith("ddp."):
        return None
    if len({c.model or 1 for _, c in sides}) == 1:
        return None
    listed = words.listed([f"model {c.model or 1} on {words.ranks(s.ranks)}" for s, c in sides])
    return Reason(
        f"Several DDP models share this group, and the ranks use them in different orders: here "
        f"{listed} (counted as they were constructed).",
        "Run forward and backward of the models in one order on every rank.",
    )


def between(case: Case, candidate: Candidate) -> Reason | None:
    """A call of the script's own under a condition, where the others are inside DDP."""
    return _own_call(case, candidate, decided.sentence(case, candidate))


def alone(case: Case, candidate: Candidate) -> Reason | None:
    """A call of the script's own, at a line to which nobody else ever came.

    Behind a loop that ended early it proves nothing, nor behind a backward() that was begun.
    """
    if _is_past_a_backward(case, candidate) or loop_lines.behind(case, candidate) is not None:
        return None
    return _own_call(case, candidate, decided.alone(case, candidate))


def _own_call(case: Case, candidate: Candidate, why: str) -> Reason | None:
    sides = called(candidate)
    suspects = set(candidate.suspects)
    own = [(s, c) for s, c in sides if is_asked(c) and set(s.ranks) <= suspects]
    inside = [(s, c) for s, c in sides if c.role.startswith("ddp.")]
    if len(own) != 1 or not inside or not why:
        return None
    (side, call), (other, theirs) = own[0], inside[0]
    script = ", the script's own" if is_user(call) else ""
    return Reason(
        f"{words.upper(words.ranks(side.ranks))} issued {words.name(call)}"
        f"{place_of(case, side.ranks[0], call)}{script}, where "
        f"{words.ranks(other.ranks)} {words.verb(other.ranks, 'was', 'were')} in "
        f"{words.name(theirs)}{words.at(theirs)}.{why}",
        decided.fix(case, candidate) or EVERY_RANK,
        "some ranks",
    )


def _is_past_a_backward(case: Case, candidate: Candidate) -> bool:
    """Whether the suspects have begun the backward() that the others are in: a part is missing."""
    if candidate.stream is None or candidate.seq is None or not candidate.suspects:
        return False
    before = case.call(candidate.suspects[0], candidate.stream, candidate.seq - 1)
    return before is not None and any(
        pairing_class(before.role) in _BACKWARD
        and pairing_class(c.role) in _BACKWARD
        and before.iteration == c.iteration
        for _, c in called(candidate)
    )


def behind(case: Case, candidate: Candidate) -> Reason | None:
    """The script's own call, where the others are in a forward that its ranks have not begun."""
    sides = called(candidate)
    own = [(s, c) for s, c in sides if is_asked(c) and c.iteration is not None]
    inside = [(s, c) for s, c in sides if c.role.startswith("ddp.") and c.iteration is not None]
    if not own or not inside:
        return None
    (side, call), (other, newer) = own[0], inside[0]
    if (call.iteration or 0) >= (newer.iteration or 0):
        return None
    who, others = words.ranks(side.ranks), words.ranks(other.ranks)
    passes = words.counted(call.iteration or 0, "forward pass", "forward passes")
    told = (
        f"After {passes} of the DDP model {who} called {words.name(call)}"
        f"{place_of(case, side.ranks[0], call)}; {others} had begun the "
        f"{words.ordinal(newer.iteration or 0)} instead, {words.name(newer)}{words.at(newer)}."
    )
    branch = f"Make the {words.name(call)}{words.at(call)} on every rank or on none."
    left = loop_lines.left(case, candidate)
    if left is not None and left.gone.ranks == side.ranks:
        has = words.verb(side.ranks, "has", "have")
        return Reason(
            f"{told} {words.upper(who)} {has} left the loop {left.loop.quoted}, and {others} "
            f"{words.verb(other.ranks, 'is', 'are')} in it.",
            f"{loop_lines.even_length(case, left.loop)}\n{_OR_JOIN}",
        )
    if in_one_loop(case, side, other):
        return Reason(f"{told} Both are in one loop: only {who} took that way in it.", branch)
    return Reason(
        f"{told} Either the loop ended earlier on {who}, or only {who} makes this call (a branch).",
        f"If the loop ended earlier: {loop_lines.even_length(case)} {_OR_JOIN}\n"
        f"If it is a branch: make the call on every rank or on none.",
    )


_OR_JOIN: Final = "Or train inside `with model.join():`, which answers DDP's calls, and no others."


def no_sync(case: Case, candidate: Candidate) -> Reason | None:
    """``no_sync()`` entered for other micro-batches on some ranks."""
    sides = called(candidate)
    if not any(pairing_class(c.role) in _BACKWARD for _, c in sides):
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
    listed = words.listed(
        [f"{words.ranks(r)} entered it {words.counted(n, 'time')}" for r, n in entered.items()]
    )
    return Reason(
        f"no_sync() was not entered for the same micro-batches on all ranks: up to here {listed}. "
        "A backward() inside it issues no gradient buckets; outside it does, and waits.",
        "Decide about no_sync() from what all ranks share: the step number, and as many "
        "micro-batches everywhere; never from the length of a rank's own data.",
    )


def other_backward(_: Case, candidate: Candidate) -> Reason | None:
    """All are in a backward(), and not in the same one."""
    sides = called(candidate)
    if any(pairing_class(c.role) not in _BACKWARD for _, c in sides):
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
    classes = [pairing_class(c.role) for _, c in sides]
    if not any(one in _BACKWARD for one in classes):
        return None
    inside = [(s, c) for s, c in sides if pairing_class(c.role) in _BACKWARD]
    outside = [(s, c) for s, c in sides if pairing_class(c.role) not in _BACKWARD]
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
            f"The gradient buckets differ between ranks: {listed}. DDP fills them as backward() "
            "produces gradients, as it was constructed: the ranks' models, their frozen "
            "parameters, or DDP's arguments (bucket_cap_mb) are not the same.",
            "Build the same model, freeze the same parameters before DDP is constructed, and give "
            "DDP the same arguments on every rank.",
        )
    if not inside or not outside or any(c.role.startswith("join.") for _, c in sides):
        return None
    own = [c for _, c in outside if not is_user(c)]
    alone = decided.only_here(case, candidate) is not None
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


def from_exception(message: str, who: str) -> Reason | None:
    """What an exception of DDP's means; None: it is none that is known. ``who`` raised it.

    From ``Reducer::ensure_prior_reduction_finished`` and ``verify_params_across_processes``.
    """
    if "Expected to have finished reduction" in message:
        return Reason(
            f"DDP says so when gradients never came: on {who} parameters took no part in the "
            "loss, so a bucket that other ranks issued was never filled there.",
            UNUSED_FIX,
        )
    if "expects same model across all ranks" in message or "appears not to match" in message:
        return Reason(
            "DDP's constructor compared the models of the ranks, and they differ.",
            "Build the same model on every rank: the same parameters, in the same order, with the "
            "same shapes and the same requires_grad.",
        )
    return None

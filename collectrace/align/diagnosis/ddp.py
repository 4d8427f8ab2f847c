"""What goes wrong around DistributedDataParallel: its constructor, forward, no_sync, buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectrace.align import words
from collectrace.align.case import Candidate, Case
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.roles import pairing_class

_WINDOW: Final = 400
"""Rows before a difference that are searched for the place where iterations parted."""

_FORWARD: Final = "ddp.forward."
_BACKWARD: Final = frozenset({"ddp.bucket", "ddp.unused_params"})

UNUSED_FIX: Final = (
    "Let every parameter take part in the loss on every rank, or construct DDP with "
    "find_unused_parameters=True on all ranks; freeze parameters (requires_grad=False) the same "
    "way everywhere, before DDP is constructed."
)


@dataclass(frozen=True, slots=True)
class Skew:
    """A row on which ranks agree in everything but the DDP iteration it belongs to."""

    seq: int
    ahead: Call
    behind: Call
    leaders: tuple[int, ...]
    others: tuple[int, ...]


def skew(case: Case, candidate: Candidate) -> Skew | None:
    """Where the iterations of two sides of a row parted, before it or on it.

    Forwards that are run from different lines have parted though their numbers are still equal.
    """
    sides = called(candidate)
    if len(sides) < 2 or candidate.stream is None or candidate.seq is None:
        return None
    (one, a), (two, b) = sides[0], sides[1]
    if a.iteration is None or b.iteration is None or a.iteration == b.iteration:
        return None
    leaders, others = (one, two) if a.iteration > b.iteration else (two, one)
    start = max(1, candidate.seq - _WINDOW)
    rows = _rows(case, leaders, candidate, start), _rows(case, others, candidate, start)
    for n, (front, back) in enumerate(zip(*rows, strict=False)):
        if front is None or back is None or front.iteration is None or back.iteration is None:
            continue
        elsewhere = front.role.startswith(_FORWARD) and (
            front.role == back.role and front.site != back.site
        )
        if front.iteration > back.iteration or elsewhere:
            return Skew(start + n, front, back, leaders.ranks, others.ranks)
    return None


def _rows(case: Case, side: Side, candidate: Candidate, start: int) -> list[Call | None]:
    log = case.log(side.ranks[0])
    if log is None or candidate.stream is None or candidate.seq is None:
        return []
    return log.calls(candidate.stream, start, candidate.seq + 1)


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
    parted = skew(case, candidate)
    if parted is None or not parted.ahead.role.startswith(_FORWARD):
        return None
    who, others = words.ranks(parted.leaders), words.ranks(parted.others)
    at = words.at(parted.ahead)
    cause = (
        f"{words.upper(who)} ran forward {parted.ahead.iteration} of the DDP model{at}, which "
        f"{others} did not run: from call {parted.seq} on what it issues "
        f"({words.issuer(parted.ahead)}) pairs with what belongs to forward "
        f"{parted.behind.iteration}{words.at(parted.behind)} of the others."
    )
    fix = (
        "Run the forward on every rank; or, to evaluate on one rank only, call the wrapped module "
        "itself (model.module(...)), which issues no collective; broadcast_buffers=False spares "
        "a model whose buffers do not matter."
    )
    return Reason(cause, fix)


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
    if not any(entered.values()):
        return None
    parted = skew(case, candidate)
    if len(set(entered.values())) == 1 and parted is None:
        return None
    listed = words.listed(
        [f"{words.ranks(r)} entered it {words.counted(n, 'time')}" for r, n in entered.items()]
    )
    return Reason(
        f"no_sync() was not entered for the same micro-batches on all ranks: up to here {listed}. "
        "A rank inside it issues no gradient buckets, the others do and wait for it.",
        "Decide about no_sync() from what all ranks share (the step number, and a number of "
        "micro-batches that is the same everywhere), never from the length of a rank's own data.",
    )


def unused(_: Case, candidate: Candidate) -> Reason | None:
    """One rank's backward issued a bucket that another's did not, or one of another size."""
    sides = called(candidate)
    classes = [pairing_class(c.role) for _, c in sides]
    if not any(one in _BACKWARD for one in classes):
        return None
    inside = [(s, c) for s, c in sides if pairing_class(c.role) in _BACKWARD]
    outside = [(s, c) for s, c in sides if pairing_class(c.role) not in _BACKWARD]
    if not outside and candidate.kind in ("shape_mismatch", "role_mismatch", "dtype_mismatch"):
        listed = words.listed([f"{words.op(c)} on {words.ranks(s.ranks)}" for s, c in inside])
        return Reason(
            f"The gradient buckets differ between ranks: {listed}. DDP fills them with the "
            "gradients that backward() produces, so the ranks' models, their frozen parameters, "
            "or the parameters that take part in the loss are not the same.",
            UNUSED_FIX,
        )
    if not inside or not outside or any(c.role.startswith("join.") for _, c in sides):
        return None
    who = words.ranks(r for s, _ in outside for r in s.ranks)
    others = words.ranks(r for s, _ in inside for r in s.ranks)
    beyond = "; ".join(f"{words.op(c)}{words.at(c)}" for _, c in outside)
    return Reason(
        f"In backward(){words.at(inside[0][1])} {others} issued a gradient bucket that {who} did "
        f"not; {who} had gone on to {beyond}. A bucket is issued when all its parameters have "
        "got their gradients: either some took no part in the loss there, or that rank ran no "
        "such backward() at all.",
        UNUSED_FIX,
    )

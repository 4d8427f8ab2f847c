"""Forwards of DistributedDataParallel that only some ranks ran.

Source: torch 2.13, ``torch/nn/parallel/distributed.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectrace import roles, words
from collectrace.align.diagnosis import decided, gone_past
from collectrace.align.diagnosis.callers import closed, place_of
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.models import of_one_model
from collectrace.align.judging.parted import parted
from collectrace.align.reading.evidence import LOOK_BACK
from collectrace.records import Call
from collectrace.signature import is_user

_FORWARD: Final = "ddp.forward."


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

    Forwards that are run from different lines count as different though their numbers are equal;
    so do those of one line where lines are known to have parted, by who called its function.
    None where the iterations are equal at the candidate's row, or not known.
    """
    sides = called(candidate)
    if len(sides) < 2 or candidate.stream is None or candidate.seq is None:
        return None
    (one, a), (two, b) = sides[0], sides[1]
    if a.iteration is None or b.iteration is None or a.iteration == b.iteration:
        return None
    leaders, others = (one, two) if a.iteration > b.iteration else (two, one)
    start = max(1, candidate.seq - LOOK_BACK)
    rows = (
        case.before(side.ranks[0], candidate.stream, candidate.seq + 1, LOOK_BACK + 1)
        for side in (leaders, others)
    )
    since = parted(case, candidate)
    is_one = of_one_model(case, (leaders.ranks[0], others.ranks[0]))
    for n, (front, back) in enumerate(zip(*rows, strict=False)):
        if front is None or back is None or front.iteration is None or back.iteration is None:
            continue
        if not is_one and not _are_of_one_forward(front, back):
            continue
        elsewhere = front.role.startswith(_FORWARD) and (
            front.role == back.role
            and (front.site != back.site or (since is not None and since.seq == start + n))
        )
        if front.iteration > back.iteration or elsewhere:
            return IterationGap(start + n, front, back, leaders.ranks, others.ranks)
    return None


def _are_of_one_forward(front: Call, back: Call) -> bool:
    """Whether two calls are of forwards of one model: they tell which of it each is."""
    both = front.role.startswith(_FORWARD) and back.role.startswith(_FORWARD)
    return both and (front.model or 1) == (back.model or 1)


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
    ran = place_of(case, gap.leaders[0], gap.ahead, brief=True)
    met = place_of(case, gap.others[0], gap.behind, brief=True)
    issue = words.verb(gap.others, "issues", "issue")
    cause = (
        f"{words.upper(who)} ran a forward of the DDP model{closed(ran)} that {others} "
        f"did not run. From call {gap.seq} on, what that forward issues "
        f"({words.issuer(gap.ahead)}) meets what {others} {issue}{met}."
    )
    points = [
        Standpoint(ranks, call, case.stack(ranks[0], call))
        for ranks, call in ((gap.leaders, gap.ahead), (gap.others, gap.behind))
    ]
    decides = decided.of_points(case, candidate, points, gap.leaders, by_line=True)
    if decides is not None:
        return Reason(cause + decides.cause, _ALONE_FIX)
    past = gone_past.of_sides(case, candidate)
    is_told = past is not None and past.left.ranks == gap.leaders and past.left.call == gap.ahead
    return Reason(cause + (past.sentence if past is not None and is_told else ""), _ALONE_FIX)


_ALONE_FIX: Final = (
    "Run the forward on every rank.\n"
    "Or, to evaluate on one rank only, call the wrapped module, model.module(...), which issues "
    "no collective; broadcast_buffers=False spares a model whose buffers do not matter."
)


def _is_from_a_line_of_its_own(case: Case, candidate: Candidate, gap: IterationGap) -> bool:
    """Whether suspects run a forward where they never ran one, while the others call their own."""
    if not set(gap.leaders) <= set(candidate.suspects) or not is_user(gap.behind):
        return False
    before = case.before(gap.leaders[0], candidate.stream, gap.seq)
    sites = {c.site for c in before if c is not None and c.role.startswith(_FORWARD)}
    return bool(sites) and gap.ahead.site not in sites


def _ran_backward(case: Case, candidate: Candidate, gap: IterationGap) -> bool:
    """Whether the ranks that are ahead had run the backward() of the iteration the others are in.

    Then they have run no forward too many: they issue more calls in one iteration.
    """
    before = case.before(gap.leaders[0], candidate.stream, gap.seq)
    return any(
        c is not None and c.iteration == gap.behind.iteration and roles.of(c.role).in_backward
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
    before = case.before(side.ranks[0], candidate.stream, candidate.seq)
    if any(c is not None and c.role.startswith(_FORWARD) and c.site == call.site for c in before):
        return None
    return Reason(
        f"{words.upper(words.ranks(side.ranks))} ran forward {call.iteration} of the DDP model"
        f"{words.at(call)}, and {who} ran none such: a forward of DDP issues collectives "
        f"({words.issuer(call)}), in evaluation too.",
        _ALONE_FIX,
    )

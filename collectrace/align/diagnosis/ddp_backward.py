"""Backwards of DistributedDataParallel that differ: buckets, ``no_sync``, unused parameters.

Sources: torch 2.13, ``torch/nn/parallel/distributed.py`` and ``csrc/distributed/c10d/reducer.cpp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from collectrace import roles, words
from collectrace.align.diagnosis import (
    decided,
    gone_past,
    lone_line,
    loop_lines,
    order,
    slip,
    ways_told,
)
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.slip import Slip
from collectrace.align.diagnosis.standpoint import Standpoint, side_of
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    ONE_LENGTH,
    SKIPPED,
    Reason,
    called,
)
from collectrace.align.judging.backwards import beside, left_before, missed
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, code_lines
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.roles import pairing_class
from collectrace.signature import is_asked, is_user

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
    before = case.before(plain[0].ranks[0], candidate.stream, candidate.seq)
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
    if found is None and _had_no_forward(case, candidate):
        return None
    lines = gone_past.order_of_sides(case, candidate)
    if lines is not None and not roles.of(lines.left.call.role).in_backward:
        return None  # who is in backward() has gone past another call, into its next step
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
    reached = case.before(found.rank, stream, candidate.seq)
    theirs = next((c for c in reached if c and c.iteration == mine.iteration), None)
    return theirs is None or _entered(case, rank, mine.t) > _entered(case, found.rank, theirs.t)


def _had_no_forward(case: Case, candidate: Candidate) -> bool:
    """Whether who is in no backward() has run no model since its call before: not in no_sync()."""
    if candidate.stream is None or candidate.seq is None:
        return False
    for side, call in called(candidate):
        last = case.call(side.ranks[0], candidate.stream, candidate.seq - 1)
        if roles.of(call.role).in_backward or last is None:
            continue
        if call.iteration is not None and call.iteration == last.iteration:
            return not _entered(case, side.ranks[0], call.t, last.t)
    return False


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


def buckets(_: Case, candidate: Candidate) -> Reason | None:
    """All are in gradient buckets, of another size or dtype."""
    sides = called(candidate)
    if any(not roles.of(c.role).in_backward for _, c in sides):
        return None
    listed = words.listed([f"{words.op(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    if candidate.kind == "dtype_mismatch":
        return Reason(
            f"The gradient buckets differ in dtype: {listed}. Either a communication hook that "
            "compresses them (register_comm_hook) is there on some ranks only, or the model "
            "was converted on some.",
            "Register the same hook on every rank, before the first backward(); convert the "
            "model to one dtype on every rank.",
        )
    if candidate.kind not in ("shape_mismatch", "role_mismatch"):
        return None
    return Reason(
        f"The gradient buckets differ in size: {listed}. DDP fills them as backward() produces "
        "gradients, as it was constructed, and a communication hook may reduce other tensors "
        "in their place: the ranks' models, their frozen parameters, DDP's arguments "
        "(bucket_cap_mb), or what a hook has kept from the steps before are not the same.",
        "Build the same model, freeze the same parameters before DDP is constructed, give DDP "
        "the same arguments on every rank, and register the same hook, in the same state.",
    )


class _Apart(NamedTuple):
    """Ranks in a gradient bucket, and ranks that made another call."""

    inside: Sequence[tuple[Side, Call]]
    outside: Sequence[tuple[Side, Call]]

    @property
    def who(self) -> str:
        return words.ranks(rank for side, _ in self.outside for rank in side.ranks)

    @property
    def others(self) -> str:
        return words.ranks(rank for side, _ in self.inside for rank in side.ranks)

    @property
    def beyond(self) -> str:
        return "; ".join(f"{words.name(call)}{words.at(call)}" for _, call in self.outside)

    @property
    def bucket(self) -> str:
        """Who issued which bucket alone, the beginning of a sentence."""
        return (
            f"In backward(){words.at(self.inside[0][1])} {self.others} issued a gradient bucket "
            f"that {self.who} did not"
        )

    @property
    def unused(self) -> str:
        """What it means that ranks went past a bucket."""
        return (
            "DDP issues a bucket when all its parameters have their gradients, so on "
            f"{self.who} some took no part in the loss, or that backward() never ran."
        )


def _apart(case: Case, candidate: Candidate) -> _Apart | None:
    """None, too, of a call that is made for its own sake: it takes the place of no bucket."""
    sides = called(candidate)
    inside = [(s, c) for s, c in sides if roles.of(c.role).in_backward]
    outside = [(s, c) for s, c in sides if not roles.of(c.role).in_backward]
    if not inside or not outside or any(c.role.startswith("join.") for _, c in sides):
        return None
    own = [c for _, c in outside if not is_user(c)]
    alone = lone_line.only_here(case, candidate) is not None
    if any(is_asked(c) or (alone and roles.of(c.role).is_library) for c in own):
        return None
    if order.headline(case, candidate):
        return None  # of which of the script's calls are too many or too few
    return _Apart(inside, outside)


def unused(case: Case, candidate: Candidate) -> Reason | None:
    """Some went past a bucket that others issued: they never filled it."""
    apart = _apart(case, candidate)
    if apart is None or _places(case, candidate, apart) != {"past"}:
        return None
    told = f"{apart.bucket}: {apart.who} had gone on to {apart.beyond}. {apart.unused}"
    past = gone_past.of_sides(case, candidate) or ways_told.in_callback(case, candidate)
    if past is None or past.left.ranks != apart.inside[0][0].ranks:
        ended = _loop_ended(case, apart)
        if ended is None:
            return Reason(told, UNUSED_FIX)
        return Reason(
            f"{apart.bucket}: {apart.who} had gone on to {apart.beyond}. {ended.cause} Or all "
            f"rounds ran there: {apart.unused}",
            f"{ended.fix}\nIf all rounds ran on {apart.who}: {words.lower(UNUSED_FIX)}",
        )
    return Reason(
        told + past.sentence,
        f"{past.fix}\nIf that backward() ran on {apart.who}: {words.lower(UNUSED_FIX)}",
    )


def _loop_ended(case: Case, apart: _Apart) -> Reason | None:
    """That who went on is out of a loop that the others are in, be it of a function; else None."""
    (side, call), (bucket, within) = apart.outside[0], apart.inside[0]
    gone = Standpoint(side.ranks, call, side.stack or ())
    loop = loop_lines.loop_of_one(case, Standpoint(bucket.ranks, within, bucket.stack or ()), gone)
    if loop is None or not loop_lines.may_differ(case, loop):
        return None
    return Reason(
        f"{loop_lines.told_out_of(loop, side.ranks, bucket.ranks)}: it may have ended earlier on "
        f"{apart.who}.{loop_lines.can_end(loop)}",
        loop_lines.as_long(case, loop),
    )


def _places(
    case: Case, candidate: Candidate, apart: _Apart
) -> set[Literal["before", "past"] | None]:
    bucket, _ = apart.inside[0]
    return {beside(case, candidate, side, bucket) for side, _ in apart.outside}


def either(case: Case, candidate: Candidate) -> Reason | None:
    """The same where it is not known which comes first."""
    apart = _apart(case, candidate)
    if apart is None or "before" in _places(case, candidate, apart):
        return None
    who, others = apart.who, apart.others
    if _is_behind_its_loop(case, apart):
        way = f"Or the loop around that backward() was over on {who}, and not on {others}."
        fix = ONE_LENGTH
    else:
        way = (
            f"Or that backward() comes behind it, in this round or in the next: then {others} "
            f"left it out, or only {who} made it.{decided.sentence(case, candidate)}"
        )
        fix = decided.fix(case, candidate) or EVERY_RANK
    return Reason(
        f"{apart.bucket}: {who} called {apart.beyond}. Either {who} had gone on to that: "
        f"{apart.unused} {way}",
        f"If {apart.who} had gone on: {words.lower(UNUSED_FIX)}\nIf not: {words.lower(fix)}",
    )


def _is_behind_its_loop(case: Case, apart: _Apart) -> bool:
    """Whether the other call's line stands behind a loop that the backward() is in."""
    (side, call), (bucket, within) = apart.outside[0], apart.inside[0]
    here, there = chains.outermost_apart(side.stack or (), bucket.stack or ())
    sites = (chains.site(here), chains.site(there)) if here else (call.site, within.site)
    return code_lines.loop_before(case.code, *sites) is not None


def left_out(case: Case, candidate: Candidate) -> Reason | None:
    """Calls that came before the backward() in each iteration, and that some ranks did without."""
    found = left_before(case, candidate)
    habit = missed(case, candidate, found.who, found.makers) if found is not None else None
    if found is None or habit is None:
        return None
    makers, who = words.ranks(found.makers.ranks), words.ranks(found.who.ranks)
    times = f" {habit.usual} times" if habit.usual > 1 else ""
    return Reason(
        f"{words.upper(makers)} called {closed(named(case, found.makers.ranks[0], found.call))} as "
        f"all ranks had{times} in each of the {habit.iterations} DDP iterations before, ahead of "
        f"{named(case, found.who.ranks[0], found.bucket, brief=True)}; {who} came to that "
        f"{f'after {habit.made} of them' if habit.made else 'without it'}."
        f"{decided.sentence(case, candidate) or SKIPPED}",
        decided.fix(case, candidate) or EVERY_RANK,
        "some ranks",
    )

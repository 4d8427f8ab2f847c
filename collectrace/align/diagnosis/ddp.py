"""What goes wrong around DistributedDataParallel: its constructor, its models, calls beside it.

Sources: torch 2.13, ``torch/nn/parallel/distributed.py`` and ``csrc/distributed/c10d/reducer.cpp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from collectrace import roles, words
from collectrace.align.diagnosis import (
    begun_anew,
    come_out,
    decided,
    fewer_rounds,
    gone_past,
    lone_line,
    loop_lines,
    parted,
    rounds,
    undecided,
    ways_told,
)
from collectrace.align.diagnosis.callers import closed, named, newest
from collectrace.align.diagnosis.ddp_backward import UNUSED_FIX
from collectrace.align.diagnosis.standpoint import standpoints
from collectrace.align.diagnosis.wording import EVERY_RANK, Reason, called, if_ended
from collectrace.align.judging.by_rank import chosen_by_rank
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.models import of_one_model
from collectrace.align.judging.one_loop import part_in_one_loop
from collectrace.align.judging.parted import calls_in_one_loop
from collectrace.align.judging.rounds import went_on
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_asked, is_user


def constructor(case: Case, candidate: Candidate) -> Reason | None:
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
    own = between(case, candidate)
    if own is not None and set(chosen_by_rank(case, candidate)) & set(candidate.suspects):
        return own  # the others come to the constructor, too, once that call is out of the way
    who = words.ranks(r for s, _ in inside for r in s.ranks)
    others = "; ".join(
        f"{words.ranks(s.ranks)} issued {words.call(c)}" for s, c in sides if (s, c) not in inside
    )
    past = gone_past.of_sides(case, candidate)
    if past is not None and past.gone.call.role == "ddp.construct":
        here, gone = words.ranks(past.left.ranks), words.ranks(past.gone.ranks)
        return Reason(
            f"{words.upper(gone)} went on to DDP's constructor{words.at(past.gone.call)}, which "
            f"compares the models over the group, where {here} issued "
            f"{named(case, past.left.ranks[0], past.left.call)}.{past.sentence}",
            past.fix,
            "some ranks",
        )
    told = (
        f"DDP was constructed{words.at(inside[0][1])} on {who} only, and its constructor compares "
        f"the models over the group: {others}."
    )
    fix = "Construct DistributedDataParallel on every rank of its group, in the same order."
    return _decided(case, candidate, Reason(told, fix))


def _decided(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """A reason with the condition that tells the sides' lines apart, if one is seen."""
    why = _under(case, candidate)
    if why is None:
        return reason
    return Reason(reason.cause + why.cause, f"{reason.fix}\n{why.fix}", "some ranks")


def _under(case: Case, candidate: Candidate) -> Reason | None:
    """The condition that a side's line stands under, and the others' do not, if one is seen."""
    points = standpoints(candidate)
    return decided.of_points(case, candidate, points, candidate.suspects, by_line=True)


def models(case: Case, candidate: Candidate) -> Reason | None:
    """Several DDP models on one group, used in different orders."""
    sides = called(candidate)
    if len({c.role for _, c in sides}) > 1 or not sides[0][1].role.startswith("ddp."):
        return None
    if len({c.model or 1 for _, c in sides}) == 1:
        return None
    more = parted.extra_here(case, candidate)
    if more is not None:
        return more._replace(cause=f"{more.cause}{_meet(sides)}")
    listed = words.listed([
        f"model {c.model or 1} on {words.ranks(s.ranks)}{words.at(c)}" for s, c in sides
    ])  # fmt: skip
    reason = Reason(
        f"Several DDP models share this group, and the ranks do not use them in one order: here "
        f"{listed} (counted as they were constructed).{_meet(sides)}",
        f"Run forward and backward of the models in one order on every rank, and each as often."
        f"{_CHOOSE if _is_one_line(sides) else ''}",
        "some ranks",
    )
    return _decided(case, candidate, reason)


def _is_one_line(sides: Sequence[tuple[Side, Call]]) -> bool:
    return len({(call.site, side.stack) for side, call in sides}) == 1


def _meet(sides: Sequence[tuple[Side, Call]]) -> str:
    """What models that are used in other orders lead to, and what not: after a space."""
    is_backward = all(roles.of(call.role).in_backward for _, call in sides)
    told = " So the gradients of one model meet those of another." if is_backward else ""
    if not _is_one_line(sides):
        return told
    return (
        f"{told} They come from one line: what it works on differs, as where models are gone "
        "through in another order, or a step's model is chosen by a random number or by data."
    )


_CHOOSE: Final = (
    "\nWhere each step chooses its model: let every rank choose alike, by the step's number or by "
    "one seed, or let one rank choose and broadcast it."
)


def between(case: Case, candidate: Candidate) -> Reason | None:
    """A call of the script's own under a condition, where the others are inside DDP."""
    return _own_call(case, candidate, decided.sentence(case, candidate))


def alone(case: Case, candidate: Candidate) -> Reason | None:
    """A call of the script's own, at a line to which nobody else ever came.

    Behind a loop that ended early it proves nothing, nor behind a backward() that was begun.
    """
    if _is_past_a_backward(case, candidate) or loop_lines.is_behind(case, candidate):
        return None
    return _own_call(case, candidate, lone_line.told(case, candidate))


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
        f"{words.upper(words.ranks(side.ranks))} issued "
        f"{named(case, side.ranks[0], call)}{script}, where "
        f"{words.ranks(other.ranks)} {words.verb(other.ranks, 'was', 'were')} in "
        f"{named(case, other.ranks[0], theirs, brief=True)}.{why}",
        decided.fix(case, candidate) or EVERY_RANK,
        "some ranks",
    )


def _is_past_a_backward(case: Case, candidate: Candidate) -> bool:
    """Whether the suspects have begun the backward() that the others are in: a part is missing."""
    if candidate.stream is None or candidate.seq is None or not candidate.suspects:
        return False
    before = case.call(candidate.suspects[0], candidate.stream, candidate.seq - 1)
    return before is not None and any(
        roles.of(before.role).in_backward
        and roles.of(c.role).in_backward
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
    if not of_one_model(case, (*side.ranks[:1], *other.ranks[:1])):
        return None
    who, others = words.ranks(side.ranks), words.ranks(other.ranks)
    passes = words.counted(call.iteration or 0, "forward pass", "forward passes")
    new = newest(case, side.ranks[0], candidate.stream, candidate.seq)
    told = (
        f"After {passes} of the DDP model {who} called "
        f"{named(case, side.ranks[0], call, within=new)}; {others} had begun the "
        f"{words.ordinal(newer.iteration or 0)} instead, "
        f"{named(case, other.ranks[0], newer, brief=True)}."
    )
    what = closed(named(case, side.ranks[0], call, brief=True))
    branch = f"Make the {what} on every rank or on none."
    left = _out_by(loop_lines.left(case, candidate), side)
    early = _came_early(case, candidate, side, other) if left is None else None
    if early is not None:
        return Reason(f"{told} {early.cause}", early.fix)
    left = left or _out_by(come_out.out_of(case, candidate), side)
    if left is not None:
        return _in_the_loop(case, candidate, left, told)
    if calls_in_one_loop(case, side, other):
        return Reason(f"{told}{_ONE_LOOP.format(who=who)}", branch)
    habit = went_on(case, candidate, side.ranks)
    if habit is not None:
        told += (
            f" All ranks had come to the {what} there in each of the {habit.rounds} equal rounds "
            "before."
        )
    past = gone_past.of_sides(case, candidate)
    if past is not None and past.gone.ranks == other.ranks:
        return Reason(told + past.sentence, past.fix)
    if habit is not None:
        return Reason(
            f"{told} {words.upper(others)} left it out, or went through the loop once more.",
            f"{branch}\nLet all ranks decide together whether a round is left out or repeated: an "
            "all_reduce of the flag, MIN or MAX, before each takes its way.",
        )
    again = rounds.one_more_turn(case, candidate, side.ranks)
    if again is not None:
        return Reason(told + again.cause, again.fix)
    anew = _out_by(loop_lines.entered(case, candidate), side)
    if anew is not None:
        return _begun_again(case, candidate, anew, Reason(told, branch))
    return _branched_or_ended(case, candidate, side, other, Reason(told, branch))


def _begun_again(case: Case, candidate: Candidate, left: loop_lines.Left, known: Reason) -> Reason:
    """Who has come into a loop again, out of which all had come, and what stands above that."""
    inside = left.inside.ranks
    told = (
        f"{known.cause} All had come out of the loop {left.loop.quoted} before; "
        f"{words.ranks(inside)} {words.verb(inside, 'has', 'have')} begun it again."
    )
    fix = decided.fix(case, candidate)
    if fix:
        return Reason(told + decided.sentence(case, candidate), fix)
    under = _under(case, candidate)
    return known._replace(cause=told) if under is None else under._replace(cause=told + under.cause)


_ONE_LOOP: Final = " Both are in one loop: only {who} took that way in it."


def _branched_or_ended(
    case: Case, candidate: Candidate, side: Side, other: Side, known: Reason
) -> Reason:
    """A branch in a loop that both sides are in; else it, or the end of a loop."""
    who = words.ranks(side.ranks)
    why = decided.sentence(case, candidate)
    if why and part_in_one_loop(case, side.stack or (), other.stack or ()):
        return Reason(
            f"{known.cause}{_ONE_LOOP.format(who=who)}{why}",
            decided.fix(case, candidate) or known.fix,
        )
    order = gone_past.order_of_sides(case, candidate)
    seen = undecided.of_sides(case, candidate)
    if seen is not None and order is not None and order.gone.ranks == side.ranks:
        return Reason(known.cause + seen.cause, seen.fix)
    makes = words.verb(side.ranks, "makes", "make")
    return Reason(
        f"{known.cause} Either the loop ended earlier on {who}, or only {who} {makes} this call (a "
        "branch).",
        f"{if_ended(f'{loop_lines.even_length(case)} {_OR_JOIN}')}\n"
        f"If it is a branch: make the call on every rank or on none.",
    )


def _in_the_loop(case: Case, candidate: Candidate, left: loop_lines.Left, told: str) -> Reason:
    """Who has left a loop, and how; or who may have come into it anew."""
    gone, inside = left.gone.ranks, left.inside.ranks
    told += (
        f" {words.upper(words.ranks(gone))} {words.verb(gone, 'has', 'have')} left the loop "
        f"{left.loop.quoted}, and {words.ranks(inside)} {words.verb(inside, 'is', 'are')} in it."
    )
    if left.gone.call.role.startswith(come_out.KEEPS):
        name = f"{words.name(left.gone.call)}{words.at(left.gone.call)}"
        return Reason(
            f"{told} Either the loop ended earlier on {words.ranks(gone)}, or "
            f"{words.ranks(inside)} went past {name}: {parted.KEPT}",
            f"{parted.UPDATE_FIRST}\n{if_ended()}",
        )
    seq, suspects = candidate.seq or 0, candidate.suspects
    anew = begun_anew.seen(case, left, candidate.stream, seq, suspects)
    if anew is not None:
        return Reason(f"{told} {anew.cause}", anew.fix)
    way = ways_told.out_of_loop(case, candidate)
    if way is not None:
        return Reason(told + way.cause, way.fix)
    return Reason(told, _as_long(case, left.loop))


def _out_by(left: loop_lines.Left | None, side: Side) -> loop_lines.Left | None:
    """Who left a loop, if it is a side that did."""
    return left if left is not None and left.gone.ranks == side.ranks else None


def _as_long(case: Case, loop: loop_lines.LoopLine | None) -> str:
    """What makes a loop that one side has left as long on every rank."""
    if loop is not None and loop.is_counted:
        return loop_lines.equally_often(loop)
    return f"{loop_lines.even_length(case, loop)}\n{_OR_JOIN}"


def _came_early(case: Case, candidate: Candidate, side: Side, other: Side) -> Reason | None:
    """That ranks came to a call, as the others had, too, and this time after fewer forward passes.

    So no branch brought them there, and the others are not past it: they are where they were after
    as many passes before.
    """
    mine, theirs = (_visits(case, candidate, one.ranks[0], side) for one in (side, other))
    gaps = {after - before for before, after in pairwise(mine)}
    call = side.call
    if mine != theirs or len(gaps) != 1 or call is None or call.iteration is None:
        return None
    usual, now = gaps.pop(), call.iteration - mine[-1]
    if not 0 < now < usual:
        return None
    points = {point.ranks: point for point in standpoints(candidate)}
    loop = loop_lines.loop_of_one(case, points[other.ranks], points[side.ranks])
    where = f"the loop {loop.quoted}" if loop is not None else "the loop before it"
    fewer = fewer_rounds.seen(case, points[other.ranks], side.ranks, loop)
    ended, fix = f"{where} ended earlier there.", _as_long(case, loop)
    if fewer.left_out:  # what is counted are its forward passes
        ended = f"either {where} ended earlier there, or a round of it was left out.{fewer.cause}"
        fix = f"{fewer.fix}\n{if_ended(fix)}".lstrip()
    return Reason(
        f"{words.upper(words.ranks((side.ranks[0], other.ranks[0])))} had come there "
        f"{words.counted(len(mine), 'time')} before, "
        f"{words.counted(usual, 'forward pass', 'forward passes')} apart; this time "
        f"{words.ranks(side.ranks)} came after {now}: {ended}",
        fix,
    )


def _visits(case: Case, candidate: Candidate, rank: int, side: Side) -> list[int]:
    """After which forward passes a rank came, before the row, to where a side is at it."""
    before = case.before(rank, candidate.stream, candidate.seq)
    return list(
        dict.fromkeys(
            call.iteration
            for call in before
            if call is not None
            and call.iteration is not None
            and side.call is not None
            and call.op == side.call.op
            and case.stack(rank, call) == (side.stack or ())
            and call.site == side.call.site
        )
    )


_OR_JOIN: Final = "Or train inside `with model.join():`, which answers DDP's calls, and no others."


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

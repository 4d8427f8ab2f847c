"""Collectives that autograd runs in a backward(), as those of an autograd function or a hook.

autograd comes to a node only where the loss was computed from what the node gave. So a rank whose
loss leaves that out makes none of its collectives, though it called backward() as the others did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from collectrace import roles, words
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.edits import edit
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging import choices
from collectrace.align.judging.backwards import (
    autograd_function,
    frame_of_function,
    is_inside,
    left_before,
    missed,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.mirrored import left_backward
from collectrace.align.judging.own_round import LeftRound
from collectrace.align.judging.rounds import leap
from collectrace.align.matching import habit
from collectrace.align.reading import chains
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_user


class _Missing(NamedTuple):
    """Collectives of a backward pass that some ranks left out."""

    who: Side
    makers: Side
    rank: int
    """Whose the calls are."""
    calls: Sequence[Call]
    as_before: str
    """That all ranks had made them before: a sentence after a space."""
    was_run: bool
    """Whether that backward() is known to have been run on those who left them out."""


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Ranks that went on without what autograd had run in each backward() before."""
    missing = (
        _beside_a_bucket(case, candidate)
        or _of_round(case, candidate)
        or _midway(case, candidate)
        or _behind(case, candidate)
    )
    if missing is None:
        return None
    rank, call = missing.rank, missing.calls[0]
    outside = missing.who.stack or ()
    stacks = [case.frames_or_line(rank, one) for one in missing.calls]
    if any(_is_chosen(case, stack, outside) for stack in stacks):
        return None
    who, makers = words.ranks(missing.who.ranks), words.ranks(missing.makers.ranks)
    more = len(missing.calls) - 1
    rest = f" and {words.counted(more, 'more call')} of that backward()" if more else ""
    function = autograd_function(case, rank, call)
    runs, cut = "it", "what it belongs to took no part in the loss"
    if function:
        runs, cut = f"{function}()", "the forward's output was cut out of the graph"
        if not _ran_forward(case, candidate, missing, function):
            cut = f"either its forward was not run, or {cut.replace('the forward', 'that forward')}"
    if not missing.was_run:
        cut += ", or backward() was not called at all"
    return Reason(
        f"{words.upper(who)} did not issue {named(case, rank, call)}{rest}, as {makers} did."
        f"{missing.as_before} autograd runs {runs} only for what the loss was computed from: on "
        f"{who} {cut}. A loss that leaves a term out does that, and so do new zeros in place of a "
        "computation with no input.",
        _KEEP,
        None if missing.was_run else "some ranks",
    )


_KEEP: Final = (
    "Keep the forward's output in the graph on every rank: where there is nothing to compute, go "
    "on with it times zero (out * 0), or with a dummy input; where the loss has no use for it, add "
    "it times zero (loss + 0 * out.sum())."
)


def of_one(case: Case, left: LeftRound) -> Reason | None:
    """Why one rank may have left out, or put off, what it had called in a backward().

    A sentence after a space. None where autograd does not run it, it may leave it out by itself or
    leave it to others, or what was called instead is in a backward(), too.
    """
    rank, call = left.rank, left.usual
    function = autograd_function(case, rank, call)
    if not function or autograd_function(case, rank, left.made):
        return None
    stack = case.stack(rank, call)
    if frame_of_function(case, stack) not in stack[:1] or _is_chosen(case, stack):
        return None
    return Reason(
        f" autograd runs {function}() only within a backward(), where the loss was computed from "
        "what that forward gave and something that it took needs a gradient: "
        f"on rank {rank} backward() was not called between the two, or had no use for it.",
        f"Let rank {rank} call backward() behind each such forward, as before. If it did: let "
        "something that goes into that forward need a gradient in every step (x.requires_grad_()), "
        "also where no parameter before it does, and keep what comes out of it in the loss; or "
        "make the exchange outside of autograd.\n"
        f"Where the {call.op} was meant to be left out, or to come later, let "
        f"{words.other_end(call)} do so as well.",
    )


def of_exchange(case: Case, candidate: Candidate) -> Reason | None:
    """An all_to_all of a backward() that some ranks made in the place of one they left out."""
    found = left_backward(case, candidate)
    if found is None:
        return None
    who, others, rank = words.ranks(found.ranks), words.ranks(found.others), found.ranks[0]
    due, made = (
        f"call {call.seq}, {named(case, rank, call, brief=True)}"
        for call in (found.due, found.made)
    )
    are, left = words.verb(found.ranks, "is", "are"), words.counted(found.calls, "call")
    they = f"{others} {words.verb(found.others, 'is', 'are')}"
    return Reason(
        f"Unless it is the sizes that are wrong, by them {they} in the backward of {closed(due)} "
        f"and {who} {are} already in that of {made}: {who} went past {left} of this backward(). "
        "autograd comes to the backward of an exchange only where the loss was computed from what "
        "its forward gave, and what its forward took needs a gradient: so on "
        f"{who} it was cut out of the graph. New zeros, or an empty tensor, in place of a "
        "computation with no input do that.",
        f"{_KEEP}\nWhere backward() is called for several losses: call them in one order on every "
        "rank. Where all ranks are in the same one: let what is sent back fit what was received.",
    )


def _beside_a_bucket(case: Case, candidate: Candidate) -> _Missing | None:
    """Those of DDP's backward(), where the others are in a gradient bucket of the same one."""
    found = left_before(case, candidate)
    if found is None:
        return None
    who, _, makers, call = found
    rank = makers.ranks[0]
    inside = is_inside(makers.stack or (), who.stack or ())
    if not inside and not autograd_function(case, rank, call):
        return None
    usual = missed(case, candidate, who, makers)
    before = ""
    if usual is not None:
        before = f" So all ranks had done in each of the {usual.iterations} DDP iterations before."
    return _Missing(who, makers, rank, (call,), before, was_run=True)


def _of_round(case: Case, candidate: Candidate) -> _Missing | None:
    """Those that came next in the round which all ranks had gone through alike."""
    sides = {side.ranks: side for side in candidate.sides if side.call is not None}
    found, far = edit(case, candidate), leap(case, candidate)
    if found is not None and found.what == "missing" and found.habit is not None:
        calls, times = found.calls, f", {found.habit.times} through the loop"
        who, makers = sides.get(found.ranks), sides.get(found.others)
    elif far is not None and far.others.call is not None:
        calls, times = far.skipped, f", in each of the {far.rounds} equal rounds"
        who, makers = far.side, far.others
    else:
        return None
    if who is None or makers is None:
        return None
    rank = who.ranks[0]
    if not all(_is_autograds(case, rank, call) for call in calls):
        return None
    was_run = is_inside(makers.stack or (), who.stack or ()) or _is_autograds(case, rank, who.call)
    return _Missing(who, makers, rank, calls, f" So all ranks had done before{times}.", was_run)


def _midway(case: Case, candidate: Candidate) -> _Missing | None:
    """Those of a backward() out of which some came sooner, who were in it by their call before."""
    sides = [side for side in candidate.sides if side.call is not None]
    stream, seq = candidate.stream, candidate.seq
    if len(sides) != 2 or stream is None or seq is None:
        return None
    for makers, who in (sides, sides[::-1]):
        rank, other, call = makers.ranks[0], who.ranks[0], makers.call
        if call is None or not _is_autograds(case, rank, call):
            continue
        last = case.call(other, stream, seq - 1)
        if last is None or _is_autograds(case, other, who.call):
            continue
        if autograd_function(case, other, last) == autograd_function(case, rank, call):
            before = " Up to there they had made as many calls in that backward()."
            return _Missing(who, makers, rank, (call,), before, was_run=True)
    return None


def _behind(case: Case, candidate: Candidate) -> _Missing | None:
    """Those of a backward() whose line others have passed, who had made them each time before."""
    sides = [side for side in candidate.sides if side.call is not None]
    if len(sides) != 2:
        return None
    for makers, who in (sides, sides[::-1]):
        rank, other, call = makers.ranks[0], who.ranks[0], makers.call
        if call is None or not _is_autograds(case, rank, call):
            continue
        there, here = chains.outermost_apart(makers.stack or (), who.stack or ())
        if not there or chains.scope(there) != chains.scope(here):
            continue
        if not chains.line(there) < chains.line(here) or _is_autograds(case, other, who.call):
            continue
        earlier = case.before(other, candidate.stream, candidate.seq)
        stacks = [case.stack(other, one) for one in earlier if one is not None]
        times = stacks.count(tuple(makers.stack or ()))
        if times < habit.ENOUGH or not _is_before(stacks[-1], there, makers.stack or ()):
            continue
        was_run = choices.conditions(case, (there,), here) == []
        before = f" All ranks had done so {times} times before."
        return _Missing(who, makers, rank, (call,), before, was_run)
    return None


def _is_before(stack: Sequence[str], frame: str, other: Sequence[str]) -> bool:
    """Whether a call was made before a frame's line, in the same run of its function."""
    own = chains.beside(stack, other, len(other) - list(other).index(frame) - 1)
    return chains.scope(own) == chains.scope(frame) and chains.line(own) < chains.line(frame)


def _is_autograds(case: Case, rank: int, call: Call | None) -> bool:
    return call is not None and is_user(call) and bool(autograd_function(case, rank, call))


def _is_chosen(case: Case, stack: Sequence[str], outside: Sequence[str] = ()) -> bool:
    """Whether the function or hook may leave a call out by itself; so, too, where it is not known.

    Then all may have run it, and what decides in it is to be told. ``outside``: the frames around a
    hook, which has no class that tells where it ends.
    """
    frame = frame_of_function(case, stack)
    outer = stack[stack.index(frame) + 1 :] if frame else outside
    within = stack[: len(stack) - len(outer)]
    there = outer[0] if outer else ""
    return not within or choices.of_frames(case, within, there) != []


def _ran_forward(case: Case, candidate: Candidate, missing: _Missing, function: str) -> bool:
    """Whether those who left it out made a call in that function's forward, since the last round.

    ``function``: as :func:`autograd_function` has it.
    """
    rank, name = missing.who.ranks[0], function.removesuffix("backward") + "forward"
    began = False
    for call in reversed(case.before(rank, candidate.stream, candidate.seq)):
        if call is None:
            return False
        if roles.of(call.role).in_backward or _is_autograds(case, rank, call):
            if began:
                return False
            continue
        began = True
        if any(chains.function(frame).endswith(name) for frame in case.stack(rank, call)):
            return "." in name
    return False

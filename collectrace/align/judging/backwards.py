"""Where a call stands beside a backward() of DDP: by the iterations before, and by the stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from collectrace import roles
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.models import of_one_model
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import LOOK_BACK
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.roles import is_shadow
from collectrace.signature import is_user


class Missed(NamedTuple):
    """How often ranks had made a call in each iteration before, and did in this one."""

    iterations: int
    """Those before, as far as was looked."""
    usual: int
    made: int


def beside(
    case: Case, candidate: Candidate, side: Side, bucket: Side
) -> Literal["before", "past"] | None:
    """Where ranks are that made a call while others were in a gradient bucket; None: not known.

    ``before``: that bucket comes behind the call, so the others have left out the call, or come to
    it later. ``past``: the bucket should have come first, so these ranks have left it out.
    """
    rank, call, other = side.ranks[0], side.call, bucket.call
    if call is None or other is None or other.iteration is None:
        return None
    if not of_one_model(case, (rank, bucket.ranks[0])):
        return None
    if call.iteration != other.iteration:
        return "past" if (call.iteration or 0) > other.iteration else "before"
    earlier, this = _iterations(case, candidate, rank, other.iteration)
    issued = sum(_is_of_backward(one) for one in this)
    found = {
        n: [_around(those, at) for at, one in enumerate(those) if _is_like(case, rank, one, side)]
        for n, those in earlier.items()
    }
    places = [one for those in found.values() for one in those if any(one)]
    if not places:
        is_over = issued and not is_inside(side.stack or (), bucket.stack or ())
        return "past" if is_over or _is_behind(side, bucket) else None
    if all(not behind for _, behind in places):
        return "past"
    if all(not before for before, _ in places):
        return None if issued else "before"
    # In the first iteration DDP has other buckets than in all that follow.
    settled = [one for n, those in found.items() if n > 1 for one in those if any(one)]
    usual = {before for before, _ in settled or places}
    if len(usual) > 1 or issued > min(usual):
        return None
    return "before" if issued in usual else "past"


class LeftBefore(NamedTuple):
    """Ranks that came to a gradient bucket, and ranks at a call of their own that comes before."""

    who: Side
    bucket: Call
    makers: Side
    call: Call


@once
def left_before(case: Case, candidate: Candidate) -> LeftBefore | None:
    """Who of two sides came to a bucket without what had come before it in each iteration.

    None, too, where they are in different iterations.
    """
    sides = [side for side in candidate.sides if side.call is not None]
    for makers, who in (sides, sides[::-1]) if len(sides) == 2 else ():
        call, bucket = makers.call, who.call
        if call is None or bucket is None or call.iteration != bucket.iteration:
            continue
        if not is_user(call) or not roles.of(bucket.role).is_bucket or is_shadow(bucket.role):
            continue
        if beside(case, candidate, makers, who) == "before":
            return LeftBefore(who, bucket, makers, call)
    return None


def missed(case: Case, candidate: Candidate, who: Side, makers: Side) -> Missed | None:
    """How often ranks have left out others' call in this iteration; None: they have not, or not so.

    Only where both had made it equally often in each of two iterations before at least.
    """
    current = who.call.iteration if who.call is not None else None
    ranks = who.ranks[0], makers.ranks[0]
    if current is None or not of_one_model(case, ranks):
        return None
    usual, iterations, made = set[int](), 0, 0
    for rank in ranks:
        earlier, this = _iterations(case, candidate, rank, current)
        usual |= {
            sum(_is_like(case, rank, one, makers) for one in those)
            for those in earlier.values()
            if any(map(_is_of_backward, those))
        }
        iterations = len(earlier)
        if rank == who.ranks[0]:
            made = sum(_is_like(case, rank, one, makers) for one in this)
    if len(usual) != 1 or iterations < _ENOUGH or made >= min(usual):
        return None
    return Missed(iterations, usual.pop(), made)


_ENOUGH: Final = 2
"""Iterations that tell what each has."""


def is_inside(stack: Sequence[str], backward: Sequence[str]) -> bool:
    """Whether a call was made by what a backward() ran, both given by their stacks."""
    n = len(backward)
    return 0 < n < len(stack) and tuple(stack[-n:]) == tuple(backward)


def autograd_function(case: Case, rank: int, call: Call) -> str:
    """The backward of an autograd function that a call comes from, as ``Gather.backward``.

    Empty where it comes from none that is known: what else has that name may be anything.
    """
    frame = frame_of_function(case, case.frames_or_line(rank, call))
    return chains.function(frame).rpartition("<locals>.")[2] or ("backward" if frame else "")


def frame_of_function(case: Case, stack: Sequence[str]) -> str:
    """The innermost frame of a stack that is in the backward of an autograd function; empty: none.

    By the class around it, whose line must be seen.
    """
    for frame in stack:
        lines = case.statements(chains.site(frame))
        if statements.function(lines) == "backward" and statements.is_of_autograd_function(lines):
            return frame
    return ""


def _iterations(
    case: Case, candidate: Candidate, rank: int, current: int
) -> tuple[Mapping[int, Sequence[Call]], Sequence[Call]]:
    """A rank's calls before the row: of the whole iterations before, and of the current one."""
    rows = case.before(rank, candidate.stream, candidate.seq)
    found: dict[int, list[Call]] = {}
    first = current
    for call in reversed(rows):
        if call is None or call.iteration is None or call.iteration > first:
            break  # since then the iterations have been counted as they are now
        first = call.iteration
        found.setdefault(first, []).insert(0, call)
    if len(rows) == LOOK_BACK:
        found.pop(first, None)  # of which a part may lie before
    this = found.pop(current, [])
    return found, this


def _is_of_backward(call: Call) -> bool:
    return roles.of(call.role).in_backward


def _is_like(case: Case, rank: int, one: Call, side: Side) -> bool:
    """Whether an earlier call of a rank is the one that a side made, from the same lines."""
    call = side.call
    return (
        call is not None
        and (one.op, one.role, one.site) == (call.op, call.role, call.site)
        and case.stack(rank, one) == tuple(side.stack or ())
    )


def _around(calls: Sequence[Call], at: int) -> tuple[int, int]:
    """How many of an iteration's calls in its backward come before one of its calls, and behind."""
    return sum(map(_is_of_backward, calls[:at])), sum(map(_is_of_backward, calls[at + 1 :]))


def _is_behind(side: Side, bucket: Side) -> bool:
    """Whether a call's line comes behind that of a backward() in one function."""
    here, there = chains.outermost_apart(side.stack or (), bucket.stack or ())
    return bool(here) and (
        chains.scope(here) == chains.scope(there) and chains.line(here) > chains.line(there)
    )

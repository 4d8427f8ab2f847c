"""Ranks that were at different lines before anything failed: since when, and what that means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    begun_anew,
    come_out,
    conditions,
    decided,
    due,
    fewer_rounds,
    gone_past,
    inputs,
    loop_lines,
    standpoint,
    two_ways,
    undecided,
)
from collectrace.align.diagnosis.callers import closed, place_of
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import LOOK_ABOVE, ONE_LENGTH, Reason, if_ended
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.parted import parted, parted_here
from collectrace.align.matching.parting import Extra, Parting
from collectrace.align.reading import chains
from collectrace.ops import canonical_op
from collectrace.records import Call
from collectrace.signature import is_asked

_FEW: Final = 3


def extra(case: Case, candidate: Candidate) -> Reason | None:
    """One side made calls that the other did not make there, and went on as that did."""
    return _extra(case, candidate, parted(case, candidate))


def extra_here(case: Case, candidate: Candidate) -> Reason | None:
    """The same of a candidate's own row, whose bytes fit."""
    return _extra(case, candidate, parted_here(case, candidate))


def _extra(case: Case, candidate: Candidate, found: Parting | None) -> Reason | None:
    if found is None or found.extra is None:
        return None
    more = found.extra
    if not more.is_alone and more.agreeing < len(more.calls):
        return None  # so few calls may fit by chance
    points = standpoint.of_parting(case, candidate, found)
    if found.ranks[0] != more.rank:
        points.reverse()
    left = _ended_earlier(case, candidate, found, points[1], points[0])
    if left is not None and not more.is_alone and not left.loop.is_over_model:
        ended = _ended(case, candidate, found.seq, left)
        return ended._replace(cause=f"{ended.cause}{_met(candidate, found, points[1].ranks)}")
    mine, others = points[0].ranks, points[1].ranks
    frames = chains.outermost_apart(points[0].stack, points[1].stack)
    who, those = words.ranks(mine), words.ranks(others)
    count, calls = words.counted(len(more.calls), "call"), _calls(case, more, frames[0])
    there = (
        words.site(chains.site(frames[1])) if frames[1] else words.site(points[1].call.site or "")
    )
    at = f", at {there}," if there else ""
    left_out = not more.is_alone and set(others) <= set(candidate.suspects)
    if left_out:
        told = f"From call {found.seq} on {those}{at} left out {calls}, {count} that {who} made"
        told += " there"
        fix = f"for a branch that {those} did not take, or a loop that was shorter there."
        behind = f"behind them its calls are those of {who} again, {count} earlier"
    else:
        never = "never made" if more.is_alone else "did not make there"
        told = f"From call {found.seq} on {who} issued {calls}, {count} that {those}{at} {never}"
        takes = words.verb(mine, "takes", "take")
        fix = f"for a branch that only {who} {takes}, or a loop that runs on there."
        behind = f"behind them its calls are those of {those} again, {count} later"
        if not more.agreeing:
            behind = f"then it was back at lines of {those}"
    decides = decided.of_points(case, candidate, points, candidate.suspects, by_line=True)
    first = place_of(case, more.rank, more.calls[0], within=frames[0], brief=True)
    look = f"look above {closed(first.removeprefix(' at '))} {fix}"
    return Reason(
        f"{words.upper(told)}; {behind}.{decides.cause if decides is not None else ''}"
        f"{_met(candidate, found, mine if left_out else others)}",
        decides.fix if decides else f"Make {_what(more)} on every rank, or on none: {look}",
        "some ranks",
        decides.fix if decides else "",
    )


def _met(candidate: Candidate, found: Parting, others: Sequence[int]) -> str:
    """Why nothing failed where they parted: a sentence after a space, or nothing."""
    if candidate.seq is None or candidate.seq <= found.seq:
        return ""
    return (
        f" Their bytes fit what {words.ranks(others)} issued meanwhile, so nothing failed before "
        f"call {candidate.seq}."
    )


def lines(case: Case, candidate: Candidate) -> Reason | None:
    """The sides have been at different lines since before the row, and why, as far as is seen."""
    found = parted(case, candidate)
    return _apart(case, candidate, found) if found is not None else None


def lines_here(case: Case, candidate: Candidate) -> Reason | None:
    """The sides come to one call from different lines, and in the rows before came from one.

    So it is not one call with other arguments: it is two, of a helper, or of a model's module.
    """
    found = parted_here(case, candidate)
    if found is None or not _are_of_one_line(case, candidate):
        return None
    one, two = found.calls
    is_same = (canonical_op(one.op), one.role) == (canonical_op(two.op), two.role)
    return _apart(case, candidate, found) if is_same else None


def _are_of_one_line(case: Case, candidate: Candidate) -> bool:
    """Whether all ranks of each side have come to the row from the same lines."""
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None:
        return False
    return all(
        len({case.stack(r, call) for r in side.ranks if (call := case.call(r, stream, seq))}) == 1
        for side in candidate.sides
        if side.call is not None
    )


@once
def due_here(case: Case, candidate: Candidate) -> Reason | None:
    """A line of a leader has met one of its followers' with which it never met before."""
    found = parted_here(case, candidate)
    if found is None or candidate.stream is None or not _are_of_one_line(case, candidate):
        return None
    points = standpoint.of_parting(case, candidate, found)
    if decided.of_points(case, candidate, points, candidate.suspects) is not None:
        return None
    return due.reason(case, candidate.stream, found, points, candidate.suspects)


def modules_here(case: Case, candidate: Candidate) -> Reason | None:
    """The same of a framework's calls from one line of a model, perhaps of two models.

    Whatever else is known of modules holds for those of one model.
    """
    found = parted_here(case, candidate)
    if found is None or len({call.site for call in found.calls}) > 1:
        return None
    return None if any(is_asked(call) for call in found.calls) else lines_here(case, candidate)


def _apart(case: Case, candidate: Candidate, found: Parting) -> Reason | None:
    if candidate.seq is None:
        return None
    points = standpoint.of_parting(case, candidate, found)
    sides = [point.ranks for point in points]
    here, there = chains.outermost_apart(points[0].stack, points[1].stack)
    if not here or not there:
        here, there = (call.site or "" for call in found.calls)
    if not here or not there or here == there:
        return None
    fitted = (
        f"Their calls fitted until here, so nothing failed before call {candidate.seq}."
        if candidate.seq > found.seq
        else ""
    )
    for gone, within in (points, points[::-1]):
        left = _ended_earlier(case, candidate, found, gone, within)
        if left is not None:
            ended = _ended(case, candidate, found.seq, left)
            return ended._replace(cause=f"{ended.cause} {fitted}".rstrip())
    both = two_ways.reason(case, candidate, found, points) if candidate.seq > found.seq else None
    if both is not None:
        return both
    decides = decided.of_points(case, candidate, points, candidate.suspects)
    if candidate.stream is not None and decides is None:
        missed = due.reason(case, candidate.stream, found, points, candidate.suspects)
        if missed is not None:
            return missed._replace(cause=f"{missed.cause} {fitted}".rstrip())
    why = decides or Reason("", LOOK_ABOVE, "some ranks")
    at = (
        f"At call {found.seq} {words.ranks(sides[0])} {words.verb(sides[0], 'is', 'are')} at "
        if candidate.seq == found.seq
        else f"Since call {found.seq} {words.ranks(sides[0])} "
        f"{words.verb(sides[0], 'has', 'have')} been at "
    )
    return Reason(
        f"{at}"
        f"{points[0].at(here)}, {words.ranks(sides[1])} at {points[1].at(there)}, where before "
        f"each line met the same line of the others.{why.cause} {fitted}".rstrip(),
        why.fix,
        "some ranks",
    )


def _ended_earlier(
    case: Case, candidate: Candidate, found: Parting, gone: Standpoint, within: Standpoint
) -> loop_lines.Left | None:
    """Whether one has come out of a loop, perhaps of a function, which the other is in again.

    Seen by the row before: there the one that is out was in the loop, too.
    """
    if candidate.stream is None:
        return None
    rank = next(r for r, c in zip(found.ranks, found.calls, strict=True) if c is gone.call)
    before = case.call(rank, candidate.stream, found.seq - 1)
    loop = loop_lines.come_out_of(case, within, gone._replace(ranks=(rank,)), before)
    left = loop_lines.Left(gone, within, loop) if loop is not None else None
    return left if left is None or not _came_between(case, candidate, found.seq, left) else None


def _came_between(case: Case, candidate: Candidate, seq: int, left: loop_lines.Left) -> bool:
    """Whether who is out of a loop made a call between two visits of all ranks to it."""
    if not set(left.gone.ranks) <= set(candidate.suspects):
        return False
    return begun_anew.is_next_turn(case, left, candidate.stream, seq)


def _ended(case: Case, candidate: Candidate, seq: int, left: loop_lines.Left) -> Reason:
    """A loop that ended earlier, and the batches of the DataLoader that it goes through, if any."""
    gone, within, loop = left
    stream = candidate.stream
    had = inputs.of_loop(case, loop.site, gone.ranks, within.ranks, stream, seq) if stream else None
    if had is None:
        return _anew(case, candidate, seq, left) or _out_of(case, candidate, seq, left)
    told = _out_of(case, candidate, seq, left)
    return Reason(
        f"Uneven inputs: in the loop {loop.quoted} {had.phrase()}. {told.cause}",
        f"Give {loop.quoted} the same number of batches on every rank: DistributedSampler (pads; "
        "cuts with drop_last=True) and DataLoader(drop_last=True), for an evaluation, too.",
        "uneven",
    )


def out_of_loop(
    case: Case, candidate: Candidate, who: tuple[int, ...] | None = None, times: str = ""
) -> Reason | None:
    """These ranks have come out of a loop, perhaps of a function, which the others go on in.

    ``who``: not where it is others; None: whoever it is. ``times``: how often they had gone through
    what they repeated, if known.
    """
    left = come_out.out_of(case, candidate)
    if left is None or candidate.seq is None or (who is not None and left.gone.ranks != who):
        return None
    if _came_between(case, candidate, candidate.seq, left):
        return None
    who = left.gone.ranks
    # Turns of a loop within it would be counted with its own.
    is_innermost = case.loops(left.inside.stack)[-1:] == [(left.loop.file, left.loop.line)]
    once = times and is_innermost and not case.loops(left.gone.stack)
    within = next(
        (one for one in conditions.of_sides(case, candidate) if _is_in(case, one, left)), None
    )
    after = f" after {times} through it" if once else ""
    is_told = within is not None or gone_past.of_sides(case, candidate) is not None
    anew = _anew(case, candidate, candidate.seq, left, after)
    if anew is not None:
        return anew
    cause, fix, *_ = _out_of(
        case,
        candidate,
        candidate.seq,
        left,
        after,
        is_told=is_told,
        names_condition=within is not None,
    )
    if within is not None:
        cause += f" Or {within.quoted}, in it, led {words.ranks(who)} past the call."
        fix = f"{decided.fix_of(case, within)}\n{if_ended(fix)}"
    return Reason(cause, fix, "left")


def _is_in(case: Case, condition: conditions.Condition, left: loop_lines.Left) -> bool:
    """Whether a condition stands in the loop, around the call of those who are still in that."""
    if condition.ranks != left.inside.ranks or condition.forks:
        return False
    for frame in left.inside.stack:
        lines = case.statements(chains.site(frame))
        if condition.file == chains.file(frame) and condition.line in lines:
            is_before = frame == left.loop.frame and left.loop.line in lines
            return not is_before or lines.index(condition.line) > lines.index(left.loop.line)
        if frame == left.loop.frame:
            return False
    return False


def _out_of(
    case: Case, candidate: Candidate, seq: int, left: loop_lines.Left, after: str = "", *,
    is_told: bool = False, names_condition: bool = False,
) -> Reason:  # fmt: skip
    """Who left a loop, and how.

    ``is_told``: what may have led past the call is told besides. ``names_condition``: and that as
    another reason than the end of the loop.
    """
    gone, within, loop = left
    who = words.ranks(gone.ranks)
    goes = f"{words.verb(within.ranks, 'goes', 'go')} through it once more"
    told = f"{_told_out(seq, left, after, goes)}: "
    if not loop.is_over_model:
        fewer = fewer_rounds.seen(case, within, gone.ranks, loop)
        ended = f"the loop ended earlier on {who}."
        if set(within.ranks) <= set(candidate.suspects):
            ended = f"it went on for longer on {words.ranks(within.ranks)}."
        elif fewer.left_out and not names_condition:
            ended = f"either {ended[:-1]}, or a round of it was left out there."
        fix = fewer.applied()
        if within.call.role.startswith(come_out.KEEPS) and not names_condition:
            made = words.name(within.call)
            ended = f"either {ended[:-1]}, or {made} was left out there in one of its turns: {KEPT}"
            fix = f"{UPDATE_FIRST}\n{if_ended(fix)}"
        inner = undecided.within(case, candidate, within, gone.ranks, loop)
        if inner is not None and not names_condition:
            fixes = dict.fromkeys(filter(None, (*fewer.fix.split("\n"), *inner.fix.split("\n"))))
            cause = f"{told}{inner.cause.format(ended=ended)}{fewer.cause}"
            return Reason(cause, "\n".join(fixes), "uneven")
        if is_told:
            return Reason(told + ended, ONE_LENGTH, "uneven")
        if not fewer.cause:
            ended += loop_lines.can_end(loop)
        return Reason(told + ended + fewer.cause, fix, "uneven")
    return Reason(
        f"{told}{who} made fewer calls in it.",
        f"Make the same calls in {loop.quoted} on every rank, for each that it goes over: with "
        "zeros where a rank has nothing for it (no gradient, no state). If the ranks' models "
        "differ: build the same one on every rank.",
        "uneven",
    )


KEPT: Final = (
    "a metric keeps what compute() gave until its next update(), and gives it without a call."
)
UPDATE_FIRST: Final = (
    "Let every rank come to compute() equally often, and as often with an update() since the last: "
    "what one rank shows on its own belongs into a metric of its own (sync_on_compute=False)."
)


def _told_out(seq: int, left: loop_lines.Left, after: str, goes: str) -> str:
    """Who is out of a loop, and where, and who is in it."""
    gone, within, loop = left
    outside = chains.outermost_apart(gone.stack, within.stack)[0] or gone.call.site or ""
    return (
        f"At call {seq} {words.ranks(gone.ranks)} {words.verb(gone.ranks, 'is', 'are')} out of the "
        f"loop {loop.quoted}{after}, at {gone.at(outside)}; {words.ranks(within.ranks)} {goes},"
        f" at {within.at(loop.frame)}"
    )


def _anew(
    case: Case, candidate: Candidate, seq: int, left: loop_lines.Left, after: str = ""
) -> Reason | None:
    """Who left a loop, and who may have begun it anew; None: nothing leads back into it."""
    found = begun_anew.seen(case, left, candidate.stream, seq, candidate.suspects)
    if found is None:
        return None
    told = _told_out(seq, left, after, f"{words.verb(left.inside.ranks, 'is', 'are')} in it")
    return Reason(f"{told}. {found.cause}", found.fix, "uneven")


def _what(more: Extra) -> str:
    """``the barrier``; ``these calls`` where they are of several kinds."""
    names = {words.name(call) for call in more.calls}
    return f"the {names.pop()}" if len(names) == 1 else "these calls"


def _calls(case: Case, more: Extra, within: str) -> str:
    """``all_gather_single at eval.py:28``: each kind of call once, and a place that all share.

    ``within``: the frame of a caller that is to be named.
    """
    told: dict[str, list[str]] = {}
    for call in more.calls:
        names = told.setdefault(_reached(case, more.rank, call, within), [])
        if words.name(call) not in names:
            names.append(words.name(call))
    if len(told) == 1:
        ((place, names),) = told.items()
        return f"{_few(names)}{place}"
    return _few([f"{name}{place}" for place, names in told.items() for name in names])


def _reached(case: Case, rank: int, call: Call, frame: str) -> str:
    """Where a call was made, and the line of a frame further out by which it came there."""
    place = place_of(case, rank, call, within="" if is_asked(call) else frame)
    outer = chains.site(frame)
    named = not outer or words.site(outer) in place
    return place if named else f"{place}, reached from {words.site(outer)}"


def _few(told: Sequence[str]) -> str:
    rest = len(told) - _FEW
    return words.listed([*told[:_FEW], *([f"{rest} more kinds"] if rest > 0 else [])])

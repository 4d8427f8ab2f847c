"""The shortest edit between the streams of two sides: calls too many, too few, in another order.

It serves the wording only: rows and blame do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from collectrace.align.diagnosis import gone_past, lone_line, loop
from collectrace.align.diagnosis.loop import token
from collectrace.align.diagnosis.wording import called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.permuted import calls_from, permuted
from collectrace.align.judging.rounds import leap
from collectrace.align.matching import habit
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import program_text

_WINDOW: Final = 300
"""Calls after a difference within which the streams are brought together again."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What would have to be changed on some ranks to make them do what the others did."""

    what: Literal["extra", "missing", "permuted", "left"]
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    calls: tuple[Call, ...]
    """The calls that are too many or too few; those in another order; what was issued instead."""
    habit: loop.Loop | None = None
    """What the ranks had repeated before, where that tells; else what follows does."""
    agrees: bool = False
    """Whether they agree again behind it, for a round at least."""


@once
def edit(case: Case, candidate: Candidate) -> Edit | None:
    """What some ranks would have to change to issue what the others did; None: not evident.

    Between two sides only, by what follows the row, else by what came before it.
    """
    pair = _two_sides(candidate)
    if pair is None or candidate.stream is None or candidate.seq is None:
        return None
    right, wrong = pair
    orders = permuted(case, candidate)
    if orders is not None:
        return Edit("permuted", wrong.ranks, right.ranks, orders.calls)
    by_script = _by_script(case, candidate, right, wrong)
    if by_script is not None and (
        by_script.agrees or not _is_against_lines(case, candidate, by_script)
    ):
        return by_script
    return _by_habit(case, candidate, right, wrong)


def _is_against_lines(case: Case, candidate: Candidate, found: Edit) -> bool:
    """Whether, by the lines, who made a call too many is past the others', or who lacks one is not.

    What fits behind it for less than a round may do so by chance.
    """
    order = gone_past.order_of_sides(case, candidate)
    if order is None:
        return False
    return (order.gone if found.what == "extra" else order.left).ranks == found.ranks


def _two_sides(candidate: Candidate) -> tuple[Side, Side] | None:
    """Who is taken for right, and who for wrong; in a tie the order means nothing."""
    sides = [side for side, _ in called(candidate)]
    suspects = set(candidate.suspects)
    wrong = [side for side in sides if suspects and set(side.ranks) <= suspects]
    right = [side for side in sides if side not in wrong]
    if len(right) == 1 and len(wrong) == 1:
        return right[0], wrong[0]
    return (sides[0], sides[1]) if len(sides) == 2 else None


def _by_script(case: Case, candidate: Candidate, right: Side, wrong: Side) -> Edit | None:
    """By what follows the row: the streams agree again after some calls of one side only.

    They do where they agree until one of them ends, or for as long as a round: one row that fits
    may do so by chance.
    """
    from difflib import SequenceMatcher

    a, b = (calls_from(case, side.ranks[0], candidate, _WINDOW) for side in (right, wrong))
    one, two = [program_text(c) for c in a], [program_text(c) for c in b]
    script = SequenceMatcher(None, one, two, autojunk=False).get_opcodes()
    if len(script) < 2:
        return None  # nothing follows on which they agree again
    tag, a_start, a_end, b_start, b_end = script[0]
    agreeing = script[1][2] - script[1][1]
    round_ = max(2, _period(case, right, candidate))
    if agreeing < round_ and a_end + agreeing < len(one) and b_end + agreeing < len(two):
        return None
    agrees = agreeing >= round_
    if not agrees and (known := leap(case, candidate)) and known.rounds >= habit.ENOUGH:
        return None  # what it did in equal rounds tells more than a row or two that fit
    if tag == "insert":
        return Edit("extra", wrong.ranks, right.ranks, tuple(b[b_start:b_end]), agrees=agrees)
    if tag == "delete" and not _is_at_its_own(case, candidate, wrong):
        calls = tuple(a[a_start:a_end])
        if candidate.suspects:
            return Edit("missing", wrong.ranks, right.ranks, calls, agrees=agrees)
        return Edit("extra", right.ranks, wrong.ranks, calls, agrees=agrees)
    return None


def _is_at_its_own(case: Case, candidate: Candidate, side: Side) -> bool:
    """Whether a side is at a line of its own: it did not merely go on, it did something else."""
    own = lone_line.only_here(case, candidate)
    return own is not None and own[0].ranks == side.ranks


def _period(case: Case, side: Side, candidate: Candidate) -> int:
    if candidate.stream is None or candidate.seq is None:
        return 0
    before = loop.before(case, side.ranks[0], candidate.stream, candidate.seq)
    return before.period if before is not None else 0


def _by_habit(case: Case, candidate: Candidate, right: Side, wrong: Side) -> Edit | None:
    """By what came before: one side goes on with its loop, the other leaves it or skips a call.

    None unless both were in a loop and exactly one goes on.
    """
    if candidate.stream is None or candidate.seq is None:
        return None
    edits = []
    for side, other in ((right, wrong), (wrong, right)):
        before = loop.before(case, side.ranks[0], candidate.stream, candidate.seq)
        if side.call is None or before is None or before.expected is None:
            return None
        if before.goes_on(side.call):
            continue
        skipped = before.skips_one(side.call) and not _is_at_its_own(case, candidate, side)
        edits.append(
            Edit(
                "missing" if skipped else "left",
                side.ranks,
                other.ranks,
                (before.expected if skipped else side.call,),
                before,
            )
        )
    if len(edits) != 1:
        return None
    (found,) = edits
    if found.what != "missing" or found.ranks != right.ranks or not candidate.suspects:
        return found
    # More than half went on otherwise than before: either they made a call that who kept on lacks,
    # or they left one out, which is one too many then. Of a row of calls from one line who kept on
    # may have begun the next.
    latest = token(found.habit.latest) if found.habit is not None else token(right.call)
    again = latest in (token(right.call), token(wrong.call))
    if again:
        return Edit("missing", wrong.ranks, right.ranks, (right.call,) if right.call else ())
    return Edit("extra", wrong.ranks, right.ranks, (wrong.call,) if wrong.call else ())

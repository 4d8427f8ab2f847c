"""One line that goes through tensors of several kinds, and ranks that are at different ones.

As where a metric gathers each tensor that it holds, first the boxes, then the labels: a rank that
holds one less comes to the labels where the others are still at the boxes. What it passes is no
wrongly made tensor then, but another. So it is where the line is called several times in each turn
of a loop, and other calls come between the turns, or none do and the two are of other dtypes; of
one that is called once in each, nothing is known: what it was given may have come out otherwise.
Unlike ``rounds.turns`` this goes by what it was given in earlier rounds, and needs no ``for``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter, ne
from typing import NamedTuple

from collectrace import words
from collectrace.align.diagnosis import arguments
from collectrace.align.diagnosis.callers import closed, place_of
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import Divergence
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.signature import is_user, numel


class _Turn(NamedTuple):
    """Who is at which tensor."""

    ahead: tuple[Side, Call]
    behind: tuple[Side, Call]
    before: int
    """Calls with what those behind are at, which the ranks had made in a row, all of them."""


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Ranks that are at other tensors of one line; None: it is not known that they are."""
    found = _turn(case, candidate)
    if found is None:
        return None
    (ahead, one), (behind, other) = found.ahead, found.behind
    there = f"{words.name(one)}{closed(place_of(case, ahead.ranks[0], one))}"
    here, there_too = words.tensors(one), words.tensors(other)
    now = (
        f"Here, after {found.before:,} of {there_too}, {words.ranks(ahead.ranks)} went on to "
        f"{here}, and {words.ranks(behind.ranks)} to another {there_too}"
        if found.before
        else f"Here {words.ranks(ahead.ranks)} passed {here}, {words.ranks(behind.ranks)} "
        f"{there_too}"
    )
    return Reason(
        f"The {there} has been called with both before, on every rank: {words.sized(one)} behind "
        f"{words.sized(other)}. {now}. So the ranks do not go through as many tensors there, or "
        "not in one order: they hold other numbers of them, or have left out some.",
        "Let every rank go through as many tensors there, in one order: agree on their number "
        "first (an all_reduce, MAX) and pad with empty ones, or join what a rank holds into one "
        "tensor of each kind (torch.cat) and exchange the sizes first. One that is left out, "
        "for want of a gradient or the like, must be left out on every rank; and a dict that is "
        "gone through must have the same keys everywhere, in one order (sorted).",
        "sizes",
    )


def _turn(case: Case, candidate: Candidate) -> _Turn | None:
    source, sides = candidate.source, called(candidate)
    if candidate.kind not in ("dtype_mismatch", "shape_mismatch") or len(sides) != 2:
        return None
    if not isinstance(source, Divergence) or candidate.mark != "root" or source.gap is not None:
        return None
    (one, first), (two, second) = sides
    stacks = [case.stack(side.ranks[0], call) for side, call in sides]
    if stacks[0] != stacks[1] or not stacks[0] or not _are_of_two_kinds(first, second):
        return None
    line = (first.op, stacks[0])
    rank = one.ranks[0]
    rows = case.before(rank, source.stream, source.seq)
    is_there = [c is not None and (c.op, case.stack(rank, c)) == line for c in rows]
    turns = [
        [_kind(call) for call, _ in run if call is not None]
        for of_line, run in groupby(zip(rows, is_there, strict=True), key=itemgetter(1))
        if of_line
    ]
    ended = turns[:-1] if is_there and is_there[-1] else turns
    is_unknown = not ended and first.dtype == second.dtype
    if is_unknown or any(len(turn) < 2 for turn in ended):
        return None  # once a turn of a loop: each rank may have made it of what it has
    if _differ_in_one(first, second) and any(turn != ended[0] for turn in ended):
        return None
    made = [kind for turn in turns for kind in turn]
    last = made[-1] if made else ""
    for ahead, behind in (((one, first), (two, second)), ((two, second), (one, first))):
        kinds = _kind(behind[1]), _kind(ahead[1])
        if kinds in pairwise(made) and last != kinds[1]:
            before = _at_the_end(made, kinds[0])
            if before or last in {m for m, after in pairwise(made) if after == kinds[0]}:
                return _Turn(ahead, behind, before)
    return None


def _are_of_two_kinds(one: Call, other: Call) -> bool:
    """Whether what two calls were given is not one tensor that has come out otherwise.

    As it does in another dtype, or with more or fewer rows.
    """
    if not (is_user(one) and is_user(other)) or one.void or other.void:
        return False
    is_sized = numel(one.shape) != numel(other.shape)
    return is_sized and not arguments.differs_in_first_only([one, other])


def _differ_in_one(one: Call, other: Call) -> bool:
    """Whether tensors differ in one dimension alone, as those that are padded to the longest."""
    a, b = one.shape or [], other.shape or []
    return one.dtype == other.dtype and len(a) == len(b) and sum(map(ne, a, b)) == 1


def _kind(call: Call) -> str:
    return words.tensors(call)


def _at_the_end(made: Sequence[str], kind: str) -> int:
    """How many of the last are of one kind."""
    return next((n for n, one in enumerate(reversed(made)) if one != kind), len(made))

"""Ranks in a loop which others have left, where a loop around both leads back into it.

Then they may have left it as well, gone past the others' call, and begun it anew. Which of the two
the rows before tell only where all had come to that call after more rounds of the inner loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis import fewer_rounds, visits
from collectrace.align.diagnosis.loop_lines import Left, around_both, is_in
from collectrace.align.diagnosis.wording import EVERY_RANK, ONE_LENGTH
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call
from collectrace.signature import program_text


class Anew(NamedTuple):
    """That ranks may have begun a loop anew, or gone on in it for longer."""

    cause: str
    """Both, and what may have led past the call; a sentence and more."""
    fix: str
    """What to change in either case."""


def seen(
    case: Case, left: Left, stream: StreamKey | None, seq: int, suspects: Sequence[int]
) -> Anew | None:
    """Who is in the loop may have begun it anew; None: nothing leads there, or it is decided.

    By the rounds before ``seq``. Not where who left the loop is to blame: then the others went on
    as they should.
    """
    gone, inside, loop = left
    around = around_both(case, gone.stack, inside.stack)
    if around is None or set(gone.ranks) <= set(suspects):
        return None
    past = fewer_rounds.seen(case, gone, inside.ranks, around)
    now, *before = _rounds(case, left, stream, seq)
    is_whole = bool(loop.turns and now and now % loop.turns == 0)
    if not (past.left_out or is_whole) or _is_shorter(now, before):
        return None
    who, others = words.ranks(gone.ranks), words.ranks(inside.ranks)
    are = words.verb(inside.ranks, "is", "are")
    either = f"Either it ended earlier on {who}"
    if now > 0 and set(before) == {now}:
        either = (
            f"{words.upper(who)} had come there after as many rounds of it before: either it went "
            f"on for longer on {others}"
        )
    went = (
        f"{others} went past {words.name(gone.call)}{words.at(gone.call)} and {are} in it again, "
        f"in the next round of {around.quoted}.{past.cause}"
    )
    if is_whole:
        return Anew(f"It goes equally often on every rank: {went}", past.fix or EVERY_RANK)
    return Anew(
        f"{either}, or {went}",
        f"{past.fix or EVERY_RANK}\nIf the loop {loop.quoted} was of another length: "
        f"{words.lower(ONE_LENGTH)}",
    )


def is_next_turn(case: Case, left: Left, stream: StreamKey | None, seq: int) -> bool:
    """Whether those in a loop of one length have begun it anew in the next turn of one around.

    By the rows before ``seq`` that are in it, between others: each run of them is as many whole
    visits, and begins with that call. So who is out of it has not left it earlier, but made a call
    between two visits.
    """
    gone, inside, loop = left
    if not loop.is_over_model or around_both(case, gone.stack, inside.stack) is None:
        return False
    known = _visits(case, left, stream, seq)
    if len(known) < _ENOUGH:
        return False
    begun = {program_text(one[-1]) for one in known if one[-1] is not None}
    shortest = min(map(len, known))
    is_whole = all(len(one) % shortest == 0 for one in known)
    return is_whole and begun == {program_text(inside.call)}


def _is_shorter(now: int, before: Sequence[int]) -> bool:
    """Whether so many rounds are fewer than always before, and not those of one turn of several.

    Where all ranks went past the call in some turns, those look like one longer turn.
    """
    if len(before) < _ENOUGH or len(set(before)) > 1:
        return False
    return 0 < now < before[0] and before[0] % now > 0


_ENOUGH: Final = 2
"""Turns that make it a habit how many rounds a loop has."""


def _rounds(case: Case, left: Left, stream: StreamKey | None, seq: int) -> list[int]:
    """How many rounds who left the loop has had each time that it came to it, the latest first.

    By how often it made there the call that the others are at. Of the first of those in the rows
    that are looked at it is not known where it began.
    """
    rank, call = left.gone.ranks[0], left.inside.call
    rounds = [
        sum(
            one is not None
            and program_text(one) == program_text(call)
            and case.stack(rank, one) == tuple(left.inside.stack)
            for one in visit
        )
        for visit in _visits(case, left, stream, seq)
    ]
    return rounds or [0]


def _visits(case: Case, left: Left, stream: StreamKey | None, seq: int) -> list[list[Call | None]]:
    """Those of who left a loop to it, before a row."""
    rank = left.gone.ranks[0]
    return visits.before(
        case.before(rank, stream, seq), lambda one: is_in(case, case.stack(rank, one), left.loop)
    )

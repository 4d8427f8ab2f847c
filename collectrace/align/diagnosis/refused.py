"""A rank was refused a call over its own arguments, and went on without it, or ended there."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis import rank_words
from collectrace.align.diagnosis.wording import Wording
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.refusals import Refused, refused
from collectrace.align.reading.evidence import Refusal

_MOST_NAMED: Final = 4
"""Ranks whose refusals are told one by one."""

_LONGEST: Final = 200
"""Characters of an exception that a sentence can hold."""


def explain(case: Case, candidate: Candidate) -> Wording | None:
    """What follows from calls that were refused; None where it does not, or from more than that."""
    found = refused(case, candidate) if candidate.cause is None else None
    if found is None or candidate.severity == "info":
        return None
    who, others = found.ranks, [r for r in _members(candidate) if r not in found.by_rank]
    ended = [r for r in who if case.standings[r].state == "raised" and _is_last(case, r, found)]
    first = found.by_rank[who[0]][0]
    what = _what(first)
    never = f"It never reached {words.ranks(others)}"
    if len(ended) == len(who):
        return Wording(
            f"{what} raised on {words.ranks(who)} and never reached {words.ranks(others)}",
            f"{rank_words.details(case, who)} The call was refused there. {never}, who made it.",
            "Fix what raised; the other ranks did nothing wrong.",
        )
    told = "; ".join(_told(rank, found.by_rank[rank][0]) for rank in who[:_MOST_NAMED])
    short = words.counted(max(len(those) for those in found.by_rank.values()), "call")
    return Wording(
        f"{what} was refused on {words.ranks(who)}, which went on without it",
        f"{words.upper(told)}. {never}, who made it. The exception was caught, and since then "
        f"{words.ranks(who)} {words.verb(who, 'is', 'are')} {short} short of them.",
        "Fix the call that was refused: its exception says what is wrong with it.\n"
        "Where a rank may fail alone, do not go on after the exception there: let it end the rank, "
        "or let all ranks learn of it before the next collective (an all_reduce of an error flag).",
    )


def _members(candidate: Candidate) -> tuple[int, ...]:
    return candidate.group.ranks if candidate.group is not None else candidate.ranks


def _is_last(case: Case, rank: int, found: Refused) -> bool:
    """Whether a rank issued nothing after what it was refused."""
    last = case.standings[rank].last_call
    return last is None or last.t < found.by_rank[rank][-1].t


def _what(refusal: Refusal) -> str:
    if refusal.call is None:
        return f"call {refusal.seq}"
    return words.name(refusal.call) + words.at(refusal.call)


def _told(rank: int, refusal: Refusal) -> str:
    """``rank 2's 31st call, all_reduce at train.py:9, was refused: ValueError: bad size``."""
    error = words.brief(refusal.error, _LONGEST).rstrip(".")
    which = f"rank {rank}'s {words.ordinal(refusal.seq)} call"
    return f"{which}, {_what(refusal)}, was refused: {error}"

"""Exceptions that were caught, on some ranks: what they led to, and what to change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import decided
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.caught import Caught, before, caught
from collectrace.findings import Side
from collectrace.records import HANDLED, Raised

_MOST: Final = 3
"""Ranks whose exceptions are told one by one."""

_ADDRESS: Final = re.compile(r"(?<=<)([\w.]+) object at 0x[0-9a-f]+(?=>)")
"""Of an object's ``repr``: the same thing reads alike on every rank without it."""

_ALONE: Final = (
    "Where a rank may fail alone, do not go on after the exception there: let it end the rank, or "
    "let all ranks learn of it before the next collective (an all_reduce of an error flag)."
)


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """One side caught an exception, and was at another line, or some calls short, since."""
    found = caught(case, candidate) if candidate.cause is None else None
    if found is None or candidate.suspects != found.ranks or found.side.call is None:
        return None
    told = _told(found)
    who, others = words.ranks(found.ranks), words.ranks(found.others)
    first = found.by_rank[found.ranks[0]]
    error = _ADDRESS.sub(r"\1", words.exception(first.error, first.message))
    alone = decided.fix(case, candidate) if _is_of_exception(case, candidate) else _ALONE
    fix = f"Mend what raised {error}{words.at_site(first.site)}.\n{alone}"
    if found.left_out:
        call, n = found.left_out[0], words.counted(len(found.left_out), "call")
        return Reason(
            f"{told} It was caught, and {who} went on without {closed(words.name(call))}, which "
            f"{others} made{words.at(call)}: since then {who} "
            f"{words.verb(found.ranks, 'is', 'are')} {n} short of {others}.",
            fix,
        )
    return Reason(
        f"{told} {_went_on(case, candidate, found)}{decided.sentence(case, candidate)}",
        fix,
    )


def _went_on(case: Case, candidate: Candidate, found: Caught) -> str:
    """``The next call there is ...; on ranks 0-1 nothing was raised, and they called ...``."""
    mine = next((s for s, _ in called(candidate) if s.ranks == found.side.ranks), found.side)
    theirs = [s for s, _ in called(candidate) if s.ranks != found.side.ranks]
    went = words.listed([f"{words.ranks(s.ranks)} called {_call(case, s)}" for s in theirs])
    handled = any(raised.what == HANDLED for raised in found.by_rank.values())
    how = "while that was handled" if handled else "after it"
    return (
        f"{words.upper(how)} {words.ranks(mine.ranks)} called {_call(case, mine)}. Nothing was "
        f"raised there on the others: {went}."
    )


def _call(case: Case, side: Side) -> str:
    assert side.call is not None
    return closed(named(case, side.ranks[0], side.call)).removesuffix(",")


def _is_of_exception(case: Case, candidate: Candidate) -> bool:
    return any(one.asks in ("exception", "cleanup") for one in decided.conditions(case, candidate))


def _told(found: Caught) -> str:
    """``Ranks 2-3 raised ValueError: bad size in broadcast_object_list at serve.py:51.``."""
    by_text: dict[str, list[int]] = {}
    for rank, raised in sorted(found.by_rank.items()):
        inside = "" if raised.what == HANDLED else f" in {raised.what}"
        text = _ADDRESS.sub(r"\1", words.exception(raised.error, raised.message))
        by_text.setdefault(f"{text}{inside}{words.at_site(raised.site)}", []).append(rank)
    told = list(by_text.items())[:_MOST]
    return " ".join(f"{words.upper(words.ranks(who))} raised {text}." for text, who in told)


def notes(case: Case, candidate: Candidate, row: int) -> list[str]:
    """Exceptions that ranks went on after, just before the row at which they parted.

    Of suspects; where there are none, of the ranks of one side, if those of no other had one.
    Nothing where the cause tells of them.
    """
    if candidate.stream is None or candidate.seq is None or candidate.cause is not None:
        return []
    if reason(case, candidate) is not None:
        return []
    if not candidate.suspects:
        by_side = [_of(case, candidate, row, side.ranks) for side, _ in called(candidate)]
        told = [found for found in by_side if found]
        return told[0] if len(told) == 1 else []
    return _of(case, candidate, row, candidate.suspects)


def _of(case: Case, candidate: Candidate, row: int, ranks: Sequence[int]) -> list[str]:
    found = []
    for rank in ranks[:_MOST]:
        those = before(case, candidate, row, rank)
        if those:
            found.append(_note(rank, those[-1]))
    return found


def _note(rank: int, raised: Raised) -> str:
    said = f" ({words.brief(raised.message)})" if raised.message else ""
    if raised.what == HANDLED:
        return (
            f"Rank {rank} made its call while {raised.error}{said}, raised"
            f"{words.at_site(raised.site)}, was handled."
        )
    return (
        f"Just before, {raised.error}{said} left {raised.what}{words.at_site(raised.site)} on "
        f"rank {rank}, and the program went on."
    )

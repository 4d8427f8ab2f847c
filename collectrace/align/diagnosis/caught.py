"""Exceptions that were caught, on some ranks: what they led to, and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import conditions, decided
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.standpoint import Standpoint, standpoints
from collectrace.align.diagnosis.wording import Reason, called, quoted
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.caught import Caught, before, caught, handling, is_under
from collectrace.align.judging.in_handler import in_handler
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import LOOK_BACK
from collectrace.records import HANDLED, Raised

_MOST: Final = 3
"""Ranks whose exceptions are told one by one."""

_ALONE: Final = (
    "Where a rank may fail alone, do not go on after the exception there: let it end the rank, or "
    "let all ranks learn of it before the next collective (an all_reduce of an error flag)."
)


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """One side caught an exception, and was at another line, or some calls short, since."""
    found = caught(case, candidate) if candidate.cause is None else None
    if found is None or candidate.suspects != found.ranks:
        return None
    told = _told(found)
    who, others = words.ranks(found.ranks), words.ranks(found.others)
    first = found.by_rank[found.ranks[0]]
    alone = decided.fix(case, candidate) if _is_of_exception(case, candidate) else _ALONE
    fix = f"Mend what raised {_error(first)}{words.at_site(first.site)}.\n{alone}"
    if found.left_out:
        call, n = found.left_out[0], words.counted(len(found.left_out), "call")
        return Reason(
            f"{told} It was caught, and {who} went on without {words.name(call)}, which "
            f"{others} made{words.at(call)}: since then {who} "
            f"{words.verb(found.ranks, 'is', 'are')} {n} short of {others}.",
            fix,
        )
    return Reason(
        f"{told} {_went_on(case, candidate, found)}{decided.sentence(case, candidate)}",
        fix,
    )


def handled_since(case: Case, candidate: Candidate) -> Reason | None:
    """One side is in a handler since a row before, and the other in the body of its ``try``."""
    found = in_handler(case, candidate) if candidate.cause is None else None
    if found is None:
        return None
    who, others = words.ranks(found.side.ranks), words.ranks(found.others.ranks)
    had = words.verb(found.side.ranks, "has", "have")
    file = chains.file(found.frame)
    error = f", {_error(found.raised)}{words.at_site(found.raised.site)}" if found.raised else ""
    return Reason(
        f"Since call {found.since} {who} {had} come from {quoted(file, found.line)}, "
        f"at {words.site(chains.site(found.frame))}, and {others} from the `try` above it, at "
        f"{words.site(chains.site(found.within))}: {who} alone raised what was "
        f"caught there{error}. Their calls met till here, and do no longer.",
        f"Let all ranks take one way: let them agree at {quoted(file, found.line)} whether all can "
        "do what its `try` does (an all_reduce of a flag, MIN), and then do that on every rank or "
        f"on none. And look why it was raised on {who} alone.",
    )


def in_circle(case: Case, candidate: Candidate) -> Reason | None:
    """One rank of a circle waits in a call that it came to by an exception."""
    found = handling(case, candidate) if candidate.cause is None else None
    if found is None:
        return None
    who, raised = words.ranks([found.rank]), found.raised
    stack = case.stack(found.rank, found.call)
    handler = next((frame for frame in stack if is_under(case, frame, _HANDLERS)), "")
    told = named(case, found.rank, found.call, within=handler)
    error = f"{_error(raised)}{words.at_site(raised.site)}"
    return Reason(
        f"{words.upper(who)} raised {error}. While that was handled it called {told}, to which the "
        "others do not come: nothing was raised there on them.",
        f"Mend what raised {error}.\n{_ALONE}",
    )


def _went_on(case: Case, candidate: Candidate, found: Caught) -> str:
    """``After it rank 1 called ... Nothing was raised there on the others: rank 0 called ...``."""
    points = standpoints(candidate)
    mine = next((p for p in points if p.ranks == found.side.ranks), points[0])
    others = [point for point in points if point is not mine]
    went = [f"{words.ranks(other.ranks)} called {_call(case, other, mine)}" for other in others]
    how = _how(case, candidate, found, mine)
    return (
        f"{words.upper(how)} {words.ranks(mine.ranks)} called "
        f"{_call(case, mine, others[0])}. Nothing was raised there on the others: "
        f"{words.listed(went)}."
    )


def _how(case: Case, candidate: Candidate, found: Caught, mine: Standpoint) -> str:
    """Whether a call was made in the handler, or behind it; what was called in the handler."""
    rank = mine.ranks[0]
    raised = found.by_rank[rank]
    if raised.what != HANDLED or candidate.stream is None or candidate.seq is None:
        return "after it"
    if raised.t == mine.call.t or any(is_under(case, one, _HANDLERS) for one in mine.stack):
        return "while that was handled"
    earlier = case.before(rank, candidate.stream, candidate.seq, LOOK_BACK)
    within = next((one for one in earlier if one is not None and one.t == raised.t), None)
    if within is None:
        return "after it"
    return f"while that was handled it called {named(case, rank, within)}; after it"


def _call(case: Case, point: Standpoint, beside: Standpoint) -> str:
    """What ranks called, by the line in a handler, or by that which tells them from the others.

    Where the lines do not, with its tensors.
    """
    handler = (frame for frame in point.stack if is_under(case, frame, _HANDLERS))
    within = next(handler, chains.outermost_apart(point.stack, beside.stack)[0])
    told = named(case, point.ranks[0], point.call, within=within)
    is_same = (point.stack, point.call.site) == (beside.stack, beside.call.site)
    return f"{closed(told)} with {words.tensors(point.call)}" if is_same else told


_HANDLERS: Final = ("except", "finally")


def _is_of_exception(case: Case, candidate: Candidate) -> bool:
    return any(one.asks in ("exception", "cleanup") for one in conditions.of_sides(case, candidate))


def _told(found: Caught) -> str:
    """``Ranks 2-3 raised ValueError: bad size in broadcast_object_list at serve.py:51.``."""
    by_text: dict[str, list[int]] = {}
    for rank, raised in sorted(found.by_rank.items()):
        inside = "" if raised.what == HANDLED else f" in {raised.what}"
        text = f"{_error(raised)}{inside}{words.at_site(raised.site)}"
        by_text.setdefault(text, []).append(rank)
    told = list(by_text.items())[:_MOST]
    return " ".join(f"{words.upper(words.ranks(who))} raised {text}." for text, who in told)


def _error(raised: Raised) -> str:
    """``ValueError: bad size``."""
    return words.exception(raised.error, raised.message)


def notes(case: Case, candidate: Candidate, row: int, cause: str) -> list[str]:
    """Exceptions that ranks went on after, just before the row at which they parted.

    Of suspects; where there are none, of the ranks of one side, if those of no other had one.
    Not those that the cause tells of.
    """
    if candidate.stream is None or candidate.seq is None or candidate.cause is not None:
        return []
    who = [candidate.suspects] if candidate.suspects else [s.ranks for s, _ in called(candidate)]
    by_side = [_of(case, candidate, row, ranks) for ranks in who]
    raised = [found for found in by_side if found]
    if len(raised) != 1:
        return []
    return [_note(rank, one) for rank, one in raised[0] if _error(one) not in cause]


def _of(
    case: Case, candidate: Candidate, row: int, ranks: Sequence[int]
) -> list[tuple[int, Raised]]:
    """Each rank's latest exception before the row, of the first few that had one."""
    latest = ((rank, before(case, candidate, row, rank)) for rank in ranks[:_MOST])
    return [(rank, those[-1]) for rank, those in latest if those]


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

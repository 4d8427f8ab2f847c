"""A call was refused on some ranks over its own arguments, and never reached the others.

What it means
    torch checked the arguments and raised before it sent anything. If the program caught the
    exception and continued, its later calls meet the wrong calls of the others.

Example
    ::

        try:
            dist.all_reduce(grads)  # ValueError on rank 1 only: a sparse tensor
        except ValueError:
            pass                    # rank 1 is one call behind from here on

Not to be confused with
    CT104, if the program's own code raised. CT302, if the exception came from anything else.

How to fix it
    Fix the call that was refused. Do not continue after such an exception on one rank only.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.candidate import IncompleteRow
from collectrace.align.judging.refusals import refused


class Refused(NamedTuple):
    """A call that some ranks were refused."""

    ranks: tuple[int, ...]
    call: str
    errors: tuple[str, ...]
    """The exceptions of the first few ranks."""
    seq: int
    """The number that the call would have had."""
    behind: int
    """Calls that they have been short of since then; 0: they ended there."""


def find(situation: Situation) -> Refused | None:
    """Return which call was refused, and on which ranks."""
    case, candidate = situation.case, situation.candidate
    if isinstance(candidate.source, IncompleteRow):
        failed = candidate.source.failed
        errors = tuple(case.standings[rank].message for rank in failed[: waited_for.MOST])
        return (
            Refused(failed, waited_for.call(situation), errors, candidate.source.seq, 0)
            if failed
            else None
        )
    found = refused(case, candidate)
    if found is None:
        return None
    first = found.by_rank[found.ranks[0]][0]
    ended = all(
        case.standings[rank].state == "raised"
        and ((last := case.standings[rank].last_call) is None or last.t < those[-1].t)
        for rank, those in found.by_rank.items()
    )
    return Refused(
        found.ranks,
        phrases.call(first.call) if first.call is not None else f"call {first.seq}",
        tuple(found.by_rank[rank][0].error for rank in found.ranks[: waited_for.MOST]),
        first.seq,
        0 if ended else max(map(len, found.by_rank.values())),
    )


def words(situation: Situation, found: Refused) -> Words:
    """Return the words for a call that was refused."""
    who = text.ranks(found.ranks)
    members = (
        situation.candidate.group.ranks if situation.candidate.group else situation.candidate.ranks
    )
    others = text.ranks(rank for rank in members if rank not in found.ranks)
    errors = "; ".join(dict.fromkeys(text.brief(one, _LONGEST).rstrip(".") for one in found.errors))
    is_ = text.verb(found.ranks, "is", "are")
    behind = text.counted(found.behind, "call")
    ends = f"{text.upper(who)} caught the exception, and {is_} {behind} behind since."
    return Words(
        phrases.fitting(
            f"{found.call} raised on {who}, so only {others} made it",
            f"{found.call} raised on {who}",
        ),
        (
            f"At call {found.seq}, {who} raised: {errors}.{_passed(situation, found)}",
            ends
            if found.behind
            else f"{text.upper(who)} ended there; {others} made the call and wait.",
        ),
        (
            f"Fix what raised at {found.call} on {who}: its text says what is wrong with the call.",
            "If a rank may fail alone, do not go on after the exception: let it end the rank, or "
            "share an error flag with all ranks (all_reduce with MAX).",
        )
        if found.behind
        else (f"Fix what raised at {found.call}: the other ranks did nothing wrong.",),
    )


def _passed(situation: Situation, found: Refused) -> str:
    """Return a sentence on what a refused rank passed and what another one did, if they differ."""
    case, rank = situation.case, found.ranks[0]
    log, candidate = case.log(rank), situation.candidate
    mine = next(
        (r.call for r in (log.refused if log else ()) if r.seq == found.seq and r.call), None
    )
    other = next((one for one in candidate.ranks if one not in found.ranks), None)
    if mine is None or other is None or candidate.stream is None:
        return ""
    theirs = case.call(other, candidate.stream, found.seq)
    if theirs is None or (theirs.op, theirs.site) != (mine.op, mine.site):
        return ""
    told, usual = text.whole(mine), text.whole(theirs)
    return f" Rank {rank} called {told}, and rank {other} {usual}." if told != usual else ""


_LONGEST = 200
"""Characters of an exception that a sentence can hold."""

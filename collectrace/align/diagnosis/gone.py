"""Ranks that have left: to form the job anew, or because they were done."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    ddp_forward,
    decided,
    fewer_rounds,
    inputs,
    lone_line,
    loop,
    loop_lines,
    rank_words,
    undecided,
    ways_told,
)
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import EVERY_RANK, Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.records import Call


def rejoined(case: Case, candidate: Candidate) -> Reason | None:
    """The absent ranks have left the job to form it anew, and the others have not."""
    if not all(rank_words.rejoins(case.standings[rank]) for rank in candidate.absent):
        return None
    came = called(candidate)
    if not came or not candidate.absent:
        return None
    side, call = came[0]
    who, others = words.ranks(candidate.absent), words.ranks(side.ranks)
    point = Standpoint(side.ranks, call, side.stack or ())
    ways = ways_told.of_finished(case, point, candidate.absent)
    fix = (
        "Tear the job down together: let all ranks agree first (an all_reduce of a flag, MAX), and "
        "then call destroy_process_group() and init_process_group() on every one of them."
    )
    return Reason(
        f"{words.upper(who)} {rank_words.rejoins(case.standings[candidate.absent[0]])}, which "
        f"returns when every rank of the job has come; {others} had not left the job, and "
        f"{words.verb(side.ranks, 'waits', 'wait')} in it.{ways.cause if ways else ''}",
        f"{fix}\n{ways.fix}" if ways else fix,
        "some ranks",
    )


def evaluated(case: Case, candidate: Candidate) -> Reason | None:
    """The absent ranks finished, and the others ran a forward of DDP that they did not."""
    if any(case.standings[r].state != "finished" for r in candidate.absent):
        return None
    return ddp_forward.evaluated_alone(case, candidate)


_ELSE_OF_LOOP: Final = "under the `else` of `for "
"""A ``break`` leads past it, whatever the loop's head says."""


def finished(case: Case, candidate: Candidate) -> Reason | None:
    """A loop that ran longer on some ranks, or a call that only some make at the end.

    Or ranks that left by ``sys.exit()``, which tells how they came out of it.
    """
    reason = _finished(case, candidate)
    left = {rank: rank_words.left_by_exit(case.standings[rank]) for rank in candidate.absent}
    told = [f" {words.upper(f'rank {rank}')} left by {how}." for rank, how in left.items() if how]
    if reason is None or not told:
        return reason
    sites = dict.fromkeys(
        words.site(leaving.site)
        for rank in candidate.absent
        if left[rank] and (leaving := case.standings[rank].exit) is not None and leaving.site
    )
    fix = (
        f"Let no rank leave by itself at {words.listed(list(sites))}: let it note there that it is "
        "to end, and let all ranks decide by that in the same step (an all_reduce of the flag, "
        "MAX)."
    )
    return reason._replace(
        cause=reason.cause + "".join(told[:_MOST_LEFT]), fix=f"{fix}\n{reason.fix}"
    )


_MOST_LEFT: Final = 4
"""Ranks of which it is told how they left."""


def _finished(case: Case, candidate: Candidate) -> Reason | None:
    if any(case.standings[r].state != "finished" for r in candidate.absent) or not candidate.absent:
        return None
    came = called(candidate)
    if not came or candidate.stream is None or candidate.seq is None:
        return None
    side, call = came[0]
    who, others = words.ranks(candidate.absent), words.ranks(side.ranks)
    before = loop.before(case, side.ranks[0], candidate.stream, candidate.seq)
    why, fix = decided.sentence(case, candidate), decided.fix(case, candidate)
    point = Standpoint(side.ranks, call, side.stack or ())
    if _ELSE_OF_LOOP in why and (ways := ways_told.of_finished(case, point, candidate.absent)):
        why, fix = why + ways.cause, f"{ways.fix}\n{fix}"
    if before is not None and before.goes_on(call):
        fewer = fewer_rounds.seen(case, point, candidate.absent)
        longer = (
            "either the loop ran longer there" if fewer.left_out else "the loop ran longer there"
        )
        or_left = f", or {who} left out a round of it" if fewer.left_out else ""
        past = fewer.cause if fewer.fix or not why else ""
        around = [one.quoted for one in loop_lines.of_unlike_length(case, point.stack)]
        if 0 < len(around) <= loop_lines.MOST:
            longer = longer.replace("the loop", f"the loop {' or '.join(around)}")
        elif not around and not (why or past):
            seen = undecided.of_stack(case, point, candidate.absent)
            past, fix = (seen.cause, seen.fix) if seen is not None else (past, fix)
        return Reason(
            f"{words.upper(who)} finished after {before.times} through the loop; {others} began "
            f"another round with {named(case, side.ranks[0], call, brief=True)}: {longer}{or_left}."
            f"{_by_its_own(case, candidate, call)}"
            f"{inputs.left_over(case, candidate.absent, side.stack or ())}{why}{past}",
            fewer.applied(fix),
        )
    if not why:
        ways = ways_told.of_finished(case, point, candidate.absent)
        why, fix = (ways.cause, ways.fix) if ways is not None else ("", fix)
    if not why and (found := undecided.of_stack(case, point, candidate.absent)) is not None:
        why, fix = found.cause, found.fix
    thread = words.in_thread(call)
    beside = f",{thread}" if thread else ""
    return Reason(
        f"{words.upper(who)} finished without "
        f"{named(case, side.ranks[0], call)}{beside}, which {others} issued as one call more."
        f"{why or lone_line.told(case, candidate)}",
        f"{fix}\n{EVERY_RANK}" if fix else EVERY_RANK,
        "some ranks",
    )


def _by_its_own(case: Case, candidate: Candidate, call: Call) -> str:
    """The line by which ranks that finished had met others' calls, where it is another.

    A sentence after a space.
    """
    last = {
        rank: case.last_before(rank, candidate.stream, candidate.seq) for rank in candidate.absent
    }
    known = {one.site: (rank, one) for rank, one in last.items() if one is not None and one.site}
    if len(known) != 1 or call.site in known:
        return ""
    ((rank, one),) = known.values()
    who = words.upper(words.ranks(candidate.absent))
    return f" {who} took part by {named(case, rank, one)} until then."

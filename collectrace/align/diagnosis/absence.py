"""Calls that some ranks never made: what those ranks did instead, and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    another_round,
    at_the_root,
    by_framework,
    conflict,
    elsewhere,
    fewer_rounds,
    gone,
    inputs,
    loop,
    loop_lines,
    parted,
    program,
    rank_words,
    refused,
    sisters,
    slip,
    taken_for,
    ways_told,
)
from collectrace.align.diagnosis.callers import at_its_line, named
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    FOLLOWS,
    Explainer,
    Reason,
    Wording,
    called,
    even_inputs,
    first,
    if_ended,
    place,
    too_early,
)
from collectrace.align.judging import patience
from collectrace.align.judging.blame import failed_by_itself
from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import GroupConflict


def explain(case: Case, candidate: Candidate) -> Wording:
    """A collective, or the creation of a group, to which not all ranks came."""
    if isinstance(candidate.source, GroupConflict):
        return conflict.explain(case, candidate)
    if isinstance(candidate.source, IncompleteRow):
        return _failed_call(case, candidate, candidate.source)
    who, came = candidate.absent, called(candidate)
    what = "a call"
    if came:
        side, call = came[0]
        what = words.name(call) + at_its_line(case, side.ranks[0], call)
    if candidate.severity == "info":
        return too_early(case, candidate, f"{words.ranks(who)} had not come to {what}")
    wording = refused.explain(case, candidate)
    if wording is not None:
        return wording
    found = inputs.of_candidate(case, candidate)
    did = [
        rank_words.instead(case, side.ranks, found) for side in candidate.sides if side.call is None
    ]
    here, them = candidate.present, words.verb(who, "it", "them")
    there = f" without {what}, to which {words.ranks(here)} came"
    if patience.waited(case, candidate):
        wait = words.verb(here, "waits", "wait")
        there = f"; {words.ranks(here)} {wait} for {them} in {what}"
    reason = first(_REASONS, case, candidate) or _generic(case, candidate)
    reason = ways_told.added(case, candidate, reason)
    fix = by_framework.applied(case, candidate, reason)
    return Wording(words.listed(did) + there, reason.cause + _interrupted(case, candidate), fix)


def _interrupted(case: Case, candidate: Candidate) -> str:
    """That the wait was ended from outside: a sentence after a space, or nothing."""
    leaving = ((rank, case.standings[rank].exit) for rank in candidate.present)
    by_hand = [rank for rank, line in leaving if line and line.error == "KeyboardInterrupt"]
    if not by_hand or candidate.cause is not None:
        return ""
    return f" Ctrl-C (KeyboardInterrupt) ended the wait of {words.ranks(by_hand)}."


def _failed_call(case: Case, candidate: Candidate, source: IncompleteRow) -> Wording:
    """Everyone issued it, but on some ranks it raised before it reached the others."""
    who = words.ranks(source.failed)
    waiting = [r for r in source.calls if r not in source.failed]
    others = words.ranks(waiting)
    call = next((source.calls[r] for r in source.failed if source.calls[r]), None)
    what = words.name(call) + words.at(call) if call is not None else place(candidate)
    return Wording(
        f"{what} raised on {who} and never reached {others}",
        f"{rank_words.details(case, source.failed)} The call was refused there, and {others} "
        f"{words.verb(waiting, 'waits', 'wait')} for it.",
        "Fix what raised; the other ranks did nothing wrong.",
    )


# -- reasons, the most telling first ---------------------------------------------------------


def _after_cause(case: Case, candidate: Candidate) -> Reason | None:
    """The absence follows from another candidate."""
    cause = candidate.cause
    if cause is None:
        return None
    who = words.ranks(candidate.absent)
    if candidate.stream is not None and cause.stream == candidate.stream:
        text = f"Since call {cause.seq} the ranks are out of step, and one side has calls left."
    elif {*candidate.absent} <= {*cause.suspects} and _all_raised(case, candidate.absent):
        text = f"{words.upper(who)} raised, as told above."
    else:
        where = f" ({place(cause)})" if cause.group is not None else ""
        text = f"{words.upper(who)} could not come because of the cause above{where}."
    return Reason(text + rank_words.chain(case, candidate.absent), FOLLOWS)


def _all_raised(case: Case, ranks: Sequence[int]) -> bool:
    """Whether all of some ranks ended with an exception of their own."""
    return all(failed_by_itself(case.standings[rank]) for rank in ranks)


def _uneven(case: Case, candidate: Candidate) -> Reason | None:
    """The absent ranks had no inputs left."""
    found = inputs.of_candidate(case, candidate)
    came = called(candidate)
    if found is None or not came:
        return None
    (side, call) = came[0]
    gone = words.ranks(set(candidate.absent) & found.ended)
    waits = words.verb(side.ranks, "waits", "wait")
    point = Standpoint(side.ranks, call, side.stack or ())
    if (
        found.told_by == "forwards"
        and (fewer := fewer_rounds.seen(case, point, candidate.absent)).fix
    ):
        left = ", or a round of it was left out" if fewer.left_out else ""
        around = loop_lines.innermost_loop(case, point.stack)
        return Reason(
            f"{words.upper(found.phrase())}. {words.upper(words.ranks(side.ranks))} {waits} in "
            f"{named(case, side.ranks[0], call, brief=True)} for {gone}: the loop ended earlier "
            f"there{left}.{fewer.cause}",
            f"{fewer.fix}\n{if_ended(loop_lines.as_long(case, around))}",
            "left",
        )
    loops = loop_lines.longer_there(case, point.stack) if found.told_by == "forwards" else []
    told = words.listed([one.quoted for one in loops])
    longer = f" {told} may have had more turns on {words.ranks(side.ranks)}." if told else ""
    return Reason(
        f"Uneven inputs: {found.phrase()}.{found.witness} "
        f"{words.upper(words.ranks(side.ranks))} {waits} in "
        f"{named(case, side.ranks[0], call, brief=True)} for {gone}, which had no input left to "
        f"come to it with.{longer}",
        even_inputs(
            loop_lines.even_length(case),
            loop.own_calls(case, side.ranks[0], candidate),
            answered=loop.is_answered(case, side.ranks[0], candidate),
        ),
        "uneven",
    )


def _generic(case: Case, candidate: Candidate) -> Reason:
    """How many calls each side issued, where nothing says more."""
    who = words.ranks(candidate.absent)
    n = words.counted((candidate.seq or 1) - 1, "call")
    return Reason(
        f"{words.upper(who)} issued {n} in this group, the others one more."
        f"{rank_words.chain(case, candidate.absent)} The logs do not show why.",
        EVERY_RANK,
    )


_REASONS: Final[tuple[Explainer, ...]] = (
    sisters.reason, _after_cause, elsewhere.raised, elsewhere.died, elsewhere.busy, program.reason,
    at_the_root.reason, gone.rejoined, slip.reason, parted.extra, gone.evaluated,
    another_round.begun, _uneven, parted.lines, taken_for.reason, gone.finished,
)  # fmt: skip

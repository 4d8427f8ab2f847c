"""Calls that some ranks never made: what those ranks did instead, and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    at_the_root,
    by_framework,
    conflict,
    ddp,
    ddp_forward,
    decided,
    due,
    fewer_rounds,
    inputs,
    lone_line,
    loop,
    loop_lines,
    parted,
    program,
    rank_words,
    refused,
    sisters,
    slip,
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
    place,
    too_early,
)
from collectrace.align.judging import patience
from collectrace.align.judging.blame import failed_by_itself
from collectrace.align.judging.candidate import Candidate, IncompleteRow
from collectrace.align.judging.case import Case
from collectrace.align.judging.program import deviation
from collectrace.align.ranks import waitgraph
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading.evidence import GroupConflict

_MOST_NAMED: Final = 4
"""Ranks whose last call is named, and ranks of which it is said for whom they wait."""

_MOST_STACKS: Final = 3
"""Ranks whose innermost line is named."""


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


def _culprits(case: Case, candidate: Candidate) -> list[Standing]:
    """The ranks at the end of all waiting: the suspects, or where the wait-for graph leads."""
    ends = waitgraph.follow(case.graph, case.standings, candidate.absent)
    return [case.standings[rank] for rank in sorted(candidate.suspects or ends)]


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


def _raised(case: Case, candidate: Candidate) -> Reason | None:
    """Whoever is waited for raised, and not because it had waited here itself."""
    waits = set(candidate.present)
    raised = [s for s in _culprits(case, candidate) if s.state == "raised" and s.rank not in waits]
    if not raised or (all(s.by_peers for s in raised) and deviation(case, candidate) is not None):
        return None  # it timed out where it should not have been
    who = words.ranks(s.rank for s in raised)
    text = rank_words.details(case, [s.rank for s in raised])
    waiting = f"The others wait for {who}."
    for message in (s.message for s in raised):
        known = ddp.from_exception(message, who)
        if known is not None:
            return Reason(f"{text} {known.cause} {waiting}", known.fix)
        if "process group" in message.lower() and "init" in message.lower():
            return Reason(
                f"{text} The process group was gone, or had never been made, when the call came. "
                f"{waiting}",
                "Call destroy_process_group() after the last collective on every rank, once.",
            )
    return Reason(
        f"{text} {waiting}{rank_words.chain(case, candidate.absent)}",
        f"Fix what raised.{rank_words.hint(s.message for s in raised)}\n"
        "Where a rank may fail alone, let all ranks learn of it before the next collective (an "
        "all_reduce of an error flag), or let the launcher end the job.",
    )


def _died(case: Case, candidate: Candidate) -> Reason | None:
    """Whoever is waited for ended without a last line."""
    died = [s for s in _culprits(case, candidate) if s.state == "died"]
    if not died:
        return None
    who = words.ranks(s.rank for s in died)
    text = rank_words.details(case, [s.rank for s in died])
    return Reason(
        f"{text} {words.upper(who)} left no last line, as a process does that is killed (out of "
        f"memory), aborts in C++, or leaves by os._exit.{_last_calls(case, died)}",
        f"Look at what {who} printed last, at its exit code in the launcher's output (-9: killed, "
        "-6: aborted), and in the kernel's log for the out-of-memory killer (dmesg).",
    )


def _last_calls(case: Case, standings: list[Standing]) -> str:
    """The last call of each rank: a sentence after a space, or nothing."""
    parts = []
    for standing in standings[:_MOST_NAMED]:
        last = standing.last_call
        if last is not None:
            info = case.comparison.groups.get(last.group)
            where = f" of {words.group(info)}" if info is not None else ""
            parts.append(
                f"rank {standing.rank}'s last call was "
                f"{named(case, standing.rank, last, brief=True)}, number {last.seq}{where}"
            )
    return f" {words.upper('; '.join(parts))}." if parts else ""


def _next_call(case: Case, candidate: Candidate, standings: Sequence[Standing]) -> str:
    """By which line the only rank would have come, had it gone on as ever: after a space.

    Empty where it is the line at which the others wait, or none that is known.
    """
    came = called(candidate)
    if len(standings) != 1 or not came or candidate.stream is None or candidate.seq is None:
        return ""
    rank, (side, call) = standings[0].rank, came[0]
    coming = due.after_its_last(case, rank, candidate.stream, candidate.seq)
    if coming is None or words.name(coming) != words.name(call):
        return ""
    place = named(case, rank, coming, brief=True)
    if place == named(case, side.ranks[0], call, brief=True):
        return ""
    return f" Each time before, its next was {place}."


def _elsewhere(case: Case, candidate: Candidate) -> Reason | None:
    """Whoever is waited for does something else, or nothing at all."""
    slow = [s for s in _culprits(case, candidate) if s.state in ("busy", "silent", "running")]
    if not slow:
        return None
    who = words.ranks(s.rank for s in slow)
    stacks = [
        f" Rank {s.rank} was at {rank_words.frame(top)}."
        for s in slow[:_MOST_STACKS]
        if (top := rank_words.top_frame(s))
    ]
    text = rank_words.details(case, [s.rank for s in slow]) + "".join(stacks)
    text += _last_calls(case, slow) + _next_call(case, candidate, slow)
    text += rank_words.chain(case, candidate.absent)
    if all(s.state == "silent" for s in slow):
        return Reason(
            f"The process of {who} exists but gives no sign of life: it is stopped (SIGSTOP, a "
            f"debugger), or its machine hangs. {text}",
            f"Look at the process of {who} on its host (`ps -o stat,wchan`, `py-spy dump`).",
        )
    if any(s.doing == "batch" for s in slow):
        return Reason(
            f"{words.upper(who)} {'waits' if len(slow) == 1 else 'wait'} for data: {text}",
            "Make loading faster or more even (num_workers, prefetch_factor, local copies), or "
            "give init_process_group a timeout that covers the slowest batch.",
        )
    for standing in slow:
        found = by_framework.waits_beside(standing)
        if found is not None:
            fix, site = found
            return Reason(
                f"Rank {standing.rank} waits in {fix.path}(){words.at_site(site)}, which waits for "
                f"the other ranks beside all collectives, and these wait for it here. {text}",
                fix.text,
            )
    tools = {s.log.imported.tool for s in slow if s.log is not None and s.log.imported}
    if tools:
        return Reason(
            f"{words.upper(who)} never enqueued the call for which the others waited, and had "
            f"nothing else pending. {text}",
            f"Find out what {who} did then (`py-spy dump`, the dumps of stacks beside these): an "
            "exception, an endless loop, a lock, or work that only some ranks do. With "
            "collectrace.enable() in the script the next run tells.",
        )
    return Reason(
        f"{words.upper(who)} showed signs of life, in code without collectives, while the others "
        f"waited. {text}",
        f"Find out what {who} {words.verb(slow, 'is', 'are')} doing there ({_stacks_of(slow)}): an "
        "endless loop, a lock, or work that only some ranks do. Work that is meant to take long "
        "needs a longer timeout of init_process_group.",
    )


def _stacks_of(slow: Sequence[Standing]) -> str:
    """Where the stacks of ranks are to be had; in a log only if there are any."""
    logs = [standing.log for standing in slow if standing.log is not None]
    written = [log.rank for log in logs if log.stall is not None]
    if written:
        return f"`py-spy dump`, the `stall` line in the log of {words.ranks(written)}"
    after = max((log.header.stall_after for log in logs if log.header is not None), default=0)
    if not after:
        return "`py-spy dump`"
    return (
        "`py-spy dump`; in the next run collectrace.enable(stall_after=...), with less than the "
        f"{words.seconds(after * 1e9)} of this one, has the stacks written to the log"
    )


def _rejoined(case: Case, candidate: Candidate) -> Reason | None:
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


def _uneven(case: Case, candidate: Candidate) -> Reason | None:
    """The absent ranks had no inputs left."""
    found = inputs.of_candidate(case, candidate)
    came = called(candidate)
    if found is None or not came:
        return None
    (side, call) = came[0]
    gone = words.ranks(set(candidate.absent) & found.ended)
    waits = words.verb(side.ranks, "waits", "wait")
    return Reason(
        f"Uneven inputs: {found.phrase()}.{found.witness} "
        f"{words.upper(words.ranks(side.ranks))} {waits} in "
        f"{named(case, side.ranks[0], call, brief=True)} for {gone}, which had no input left to "
        "come to it with.",
        even_inputs(
            loop_lines.even_length(case),
            loop.own_calls(case, side.ranks[0], candidate),
            answered=loop.is_answered(case, side.ranks[0], candidate),
        ),
        "uneven",
    )


def _evaluated(case: Case, candidate: Candidate) -> Reason | None:
    """The absent ranks finished, and the others ran a forward of DDP that they did not."""
    if any(case.standings[r].state != "finished" for r in candidate.absent):
        return None
    return ddp_forward.evaluated_alone(case, candidate)


def _finished(case: Case, candidate: Candidate) -> Reason | None:
    """A loop that ran longer on some ranks, or a call that only some make at the end."""
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
    if before is not None and before.goes_on(call):
        fewer = fewer_rounds.seen(case, point, candidate.absent)
        longer = (
            "either the loop ran longer there" if fewer.left_out else "the loop ran longer there"
        )
        or_left = f", or {who} left out a round of it" if fewer.left_out else ""
        past = fewer.cause if fewer.fix or not why else ""
        return Reason(
            f"{words.upper(who)} finished after {before.times} through the loop; {others} began "
            f"another round with {named(case, side.ranks[0], call, brief=True)}: {longer}{or_left}."
            f"{inputs.left_over(case, candidate.absent)}{why}{past}",
            fewer.applied(fix),
        )
    if not why:
        ways = ways_told.of_finished(case, point, candidate.absent)
        why, fix = (ways.cause, ways.fix) if ways is not None else ("", fix)
    thread = words.in_thread(call)
    beside = f",{thread}" if thread else ""
    return Reason(
        f"{words.upper(who)} finished without "
        f"{named(case, side.ranks[0], call)}{beside}, which {others} issued as one call more."
        f"{why or lone_line.told(case, candidate)}",
        f"{fix}\n{EVERY_RANK}" if fix else EVERY_RANK,
        "some ranks",
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
    sisters.reason, _after_cause, _raised, _died, _elsewhere, program.reason, at_the_root.reason,
    _rejoined, slip.reason, parted.extra, _evaluated, _uneven, parted.lines, _finished,
)  # fmt: skip

"""Ranks that others wait for, by how they are: raised, died, busy elsewhere, or standing still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import dumps, exceptions, words
from collectrace.align.diagnosis import by_framework, ddp, rank_words
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.program import deviation
from collectrace.align.judging.usual import after_its_last
from collectrace.align.ranks import waitgraph
from collectrace.align.ranks.standing import Standing

_MOST_NAMED: Final = 4
"""Ranks whose last call is named, and ranks of which it is said for whom they wait."""

_MOST_STACKS: Final = 3
"""Ranks whose innermost line is named."""

_LOAD_FASTER: Final = (
    "Make loading faster or more even (num_workers, prefetch_factor, local copies), or give "
    "init_process_group a timeout that covers the slowest batch."
)
_HANDED_OVER: Final = (
    "\nIt waits there, in a queue, a lock or an event, for what another thread is to give: look "
    "why that does not come, and let nobody wait for it without a timeout."
)
_WORKER_HANGS: Final = (
    "\nIf no batch ever comes, look where the worker is (`py-spy dump` of the child process): one "
    "that was forked while a thread of its parent held a lock waits for that for ever. "
    'DataLoader(multiprocessing_context="spawn") starts workers without it.'
)
"""Source: Python's documentation of ``os.fork`` and of ``multiprocessing``'s start methods."""


def raised(case: Case, candidate: Candidate) -> Reason | None:
    """Whoever is waited for raised, and not because it had waited here itself."""
    waits = set(candidate.present)
    those = [s for s in _culprits(case, candidate) if s.state == "raised" and s.rank not in waits]
    if not those or (all(s.by_peers for s in those) and deviation(case, candidate) is not None):
        return None  # it timed out where it should not have been
    who = words.ranks(s.rank for s in those)
    text = rank_words.details(case, [s.rank for s in those])
    if len(those) == 1:
        text += rank_words.came_through(those[0])
    waiting = f"The others wait for {who}."
    for message in (s.message for s in those):
        known = ddp.from_exception(message, who)
        if known is not None:
            return Reason(f"{text} {known.cause} {waiting}", known.fix)
        if "process group" in message.lower() and "init" in message.lower():
            return Reason(
                f"{text} The process group was gone, or had never been made, when the call came. "
                f"{waiting}",
                "Call destroy_process_group() after the last collective on every rank, once.",
            )
    if not any(s.by_peers for s in those) and all(map(_gave_up, those)):
        return Reason(
            f"{text} {words.upper(who)} waited there for something that is in no collective, while "
            f"the others waited for {who} in theirs.{rank_words.chain(case, candidate.absent)}",
            f"Look at what {who} waited for there: a key of the store that no rank sets under that "
            "name, a server, a file of another rank. What one waits for another must have done "
            "before it comes to its next collective.",
        )
    return Reason(
        f"{text} {waiting}{rank_words.chain(case, candidate.absent)}",
        f"Fix what raised.{rank_words.hint(s.message for s in those)}\n"
        "Where a rank may fail alone, let all ranks learn of it before the next collective (an "
        "all_reduce of an error flag), or let the launcher end the job.",
    )


def _gave_up(standing: Standing) -> bool:
    """Whether a rank's exception says that it waited in vain, or lost a connection."""
    return standing.lost_peer or exceptions.gave_up(standing.message)


def died(case: Case, candidate: Candidate) -> Reason | None:
    """Whoever is waited for ended without a last line."""
    those = [s for s in _culprits(case, candidate) if s.state == "died"]
    if not those:
        return None
    who = words.ranks(s.rank for s in those)
    text = rank_words.details(case, [s.rank for s in those])
    return Reason(
        f"{text} {words.upper(who)} left no last line, as a process does that is killed (out of "
        f"memory), aborts in C++, or leaves by os._exit.{_last_calls(case, those)}",
        f"Look at what {who} printed last, at its exit code in the launcher's output (-9: killed, "
        "-6: aborted), and in the kernel's log for the out-of-memory killer (dmesg).",
    )


def busy(case: Case, candidate: Candidate) -> Reason | None:
    """Whoever is waited for does something else, or nothing at all."""
    slow = [s for s in _culprits(case, candidate) if s.state in ("busy", "silent", "running")]
    if not slow:
        return None
    who = words.ranks(s.rank for s in slow)
    stacks = [
        f" Rank {s.rank} was at {rank_words.frame(top)}{rank_words.within(s)}"
        f"{rank_words.reached(s)}."
        for s in slow[:_MOST_STACKS]
        if (top := rank_words.top_frame(s))
    ]
    text = rank_words.details(case, [s.rank for s in slow]) + "".join(stacks)
    ended = "".join(rank_words.threads_ended(s) for s in slow[:_MOST_STACKS])
    text += ended
    text += _last_calls(case, slow) + _next_call(case, candidate, slow)
    text += rank_words.chain(case, candidate.absent)
    if all(s.state == "silent" for s in slow):
        return Reason(
            f"The process of {who} exists but gives no sign of life: it is stopped (SIGSTOP, a "
            f"debugger), or its machine hangs. {text}",
            f"Look at the process of {who} on its host (`ps -o stat,wchan`, `py-spy dump`).",
        )
    if any(s.doing == "batch" for s in slow):
        by_worker = any(dumps.awaits_worker(rank_words.main_frames(s)) for s in slow)
        return Reason(
            f"{words.upper(who)} {'waits' if len(slow) == 1 else 'wait'} for data, the next batch "
            f"of a DataLoader{', from a worker process' if by_worker else ''}. {text}",
            _LOAD_FASTER + (_WORKER_HANGS if by_worker else ""),
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
    hands_over = [s for s in slow if dumps.awaits_thread(rank_words.main_frames(s))]
    return Reason(
        f"{words.upper(who)} showed signs of life, in code without collectives, while the others "
        f"waited. {text}",
        f"Find out what {who} {words.verb(slow, 'is', 'are')} doing there ({_stacks_of(slow)}): an "
        "endless loop, a lock, or work that only some ranks do. Work that is meant to take long "
        f"needs a longer timeout of init_process_group.{_HANDED_OVER if hands_over else ''}"
        if not ended
        else f"Mend what ended the thread. If {who} {words.verb(slow, 'waits', 'wait')} for what "
        "that was to give: hand its exception over to who waits, or let nobody wait without a "
        "timeout, so that the rank fails, and the launcher ends the job.",
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
    coming = after_its_last(case, rank, candidate.stream, candidate.seq)
    if coming is None or words.name(coming) != words.name(call):
        return ""
    place = named(case, rank, coming, brief=True)
    if place == named(case, side.ranks[0], call, brief=True):
        return ""
    return f" Each time before, its next was {place}."


def _culprits(case: Case, candidate: Candidate) -> list[Standing]:
    """The ranks at the end of all waiting: the suspects, or where the wait-for graph leads."""
    ends = waitgraph.follow(case.graph, case.standings, candidate.absent)
    return [case.standings[rank] for rank in sorted(candidate.suspects or ends)]

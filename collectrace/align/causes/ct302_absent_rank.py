"""A rank that others wait for raised an exception, ended, stopped, or is busy.

What it means
    The rank did not reach a call because of its state. The timeouts or lost connections that other
    ranks report are consequences. The finding names the state:

    - It raised an exception in its main thread or in a thread that it waits for, or it called
      ``sys.exit()``.
    - Its process died: a signal, the out-of-memory killer, an abort in C++, or ``os._exit``.
    - It left no file: it never started, did not get that far, or its file was lost.
    - It stopped: not even its heartbeat thread runs (SIGSTOP, a debugger, C code). Or its file was
      copied earlier than those of the other ranks.
    - It left the job, to form a new one without the others.
    - It is busy: it computes, is in an endless loop, or waits outside of all calls. It may wait for
      a file lock, a queue, a key of the store, another process or thread, or a connection.

Example
    ::

        if labels is None:
            raise ValueError("batch 2 has no labels")   # only on rank 1
        dist.all_reduce(loss)       # the others wait here

Not to be confused with
    CT104, if the rank caught the exception. CT317, if it had returned early, and so had already
    skipped calls. CT320, if it waits for a resource of a rank that waits for it. CT918, if nothing
    proves that a rank without a file is the culprit.

How to fix it
    Fix what raised, what ended the process, or what the rank is busy with. If one rank may fail
    alone, share an error flag before the next collective. A longer timeout of
    ``init_process_group`` helps only if the work finishes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from collectrace import exceptions
from collectrace import words as text
from collectrace.align.causes import deciders, not_moving, phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.waited_for import Standings, StateWords
from collectrace.align.causes.words import Words
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing, failure
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import State
from collectrace.records import Raised


class Row(NamedTuple):
    """A state in which ranks do not make a call, and its words."""

    states: tuple[State, ...]
    is_it: Callable[[Situation, Standing], bool]
    say: Callable[[Situation, Standings, str], StateWords]
    """Writes the words. Its last argument names the ranks."""
    with_messages: bool = False
    """Whether it also explains a message without its other end."""


class Absent(NamedTuple):
    """Ranks, and the state that they are in."""

    row: Row
    standings: Standings


def find(situation: Situation) -> Absent | None:
    """Return the awaited ranks in the first matching state of the table."""
    for row in _ROWS:
        awaited = waited_for.awaited_in(situation, *row.states)
        found = tuple(one for one in awaited if row.is_it(situation, one))
        if found and (row.with_messages or situation.kind == "missing_call"):
            return Absent(row, found)
    return None


def words(situation: Situation, found: Absent) -> Words:
    """Return the words for ranks that did not make the call."""
    who = text.ranks(one.rank for one in found.standings)
    said = found.row.say(situation, found.standings, who)
    return Words.of(
        phrases.fitting(
            f"{who} {said.did} and {waited_for.missed(situation)}",
            f"{who} {said.did}".rstrip(","),
        ),
        (
            *said.why,
            waited_for.waiting(situation),
            waited_for.last_calls(situation, found.standings),
        ),
        said.fixes,
        (*waited_for.interrupted(situation), *waited_for.chain(situation)),
    )


# -- it raised ---------------------------------------------------------------------------------


class Hint(NamedTuple):
    """A hint for an error message of torch."""

    pattern: re.Pattern[str]
    why: str
    fix: str


_HINTS: Final = (
    Hint(
        re.compile("process group.*init|init.*process group", re.IGNORECASE),
        "The process group was gone, or had never been made, when the call was made.",
        "Call destroy_process_group() once on every rank, after its last collective.",
    ),
    Hint(
        re.compile(r"Global rank \d+ is not part of group\b"),
        "src= and dst= name a rank of the whole job.",
        "The rank that src= or dst= names is not part of group: pass a member, as "
        "get_global_rank(group, 0) returns it, or its place in the group as group_src= or "
        "group_dst=.",
    ),
    Hint(
        re.compile("finished reduction in the prior iteration"),
        "Parameters of the model took no part in the loss, so DDP waited for their gradients.",
        "Let every parameter take part in the loss on every rank, or construct DDP with "
        "find_unused_parameters=True.",
    ),
)  # fmt: skip
"""Hints for messages of torch 2.13, from distributed_c10d.py and reducer.cpp."""

_LONGEST: Final = 60
"""Longest exception type that a headline contains, characters."""


def raised(situation: Situation) -> Standings:
    """Return the ranks that raised by themselves, and not because other ranks failed."""
    return tuple(
        one for one in waited_for.awaited_in(situation, "raised") if _is_own(situation, one)
    )


def _is_own(situation: Situation, one: Standing) -> bool:
    return not one.by_peers and one.rank not in situation.candidate.present


def _raised(situation: Situation, found: Standings, who: str) -> StateWords:
    known, at = hints(one.message for one in found), line(found[0])
    source = situation.candidate.source
    is_first = isinstance(source, GroupConflict) and waited_for.is_default(source)
    return StateWords(
        f"raised {_error(found[0])}{at}",
        (f"{each(found)}{through(found[0])}.", *(hint.why for hint in known)),
        (
            *(hint.fix for hint in known),
            f"Fix what raised on {who}{at}.",
            _LET_IT_END if is_first else _SHARE,
        ),
    )


_SHARE: Final = (
    "If a rank may fail alone, share an error flag with all ranks before the next collective "
    "(all_reduce with MAX), or let the launcher end the job."
)
_LET_IT_END: Final = (
    "Let the launcher end the job: before init_process_group() a rank cannot tell the others."
)


def hints(messages: Iterable[str]) -> list[Hint]:
    """Return the hint for error messages of torch, at most one."""
    said = list(messages)
    return [hint for hint in _HINTS if any(map(hint.pattern.search, said))][:1]


def _error(one: Standing) -> str:
    end = one.exit
    if end is None:
        return "an exception"
    return text.brief(failure(end).error, _LONGEST) if end.error else f"SystemExit({end.code})"


def line(one: Standing) -> str:
    """Return `` (train.py:19)``, where a rank raised."""
    end = one.exit
    if end is None:
        return ""
    return phrases.line(failure(end).site if end.error else end.site)


def each(found: Standings) -> str:
    """Return ``Ranks 1-2 raised ValueError: no labels (train.py:19)``."""
    said: dict[str, list[int]] = {}
    for one in found:
        end = one.exit
        error = text.exception(failure(end).error, failure(end).text) if end and end.error else ""
        after = f", after {text.brief(end.causes[0])}" if end and end.causes else ""
        said.setdefault(f"{error or _error(one)}{line(one)}{after}", []).append(one.rank)
    parts = [f"{text.ranks(ranks)} raised {what}" for what, ranks in said.items()]
    more = len(parts) - waited_for.MOST
    return text.upper("; ".join(parts[: waited_for.MOST])) + (
        f"; and {more} more" if more > 0 else ""
    )


def through(one: Standing) -> str:
    """Return ``, called at train.py:30, reached from train.py:44``."""
    end = one.exit
    if end is None or not end.through or failure(end).site != end.site:
        return ""
    called, *around = map(text.site, end.through)
    return f", called at {called}" + (f", reached from {around[0]}" if around else "")


def _ended(one: Standing) -> tuple[Raised, ...]:
    """Return a rank's own exceptions that ended threads, latest last."""
    known = one.log.threads_ended if one.log is not None else ()
    return tuple(r for r in known if not exceptions.blames_peers(r.error, r.message))


def _thread(_s: Situation, found: Standings, _who: str) -> StateWords:
    one, last = found[0], _ended(found[0])[-1]
    at, place = phrases.line(last.site), waited_for.place(one)
    return StateWords(
        f"waits for its thread {last.thread}, which ended by {last.error},",
        (
            f"Thread {last.thread} of rank {one.rank} had ended before, by the exception "
            f"{text.exception(last.error, last.message)}{at}.",
            f"Rank {one.rank} was at {place}." if place else "",
        ),
        (
            f"Fix the exception that ended the thread{at}.",
            "Hand the exception of the thread to whoever waits for it, or wait with a timeout, so "
            "that the rank fails and the launcher ends the job.",
        ),
    )


# -- it left -----------------------------------------------------------------------------------


def _rejoined(situation: Situation, found: Standings, who: str) -> StateWords:
    decided = deciders.ranked(situation)[:1]
    here = text.ranks(situation.candidate.present)
    return StateWords(
        detail.rejoins(found[0]),
        (
            f"{text.upper(who)} {detail.rejoins(found[0])}, which "
            f"returns when every rank has called it; {here} had not left the job.",
            *(deciders.what_it_did(situation, one) for one in decided),
        ),
        (
            "End the job on all ranks together: agree first (all_reduce of a flag with MAX), then "
            "call destroy_process_group() and init_process_group() on every rank."
            + "".join(f" Decide so at {deciders.quoted(one)}." for one in decided),
        ),
    )


def _exited(_s: Situation, found: Standings, _who: str) -> StateWords:
    there = text.listed(
        [*dict.fromkeys(text.site(one.exit.site) for one in found if one.exit and one.exit.site)]
    )
    left = [f"rank {one.rank} left by {detail.left_by_exit(one)}" for one in found]
    return StateWords(
        f"left by sys.exit() ({there})",
        (f"{text.upper('; '.join(left[: waited_for.MOST]))}.",),
        (
            f"Do not leave alone at {there}: note there that the rank is to end, and let all ranks "
            "decide by that in the same step (all_reduce of the flag with MAX).",
        ),
    )


_KILLER: Final = "If it was killed, look for the out-of-memory killer in the kernel's log (dmesg)."
_UNSEEN: Final = (
    "Its process did not record how it ended: it was killed (out of memory?), aborted in C++, or "
    "left by os._exit."
)


def _died(_: Situation, found: Standings, who: str) -> StateWords:
    deaths = [f"rank {one.rank}: {detail.death(one)}" for one in found[: waited_for.MOST]]
    return StateWords(
        "died",
        (
            f"{text.upper('; '.join(deaths))}.",
            *(() if all(map(detail.is_fatal, found)) else (_UNSEEN,)),
        ),
        (
            f"Look at what {who} printed last, and at its exit "
            "code in the launcher's output (-9: killed, -6: aborted, above 0: os._exit).",
            *(() if all(map(detail.is_fatal, found)) else (_KILLER,)),
        ),
    )


# -- missing, or not moving ----------------------------------------------------------------


def _missing(situation: Situation, found: Standings, who: str) -> StateWords:
    return StateWords(
        "left no file",
        (
            f"{text.upper(who)} never started, {text.verb(found, 'has', 'have')} not come so "
            f"far, or {text.verb(found, 'its file was', 'their files were')} lost.",
        ),
        (
            *waited_for.in_time(situation),
            f"Look at the launcher's output for {who}: did the process start, and which host is "
            "it on?",
            "If its file is on another host, collect the files of every host.",
        ),
    )


_ROWS: Final = (
    Row(("raised",), _is_own, _raised),
    Row(("busy", "running", "silent"), lambda _, one: bool(_ended(one)), _thread, True),
    Row(("finished",), lambda _, one: bool(detail.rejoins(one)), _rejoined),
    Row(("finished",), lambda _, one: bool(detail.left_by_exit(one)), _exited),
    Row(("died",), lambda _s, _o: True, _died),
    Row(("missing",), lambda _s, _o: True, _missing),
    Row(("silent",), lambda _s, _o: True, not_moving.stopped, True),
    Row(("busy", "running"), lambda _s, _o: True, not_moving.busy, True),
)
"""The states, the most informative first."""

"""A rank did not reach a call, because it is busy with something else.

What it means
    The process lives and runs code without collectives: it loads data, waits for a lock or for
    another thread, or is in a loop without end. The others wait for it.

Example
    ::

        batch = next(loader)        # rank 1 has been here for a minute
        dist.all_reduce(loss)       # the others wait here

Not to be confused with
    CT305, if the process gives no sign of life. CT314, if a thread of the rank ended, and the rank
    waits for it. CT102, if the rank is past the call.

How to fix it
    Look at the stack of the rank. Give work that may take long to every rank, or move it out of the
    loop; a longer timeout of ``init_process_group`` only helps if the work ends at all.
"""

from __future__ import annotations

from typing import Final

from collectrace import dumps
from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading.evidence import GroupConflict

_FASTER: Final = (
    "Make loading faster or more even (num_workers, prefetch_factor, local copies), or give "
    "init_process_group a timeout that covers the slowest batch."
)
_WORKER: Final = (
    "If no batch ever comes, look at the worker process (`py-spy dump`). A worker that was forked "
    "while a thread of its parent held a lock waits for ever: use "
    'DataLoader(multiprocessing_context="spawn").'
)
"""Source: Python's documentation of ``os.fork`` and of ``multiprocessing``'s start methods."""


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that are busy."""
    return waited_for.those(situation, "busy", "running") or None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that are busy."""
    who, missed = text.ranks(waited_for.numbers(found)), waited_for.missed(situation)
    loads = any(one.doing == "batch" for one in found)
    held, at = _held(found[0]), waited_for.site(found[0])[2:-1]
    did = "waited for a batch" if loads else f"been at {at}" if at else "been busy"
    has = text.verb(found, "it has", "they have")
    last = waited_for.last_calls(situation, found)
    usual = waited_for.usual_next(situation, found[0].rank) if len(found) == 1 else ""
    if last and usual:
        last = f"{last[:-1]}; its usual next call is {usual}."
    return Words(
        phrases.fitting(
            f"{who} {missed}: {has} {did}{held}", f"{who} {missed}: busy{held}", f"{who} {missed}"
        ),
        tuple(filter(None, (waited_for.waiting(situation), _doing(found, loads=loads), last))),
        _fixes(situation, found, loads=loads),
        (*waited_for.interrupted(situation), *waited_for.chain(situation)),
    )


def _held(one: Standing) -> str:
    """Return `` for 41 s``: how long ago it made its last call; empty: it made none."""
    return f" for {text.seconds(one.end - one.last_issued)}" if one.last_issued else ""


def _doing(found: tuple[Standing, ...], *, loads: bool) -> str:
    shown = found[: waited_for.MOST]
    places = [f"rank {one.rank} {_at(one)}" for one in shown]
    if loads:
        by = " from a worker process" if any(map(_awaits_worker, found)) else ""
        return f"The next batch of a DataLoader{by} is awaited: {text.listed(places)}."
    if any(one.log is not None and one.log.imported is not None for one in found):
        who = text.ranks(waited_for.numbers(found))
        return f"{text.upper(who)} never enqueued the call, and had nothing else pending."
    return f"Meanwhile {text.listed(places)}, in code without collectives."


def _at(one: Standing) -> str:
    place = waited_for.place(one)
    return f"was at {place}" if place else "was alive"


def _awaits_worker(one: Standing) -> bool:
    return dumps.awaits_worker(detail.main_frames(one))


def _fixes(situation: Situation, found: tuple[Standing, ...], *, loads: bool) -> tuple[str, ...]:
    who = text.ranks(waited_for.numbers(found))
    if isinstance(situation.candidate.source, GroupConflict):
        api = waited_for.creation(situation.candidate.source)
        return (
            f"Let every rank call {api} at the same point, before work that takes long on some "
            "ranks only, or give it a longer timeout.",
        )
    if loads:
        return (_FASTER, _WORKER) if any(map(_awaits_worker, found)) else (_FASTER,)
    look = (
        f"Find out what {who} {text.verb(found, 'is', 'are')} doing there (`py-spy dump`, or the "
        "`stall` line of its log): an endless loop, a lock, or work that only some ranks do."
    )
    if any(dumps.awaits_thread(detail.main_frames(one)) for one in found):
        return (
            look,
            "It waits for another thread there, by a queue, a lock or an event: find out why that "
            "thread gives nothing, and wait with a timeout.",
        )
    return (look, "If the work is meant to take long, raise the timeout of init_process_group.")

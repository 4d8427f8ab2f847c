"""Words for awaited ranks with an existing process: stopped, busy, or waiting in no call."""

from __future__ import annotations

from typing import Final

from collectrace import words as text
from collectrace.align.causes import waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.waited_for import Standings, StateWords


def stopped(_: Situation, found: Standings, who: str) -> StateWords:
    """Return the words for ranks with a process that exists and does nothing."""
    places = f"{text.upper(_places(found))}." if _places(found) else ""
    behind = text.seconds(max(one.behind for one in found))
    stat = "`ps -o stat,wchan` (T: stopped)" + ("" if places else ", `py-spy dump`")
    look = f"Look at the process of {who} on its host: {stat}."
    known = [one.host_wait for one in found if one.host_wait is not None]
    if len(known) == len(found):
        return StateWords(
            f"{known[0].row.did}{waited_for.site(found[0])}",
            (
                _host_waits(found),
                f"So no thread of {who} could run, and it gave no sign of life for {behind}.",
                places,
            ),
            (known[0].row.fix.format(who=who),),
        )
    if copied := _copied(found):
        exists = all(one.ended == "alive" for one in found)
        is_stopped = "is stopped (SIGSTOP, a debugger)"
        killed = f"was killed (out of memory?), aborted in C++, left by os._exit, or {is_stopped}"
        gone = f" If it is gone, look at what it printed last, {text.AT_ITS_END}."
        return StateWords(
            f"left no sign of life for {behind}",
            (
                f"The file of {who} ends {behind} before the last of its peers': its process "
                f"{is_stopped if exists else killed}.",
                copied,
            ),
            (
                look if exists else look + gone,
                "If the files were copied while the job ran: copy those of all ranks again, at one "
                "time.",
            ),
        )
    return StateWords(
        "stopped",
        (
            f"The process of {who} exists but has given no sign of life for {behind}: it is "
            "stopped (SIGSTOP, a debugger), is in C code that holds the GIL, or its machine hangs.",
            places,
        ),
        (look,),
    )


def _places(found: Standings) -> str:
    """Return ``rank 1 was at load.py:3; rank 2 was at load.py:9``, of a few ranks."""
    shown = ((one.rank, waited_for.place(one)) for one in found[: waited_for.MOST])
    return "; ".join(f"rank {rank} was at {place}" for rank, place in shown if place)


def _copied(found: Standings) -> str:
    """Return that files may be copies of different times, if the file of a rank ends early.

    Empty if they are known to be the tracer's own files.
    """
    if not any(one.may_be_copy for one in found):
        return ""
    return (
        "Or, if the files were copied while the job ran, its file was copied before the others, or "
        "only a part of it."
    )


_FASTER: Final = (
    "Make loading faster or more even (num_workers, prefetch_factor, local copies), or give "
    "init_process_group a timeout that covers the slowest batch."
)
_LOOK: Final = (
    "Find out why {who} {stay} there: an endless loop, a lock, or work that only some ranks do."
)
_UNSEEN: Final = (
    "The logs do not show where {who} {was}. Look while it hangs (`py-spy dump`), or let it hang "
    "for longer than `stall_after`: then the log has the line."
)
_UNDUMPED: Final = "See where {who} is while it hangs (`py-spy dump`): its dump shows no more."
_SLEEP: Final = "sleep"
"""The name of the row of ``host_waits`` on a sleep, which may stand for slow work."""

LONGER: Final = "If the work is meant to take long, raise the timeout of init_process_group."


def busy(situation: Situation, found: Standings, who: str) -> StateWords:
    """Return the words for ranks that do something else, or wait in no call."""
    loads = any(one.doing == "batch" for one in found)
    one = next((one for one in found if one.host_wait is not None), found[0])
    held = f" for {text.seconds(one.end - one.last_issued)}" if one.last_issued else ""
    did, places = text.verb(found, "was busy", "were busy"), text.upper(_places(found))
    doing = (
        ", waiting for the next batch of a DataLoader" if loads else ", in code without collectives"
    )
    if not places and one.log is not None and one.log.imported is not None:
        return StateWords("enqueued nothing more", (), (_UNDUMPED.format(who=who),))
    look = (_LOOK if places else _UNSEEN).format(
        who=who, stay=text.verb(found, "stays", "stay"), was=text.verb(found, "was", "were")
    )
    fixes: tuple[str, ...] = (_FASTER,) if loads else (look, LONGER)
    if one.host_wait is not None:
        row = one.host_wait.row
        did, doing = row.did, ""
        fixes = (row.fix.format(who=who), *((_FASTER,) if loads else ()))
        fixes += (LONGER,) if row.name == _SLEEP else ()
    return StateWords(
        f"{did}{waited_for.site(one)}{held}",
        (f"{places}{doing}." if places else "", _host_waits(found)),
        waited_for.in_time(situation) or fixes,
    )


def _host_waits(found: Standings) -> str:
    """Return ``Rank 1 waited for file lock /data/a.lock, held by process 47 (rank 0).``."""
    told: dict[str, list[int]] = {}
    for one in found:
        if one.host_wait is not None:
            told.setdefault(one.host_wait.what, []).append(one.rank)
    parts = [f"{text.ranks(ranks)} waited for {what}" for what, ranks in told.items()]
    return f"{text.upper('; '.join(parts[: waited_for.MOST]))}." if parts else ""

"""Find where a rank was last seen, by the latest stack that it left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectrace.align.reading.evidence import RankLog
from collectrace.dumps import MAIN
from collectrace.findings import Left
from collectrace.records import INTERRUPTED, Exit


@dataclass(frozen=True, slots=True)
class LastSeen:
    """The stacks of a rank, and the event that made it write them."""

    stacks: Mapping[str, Sequence[str]]
    """By thread ``path:line function``, innermost last."""
    left: Left


def last_seen(log: RankLog | None) -> LastSeen | None:
    """Return the latest stacks of a rank; None if it left none since its last call."""
    if log is None:
        return None
    leaving = log.exit
    if leaving is not None and leaving.is_interrupt:
        frames = _interrupted(log, leaving)
        return LastSeen({MAIN: frames}, "interrupt") if frames else None
    if (end := log.stack_dumps.end) is not None:
        return LastSeen(end.stacks, "terminated" if end.fatal is None else "fatal")
    if (held := log.stack_dumps.held) is not None:
        return LastSeen(held.stacks, "stall")
    stall, last = log.stall, log.last_call
    if stall is None or stall.t < (last.t if last is not None else 0):
        return None
    return LastSeen(stall.stacks, "stall")


def _interrupted(log: RankLog, leaving: Exit) -> Sequence[str]:
    """Return the main thread's frames at the Ctrl-C that ended it, innermost last.

    An older record has only the user's: their functions are known if the values were read.
    """
    if leaving.frames:
        return leaving.frames
    read = next(
        (v for one, v in log.values.items() if one.reason == INTERRUPTED and one.thread == MAIN),
        None,
    )
    if read is not None and read.functions:
        return [one.frame for one in reversed(read.functions)]
    return [f"{site} " for site in reversed([leaving.site or "", *leaving.through]) if site]

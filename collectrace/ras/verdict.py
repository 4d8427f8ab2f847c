"""Put a report into two or three lines that claim no more than RAS knows.

A rank that launched fewer operations than another is behind, but not necessarily wrong. It may be
slow, or the others may have made calls that it rightly skipped. Counts that differ at one moment
are normal while a job runs (NVIDIA's user guide, "RAS"). Counts that are the same at a second look
prove more.
"""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.ras.report import (
    Communicator,
    Difference,
    Launched,
    Level,
    Place,
    Processes,
    Report,
)

LACKS: Final = (
    "the order of the calls, their lines and the culprit; it does not count messages and "
    "all-to-alls"
)
"""What no report shows."""

_MOST: Final = 2
"""Most communicators, ops and processes that are listed; the rest are counted."""

_MOST_LEVELS: Final = 3

_STATUS: Final = {
    "INIT": "initializing",
    "RUNNING": "running",
    "FINALIZE": "finalizing",
    "ABORT": "aborted",
    "NOCOMM": "no member of it now",
    "UNKNOWN": "no member of it now",
}


def verdict(report: Report, later: Report | None = None) -> list[str]:
    """Return sentences, the most important first.

    Args:
        report: of a job.
        later: a second report of the same job, about a second later. Then its facts count, and the
        sentences say whether counts that differ have changed.

    """
    latest = later or report
    told = [
        *_processes(latest, latest.dead, "dead to RAS: not reached for a minute"),
        *_processes(latest, latest.silent, "not answering RAS"),
    ]
    is_explained = bool(told)
    found = []
    for one in latest.communicators:
        of_it = _communicator(one, None if later is None else _standing(one, report), is_explained)
        found += [of_it] if of_it else []
    for of_it in found[:_MOST]:
        told += of_it
    if len(found) > _MOST:
        told.append(f"{words.counted(len(found) - _MOST, 'more communicator')} like this.")
    if not told:
        told.append(_nothing(latest))
    if not latest.is_whole:
        told.append("The report is cut short: there may be more.")
    return told


def _nothing(report: Report) -> str:
    if report.marked:
        those = words.counted(report.marked, "communicator")
        return f"{words.upper(those)} marked by RAS as not in order; the report does not say why."
    if not report.communicators_in_all:
        return "RAS knows of no communicator."
    those = words.counted(report.communicators_in_all, "communicator")
    if report.processes is not None:
        those += f", {words.counted(report.processes, 'process', 'processes')}"
    return f"{those}: in each all ranks have launched equally much, and every rank answers."


def _processes(report: Report, processes: Processes, what: str) -> list[str]:
    """Yield ``Process 4711 on 10.0.0.1 (GPU 1; rank 5 of 8) is not answering RAS``."""
    if not processes.count:
        return []
    who = [_process(report, place) for place in processes.places[:_MOST]]
    rest = processes.count - len(who)
    if not who:
        who = [words.counted(processes.count, "process", "processes")]
    elif rest:
        who.append(f"{rest:,} more")
    is_or_are = "is" if processes.count == 1 else "are"
    return [f"{words.upper(words.listed(who))} {is_or_are} {what}."]


def _process(report: Report, place: Place) -> str:
    ranks = [
        f"; rank {member.rank} of {one.size}"
        for one in sorted(report.communicators, key=lambda one: -(one.size or 0))
        if one.silent is not None
        for member in one.silent.members
        if member.place is not None
        and (member.place.host, member.place.pid) == (place.host, place.pid)
    ]
    return f"process {place.pid} on {place.host} (GPU {place.gpu}{''.join(ranks[:1])})"


def _standing(one: Communicator, before: Report) -> bool | None:
    """Return whether its counts are those of the earlier report; None: that one has none."""
    same = [other for other in before.communicators if other.name == one.name]
    if not same or not same[0].differences:
        return None
    return same[0].differences == one.differences


_LATER: Final = {None: "", True: "; the same a second later", False: "; a second later they moved"}


def _communicator(one: Communicator, stands: bool | None, is_explained: bool) -> list[str]:
    size = "" if one.size is None else f" ({words.counted(one.size, 'rank')})"
    told = [_difference(difference) for difference in one.differences[:_MOST]]
    if len(one.differences) > _MOST:
        ops = words.listed([d.op or "collectives" for d in one.differences[_MOST:]])
        told.append(f"other counts of {ops}, too")
    if told:
        told[-1] += _LATER[stands]
    told += [f"{_who(level)} reported {level.error}" for level in one.failures[:_MOST]]
    if one.silent is not None and not is_explained:
        told.append(f"nothing came from {_who(one.silent)}")
    if one.statuses and not one.differences:
        told.append(
            words.listed(
                [f"{_who(s)} {_is(s)} {_STATUS.get(s.status, s.status)}" for s in one.statuses]
            )
        )
    return [f"Communicator {one.name}{size}: {'; '.join(told)}."] if told else []


def _difference(difference: Difference) -> str:
    """``rank 5 has launched 1 AllReduce fewer than the 7 others (6,649 against 6,650)``."""
    first, *behind = difference.levels
    what = difference.op or "collective"
    if len(behind) == 1:
        level = behind[0]
        fewer = difference.front - level.operations
        have = "has" if level.count == 1 else "have"
        plural = "" if difference.op or fewer == 1 else "s"
        return (
            f"{_who(level)} {have} launched {fewer:,} {what}{plural} fewer than {_others(first)} "
            f"({level.operations:,} against {difference.front:,})"
        )
    parts = [f"{_who(level)} {level.operations:,}" for level in behind[:_MOST_LEVELS]]
    if len(behind) > _MOST_LEVELS:
        rest = sum(level.count for level in behind[_MOST_LEVELS:])
        parts.append(f"{words.counted(rest, 'rank')} fewer still")
    return f"{what}: {_who(first)} launched {difference.front:,}, {words.listed(parts)}"


def _others(front: Launched) -> str:
    if len(front.members) == front.count:
        return words.ranks(member.rank for member in front.members)
    return f"the {front.count:,} others"


def _who(level: Level) -> str:
    """Return the ranks by number if all are named, and a single one with its process."""
    if len(level.members) != level.count:
        return words.counted(level.count, "rank")
    who = words.ranks(member.rank for member in level.members)
    place = level.members[0].place
    return (
        who if level.count > 1 or place is None else f"{who} (process {place.pid} on {place.host})"
    )


def _is(level: Level) -> str:
    return "is" if level.count == 1 else "are"

"""How many inputs ranks had in a ``join()``: by notices, their DataLoader, or forwards of DDP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from collectrace.align.reading.evidence import RankLog
from collectrace.records import DDP_FORWARD, Join
from collectrace.roles import is_shadow, pairing_class

_LOOK_BACK: Final = 64
"""Calls of a stream that are searched for the latest iteration."""

_MOST_ROUNDS: Final = 4000
"""Calls of a stream among which a rank's notices to ``join()`` are counted."""

_NOTICE: Final = pairing_class("ddp.forward.notify_join")


class Counted(NamedTuple):
    """Inputs of each rank in one ``join()``, and the ranks that had no more."""

    counts: Mapping[int, int]
    ended: frozenset[int]


def counted(logs: Mapping[int, RankLog]) -> Counted | None:
    """The latest ``join()`` that all ranks have entered: how often each gave notice of an input."""
    passes = {rank: _passes(log) for rank, log in logs.items()}
    if not all(passes.values()):
        return None
    # Where every line was read, the n-th on one rank is the n-th on another.
    whole = all(log.scanned for log in logs.values())
    common = min(len(found) for found in passes.values())
    latest = {rank: found[common - 1 if whole else -1] for rank, found in passes.items()}
    ended = frozenset(rank for rank, found in latest.items() if found.joined is not None)
    fetched = {rank: _fetched(logs[rank], found) for rank, found in latest.items()}
    if None not in fetched.values() and len({one and one[0] for one in fetched.values()}) == 1:
        # A model may be called several times for one batch.
        return Counted({rank: one[1] for rank, one in fetched.items() if one}, ended)
    noticed: dict[int, Sequence[int]] = {}
    for rank, found in latest.items():
        if found.entered.rounds is None:
            noticed = {}
            break
        rounds = _rounds(logs[rank], found)
        if rounds is not None:
            noticed[rank] = rounds
    if len(noticed) == len(logs):
        per_line = _every_line_each_round(noticed.values(), logs.values())
        counts = {r: (max if per_line else sum)([0, *n]) for r, n in noticed.items()}
    else:
        counts = {rank: _forwards(logs[rank], found) for rank, found in latest.items()}
    return Counted(counts, ended)


@dataclass(frozen=True, slots=True)
class _Pass:
    """One ``join()`` of one rank."""

    entered: Join
    joined: Join | None = None
    """None: the rank has not run out of inputs, as far as its log tells."""
    left: Join | None = None


def _passes(log: RankLog) -> list[_Pass]:
    found: list[_Pass] = []
    for join in log.joins:
        if join.phase == "entered":
            found.append(_Pass(join))
        elif found and join.phase == "joined":
            found[-1] = replace(found[-1], joined=join)
        elif found and join.phase == "left":
            found[-1] = replace(found[-1], left=join)
    return found


def _fetched(log: RankLog, found: _Pass) -> tuple[int, int] | None:
    """The only DataLoader that a rank has asked inside a ``join()``, and the batches it got.

    None where there is not one, or where a part of the log was not read.
    """
    told = found.joined or found.left
    end = told.t if told is not None else max(log.last_t, found.entered.t)
    inside = [b for b in log.batches if found.entered.t <= b.t <= end]
    loaders = {batch.loader for batch in inside}
    if len(loaders) != 1 or not log.scanned:
        return None
    return loaders.pop(), sum(not batch.end for batch in inside)


def _rounds(log: RankLog, found: _Pass) -> Sequence[int] | None:
    """Notices that a rank gave in a ``join()``, by line; None where the log does not tell.

    While it is in there, only its calls tell.
    """
    told = found.joined or found.left
    if told is not None:
        return told.rounds
    by_line: dict[str | None, int] = {}
    for stream, seq in log.last_seq.items():
        if stream.group != found.entered.group:
            continue
        start = max(1, seq - _MOST_ROUNDS)
        for n, call in enumerate(reversed(log.calls(stream, start, seq + 1))):
            if call is None:
                return None
            if call.t < found.entered.t:
                break
            if pairing_class(call.role) == _NOTICE and not is_shadow(call.role):
                by_line[call.site] = by_line.get(call.site, 0) + 1
            if start > 1 and n == seq - start:
                return None  # it has been in there for longer
    return tuple(by_line.values())


def _every_line_each_round(noticed: Iterable[Sequence[int]], logs: Iterable[RankLog]) -> bool:
    """Whether a model is called several times for one input: from several lines, from each alike.

    Lines of which some keep their gradients to themselves are branches of one forward.
    """
    some = [rounds for rounds in noticed if rounds]
    several = {len(rounds) for rounds in some}
    alike = all(max(rounds) - min(rounds) <= 1 for rounds in some)
    return len(several) == 1 and several != {1} and alike and not any(g.no_syncs for g in logs)


def _forwards(log: RankLog, found: _Pass) -> int:
    """DDP forwards between a rank's entry into ``join()`` and its last input."""
    before = found.entered.iteration or 0
    told = found.joined.iteration if found.joined is not None else last_iteration(log)
    return max(0, (told or 0) - before)


def last_iteration(log: RankLog) -> int | None:
    """The ordinal of the latest DDP forward that a rank's calls tell of; None: they do not."""
    if log.unit != DDP_FORWARD:
        return None
    last = log.last_call
    if last is not None and last.iteration is not None:
        return last.iteration
    found: list[int] = []
    for stream, seq in log.last_seq.items():
        calls = log.calls(stream, max(1, seq - _LOOK_BACK), seq + 1)
        found += [c.iteration for c in calls if c is not None and c.iteration is not None]
    return max(found, default=None)

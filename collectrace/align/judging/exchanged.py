"""An all_to_all with previously exchanged sizes, of which some ranks used others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

from collectrace import ops
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import Divergence
from collectrace.records import Call

_INTEGERS: Final = ("int64", "int32")


@dataclass(frozen=True, slots=True)
class Change:
    """A rank that sends another total than before, while the others expect the usual one."""

    sent: int
    """Elements, over all receivers."""
    expected: int
    """Elements that all receivers expect, and that each call before sent."""
    times: int
    """Number of calls before."""


@dataclass(frozen=True, slots=True)
class Shuffled:
    """A rank that expects the right total, but other parts from several senders than they send.

    If senders had dropped elements, the total would be smaller. Two swapped senders may have
    announced it so.
    """

    rank: int
    total: int
    """Elements."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The exchange of sizes before an all_to_all with sizes that do not match."""

    call: Call
    """The call of one rank."""
    changed: Mapping[int, Change]
    """By sender, those that are known to use other sizes than they had announced."""
    shuffled: Shuffled | None = None
    """The only rank that is known to expect other sizes than were announced."""


@once
def size_exchange(case: Case, candidate: Candidate) -> Exchanged | None:
    """Return the exchange of sizes in the call before, on every rank; None if there was none.

    The exchanged values are not recorded. They are inferred: if the total that others expect of a
    sender is the one of every earlier iteration, that was announced.
    """
    source = candidate.source
    if not isinstance(source, Divergence) or source.attribute != "split":
        return None
    size = len(source.group.ranks)
    before = [case.call(rank, source.stream, source.seq - 1) for rank in source.calls]
    first = before[0] if before else None
    if first is None or not all(call is not None and _tells_sizes(call, size) for call in before):
        return None
    changes = {
        sender: change
        for sender, _ in source.bad_pairs
        if (change := _change(case, source, sender)) is not None
    }
    is_of_senders = {sender for sender, _ in source.bad_pairs} <= {*changes}
    return Exchanged(first, changes, None if is_of_senders else _shuffled(source))


def changed_senders(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """Return the ranks with sizes that changed after the exchange, if that explains every pair."""
    source, found = candidate.source, size_exchange(case, candidate)
    if found is None or not isinstance(source, Divergence):
        return ()
    if found.shuffled is not None:
        return (found.shuffled.rank,)
    senders = {sender for sender, _ in source.bad_pairs}
    return tuple(sorted(senders)) if senders <= set(found.changed) else ()


def _shuffled(source: Divergence) -> Shuffled | None:
    receivers = {receiver for _, receiver in source.bad_pairs}
    senders = {sender for sender, _ in source.bad_pairs} - receivers
    calls = [source.calls.get(rank) for rank in source.group.ranks]
    parts = [call.splits for call in calls if call is not None and call.splits]
    if len(receivers) != 1 or len(senders) < 2 or len(parts) < len(calls):
        return None
    (rank,) = receivers
    at = source.group.ranks.index(rank)
    sent, awaited = [part[0][at] for part in parts], list(parts[at][1])
    apart = sum(one != other for one, other in zip(sent, awaited, strict=True))
    if sum(sent) != sum(awaited) or (apart == 2 and sorted(sent) == sorted(awaited)):
        return None
    return Shuffled(rank, sum(sent))


def _tells_sizes(call: Call, size: int) -> bool:
    """Whether a call gives every rank equally many integers from every other rank."""
    if call.dtype not in _INTEGERS or call.void or not call.shape:
        return False
    if call.op in ops.ALL_TO_ALL:
        return call.splits is not None and len({n for part in call.splits for n in part}) == 1
    counts = [n for n in call.shape if isinstance(n, int)]
    is_gather = call.op in ("all_gather", "all_gather_single")
    return is_gather and len(counts) == len(call.shape) and prod(counts) % size == 0


def _change(case: Case, source: Divergence, sender: int) -> Change | None:
    ranks = source.group.ranks
    mine = source.calls.get(sender)
    parts = [call.splits for rank in ranks if (call := source.calls.get(rank)) and call.splits]
    if mine is None or mine.splits is None or len(parts) < len(ranks):
        return None
    sent, expected = sum(mine.splits[0]), sum(part[1][ranks.index(sender)] for part in parts)
    totals = list(_earlier(case, source, sender, mine))
    always = len(totals) >= habit.ENOUGH and set(totals) == {expected}
    return Change(sent, expected, len(totals)) if always and sent != expected else None


def _earlier(case: Case, source: Divergence, sender: int, mine: Call) -> Iterator[int]:
    """Yield a rank's totals in earlier calls of the same line behind such an exchange."""
    size = len(source.group.ranks)
    calls = case.before(sender, source.stream, source.seq)
    for before, call in pairwise(calls):
        if before is None or call is None or call.splits is None:
            continue
        if (call.op, call.site) == (mine.op, mine.site) and _tells_sizes(before, size):
            yield sum(call.splits[0])

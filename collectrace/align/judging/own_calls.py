"""What each rank called, and how often from each place in each of its iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collectrace.align.deciding import timeline
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import programs
from collectrace.align.ranks.standing import Waiting
from collectrace.align.reading.evidence import ChannelKey, Key
from collectrace.align.reading.vocabulary import CallPlace
from collectrace.records import Call

Rounds = Sequence[Counter[CallPlace]]
"""How often a rank called from each place, per iteration; the current one last."""


class Awaited(NamedTuple):
    """A call that a rank waits in, and an awaited rank that itself waits elsewhere."""

    waiter: int
    wait: Waiting
    rank: int
    elsewhere: Waiting

    @property
    def key(self) -> Key | None:
        """The stream or channel in which the awaited rank would have called."""
        channel = self.wait.channel
        if channel is not None and channel.source < 0 and self.rank != channel.destination:
            return channel._replace(source=self.rank)
        return channel or self.wait.stream

    @property
    def is_from_any(self) -> bool:
        """Whether a message from any rank is awaited."""
        return self.wait.channel is not None and self.wait.channel.source < 0


def awaited(case: Case, candidate: Candidate) -> Iterator[Awaited]:
    """Yield the waits of a cycle, each with the awaited rank and the wait of that rank.

    For a receive from any rank, every rank that has sent to it counts as awaited.
    """
    cycle = candidate.cycle
    for edge, after in zip(cycle, (*cycle[1:], *cycle[:1]), strict=True):
        wait, ranks = edge.waiting, [after.waiting.rank]
        if wait.channel is not None and wait.channel.source < 0:
            ranks += [one for one in case.sent_to_any(wait.channel) if one not in ranks]
        for rank in ranks:
            mine = [after.waiting] if rank == ranks[0] else case.standings[rank].waiting
            yield from (Awaited(wait.rank, wait, rank, one) for one in mine[:1])


@once
def calls_of(case: Case, rank: int) -> Sequence[Entry]:
    """Return a rank's calls in order; empty if some are not known.

    Also empty if several threads made them, as their order is arbitrary.
    """
    log = case.log(rank)
    made = timeline.calls_before(log) if log is not None and programs.is_whole(log) else []
    return () if any(one.beside for one in made) else made


def only_gives_back(case: Case, rank: int, key: ChannelKey) -> bool:
    """Whether a rank was never ahead of the other direction with messages of a channel.

    Its current call does not count.
    """
    ahead = 0
    for one in calls_of(case, rank)[:-1]:
        ahead += (one.key == key.back) - (one.key == key)
        if ahead < 0:
            return False
    return True


def call_of(case: Case, rank: int, entry: Entry) -> Call | None:
    """Return the call of an entry."""
    return case.call(rank, entry.key, entry.seq)


def entry_of(case: Case, wait: Waiting) -> Entry | None:
    """Return the call that a rank waits in; None if it is not known."""
    key, made = wait.channel or wait.stream, calls_of(case, wait.rank)
    return next((one for one in reversed(made) if (one.key, one.seq) == (key, wait.seq)), None)


@once
def rounds(case: Case, rank: int, end: CallPlace) -> Rounds:
    """Return what a rank called in each iteration. A call from place ``end`` ends an iteration."""
    found = [Counter[CallPlace]()]
    for one in calls_of(case, rank):
        if one.place == end:
            found.append(Counter())
        else:
            found[-1][one.place] += 1
    return found

"""Where what came of a message went: which ranks were sent something after it, and when.

A message of the wrong size goes unnoticed where it arrives. What its receiver computes of it is
sent on, through the stages of a pipeline, until a rank stumbles over it that had no part in the
message itself. Order of events as in Lamport, Time, clocks, and the ordering of events in a
distributed system, CACM 21(7), 1978: only what may have been known is counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import ChannelIssue


@once
def passed_on(case: Case, candidate: Candidate) -> Mapping[int, int]:
    """By rank, when it asked for the first message that may have come of a candidate's.

    On the shared clock, ns; its receiver included. Empty for what is no message.
    """
    source = candidate.source
    if not isinstance(source, ChannelIssue) or source.recv is None:
        return {}
    receiver = source.channel.destination
    times = {receiver: case.clocks.when(receiver, source.recv.t)}
    todo = [receiver]
    while todo:
        rank = todo.pop()
        for other, t in _sent(case, rank, times[rank]):
            if t < times.get(other, t + 1):
                times[other] = t
                todo.append(other)
    return times


def _sent(case: Case, rank: int, since: int) -> Iterator[tuple[int, int]]:
    """Whom a rank sent something after ``since``, and when each asked for the first of it; ns."""
    log = case.log(rank)
    for channel in log.last_channel_seq if log is not None else ():
        receiver = case.log(channel.destination)
        if log is None or receiver is None or channel.source != rank:
            continue
        rows = log.channel_rows(channel)
        n = bisect_right(rows.t, since, key=case.clocks.of(rank))
        first = rows.seq[n] if n < len(rows) else None
        asked = receiver.channel_call(channel, first) if first is not None else None
        if asked is not None:
            yield channel.destination, case.clocks.when(channel.destination, asked.t)

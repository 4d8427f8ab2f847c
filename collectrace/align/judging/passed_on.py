"""Which ranks may have received data that depends on a message, and when.

A message of the wrong size may go unnoticed where it arrives. Its receiver sends on what it
computes, through the stages of a pipeline, until a rank that had no part in the message fails.
Causal order as in Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM
21(7), 1978: only ranks that may depend on the message count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import ChannelIssue


@once
def dependent_ranks(case: Case, candidate: Candidate) -> Mapping[int, int]:
    """Return by rank when it requested the first message that may depend on a candidate's.

    Times are ns on the shared clock; the receiver is included. Empty if it is no message.
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
    """Yield whom a rank sent to after ``since``, and when each requested its first message, ns."""
    log = case.log(rank)
    for channel in log.last_channel_seq if log is not None else ():
        receiver = case.log(channel.destination)
        if log is None or receiver is None or channel.source != rank:
            continue
        rows = log.rows(channel)[0]
        n = bisect_right(rows.t, since, key=case.clocks.of(rank))
        first = rows.seq[n] if n < len(rows) else None
        asked = receiver.call(channel, first) if first is not None else None
        if asked is not None:
            yield channel.destination, case.clocks.when(channel.destination, asked.t)

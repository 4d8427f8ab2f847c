"""Determine where calls of different ranks meet, and how many of them ever do."""

from __future__ import annotations

from bisect import bisect_left

from collectrace import ops
from collectrace.align.matching.comparison import Comparison
from collectrace.align.reading.evidence import ChannelKey, Key, key_of
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call

Place = tuple[Key, int]
"""The common key of calls that meet: a row of a stream, or a message of a channel."""


class Expected:
    """The number of ranks that ever issue a call, by the logs.

    After streams have diverged it is 0: calls with one number are not one call there.
    """

    def __init__(self, comparison: Comparison) -> None:
        evidence = comparison.evidence
        self._last: dict[Key, int] = {
            d.stream: comparison.agreed.get(d.stream, d.seq - 1) for d in comparison.divergences
        }
        self._counts: dict[Key, list[int]] = {}
        self._members: dict[Key, int] = {}
        self._shared = set[Key]()
        """Channels with receives from any source: other messages to the same rank under the same
        tag cannot be paired by their numbers."""
        for rank, log in evidence.logs.items():
            for stream, last in log.last_seq.items():
                self._counts.setdefault(stream, []).append(last)
                self._members[stream] = len(evidence.groups[stream.group].ranks)
            for channel, last in log.last_channel_seq.items():
                if channel.source == ANY_SOURCE:
                    self._shared.add(channel)
                elif rank in (channel.source, channel.destination):
                    self._counts.setdefault(channel, []).append(last)
                    self._members[channel] = 2
        for counts in self._counts.values():
            counts.sort()

    def ranks(self, place: Place) -> int:
        """Return how many ranks issue the call at a place."""
        key, seq = place
        if isinstance(key, ChannelKey) and key._replace(source=ANY_SOURCE) in self._shared:
            return 0
        if seq > self._last.get(key, seq):
            return 0
        counts = self._counts.get(key, [])
        return len(counts) - bisect_left(counts, seq)

    def is_whole(self, place: Place) -> bool:
        """Return whether these are all ranks of the group."""
        return self.ranks(place) >= self._members.get(place[0], 0)


def met_at(rank: int, call: Call) -> Place | None:
    """Return where a call meets others; None for a receive from any source."""
    if call.op in ops.POINT_TO_POINT and (call.peer is None or call.peer < 0):
        return None
    return key_of(rank, call), call.seq

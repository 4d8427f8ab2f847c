"""Find the lines that make the other end of messages like one that met nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call

_LATEST = 8
"""Latest messages of each channel that are examined."""


class OtherEnd(NamedTuple):
    """A call that met a message from the same place as one that met nothing."""

    rank: int
    call: Call


def other_ends(case: Case, channel: ChannelKey, call: Call, rank: int) -> Iterator[OtherEnd]:
    """Yield the other ends, between other ranks, of messages that ``rank`` makes like ``call``.

    Such a message has the same place in the program, group and tag. Places that also made the other
    end for this channel do not count.
    """
    stack = case.stack(rank, call)
    met: list[tuple[tuple[str, ...], OtherEnd]] = []
    own: set[tuple[str, ...]] = set()
    for log in case.evidence.logs.values():
        for key in log.last_channel_seq:
            is_mine = log.rank == (key.destination if call.op == "recv" else key.source)
            peer = case.log(key.source + key.destination - log.rank) if key.source >= 0 else None
            if not is_mine or peer is None or (key.group, key.tag) != (channel.group, channel.tag):
                continue
            for seq, one in _last(log, key):
                other = peer.call(key, seq) if case.stack(log.rank, one) == stack else None
                if other is not None and key == channel:
                    own.add(case.stack(peer.rank, other))
                elif other is not None:
                    met.append((case.stack(peer.rank, other), OtherEnd(peer.rank, other)))
    yield from (end for place, end in met if place not in own)


def _last(log: RankLog, key: ChannelKey) -> Iterator[tuple[int, Call]]:
    count = log.last_channel_seq[key]
    for seq in range(max(1, count - _LATEST + 1), count + 1):
        if (one := log.call(key, seq)) is not None:
            yield seq, one

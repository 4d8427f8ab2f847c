"""The names of streams and channels, and what is known by them."""

from __future__ import annotations

from typing import NamedTuple

from collectrace.ops import ends
from collectrace.records import Activity, Call, Done, Unwaited


class StreamKey(NamedTuple):
    """A stream: the collectives of one group on one device type, numbered from 1."""

    group: str
    device: str


class ChannelKey(NamedTuple):
    """A point-to-point channel: messages of one tag from one rank to another, numbered from 1.

    ``source`` is -1 for a receive from any source.
    """

    group: str
    device: str
    source: int
    destination: int
    tag: int

    @property
    def back(self) -> ChannelKey:
        """The channel of the same tag in the other direction."""
        return self._replace(source=self.destination, destination=self.source)


Key = StreamKey | ChannelKey


def key_of(rank: int, of: Call | Done | Activity | Unwaited) -> Key:
    """Return the stream of a rank's collective, or the channel of a message that it issued."""
    group, device = of.group or "", of.device or ""
    if of.peer is None:
        return StreamKey(group, device)
    return ChannelKey(group, device, *ends(of.op, rank, of.peer), of.tag or 0)


class Answered(NamedTuple):
    """The sender of the message that a receive from any source got, and the record's offset."""

    source: int
    offset: int


class Digests(NamedTuple):
    """The digests of a stream after a call; None if its line has none."""

    digest: int | None
    program: int | None
    pairs: int | None

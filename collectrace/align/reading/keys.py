"""The names of streams and channels, and what is known by them."""

from __future__ import annotations

from typing import NamedTuple


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


class Answered(NamedTuple):
    """The sender of the message that a receive from any source got, and the record's offset."""

    source: int
    offset: int


class Digests(NamedTuple):
    """The digests of a stream after a call; None if its line has none."""

    digest: int | None
    program: int | None
    pairs: int | None

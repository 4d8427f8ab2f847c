"""All messages that go to one rank under one tag: their senders and their receives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from collectrace.align.matching.comparison import Unclear
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.findings import GroupInfo
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call
from collectrace.signature import channel_text


@dataclass(slots=True)
class Side:
    """The messages that one rank issued on a channel."""

    log: RankLog
    key: ChannelKey
    count: int = 0

    def call(self, seq: int) -> Call | None:
        """Return one of the messages.

        Raises:
            Unclear: it is in a part of the log that was not read.

        """
        found = self.log.call(self.key, seq)
        if found is None and not self.log.scanned:
            raise Unclear({self.log.rank})
        return found

    def meanings(self) -> dict[int, int]:
        """Return the messages that were read: number to an id of the message's form."""
        rows, _ = self.log.rows(self.key)
        return dict(zip(rows.seq, rows.meaning, strict=True))


@dataclass(slots=True)
class Inbox:
    """All messages that go to one rank under one tag."""

    group: GroupInfo
    sends: dict[int, Side] = field(default_factory=dict)
    """By source."""
    recvs: dict[int, Side] = field(default_factory=dict)
    """By source, ANY_SOURCE included."""

    def taken(self, source: int) -> int:
        """Return the number of a rank's messages that receives from any source have taken."""
        anything = self.recvs.get(ANY_SOURCE)
        if anything is None:
            return 0
        return anything.log.taken(anything.key._replace(source=source))

    def received(self, source: int) -> int:
        """Return the number of a rank's messages that are known to be received."""
        return (self.recvs[source].count if source in self.recvs else 0) + self.taken(source)


def fits(a: Call, b: Call) -> bool:
    """Return whether a send and a receive agree, as far as they are described."""
    return a.void or b.void or channel_text(a) == channel_text(b)


def difference(a: Call, b: Call) -> Literal["dtype", "count"]:
    """Return what differs in a send and a receive that do not fit."""
    return "dtype" if a.dtype != b.dtype else "count"

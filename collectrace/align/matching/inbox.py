"""All that goes to one rank under one tag: who sent it, and who received it."""

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
    """What one rank issued on a channel."""

    log: RankLog
    key: ChannelKey
    count: int = 0

    def call(self, seq: int) -> Call | None:
        """A message of it.

        Raises:
            Unclear: it lies in a part of the log that was not read.

        """
        found = self.log.channel_call(self.key, seq)
        if found is None and not self.log.scanned:
            raise Unclear({self.log.rank})
        return found

    def meanings(self) -> dict[int, int]:
        """What was read of it: number to an id of what the message is."""
        rows = self.log.channel_rows(self.key)
        return dict(zip(rows.seq, rows.meaning, strict=True))


@dataclass(slots=True)
class Inbox:
    """All that goes to one rank under one tag."""

    group: GroupInfo
    sends: dict[int, Side] = field(default_factory=dict)
    """By source."""
    recvs: dict[int, Side] = field(default_factory=dict)
    """By source, ANY_SOURCE included."""

    def taken(self, source: int) -> int:
        """How many messages of a rank receives from any source are known to have taken."""
        anything = self.recvs.get(ANY_SOURCE)
        if anything is None:
            return 0
        return anything.log.taken(anything.key._replace(source=source))

    def received(self, source: int) -> int:
        """How many messages of a rank are received, as far as that is known."""
        return (self.recvs[source].count if source in self.recvs else 0) + self.taken(source)


def fits(a: Call, b: Call) -> bool:
    """Whether a send and a receive that meet agree, as far as they are described."""
    return a.void or b.void or channel_text(a) == channel_text(b)


def difference(a: Call, b: Call) -> Literal["dtype", "count"]:
    """What differs of a send and a receive that do not fit."""
    return "dtype" if a.dtype != b.dtype else "count"

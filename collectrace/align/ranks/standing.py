"""The facts of one rank: what it was doing, what it waits for, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectrace.align.ranks.host_waits import HostWait
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.exceptions import Failure, original
from collectrace.findings import Ended, State
from collectrace.records import Call, Exit

HEARTBEATS: Final = 3
"""By how many heartbeats a file must end before its peers' for its rank to count as stopped."""

HOST: Final = "host"
"""What a thread waits in that waits for no call: see :attr:`Waiting.what`."""

NEVER: Final = 1 << 62
"""ns: longer than anything lasts."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What one thread of a rank waits for."""

    rank: int
    thread: str
    what: str
    """As in ``records.Activity``; `device` where only an unfinished call on a GPU says so; `host`:
    no call, but what its rank's :class:`HostWait` says."""
    since: int
    """On the shared clock, ns."""
    group: str
    op: str
    seq: int | None = None
    """None for the creation of a group."""
    device: str = ""
    channel: ChannelKey | None = None
    site: str | None = None
    started: bool | None = None
    """Whether the device has begun with it; None: that is not known, or it is no device's."""
    observed: bool = True
    """A heartbeat, a stall or the exit says so; else it is concluded from the last call."""

    @property
    def stream(self) -> StreamKey | None:
        """The stream of a collective."""
        if self.channel is not None or self.seq is None:
            return None
        return StreamKey(self.group, self.device)

    @property
    def is_creation(self) -> bool:
        """Whether it is the creation of a group."""
        return self.channel is None and self.seq is None and self.what != HOST


@dataclass(frozen=True, slots=True)
class Standing:
    """What a rank was doing when its evidence ends, and how it ended: facts, no words.

    ``ranks.detail`` puts them into words.
    """

    rank: int
    state: State
    ended: Ended
    end: int = 0
    """Its last sign of life on the shared clock, ns."""
    log: RankLog | None = None
    waiting: tuple[Waiting, ...] = ()
    """One per thread that waits; also what an exception came out of."""
    doing: str = ""
    """`busy`: ``Activity.what`` of its main thread; empty: nothing that the tracer knows of."""
    host_wait: HostWait | None = None
    """`busy`, `running`, `silent`: what it waited for in its last stall, if that is known."""
    last_issued: int | None = None
    """When it issued its last call, on the shared clock, ns; None: it issued none."""
    by_peers: bool = False
    """Its exception says that others let it down: a lost connection, a timeout."""
    lost_peer: bool = False
    """Its exception says that a connection was lost."""
    lost_by_peer: bool = False
    """A peer's exception says that the connection to it was lost, and it left no last line."""
    behind: int = 0
    """`died`, `silent`: ns by which its file ends before the latest of its peers'."""
    may_be_copy: bool = False
    """Only the end of its file says that it stopped, and the file may be a copy that was made
    before its peers', or is not whole."""
    early: bool = False
    """It ended without a last line, and before the others."""
    disabled: bool = False
    """Tracing was switched off: what came after is not known."""

    @property
    def exit(self) -> Exit | None:
        """The last line of a rank that could write one: with its exception, if it raised."""
        return self.log.exit if self.log is not None else None

    @property
    def message(self) -> str:
        """The text of the exception that ended it; empty where there is none."""
        return (self.exit.message or "") if self.exit is not None else ""

    @property
    def last_call(self) -> Call | None:
        """The last call it issued, as far as its log tells."""
        return self.log.last_call if self.log is not None else None

    @property
    def final(self) -> bool:
        """Whether it was never to issue another call, and no other rank is why."""
        if self.disabled:
            return False
        return self.state in ("finished", "died") or (self.state == "raised" and not self.by_peers)

    @property
    def complete(self) -> bool:
        """Whether its log reaches to the end of its process, by a last line that says so."""
        return self.state in ("finished", "raised")


def failure(leaving: Exit) -> Failure:
    """The exception that ended a rank; of one that came from a DataLoader's worker, that there."""
    message = leaving.message or ""
    return original(message) or Failure(leaving.error or "", message, leaving.site)


def patience(log: RankLog) -> int:
    """For how long a process that runs may write nothing, ns: some heartbeats may come late.

    For ever, where it writes no heartbeats.
    """
    if log.header.heartbeat <= 0:
        return NEVER
    return round(HEARTBEATS * log.header.heartbeat * 1e9)

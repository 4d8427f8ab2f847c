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
"""Heartbeats by which a file must end before its peers' for its rank to count as stopped."""

HOST: Final = "host"
"""The kind of a wait outside calls: see :attr:`Waiting.what`."""

NEVER: Final = 1 << 62
"""ns: longer than anything lasts."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What one thread of a rank waits for."""

    rank: int
    thread: str
    what: str
    """As in ``records.Activity``; `device` if only an unfinished call on a GPU shows it; `host`:
    not a call, but the wait in its rank's :class:`HostWait`."""
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
    """Whether the device has begun it; None: not known, or no device is involved."""
    observed: bool = True
    """A heartbeat, a stall or the exit shows it; otherwise it is concluded from the last call."""

    @property
    def stream(self) -> StreamKey | None:
        """The stream of a collective; None for anything else."""
        if self.channel is not None or self.seq is None:
            return None
        return StreamKey(self.group, self.device)

    @property
    def is_creation(self) -> bool:
        """Whether it is the creation of a group."""
        return self.channel is None and self.seq is None and self.what != HOST


@dataclass(frozen=True, slots=True)
class Standing:
    """What a rank was doing when its evidence ends, and how it ended, as facts.

    ``ranks.detail`` describes them in words.
    """

    rank: int
    state: State
    ended: Ended
    end: int = 0
    """Its last sign of life on the shared clock, ns."""
    log: RankLog | None = None
    waiting: tuple[Waiting, ...] = ()
    """One per waiting thread; also the call that an exception came from."""
    doing: str = ""
    """`busy`: ``Activity.what`` of its main thread; empty: nothing that the tracer knows of."""
    host_wait: HostWait | None = None
    """`busy`, `running`, `silent`: what it waited for in its last stall, if that is known."""
    last_issued: int | None = None
    """When it issued its last call, on the shared clock, ns; None: it issued none."""
    by_peers: bool = False
    """Its exception blames other ranks: a lost connection, a timeout."""
    lost_peer: bool = False
    """Its exception reports a lost connection."""
    lost_by_peer: bool = False
    """A peer's exception reports a lost connection to it, and it did not record its end."""
    behind: int = 0
    """`died`, `silent`: ns by which its file ends before the latest of its peers'."""
    may_be_copy: bool = False
    """Only the end of its file shows that it stopped. The file may be an older copy, or
    incomplete."""
    left_nothing: bool = False
    """It left neither a last line nor a stack, and SIGTERM ended all others."""
    early: bool = False
    """It ended without a last line, and before the others."""
    disabled: bool = False
    """Tracing was switched off: later actions are not known."""

    @property
    def exit(self) -> Exit | None:
        """The last line of a rank that could write one: with its exception, if it raised."""
        return self.log.exit if self.log is not None else None

    @property
    def message(self) -> str:
        """The text of the exception that ended it; empty if there is none."""
        return (self.exit.message or "") if self.exit is not None else ""

    @property
    def last_call(self) -> Call | None:
        """The last call that it issued, as far as its log shows."""
        return self.log.last_call if self.log is not None else None

    @property
    def final(self) -> bool:
        """Whether it would never have issued another call, for a reason other than its peers."""
        if self.disabled:
            return False
        return self.state in ("finished", "died") or (self.state == "raised" and not self.by_peers)

    @property
    def complete(self) -> bool:
        """Whether its log extends to the end of its process, by a last line that says so."""
        return self.state in ("finished", "raised")


def failure(leaving: Exit) -> Failure:
    """Return the exception that ended a rank; the original one if a DataLoader worker raised it."""
    message = leaving.message or ""
    return original(message) or Failure(leaving.error or "", message, leaving.site)


def patience(log: RankLog) -> int:
    """Return the ns that a running process may write nothing: some heartbeats may be late.

    It is :data:`NEVER` if the process writes no heartbeats.
    """
    if log.header.heartbeat <= 0:
        return NEVER
    return round(HEARTBEATS * log.header.heartbeat * 1e9)

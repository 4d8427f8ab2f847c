"""Where a rank stands: what it was doing, what it waits for, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.findings import Ended, State

HEARTBEATS: Final = 3
"""Heartbeats that a file must end before its peers' to tell a rank that stopped from a slow one."""

MAIN: Final = "MainThread"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What one thread of a rank waits for."""

    rank: int
    thread: str
    what: str
    """As in an activity; `device` where only an unfinished call on a GPU says so."""
    since: int
    """On the shared clock, ns."""
    group: str
    op: str
    seq: int | None = None
    """None for the creation of a group."""
    device: str = ""
    channel: ChannelKey | None = None
    site: str | None = None
    told: bool = True
    """A sign of life says so; else it follows from the last call."""

    @property
    def stream(self) -> StreamKey | None:
        """The stream of a collective."""
        if self.channel is not None or self.seq is None:
            return None
        return StreamKey(self.group, self.device)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a rank stands."""

    rank: int
    state: State
    ended: Ended
    end: int = 0
    """Its last sign of life on the shared clock, ns."""
    log: RankLog | None = None
    waiting: tuple[Waiting, ...] = ()
    """One per thread that waits; also what an exception came out of."""
    by_peers: bool = False
    """Its exception says that others let it down: a lost connection, a timeout."""
    lost_peer: bool = False
    """Its exception says that a connection was lost."""
    gave_up: bool = False
    """Its exception says that it waited in vain as long as it was told to."""
    early: bool = False
    """It ended without a word, and before the others."""
    disabled: bool = False
    """Tracing was switched off: what came after is not known."""
    detail: str = ""

    @property
    def final(self) -> bool:
        """Its log is complete, for a reason of its own: nothing more was ever to come."""
        if self.disabled:
            return False
        return self.state in ("finished", "died") or (self.state == "raised" and not self.by_peers)

    @property
    def complete(self) -> bool:
        """The end of its log is the end of its process."""
        return self.state in ("finished", "raised")


def patience(log: RankLog) -> int:
    """For how long a process that lives may write nothing, ns."""
    return round(HEARTBEATS * log.header.heartbeat * 1e9)

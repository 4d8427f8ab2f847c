"""The types of other queries of logs: the runs of a folder, a rank's calls, two schedules.

``align.browsing`` makes them, ``report`` shows them. The JSON of each command has these fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from collectrace.findings import GroupInfo, State
from collectrace.records import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run of a folder."""

    run: str
    """Its id, for ``--run``."""

    began: int | None = None
    """When the first rank's file was begun, ns since 1970; null: not known."""

    ended: int | None = None
    """When its last line was written, ns since 1970; null: not known."""

    is_alive: bool = False
    """Whether ranks are known to run still: the verdict is that of the logs so far."""

    script: str = ""
    """Its command line."""

    hosts: tuple[str, ...] = ()
    """The machines with files here."""

    world_size: int = 0
    """Ranks in the job; 0: no file says."""

    missing_ranks: tuple[int, ...] = ()
    """Ranks that left no file here."""

    verdict: str
    """``aligned``, ``diverged``, ``hung``, ``crashed``, ``unknown``; ``unreadable``."""

    headline: str = ""
    """Headline of the first error or warning; or why the run is unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call of a rank, in the order of issue."""

    call: Call
    """What was recorded; of a group by the name that is unique in the run."""

    wall: int
    """When it was issued, ns since 1970, by the rank's own clock."""

    fate: Literal["done", "pending", "failed", ""]
    """What is known of its end; empty: nothing."""

    finding: int | None = None
    """Index of the finding that is about this place, in the JSON of ``align``; null: none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsOfRank:
    """A stretch of what one rank issued."""

    run: str
    """Run id."""

    rank: int
    """Its global rank."""

    world_size: int
    """Ranks in the job."""

    host: str
    """Its machine."""

    pid: int
    """Its process there."""

    state: State
    """What it was doing when its log ends."""

    detail: str
    """That in a few words."""

    groups: tuple[GroupInfo, ...]
    """Of the calls that are shown."""

    before: int
    """Calls of the rank (and group) that were issued before those that are shown."""

    after: int
    """Calls that were issued after them."""

    calls: tuple[CallRow, ...]
    """In the order of issue."""

    headlines: tuple[str, ...] = ()
    """Of all findings of the run: ``finding`` of a row is an index of this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The first difference of two schedules, on ranks with the same difference."""

    ranks: tuple[int, ...]
    """Which they are, in both runs."""

    position: int
    """The n-th call of these ranks, from 1, over all their groups."""

    a: Call | None
    """What the first run has there; null: its schedule has ended."""

    b: Call | None
    """What the second run has there; null: its schedule has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How often ranks issued one kind of call."""

    role: str
    """Who issued it."""

    op: str
    """What was issued."""

    group: str
    """In which process group, in words."""

    a: tuple[int, int]
    """Fewest and most per rank in the first run, of the ranks that are compared."""

    b: tuple[int, int]
    """Fewest and most per rank in the second run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two runs."""

    path: str
    """As it was given."""

    run: str
    """Run id."""

    world_size: int
    """Ranks in the job."""

    verdict: str
    """The outcome of aligning it: a schedule that was cut short ends where it hung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDiff:
    """The comparison of two runs of one program, rank by rank."""

    a: Side
    """The first run."""

    b: Side
    """The second run."""

    compared: tuple[int, ...]
    """Ranks of which both have a whole log."""

    left_out: tuple[int, ...] = ()
    """Ranks with a log that lacks calls (rotated, damaged, begun late): comparing their order would
    show false differences."""

    schedule: tuple[Place, ...] = ()
    """Calls of different kinds: op, issuer, group or reduce op. Most ranks first."""

    tensors: tuple[Place, ...] = ()
    """Calls of one kind with different tensors or roots, if the kinds never differ."""

    ended: tuple[Place, ...] = ()
    """The ends of schedules that are the beginning of the other one."""

    counts: tuple[Count, ...] = ()
    """Kinds of calls, those that differ first."""

    @property
    def is_same(self) -> bool:
        """Return whether every rank issued the same calls in both."""
        return not (self.schedule or self.tensors or self.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """How far a stream has come."""

    group: GroupInfo
    """Its process group."""

    device: str
    """Its device type."""

    rank: int | None
    """Whose last call it is; null: all ranks of the group agree as far as that."""

    seq: int
    """Sequence number of the collective."""

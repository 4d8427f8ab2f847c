"""The results of the matchers: the first calls in which ranks disagree, without blame."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from collectrace.align.reading.evidence import ChannelKey, GroupConflict, RunEvidence, StreamKey
from collectrace.findings import GroupInfo, OtherLines
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call
from collectrace.signature import Attribute


class Unclear(Exception):
    """The parts that were read of these ranks' logs are not enough; each has an unread part."""

    def __init__(self, ranks: Collection[int]) -> None:
        super().__init__(f"logs were read in part: ranks {sorted(ranks)}")
        self.ranks = frozenset(ranks)


@dataclass(frozen=True, slots=True)
class Divergence:
    """A call of a stream on which the ranks of its group disagree."""

    stream: StreamKey
    group: GroupInfo
    seq: int
    mark: Literal["root", "fatal"]
    """``root``: the first call where programs differ. ``fatal``: the first later one on the
    wire."""
    attribute: Attribute | Literal["absent", "split", "shape", "model", "lost"]
    """What differs; ``shape`` occurs in ``Comparison.warnings`` only. ``lost``: digests prove that
    calls differ, and their lines are lost; ``gap`` has their numbers."""
    calls: Mapping[int, Call | None]
    """Per rank with enough evidence; None: its log ends before this call."""
    unknown: tuple[int, ...] = ()
    """Ranks of the group with evidence that does not reach this call (missing, dropped,
    rotated)."""
    bad_pairs: tuple[tuple[int, int], ...] = ()
    """all_to_all: (sender, receiver) with sizes that do not fit."""
    swapped: bool = False
    """The ranks use the same call sites, or those of a function's callers, in swapped order; the
    bytes agree: a warning."""
    crosses: str | None = None
    """Name of the group with the same call sites interchanged: also a warning."""
    gap: tuple[int, int] | None = None
    """Lost calls (first, last) of a log before this one, in which the programs differ: the root is
    there. This call is only the first visible one."""


Proof = Literal["agrees", "differs", "unequal", "open"]
"""What digests prove of lost calls. ``unequal``: the digests differ, perhaps only by calls that
pair with anything; ``open``: there are no digests to compare."""


class Gap(NamedTuple):
    """Lost calls of one rank, first and last."""

    first: int
    last: int
    rank: int
    proof: Proof


@dataclass(frozen=True, slots=True)
class Unproven:
    """Lost or contradictory lines of a rank, without other proof of their calls."""

    rank: int
    why: Literal["lines", "end", "count", "cut", "torn", "group", "unread"]
    """``lines``: the calls (messages) ``first`` to ``last`` of a stream (channel) are lost, and no
    digest shows that the ranks agree on them. ``end``: lines at the end are lost, so further calls
    may follow. ``count``: the rank's last line counts ``last`` calls, their numbers give ``first``.
    ``cut``: the log ends before call ``first``, from which rank ``last`` returned. ``torn``: the
    file ends within a line, or with one of an unknown kind. ``group``: there are calls in a group
    that no line says the rank made; without a key, a line on some group is lost. ``unread``:
    messages of a channel were counted, but not read."""
    key: StreamKey | ChannelKey | None = None
    """None: it concerns all of the rank's streams and channels."""
    first: int = 0
    last: int = 0


_OF_ALL: Final = ("count", "cut", "torn")
"""Losses at the end of a log that concern all of its streams and channels."""


@dataclass(frozen=True, slots=True)
class Window:
    """The calls of a group, first and last, that are still in all rings of limited length."""

    group: GroupInfo
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A send without a receive that differs in one thing from a receive without a send."""

    channel: ChannelKey
    """The channel of the send."""
    send: Call | None
    differs: Literal["group", "device", "tag", "source", "destination", "numbering"]
    """The field in which the receive differs; of group and device, the group. ``numbering``: both
    peers are numbers of ranks in a group."""
    group: GroupInfo
    """The group of the send."""
    numbered: GroupInfo | None = None
    """A group of both ends in which the number of the peer was used as its rank."""


@dataclass(frozen=True, slots=True)
class Before:
    """The receive before one from any source, and the next message of the same sender."""

    source: int
    recv: Call | None
    next: Call | None
    """The next message of that sender, if it fits the receive from any source."""


@dataclass(frozen=True, slots=True)
class ChannelIssue:
    """The first message of a channel without a partner, or with one that does not fit."""

    channel: ChannelKey
    group: GroupInfo
    seq: int
    send: Call | None
    recv: Call | None
    attribute: Literal["dtype", "count", "absent", "undelivered"]
    """``undelivered``: both ends were issued, and the sender had exited before it arrived."""
    near: NearMiss | None = None
    """Of a receive without a send: the send that was probably meant for it."""
    before: Before | None = None
    """Of a receive from any source that took a wrong message, from another rank than the receive
    before it."""
    taken: int = 0
    """Earlier messages of the channel that receives from any source have taken."""

    @property
    def is_from_any(self) -> bool:
        """Whether its receive takes a message from any rank."""
        return self.recv is not None and self.recv.peer == ANY_SOURCE


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that disagrees, before ranks are blamed."""

    evidence: RunEvidence
    """What was compared."""
    groups: Mapping[str, GroupInfo]
    """By a name that is unique in the run."""
    streams: Mapping[StreamKey, tuple[int, ...]]
    """Every stream, and the ranks of its group."""
    divergences: Sequence[Divergence] = ()
    channels: Sequence[ChannelIssue] = ()
    conflicts: Sequence[GroupConflict] = ()
    agreed: Mapping[StreamKey, int] = field(default_factory=dict)
    """Per stream, the last call on which all ranks of the group agree."""
    messages: Mapping[str, int] = field(default_factory=dict)
    """Per group, the messages that met their other end."""
    unproven: Sequence[Unproven] = ()
    """Why the ranks cannot be called aligned, though nothing recorded disagrees."""
    bridged: Mapping[StreamKey, Sequence[Gap]] = field(default_factory=dict)
    """Lost calls on which digests prove that the ranks agree."""
    windows: Sequence[Window] = ()
    """The compared calls of rings that have lost their first calls."""
    other_lines: Sequence[OtherLines] = ()
    """Streams with agreeing calls from different lines. Found by full scan only."""
    warnings: Sequence[Divergence] = ()
    """Calls that agree in bytes and meaning but differ in shape, or with swapped call sites. Found
    by full scan only."""

    @property
    def cut(self) -> frozenset[int]:
        """Ranks with logs that have lost their end."""
        return frozenset(fact.rank for fact in self.unproven if fact.why in ("cut", "torn"))

    def may_have_issued(self, rank: int, key: StreamKey | ChannelKey) -> bool:
        """Return whether lost lines of a rank may hold calls after the last known one."""
        return any(
            fact.rank == rank
            and (fact.why in _OF_ALL or (fact.why == "end" and fact.key in (None, key)))
            for fact in self.unproven
        )

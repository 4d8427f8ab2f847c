"""What the matchers hand to those who judge: where the ranks disagree, and where first."""

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
    """What was read of these ranks' logs does not tell; each has a part that was not read."""

    def __init__(self, ranks: Collection[int]) -> None:
        super().__init__(f"logs were read in part: ranks {sorted(ranks)}")
        self.ranks = frozenset(ranks)


@dataclass(frozen=True, slots=True)
class Divergence:
    """A row of a stream on which the ranks of its group disagree."""

    stream: StreamKey
    group: GroupInfo
    seq: int
    mark: Literal["root", "fatal"]
    """The first row where the programs differ, or the first later one that is fatal on the wire."""
    attribute: Attribute | Literal["absent", "split", "shape", "model", "lost"]
    """What differs; ``shape`` occurs in ``Comparison.warnings`` only. ``lost``: digests prove that
    calls differ, and their lines are lost; ``gap`` says which they are."""
    calls: Mapping[int, Call | None]
    """Per rank of the group whose log can tell; None: its log ends before this row."""
    unknown: tuple[int, ...] = ()
    """Ranks of the group whose evidence does not reach this row (missing, dropped, rotated)."""
    bad_pairs: tuple[tuple[int, int], ...] = ()
    """all_to_all: (sender, receiver) whose sizes do not fit."""
    swapped: bool = False
    """The ranks use the same call sites, or those of a function's callers, in swapped order; the
    bytes agree: a warning."""
    crosses: str | None = None
    """Name of the group that has the same call sites the other way round: a warning, too."""
    gap: tuple[int, int] | None = None
    """Rows (first, last) before this one that a log has lost though the programs differ in
    them: the root lies there, and this row is only the first that can be seen."""


Proof = Literal["agrees", "differs", "unequal", "open"]
"""What digests prove of calls whose lines are lost. ``unequal``: the digests differ, perhaps only
by what pairs with anything; ``open``: there are none to compare."""


class Gap(NamedTuple):
    """Calls of one rank, first and last, whose lines are lost."""

    first: int
    last: int
    rank: int
    proof: Proof


@dataclass(frozen=True, slots=True)
class Unproven:
    """Lines of a rank that are lost or contradict themselves, and that nothing makes up for."""

    rank: int
    why: Literal["lines", "end", "count", "cut", "torn", "group"]
    """``lines``: the calls (messages) ``first`` to ``last`` of a stream (channel) are lost, and no
    digest shows that the ranks agree on them. ``end``: lines at the end are lost, so that
    calls may follow those that are known. ``count``: the rank's last line counts ``last`` calls,
    by their numbers there are ``first``. ``cut``: the log ends before call ``first``, from which
    rank ``last`` returned. ``torn``: the file ends within a line, or in one
    of an unknown kind. ``group``: there are calls in a
    group, and no line says that the rank made it."""
    key: StreamKey | ChannelKey | None = None
    """None: it concerns all of the rank's streams and channels."""
    first: int = 0
    last: int = 0


_OF_ALL: Final = ("count", "cut", "torn")
"""Losses at the end of a log that concern all of its streams and channels."""


@dataclass(frozen=True, slots=True)
class Window:
    """The calls of a group, first and last, that rings of limited length have in common."""

    group: GroupInfo
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A send without a receive, which would fit a receive without a send but for one thing."""

    channel: ChannelKey
    """The channel of the send."""
    send: Call | None
    differs: Literal["group", "device", "tag", "source", "destination", "numbering"]
    """What the receive names otherwise; of two things, a group and a device, the first. Both peers
    are numbers that the ranks have in a group: ``numbering``."""
    group: GroupInfo
    """Of the send."""
    numbered: GroupInfo | None = None
    """A group of both ends in which the peer's number is the one that was named as its rank."""


@dataclass(frozen=True, slots=True)
class Before:
    """The receive before one from any source: which rank's message it got, and what came next."""

    source: int
    recv: Call | None
    next: Call | None
    """What that rank sent next, if it fits the receive from any source."""


@dataclass(frozen=True, slots=True)
class ChannelIssue:
    """The first message of a channel that has no partner, or not a fitting one."""

    channel: ChannelKey
    group: GroupInfo
    seq: int
    send: Call | None
    recv: Call | None
    attribute: Literal["dtype", "count", "absent", "undelivered"]
    """``undelivered``: both ends were issued, and the sender had left before it arrived."""
    near: NearMiss | None = None
    """Of a receive without a send: the send it was probably meant for."""
    before: Before | None = None
    """Of a receive from any source that took one that does not fit it, of another rank than the
    receive before it."""
    taken: int = 0
    """How many messages of the channel before this one receives from any source have taken."""

    @property
    def is_from_any(self) -> bool:
        """Whether its receive takes a message from any rank."""
        return self.recv is not None and self.recv.peer == ANY_SOURCE


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that disagrees, before anybody is blamed."""

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
    """Per stream the last row on which all ranks of the group agree."""
    messages: Mapping[str, int] = field(default_factory=dict)
    """Per group how many messages met their other end."""
    notes: Sequence[str] = ()
    unproven: Sequence[Unproven] = ()
    """Why the ranks cannot be called aligned, though nothing that is there disagrees."""
    bridged: Mapping[StreamKey, Sequence[Gap]] = field(default_factory=dict)
    """Calls whose lines are lost, and on which digests prove that the ranks agree."""
    windows: Sequence[Window] = ()
    """What was compared of rings that have lost their first calls."""
    other_lines: Sequence[OtherLines] = ()
    """Of streams in which calls that agree come from different lines. Found by full scan only."""
    warnings: Sequence[Divergence] = ()
    """Rows whose bytes and meaning agree and that differ all the same: in shape, or in call sites
    that are swapped. Found by full scan only."""

    @property
    def cut(self) -> frozenset[int]:
        """Ranks of which the log has lost its end."""
        return frozenset(fact.rank for fact in self.unproven if fact.why in ("cut", "torn"))

    def may_have_issued(self, rank: int, key: StreamKey | ChannelKey) -> bool:
        """Whether lost lines of a rank may hold calls behind the last one that is known."""
        return any(
            fact.rank == rank
            and (fact.why in _OF_ALL or (fact.why == "end" and fact.key in (None, key)))
            for fact in self.unproven
        )

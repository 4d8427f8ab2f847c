"""A compact summary of a run: what a picture of it shows beyond the findings.

Made by ``collectrace.align.overview``, drawn by ``collectrace.report.page``; plain values only.
Ranks with equal calls form one band. The calls of a band are compressed by their repetitions:
10,000 calls of a loop are a few dozen numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from collectrace.records import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Ranks of one stream with equal calls, as far as they were read."""

    ranks: tuple[int, ...]
    """Global ranks."""

    last: int
    """The last call they issued."""

    done: int
    """The last call that is known to be complete on all of them; 0: none is."""

    codes: tuple[int, ...]
    """Their calls from 1 to ``last``, packed as :mod:`collectrace.align.overview.repeats` says,
    after the calls of the stream's first band."""

    t: tuple[int, int] | None = None
    """When the first of them issued the last call, and when the last, ns since 1970; None: not
    known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The collectives of one process group on one device type; or messages of one channel."""

    group: str
    """Name of the group."""

    description: str
    """What its creator calls it."""

    backend: str
    """As ``GroupInfo.backend``."""

    device: str
    """Device type."""

    ranks: tuple[int, ...]
    """Global ranks of its members."""

    agreed: int
    """The last call on which all of them agree."""

    bands: tuple[Band, ...]
    """Bands of its ranks, the largest first; a rank that is in none left no file."""

    channel: tuple[int, int, int] | None = None
    """(source, destination, tag) of a point-to-point channel; None: collectives. The first band is
    the sends, the second the receives. A source of -1 is any."""

    alike: tuple[str, ...] = ()
    """Names of other groups with the same calls; their ranks are in the bands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Point-to-point messages of one tag from one rank to another."""

    group: str
    source: int
    destination: int
    tag: int
    sent: int
    """Sends issued."""
    received: int
    """Receives issued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitNode:
    """Threads that wait in the same call, or ranks that others wait for and that do not wait."""

    ranks: tuple[int, ...]
    thread: str
    """Name of the threads; empty for the main one."""
    state: str
    """As ``RankState.state``."""
    op: str = ""
    """What they wait in; empty: they do not wait."""
    group: str = ""
    seq: int | None = None
    site: str | None = None
    held: float = 0.0
    """Seconds, of the one that has waited longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEdge:
    """Some threads wait for others."""

    source: int
    """Index of the node that waits."""
    target: int
    """Index of the node it waits for."""
    row: int | None
    """The first call (message) that the target has not issued."""
    circular: bool = False
    """Whether it is part of a wait cycle that no other rank can resolve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeing:
    """The one call that would let most threads go on."""

    rank: int
    op: str
    group: str
    row: int | None
    site: str | None
    """The line where its peers made it."""
    frees: int
    """Threads that would go on, once it has been issued."""
    waiting: int
    """Threads that wait."""
    peer: int | None = None
    """Of a message, the rank at its other end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Who waits for whom when the evidence ends."""

    nodes: tuple[WaitNode, ...] = ()
    edges: tuple[WaitEdge, ...] = ()
    freeing: Freeing | None = None
    more: int = 0
    """Nodes that are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame of stacks that were merged over ranks."""

    name: str
    """``path:line function``; of a root the name of the thread."""
    ranks: tuple[int, ...]
    """Ranks with this frame on their stack."""
    inner: tuple[Frame, ...] = ()
    """What it called, most ranks first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How late each rank was at the calls of one stream."""

    group: str
    device: str
    rows: int
    """Calls that were compared."""
    span: int
    """ns of the job that they cover."""
    totals: tuple[tuple[int, int, int], ...]
    """(rank, ns it kept the others waiting in all, calls it came last to), the latest first."""
    marks: tuple[int, ...] = ()
    """The first calls of the stretches in ``course``."""
    course: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(rank, us after the first rank, the most in each stretch), of those that were latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """Data loading of one rank."""

    rank: int
    batches: int
    waited: int
    """ns in all."""
    longest: int
    """ns, for one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting that the ranks were started with."""

    name: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    """(value, ranks that have it), most ranks first."""
    own: bool = False
    """Meant to differ from rank to rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The summary of a run."""

    forms: tuple[Call, ...] = ()
    """The calls that bands refer to: an example of each, without its number and time."""
    streams: tuple[Stream, ...] = ()
    """Streams; those in which ranks differ come first."""
    channels: tuple[Channel, ...] = ()
    """Channels; those with different sides come first."""
    waits: Waits = Waits()
    stacks: tuple[Frame, ...] = ()
    """One root for each thread name."""
    lateness: tuple[Lateness, ...] = ()
    """By stream, the one that lost most time first."""
    loading: tuple[Loading, ...] = ()
    clocks: str = ""
    """How well times of different ranks can be compared, a sentence."""
    hosts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(host, its ranks)."""
    settings: tuple[Setting, ...] = ()
    left_out: tuple[str, ...] = ()
    """What there was no room for, or was not read, in sentences."""

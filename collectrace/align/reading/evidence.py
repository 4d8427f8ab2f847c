"""The types that the readers return: one log per rank, under names that all ranks share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from collectrace.align.reading.code_files import CodeFiles
from collectrace.align.reading.recorded_values import Occasion
from collectrace.align.reading.rows import Rows, Strand
from collectrace.align.reading.source_files import SourceFiles
from collectrace.align.reading.stack_dumps import StackDumps
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.findings import GroupInfo
from collectrace.records import (
    Alive,
    Batch,
    Blind,
    Call,
    Done,
    Epoch,
    Exit,
    Fault,
    Group,
    Header,
    Imported,
    Join,
    NoSync,
    Outside,
    Raised,
    Record,
    Stack,
    Stall,
    Sync,
    Unfamiliar,
    Unwaited,
    Values,
)

LOOK_BACK: Final = 400
"""Calls of a rank before a position that are searched for its usual pattern.

The number holds for each stream or channel. A loop with a longer iteration is not recognised, and
older calls are ignored: the log may have millions."""


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


class Answered(NamedTuple):
    """The sender of the message that a receive from any source got, and the record's offset."""

    source: int
    offset: int


class Digests(NamedTuple):
    """The digests of a stream after a call; None if its line has none."""

    digest: int | None
    program: int | None
    pairs: int | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call with an operator that raised over its own arguments: it never reached a peer.

    It is not in its stream: ``seq`` is the number that it would have had.
    """

    key: StreamKey | ChannelKey
    seq: int
    t: int
    """When it raised, ns."""
    error: str
    """Type and text of what it raised."""
    call: Call | None
    """What its own line says; None if that was not read."""


def is_placed(log: RankLog, stream: StreamKey) -> bool:
    """Return whether a rank's position in a stream of its group is known.

    It is unknown if another tool's trace has lost all of the rank's calls there.
    """
    lost = log.imported is not None and log.imported.lost
    return not lost or stream in log.last_seq


class RankLog(Protocol):
    """The evidence of one rank. Large logs are read partly: sequences hold what was needed.

    Times are those of the rank's own monotonic clock, ns; ``ranks.clocks`` converts them to a
    common clock.

    Groups have the names of ``RunEvidence.groups``. A call of a stream has the same number on every
    rank of a group, even if the tracing of a rank began late.
    """

    rank: int
    provisional: bool
    """The rank never finished ``init_process_group``; its file has no run id."""
    header: Header
    unit: str | None
    """What the iterations of its calls count, one of ``records.UNITS``; None: something else."""
    unfamiliar: Unfamiliar | None
    """What of its torch the tracer did not know."""
    imported: Imported | None
    """The tool that wrote its trace; None: it is the tracer's own."""
    blind: Sequence[Blind]
    """Libraries that communicated in its process without being recorded."""
    groups: Sequence[Group]
    joins: Sequence[Join]
    no_syncs: Sequence[NoSync]
    outside: Sequence[Outside]
    """Calls that torch ignored, as the rank is not in the group; the first from each line."""
    batches: Sequence[Batch]
    epochs: Sequence[Epoch]
    syncs: Sequence[Sync]
    unwaited: Sequence[Unwaited]
    dones: Mapping[StreamKey, Done]
    """The latest watermark per stream."""
    channel_dones: Mapping[ChannelKey, Done]
    """The latest watermark per point-to-point channel, of the rank's own side."""
    answers: Mapping[ChannelKey, Mapping[int, Answered]]
    """Senders of messages that receives from any source got, as far as read: by channel and
    number."""
    failed: Sequence[Done]
    """Calls that raised while others took part, or may have."""
    refused: Sequence[Refusal]
    """Calls that never reached a peer, in order of time."""
    caught: Sequence[Raised]
    """Exceptions that left a function of torch's and did not end the rank: it made calls
    afterwards."""
    threads_ended: Sequence[Raised]
    """Exceptions that ended threads."""
    alive: Alive | None
    """The latest heartbeat."""
    stall: Stall | None
    """The latest stall."""
    values: Mapping[Occasion, Values]
    """Values of variables: the latest record per thread and reason, as far as they were read. Each
    was read later than the calls and conditions before it."""
    exit: Exit | None
    stack_dumps: StackDumps
    """What signal handlers wrote when Python could not."""
    disabled: bool
    """The tracer was switched off while process groups existed: later actions of the process are
    not known."""
    first_void: Call | None
    """The first of its calls that the tracer could not describe."""
    first_fault: Fault | None
    """The failure of the tracer since which its records of calls are not certain."""
    voids: Mapping[StreamKey, int]
    """Per stream, the row of the first such call."""
    void_count: int
    """The number of such calls, messages included."""
    last_call: Call | None
    last_t: int
    """When the last line was written."""
    last_seq: Mapping[StreamKey, int]
    """The number of calls that the rank issued per stream, lost ones included."""
    last_channel_seq: Mapping[ChannelKey, int]
    damaged: int
    """Lines that could not be read; a torn last line does not count."""
    dropped: int
    """Records that the tracer reports as lost."""
    rotated: bool
    """The middle of the log was removed."""
    scanned: bool
    """Every line has been read; otherwise the head, the tail and what was looked up."""
    unaccounted: int
    """Calls that the last line counts beyond those known by their numbers; negative: fewer."""
    disproved: int
    """Calls with lines that contradict each other, or the digests: they count as lost."""
    is_original: bool
    """Its file is known to be the one that the tracer wrote, not a copy."""
    torn: bool
    """Its last line is incomplete, and no line reports the end of the process: lines may be
    lost."""
    lossy: bool
    """Lines that held calls are lost, or may be, and not by rotation."""

    @property
    def bytes_read(self) -> int:
        """Bytes read from its files so far."""

    def calls(self, stream: StreamKey, start: int, stop: int) -> list[Call | None]:
        """Return calls ``start`` .. ``stop - 1`` of a stream; None for unrecorded ones."""

    def stack(self, call: Call | Group) -> Stack | None:
        """Return the stack of one of the rank's calls or groups; None if it was not recorded."""

    def taken(self, channel: ChannelKey) -> int:
        """Return the number of messages of a channel that receives from any source have got."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The interned data that the calls of all ranks share."""

    def channel_rows(self, channel: ChannelKey) -> Rows:
        """Return the rank's own side of a channel, as far as it has been read."""

    def channel_call(self, channel: ChannelKey, seq: int) -> Call | None:
        """Return one message of a channel; None if it has not been read."""

    def digests(self, stream: StreamKey, seq: int) -> Digests | None:
        """Return the digests of a stream after call ``seq``; None if the log has none."""

    def strands(self, stream: StreamKey) -> Sequence[Strand]:
        """Return what the digests prove of a stream's rows, in order. Only for a scanned log."""

    def lost(self, key: StreamKey | ChannelKey) -> list[tuple[int, int]]:
        """Return the rows or messages (first, last) that are lost, and not rotated away."""

    def is_open(self, key: StreamKey | ChannelKey) -> bool:
        """Return whether lines lost at the end may hold calls of this stream or channel."""

    def is_described(self, stream: StreamKey, start: int, stop: int) -> bool:
        """Return whether the tracer described all calls after ``start``, up to ``stop``.

        If lines of calls are lost, the count of the tracer's failures must be the same on both
        sides.
        """

    def is_doubtful(self) -> bool:
        """Return whether lines read so far show that others are lost, or contradict the digests."""

    def spans(self, stream: StreamKey) -> list[tuple[int, int]]:
        """Return the (first, last) ranges of rows that the log holds; several after losses."""

    def first_row(self, stream: StreamKey) -> int:
        """Return the row of the first traced call: 1, or higher if tracing began late."""

    def rows(self, stream: StreamKey) -> tuple[Rows, int]:
        """Return the rows of a stream that were read, and the shift to add to their numbers."""

    def records(self, kinds: Collection[str], chunk: int) -> Iterator[Record]:
        """Yield all records of these kinds in file order; reads ``chunk`` bytes at a time."""


@dataclass(frozen=True, slots=True)
class GroupConflict:
    """A disagreement of ranks about a process group."""

    name: str
    variants: tuple[tuple[tuple[int, ...], Group | None], ...]
    """(ranks, what they requested at this position); None: they requested nothing."""
    seq: int
    """The ordinal among the requested groups."""
    harmless: bool = False
    """The group was made anyway: so far nobody has waited for the ranks that did not request it."""
    own: bool = False
    """Each rank requested a group with only its own members, and so far not all have got it."""
    crossed: bool = False
    """All have got it, and the first call in one of these groups failed: it may have met a call of
    another."""
    instead: tuple[tuple[tuple[int, ...], Group], ...] = ()
    """(ranks, the group they requested instead), for ranks that did not request this one."""


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """A run as the reader found it."""

    run: str
    world_size: int
    logs: Mapping[int, RankLog]
    missing: tuple[int, ...] = ()
    """Ranks that left no file that can be read."""
    unreadable: Mapping[int, str] = field(default_factory=dict)
    """Missing ranks that left a file, and why it cannot be read; empty: it holds no record."""
    groups: Mapping[str, GroupInfo] = field(default_factory=dict)
    """By a name that is unique in the run; the logs use it too."""
    conflicts: Sequence[GroupConflict] = ()
    source_files: SourceFiles = field(default_factory=SourceFiles)
    """The source texts that ranks ran."""
    code: CodeFiles = field(default_factory=CodeFiles)
    """The source lines that calls were made from."""
    cut: frozenset[int] = frozenset()
    """Ranks with a file that ends within a line and is no longer written to."""
    disputed: frozenset[int] = frozenset()
    """Ranks that left two files that contradict each other; one of them was read."""
    without_members: frozenset[int] = frozenset()
    """Ranks that used a group whose members no record tells."""
    damaged_lines: int = 0
    notes: tuple[str, ...] = ()
    other_runs: tuple[str, ...] = ()
    """Ids of the other runs in the folder, which were not read."""
    earlier: tuple[str, ...] = ()
    """Ids of the runs that were attempts of this job before it, the latest last."""
    is_live: bool = False
    """The ranks themselves were queried: missing ranks did not answer."""
    still_exists: Callable[[RankLog], bool | None] = lambda _: None
    """Whether a rank's process exists now: None unless this is its host."""
    read_whole: Callable[[Collection[int]], RunEvidence] | None = None
    """Reads the same run again, with the whole logs of these ranks."""

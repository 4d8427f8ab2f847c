"""What the readers hand on: one log for each rank, under names that all ranks share."""

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
"""A rank's calls before a place that are looked at for what it usually does there.

So many of a stream or a channel. A loop whose round is longer is not recognised, and of what lies
further back nothing is said: the place may be found in a log of millions.
"""


class StreamKey(NamedTuple):
    """A stream: the collectives of one group on one device type, numbered from 1."""

    group: str
    device: str


class ChannelKey(NamedTuple):
    """A point-to-point channel: messages of one tag from one rank to another, numbered from 1.

    ``source`` -1 stands for a receive from any source.
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
    """Whose message a receive from any source took, and where in its log that is told."""

    source: int
    offset: int


class Digests(NamedTuple):
    """Where a stream stands after a call; None: its line does not say."""

    digest: int | None
    program: int | None
    pairs: int | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call whose operator raised over its own arguments: it never reached a peer.

    It has no place in its stream: ``seq`` is the place that it would have had.
    """

    key: StreamKey | ChannelKey
    seq: int
    t: int
    """When it raised, ns."""
    error: str
    """Type and text of what it raised."""
    call: Call | None
    """What its own line says; None where that was not read."""


def is_placed(log: RankLog, stream: StreamKey) -> bool:
    """Whether it is known where a rank stands in a stream of a group that it is in.

    Not so where another tool's trace has lost all of its calls there.
    """
    lost = log.imported is not None and log.imported.lost
    return not lost or stream in log.last_seq


class RankLog(Protocol):
    """One rank's evidence. Large logs are read in part: sequences hold what was needed.

    Times are those of the rank's own monotonic clock, ns; ``ranks.clocks`` puts the times of
    different ranks on one.

    Groups have the names of ``RunEvidence.groups`` everywhere, and rows the same number on every
    rank of a group, even where a rank's tracing began late.
    """

    rank: int
    provisional: bool
    """The rank never got past ``init_process_group``; there is no run id in its file."""
    header: Header
    unit: str | None
    """What the iterations of its calls count, one of ``records.UNITS``; None: something else."""
    unfamiliar: Unfamiliar | None
    """What of its torch the tracer did not know."""
    imported: Imported | None
    """Whose trace its file was made from; None: it is the tracer's own."""
    blind: Sequence[Blind]
    """What communicated in its process past what is recorded."""
    groups: Sequence[Group]
    joins: Sequence[Join]
    no_syncs: Sequence[NoSync]
    batches: Sequence[Batch]
    epochs: Sequence[Epoch]
    syncs: Sequence[Sync]
    unwaited: Sequence[Unwaited]
    dones: Mapping[StreamKey, Done]
    """The latest watermark per stream."""
    channel_dones: Mapping[ChannelKey, Done]
    """The latest watermark per point-to-point channel, of the rank's own side."""
    answers: Mapping[ChannelKey, Mapping[int, Answered]]
    """Of receives from any source, as far as it was read and recorded: by channel and number."""
    failed: Sequence[Done]
    """Calls that raised while others took part, or may have."""
    refused: Sequence[Refusal]
    """Calls that never reached a peer, in order of time."""
    caught: Sequence[Raised]
    """Exceptions that left a function of torch's and did not end the rank: it made calls after."""
    threads_ended: Sequence[Raised]
    """Exceptions that ended threads."""
    alive: Alive | None
    """The latest heartbeat."""
    stall: Stall | None
    """The latest stall."""
    values: Mapping[Occasion, Values]
    """What the variables of its functions held: the latest record per thread and reason, as far as
    they were read. Each was read later than the calls and conditions before it."""
    exit: Exit | None
    stack_dumps: StackDumps
    """What signal handlers wrote when Python could not."""
    disabled: bool
    """The tracer was switched off while there were process groups: what the process did afterwards
    is not known."""
    first_void: Call | None
    """The first of its calls that the tracer could not describe."""
    first_fault: Fault | None
    """The failure of the tracer from which on what it recorded of calls is not certain."""
    voids: Mapping[StreamKey, int]
    """Per stream, the row of the first such call."""
    void_count: int
    """How many such calls there are, messages included."""
    last_call: Call | None
    last_t: int
    """When the last line was written."""
    last_seq: Mapping[StreamKey, int]
    """How many calls the rank issued per stream, lost ones included."""
    last_channel_seq: Mapping[ChannelKey, int]
    damaged: int
    """Lines that could not be read; a torn last line is none of them."""
    dropped: int
    """Records the tracer says it lost."""
    rotated: bool
    """The middle of the log is gone."""
    scanned: bool
    """Every line has been read; else its head, its tail and what was looked up."""
    unaccounted: int
    """How many calls more its last line counts than there are by their numbers; negative: fewer."""
    disproved: int
    """Calls whose lines contradict each other, or the digests: they count as lost."""
    is_original: bool
    """Its file is known to be the one that the tracer wrote, and no copy."""
    torn: bool
    """Its last line is not whole, and none says that the process ended: lines may be lost."""
    lossy: bool
    """Lines that held calls are lost, or may be, and not by rotation."""

    @property
    def bytes_read(self) -> int:
        """From its files, so far."""

    def calls(self, stream: StreamKey, start: int, stop: int) -> list[Call | None]:
        """Calls ``start`` .. ``stop - 1`` of a stream; None where none was recorded."""

    def stack(self, call: Call | Group) -> Stack | None:
        """Who called whom on the way to one of the rank's calls, or groups; None: not recorded."""

    def taken(self, channel: ChannelKey) -> int:
        """How many messages of a channel receives from any source are known to have taken."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What the calls of all ranks share."""

    def channel_rows(self, channel: ChannelKey) -> Rows:
        """The rank's own side of a channel, as far as it has been read."""

    def channel_call(self, channel: ChannelKey, seq: int) -> Call | None:
        """One message of it; None where it has not been read."""

    def digests(self, stream: StreamKey, seq: int) -> Digests | None:
        """Where a stream stands after call ``seq``; None where the log cannot tell."""

    def strands(self, stream: StreamKey) -> Sequence[Strand]:
        """What the digests prove of the rows, in their order. Of a log that was scanned."""

    def lost(self, key: StreamKey | ChannelKey) -> list[tuple[int, int]]:
        """The rows or messages (first, last) whose lines are lost, and not rotated away."""

    def is_open(self, key: StreamKey | ChannelKey) -> bool:
        """Whether lines at the end are lost, which may hold calls of this stream or channel."""

    def is_described(self, stream: StreamKey, start: int, stop: int) -> bool:
        """Whether the tracer described all calls behind ``start``, up to ``stop``.

        Of calls whose lines are lost, if the count of its failures is the same on both sides.
        """

    def is_doubtful(self) -> bool:
        """Whether what was read shows that lines are lost, or contradict the digests."""

    def spans(self, stream: StreamKey) -> list[tuple[int, int]]:
        """The rows (first, last) that the log holds, both included; more than one after losses."""

    def first_row(self, stream: StreamKey) -> int:
        """The row of the first call that was traced: 1, or later where tracing began late."""

    def rows(self, stream: StreamKey) -> tuple[Rows, int]:
        """The rows of a stream that were read, and what to add to their numbers."""

    def records(self, kinds: Collection[str], chunk: int) -> Iterator[Record]:
        """Every record of these kinds, as they lie in the files, ``chunk`` bytes read at a time."""


@dataclass(frozen=True, slots=True)
class GroupConflict:
    """Ranks that disagree about a process group."""

    name: str
    variants: tuple[tuple[tuple[int, ...], Group | None], ...]
    """(ranks, what they asked for at this place); None: they did not ask."""
    seq: int
    """The ordinal among the groups asked for."""
    harmless: bool = False
    """It was made all the same: nobody has waited for the ranks that did not ask, so far."""
    own: bool = False
    """Each rank asked for a group of its own alone, and not all have got it, so far."""
    crossed: bool = False
    """All have, and what was issued first in one of these failed: it may have met another's."""
    instead: tuple[tuple[tuple[int, ...], Group], ...] = ()
    """(ranks, the group they asked for in its place), of those that did not ask for this one."""


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """A run as the reader found it."""

    run: str
    world_size: int
    logs: Mapping[int, RankLog]
    missing: tuple[int, ...] = ()
    """Ranks that left no file that can be read."""
    unreadable: Mapping[int, str] = field(default_factory=dict)
    """Those of them that left a file, and why it cannot be read; empty: it holds no record."""
    groups: Mapping[str, GroupInfo] = field(default_factory=dict)
    """By a name that is unique in the run; the logs use it too."""
    conflicts: Sequence[GroupConflict] = ()
    source_files: SourceFiles = field(default_factory=SourceFiles)
    """The texts that ranks ran."""
    code: CodeFiles = field(default_factory=CodeFiles)
    """The same by the lines that calls came from."""
    cut: frozenset[int] = frozenset()
    """Ranks of which the file ends within a line, and is written to no more."""
    disputed: frozenset[int] = frozenset()
    """Ranks that left two files which contradict each other; one of them was read."""
    damaged_lines: int = 0
    notes: tuple[str, ...] = ()
    other_runs: tuple[str, ...] = ()
    """Ids of other runs in the folder, which nothing here is about."""
    earlier: tuple[str, ...] = ()
    """Ids of the runs that were attempts of this job before it, the latest last."""
    is_live: bool = False
    """It was asked of the ranks themselves: those that are missing did not answer."""
    still_exists: Callable[[RankLog], bool | None] = lambda _: None
    """Whether a rank's process exists now: None unless this is its host."""
    read_whole: Callable[[Collection[int]], RunEvidence] | None = None
    """The same run with the logs of these ranks read from end to end."""

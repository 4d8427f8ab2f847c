"""The log of one rank over all its files, with names and numbers that all ranks share."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from collectrace.align.reading.group_names import GroupNames
from collectrace.align.reading.keys import Answered, ChannelKey, Digests, Key, StreamKey
from collectrace.align.reading.rank_reader import RankReader
from collectrace.align.reading.recorded_values import Occasion
from collectrace.align.reading.rows import Rows, Strand
from collectrace.align.reading.stack_dumps import StackDumps
from collectrace.align.reading.vocabulary import VOID, Vocabulary
from collectrace.records import (
    HANDLED,
    OTHER_THREAD,
    THREAD,
    Batch,
    Blind,
    Call,
    Done,
    Epoch,
    Exit,
    Fault,
    Group,
    Header,
    Join,
    NoSync,
    Outside,
    Raised,
    Record,
    Stack,
    Sync,
    Unwaited,
    Values,
    readable,
)
from collectrace.signature import EMPTY

_MOST_CALLS: Final = 20_000
"""Decoded calls that are kept: the windows around a difference are read many times."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call with an operator that raised over its own arguments: it never reached a peer.

    It is not in its stream: ``seq`` is the number that it would have had.
    """

    key: Key
    seq: int
    t: int
    """When it raised, ns."""
    error: str
    """Type and text of what it raised."""
    call: Call | None
    """What its own line says; None if that was not read."""


class RankLog:
    """The evidence of one rank. Large logs are read partly: sequences hold what was needed.

    Times are those of the rank's own monotonic clock, ns; ``ranks.clocks`` converts them to a
    common clock.

    Groups have the names of ``RunEvidence.groups``. A call of a stream has the same number on every
    rank of a group, even if the tracing of a rank began late.

    Small data was read before and is fixed here; calls are read from the files on demand.
    ``header`` is used if the files have no readable one.
    """

    def __init__(
        self, reader: RankReader, header: Header, names: GroupNames, stack_dumps: StackDumps
    ) -> None:
        found = reader.records
        self._reader, self._names = reader, names
        self._in_file = {shared: local for local, shared in names.shared.items()}
        """By shared name, the name of a group in the file."""
        self._calls: dict[tuple[Key, int], Call | None] = {}
        self.rank = found.rank
        self.provisional = reader.provisional
        """The rank never finished ``init_process_group``; its file has no run id."""
        self.scanned = reader.scanned
        """Every line has been read; otherwise the head, the tail and what was looked up."""
        self.rotated = reader.rotated
        """The middle of the log was removed."""
        self.damaged = reader.damaged
        """Lines that could not be read; a torn last line does not count."""
        self.dropped = found.dropped
        """Records that the tracer reports as lost."""
        self.unaccounted = reader.unaccounted
        """Calls that the last line counts beyond those known by their numbers; negative: fewer."""
        self.lacks_groups = reader.lacks_groups and not self.rotated
        """Lines that report groups are lost."""
        self.disproved = sum(len(rows.disproved) for rows in found.rows.values())
        """Calls with lines that contradict each other, or the digests: they count as lost."""
        self.lossy = bool(self.unaccounted) or any(map(reader.lost, found.rows))
        """Lines that held calls are lost, or may be, and not by rotation."""
        self.header = found.header or replace(header, t=found.first_t or 0)
        self.groups: Sequence[Group] = [names.named(group) for group in found.groups]
        self.joins: Sequence[Join] = [names.named(join) for join in found.of(Join)]
        doubtful = [fault for fault in found.of(Fault) if fault.since is not None]
        self.first_fault: Fault | None = min(doubtful, key=attrgetter("since"), default=None)
        """The failure of the tracer since which its records of calls are not certain."""
        # A tracer that failed may have confused a framework's call with the script's.
        certain = math.inf if self.first_fault is None else self.first_fault.since or 0
        self.unwaited: Sequence[Unwaited] = [
            names.named(record) for record in found.of(Unwaited) if record.t < certain
        ]
        self.unit = found.unit
        """What the iterations of its calls count, one of ``records.UNITS``; None: something
        else."""
        self.unfamiliar = found.unfamiliar
        """What of its torch the tracer did not know."""
        self.imported = found.imported
        """The tool that wrote its trace; None: it is the tracer's own."""
        self.blind: Sequence[Blind] = list(found.blind.values())
        """Libraries that communicated in its process without being recorded."""
        self.no_syncs = found.of(NoSync)
        self.outside = found.of(Outside)
        """Calls that torch ignored, as the rank is not in the group; the first from each line."""
        self.batches = found.of(Batch)
        self.epochs = found.of(Epoch)
        self.syncs = found.of(Sync)
        self.values: Mapping[Occasion, Values] = found.values.latest
        """Values of variables: the latest record per thread and reason, as far as they were read.
        Each was read later than the calls and conditions before it."""
        self.stack_dumps = stack_dumps
        """What signal handlers wrote when Python could not."""
        self.last_t = found.last_t()
        """When the last line was written."""
        self.alive, self.exit = names.moment(found.alive), names.moment(found.exit)
        self.stall = names.moment(found.stall)
        if self.exit is None:
            self.stall = stack_dumps.sign(self.last_t, self.stall) or self.stall
        self.disabled = found.disabled and not _is_destroyed(found.groups)
        """The tracer was switched off while process groups existed: later actions of the process
        are not known."""
        voids = {key: v for key, rows in found.rows.items() if (v := rows.voids()) is not None}
        self.void_count = sum(count for _, count, _ in voids.values())
        """The number of calls that the tracer could not describe, messages included."""
        self.voids: Mapping[StreamKey, int] = {
            names.key(k): seq + names.shift(k)
            for k, (seq, _, _) in voids.items()
            if isinstance(k, StreamKey)
        }
        """Per stream, the row of the first such call."""
        first = min(voids.items(), key=lambda one: one[1][2], default=None)
        self.first_void = None if first is None else self._call(first[0], first[1][0])
        """The first of those calls."""
        self.answers: Mapping[ChannelKey, Mapping[int, Answered]] = {
            names.key(k): answers for k, answers in found.answers.items()
        }
        """Senders of messages that receives from any source got, as far as read: by channel and
        number."""
        self._taken = Counter(
            channel._replace(source=answer.source)
            for channel, answers in self.answers.items()
            for answer in answers.values()
        )
        self.failed: Sequence[Done] = [names.numbered(done) for done in found.failed]
        """Calls that raised while others took part, or may have."""
        self.refused: Sequence[Refusal] = sorted(
            (self._refusal(*one) for one in found.refused), key=lambda refusal: refusal.t
        )
        """Calls that never reached a peer, in order of time."""
        self.dones: Mapping[Key, Done] = {
            names.key(k): names.numbered(done) for k, done in found.dones.items()
        }
        """The latest watermark per stream, and per channel of the rank's own side."""
        self.counts: Mapping[Key, int] = {
            names.key(k): rows.last() + names.shift(k) for k, rows in found.rows.items()
        }
        """The number of calls that the rank issued per stream and channel, lost ones included."""
        self.last_seq: Mapping[StreamKey, int] = {
            k: n for k, n in self.counts.items() if isinstance(k, StreamKey)
        }
        self.last_channel_seq: Mapping[ChannelKey, int] = {
            k: n for k, n in self.counts.items() if isinstance(k, ChannelKey)
        }
        self.last_call = self._last_call()
        last = self.last_call.t if self.last_call is not None else 0
        self.caught: Sequence[Raised] = [
            raised
            for raised in found.of(Raised)
            if raised.t < last or (raised.what == HANDLED and raised.t == last)
            if raised.what != OTHER_THREAD
        ]
        """Exceptions that left a function of torch's and did not end the rank: it made calls
        afterwards."""
        self.threads_ended: Sequence[Raised] = [
            raised for raised in found.of(Raised) if raised.what in (THREAD, OTHER_THREAD)
        ]
        written = self.header.inode
        self.is_original = written is not None and written == reader.segments.inode
        """Its file is known to be the one that the tracer wrote, not a copy."""
        self._named_last = found.named()
        self.torn = self.exit is None and (reader.segments.is_torn or found.is_end_unknown)
        """Its last line is incomplete, and no line reports the end of the process: lines may be
        lost."""
        if self.exit is None:
            self.exit = _end_of_thread(found.of(Raised), last)

    def _refusal(self, key: Key, offset: int | None, done: Done) -> Refusal:
        names = self._names
        call = None if offset is None else self._at(offset)
        seq = done.seq + names.shift(key)
        return Refusal(names.key(key), seq, done.t, done.error or "", call)

    def _last_call(self) -> Call | None:
        read = ((key, rows) for key, rows in self._reader.records.rows.items() if rows)
        latest = max(read, key=lambda one: one[1].offset[-1], default=None)
        return None if latest is None else self._call(latest[0], latest[1].seq[-1])

    @property
    def first_damaged(self) -> tuple[str, int] | None:
        """The file and the number of the first line that could not be read; None: not known."""
        at = self._reader.records.damaged_at
        return None if at is None else self._reader.segments.numbered(at)

    @property
    def bytes_read(self) -> int:
        """Bytes read from its files so far."""
        return self._reader.segments.bytes_read

    def _call(self, key: Key, seq: int) -> Call | None:
        """Return a call by the file's names and numbers, from a cache: do not change it."""
        if (key, seq) not in self._calls:
            if len(self._calls) >= _MOST_CALLS:
                self._calls.clear()
            self._calls[key, seq] = self._decoded(key, seq)
        return self._calls[key, seq]

    def _decoded(self, key: Key, seq: int) -> Call | None:
        row = self._reader.locate(key, seq)
        if row is None:
            return None
        return self._at(self._reader.records.rows[key].offset[row])

    def _at(self, offset: int) -> Call | None:
        """Return the call with a line at an offset, under shared name and number."""
        call = readable(self._reader.segments.line(offset))
        return self._names.call(call) if isinstance(call, Call) else None

    def _own(self, key: Key) -> tuple[Key, int]:
        """Return a key by the name in the file, and what to add to the file's numbers."""
        own = key._replace(group=self._in_file.get(key.group, key.group))
        return own, self._names.shift(own)

    # -- questions ----------------------------------------------------------------------------

    def calls(self, stream: StreamKey, start: int, stop: int) -> list[Call | None]:
        """Return calls ``start`` .. ``stop - 1`` of a stream; None for unrecorded ones."""
        key, shift = self._own(stream)
        return [self._call(key, seq - shift) for seq in range(start, stop)]

    def call(self, key: Key, seq: int) -> Call | None:
        """Return a call of a stream, or a message of a channel as far as it has been read.

        None if it was not recorded.
        """
        if isinstance(key, ChannelKey) and self.rows(key)[0].find(seq) is None:
            return None
        own, shift = self._own(key)
        return self._call(own, seq - shift)

    def stack(self, call: Call | Group) -> Stack | None:
        """Return the stack of a call or a group; None if it was not recorded."""
        return None if call.stack is None else self._reader.stack(call.stack)

    def taken(self, channel: ChannelKey) -> int:
        """Return the number of messages of a channel that receives from any source have got."""
        return self._taken[channel]

    @property
    def vocabulary(self) -> Vocabulary:
        """The interned data that the calls of all ranks share."""
        return self._reader.records.vocabulary

    def digests(self, stream: StreamKey, seq: int) -> Digests | None:
        """Return the digests of a stream after call ``seq``; None if the log has none."""
        key, shift = self._own(stream)
        seq -= shift
        if seq == 0:
            return Digests(EMPTY, EMPTY, None)
        rows = self._reader.records.rows.get(key)
        if rows is None:
            return None
        if seq not in rows.checkpoints:
            call = self._call(key, seq)
            if call is not None:
                return Digests(call.digest, call.program, call.pairs)
        # The search may have read a checkpoint of this call.
        found = rows.checkpoints.get(seq)
        return None if found is None else Digests(*found)

    def rows(self, key: Key) -> tuple[Rows, int]:
        """Return the rows of a stream, or the rank's own side of a channel, as far as read.

        Return also the shift to add to their numbers; that of a channel is 0.
        """
        own, shift = self._own(key)
        found = self._reader.records.rows.get(own)
        return Rows(self.vocabulary) if found is None else found, shift

    def records(self, kinds: Collection[str], chunk: int) -> Iterator[Record]:
        """Yield all records of these kinds in file order; reads ``chunk`` bytes at a time.

        The records are not kept. Unreadable lines are skipped.
        """
        heads = tuple(b'{"kind":"%s"' % kind.encode() for kind in kinds)
        for _, lines in self._reader.segments.blocks(chunk=chunk):
            for line in lines:
                record = readable(line) if line.startswith(heads) else None
                if record is not None:
                    yield self._shared(record)

    def _shared(self, record: Record) -> Record:
        """Replace a record's names and numbers by the shared ones."""
        names = self._names
        match record:
            case Call():
                return names.call(record)
            case Done():
                return names.numbered(record)
            case Group() | Join() | Unwaited():
                record.group = names.shared.get(record.group or "", record.group or "")
        return record

    def strands(self, stream: StreamKey) -> Sequence[Strand]:
        """Return what the digests prove of a stream's rows, in order. Only for a scanned log."""
        rows, shift = self.rows(stream)
        found = () if rows.strands is None else rows.strands[1]
        if not shift:
            return found
        return [one._replace(first=one.first + shift, last=one.last + shift) for one in found]

    def lost(self, key: Key) -> list[tuple[int, int]]:
        """Return the rows or messages (first, last) that are lost, and not rotated away."""
        own, shift = self._own(key)
        return [(first + shift, last + shift) for first, last in self._reader.lost(own)]

    def is_unread(self, key: Key) -> bool:
        """Return whether rows or messages may be in parts of the log that were not read."""
        return self._reader.is_unread(self._own(key)[0])

    def is_open(self, key: Key) -> bool:
        """Return whether lines lost at the end may hold calls of this stream or channel."""
        found = self._reader.records
        if found.exit is not None and found.exit.calls:
            return self.unaccounted != 0
        own, _ = self._own(key)
        rows = found.rows.get(own)
        latest, last = (rows.offset[-1], rows.last()) if rows else (-1, 0)
        return found.unreadable > latest or self._named_last.get(own, 0) > last

    def is_described(self, stream: StreamKey, start: int, stop: int) -> bool:
        """Return whether the tracer described all calls after ``start``, up to ``stop``.

        If lines of calls are lost, the count of the tracer's failures must be the same on both
        sides.
        """
        rows, shift = self.rows(stream)
        low, high = rows.position(start + 1 - shift), rows.position(stop + 1 - shift)
        void = self.vocabulary.meanings.get(VOID)
        if void is not None and void in rows.meaning[low:high]:
            return False
        if high - low == stop - start:
            return True
        # For lost calls, compare the tracer's failure count before and after them.
        begin = rows.offset[low - 1] if low else 0
        end = min((at for count, at in rows.marks if count >= stop - shift), default=None)
        if end is None:
            end = rows.offset[high] if high < len(rows) else self._reader.segments.size
        counts = self._reader.records.failure_counts
        behind = min((pair for pair in counts if pair[0] > end - 1), default=None)
        before = max((pair for pair in counts if pair[0] < begin), default=(0, 0))
        return behind is not None and behind[1] == before[1]

    def is_doubtful(self) -> bool:
        """Return whether lines read so far show that others are lost, or contradict the digests."""
        return self._reader.is_doubtful()

    def first_row(self, stream: StreamKey) -> int:
        """Return the row of the first traced call: 1, or higher if tracing began late."""
        return 1 + self._own(stream)[1]

    def spans(self, stream: StreamKey) -> list[tuple[int, int]]:
        """Return the rows (first, last) that the log holds; more than one after losses."""
        rows, shift = self.rows(stream)
        if self.scanned:
            return [(first + shift, last + shift) for first, last, _ in rows.runs()]
        spans, first = [], 1
        for hole in self._reader.segments.holes():
            at = bisect_left(rows.offset, hole)
            marked = [count for count, offset in rows.marks if offset < hole]
            before = max(marked[-1], rows.seq[at - 1] if at else 0)
            after = min((count for count, offset in rows.marks if offset >= hole), default=before)
            if before >= first:
                spans.append((first + shift, before + shift))
            first = max(first, after + 1)
        if rows.last() >= first:
            spans.append((first + shift, rows.last() + shift))
        return spans


def _is_destroyed(groups: Sequence[Group]) -> bool:
    """Return whether the default group was destroyed: then no group is left for calls."""
    return any(group.phase == "destroyed" and group.ordinal == 0 for group in groups)


def _end_of_thread(raised: Sequence[Raised], last: int) -> Exit | None:
    """Return the exception that ended the thread of the calls; its process may continue.

    ``last``: when the last call was issued.
    """
    ended = next((r for r in reversed(raised) if r.what == THREAD), None)
    if ended is None or ended.t < last:
        return None
    return Exit(
        t=ended.t, reason="exception", error=ended.error, message=ended.message, site=ended.site
    )

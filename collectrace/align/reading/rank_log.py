"""One rank's log over its files, under the names and numbers that all ranks share."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from collectrace.align.reading.evidence import (
    Answered,
    ChannelKey,
    Digests,
    Refusal,
    StreamKey,
)
from collectrace.align.reading.rank_reader import RankReader
from collectrace.align.reading.rank_records import Key
from collectrace.align.reading.rows import Rows
from collectrace.align.reading.stack_dumps import NOTHING, StackDumps
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.errors import DamagedRecord
from collectrace.ops import POINT_TO_POINT
from collectrace.records import (
    HANDLED,
    OTHER_THREAD,
    THREAD,
    Activity,
    Alive,
    Batch,
    Blind,
    Call,
    Done,
    Epoch,
    Exit,
    Group,
    Header,
    Join,
    NoSync,
    Raised,
    Record,
    Stack,
    Stall,
    Sync,
    Unwaited,
    decode,
)
from collectrace.signature import EMPTY

_Named = TypeVar("_Named", Group, Join, Unwaited)
_Numbered = TypeVar("_Numbered", Activity, Done)
_Moment = TypeVar("_Moment", Alive, Stall, Exit)

_MOST_CALLS: Final = 20_000
"""Decoded calls that are kept: the windows before and after a difference, asked for many times."""


@dataclass(frozen=True, slots=True)
class GroupNames:
    """What one rank's file calls its groups, against the names and numbers that all ranks share.

    Records are kept as the file has them; what goes out bears the shared ones.
    """

    shared: Mapping[str, str] = field(default_factory=dict)
    """Name in the file to the name that is unique in the run; a name without one is its own."""
    shifts: Mapping[str, int] = field(default_factory=dict)
    """Name in the file to the calls that the group had seen before this rank was traced."""

    def named(self, record: _Named) -> _Named:
        """A record that names a group, with the shared name."""
        name = self.shared.get(record.group or "")
        return record if name in (None, record.group) else replace(record, group=name)

    def numbered(self, record: _Numbered) -> _Numbered:
        """A record that names a row of a group, with the shared name and number."""
        local = record.group or ""
        name, shift = self.shared.get(local, local), self.shifts.get(local, 0)
        if name == local and not shift:
            return record
        seq = record.seq + shift if record.peer is None and record.seq is not None else record.seq
        return replace(record, group=name, seq=seq)

    def moment(self, record: _Moment | None) -> _Moment | None:
        """A record that tells what threads are in, with shared names and numbers."""
        if record is None or not record.in_:
            return record
        return replace(record, in_=[self.numbered(activity) for activity in record.in_])

    def shift(self, key: Key) -> int:
        """What to add to the file's number of a row."""
        return self.shifts.get(key.group, 0)

    def stream(self, key: StreamKey) -> StreamKey:
        """A stream of the file, under its shared name."""
        return key._replace(group=self.shared.get(key.group, key.group))

    def channel(self, key: ChannelKey) -> ChannelKey:
        """A channel of the file, under its shared name."""
        return key._replace(group=self.shared.get(key.group, key.group))


class FileLog:
    """Implements :class:`collectrace.align.reading.evidence.RankLog` over one rank's files.

    What is small was read before and is fixed here; calls are looked up in the files when they
    are asked for. ``header`` stands in where the files have none that can be read.
    """

    def __init__(
        self,
        reader: RankReader,
        header: Header,
        names: GroupNames,
        stack_dumps: StackDumps = NOTHING,
    ) -> None:
        found = reader.records
        self._reader, self._names = reader, names
        self._in_file = {shared: local for local, shared in names.shared.items()}
        """What the file calls a group that is named as all ranks do."""
        self._calls: dict[tuple[Key, int], Call | None] = {}
        self.rank = found.rank
        self.provisional = reader.provisional
        self.scanned = reader.scanned
        self.rotated = reader.rotated
        self.damaged, self.dropped = reader.damaged, found.dropped
        self.header = found.header or replace(header, t=found.first_t or 0)
        self.groups: Sequence[Group] = [names.named(group) for group in found.groups]
        self.joins: Sequence[Join] = [names.named(join) for join in found.joins]
        self.unwaited: Sequence[Unwaited] = [names.named(record) for record in found.unwaited]
        self.unit = found.unit
        self.unfamiliar = found.unfamiliar
        self.imported = found.imported
        self.blind: Sequence[Blind] = list(found.blind.values())
        self.no_syncs: Sequence[NoSync] = found.no_syncs
        self.batches: Sequence[Batch] = found.batches
        self.epochs: Sequence[Epoch] = found.epochs
        self.syncs: Sequence[Sync] = found.syncs
        self.stack_dumps = stack_dumps
        self.last_t = found.last_t()
        self.alive, self.exit = names.moment(found.alive), names.moment(found.exit)
        self.stall = names.moment(found.stall)
        if self.exit is None:
            self.stall = stack_dumps.sign(self.last_t) or self.stall
        self.disabled = found.disabled and not _is_destroyed(found.groups)
        voids = {key: v for key, rows in found.rows.items() if (v := rows.voids()) is not None}
        self.void_count = sum(count for _, count, _ in voids.values())
        self.voids: Mapping[StreamKey, int] = {
            names.stream(k): seq + names.shift(k)
            for k, (seq, _, _) in voids.items()
            if isinstance(k, StreamKey)
        }
        first = min(voids.items(), key=lambda one: one[1][2], default=None)
        self.first_void = None if first is None else self._call(first[0], first[1][0])
        self.answers: Mapping[ChannelKey, Mapping[int, Answered]] = {
            names.channel(k): answers for k, answers in found.answers.items()
        }
        self._taken = Counter(
            channel._replace(source=answer.source)
            for channel, answers in self.answers.items()
            for answer in answers.values()
        )
        self.failed: Sequence[Done] = [names.numbered(done) for done in found.failed]
        self.refused: Sequence[Refusal] = sorted(
            (self._refusal(*one) for one in found.refused), key=lambda refusal: refusal.t
        )
        dones = [(key, names.numbered(done)) for key, done in found.dones.items()]
        self.dones: Mapping[StreamKey, Done] = {
            names.stream(k): d for k, d in dones if isinstance(k, StreamKey)
        }
        self.channel_dones: Mapping[ChannelKey, Done] = {
            names.channel(k): d for k, d in dones if isinstance(k, ChannelKey)
        }
        lasts = [(key, rows.last()) for key, rows in found.rows.items()]
        self.last_seq: Mapping[StreamKey, int] = {
            names.stream(k): n + names.shift(k) for k, n in lasts if isinstance(k, StreamKey)
        }
        self.last_channel_seq: Mapping[ChannelKey, int] = {
            names.channel(k): n for k, n in lasts if isinstance(k, ChannelKey)
        }
        self.last_call = self._last_call()
        last = self.last_call.t if self.last_call is not None else 0
        self.caught: Sequence[Raised] = [
            raised
            for raised in found.raised
            if raised.t < last or (raised.what == HANDLED and raised.t == last)
            if raised.what != OTHER_THREAD
        ]
        self.threads_ended: Sequence[Raised] = [
            raised for raised in found.raised if raised.what in (THREAD, OTHER_THREAD)
        ]
        if self.exit is None:
            self.exit = _end_of_thread(found.raised, last)

    def _refusal(self, key: Key, offset: int | None, done: Done) -> Refusal:
        names = self._names
        shared = names.stream(key) if isinstance(key, StreamKey) else names.channel(key)
        seq = names.numbered(done).seq if isinstance(key, StreamKey) else done.seq
        call = None if offset is None else self._named(key, offset)
        return Refusal(shared, seq, done.t, done.error or "", call)

    def _last_call(self) -> Call | None:
        read = ((key, rows) for key, rows in self._reader.records.rows.items() if rows)
        latest = max(read, key=lambda one: one[1].offset[-1], default=None)
        return None if latest is None else self._call(latest[0], latest[1].seq[-1])

    @property
    def bytes_read(self) -> int:
        """From its files, so far."""
        return self._reader.segments.bytes_read

    def _call(self, key: Key, seq: int) -> Call | None:
        """A call by the names and numbers of the file; decoded once, and not to be changed."""
        known = self._calls.get((key, seq), self)
        if not isinstance(known, FileLog):
            return known
        if len(self._calls) >= _MOST_CALLS:
            self._calls.clear()
        found = self._calls[key, seq] = self._decoded(key, seq)
        return found

    def _decoded(self, key: Key, seq: int) -> Call | None:
        row = self._reader.locate(key, seq)
        if row is None:
            return None
        return self._named(key, self._reader.records.rows[key].offset[row])

    def _named(self, key: Key, offset: int) -> Call | None:
        """The call whose line begins at an offset, under shared name and number."""
        try:
            call = decode(self._reader.segments.line(offset))
        except DamagedRecord:
            return None
        if not isinstance(call, Call):
            return None
        if isinstance(key, StreamKey):
            call.seq += self._names.shift(key)
        call.group = self._names.shared.get(call.group, call.group)
        return call

    def _own(self, stream: StreamKey) -> tuple[StreamKey, int]:
        """A stream by the name of the file, and what to add to the file's numbers."""
        key = stream._replace(group=self._in_file.get(stream.group, stream.group))
        return key, self._names.shift(key)

    def _own_channel(self, channel: ChannelKey) -> ChannelKey:
        return channel._replace(group=self._in_file.get(channel.group, channel.group))

    def _rows(self, key: Key) -> Rows:
        found = self._reader.records.rows.get(key)
        return Rows(self.vocabulary) if found is None else found

    # -- questions ----------------------------------------------------------------------------

    def calls(self, stream: StreamKey, start: int, stop: int) -> list[Call | None]:
        """Calls ``start`` .. ``stop - 1`` of a stream; None where none was recorded."""
        key, shift = self._own(stream)
        return [self._call(key, seq - shift) for seq in range(start, stop)]

    def stack(self, call: Call | Group) -> Stack | None:
        """Who called whom on the way to a call, or a group; None where that was not recorded."""
        return None if call.stack is None else self._reader.stack(call.stack)

    def taken(self, channel: ChannelKey) -> int:
        """How many messages of a channel receives from any source are known to have taken."""
        return self._taken[channel]

    @property
    def vocabulary(self) -> Vocabulary:
        """What the calls of all ranks share."""
        return self._reader.records.vocabulary

    def channel_rows(self, channel: ChannelKey) -> Rows:
        """The rank's own side of a channel, as far as it has been read."""
        return self._rows(self._own_channel(channel))

    def channel_call(self, channel: ChannelKey, seq: int) -> Call | None:
        """One message of it; None where it has not been read."""
        if self.channel_rows(channel).find(seq) is None:
            return None
        return self._call(self._own_channel(channel), seq)

    def digests(self, stream: StreamKey, seq: int) -> Digests | None:
        """Where a stream stands after call ``seq``; None where the log cannot tell."""
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
        # The search may have come by a checkpoint.
        found = rows.checkpoints.get(seq)
        return None if found is None else Digests(*found)

    def rows(self, stream: StreamKey) -> tuple[Rows, int]:
        """The rows of a stream that were read, and what to add to their numbers."""
        key, shift = self._own(stream)
        return self._rows(key), shift

    def records(self, kinds: Collection[str], chunk: int) -> Iterator[Record]:
        """Every record of these kinds, as they lie in the files, ``chunk`` bytes read at a time.

        Nothing of them is kept. A line that cannot be read is left out.
        """
        heads = tuple(b'{"kind":"%s"' % kind.encode() for kind in kinds)
        for _, lines in self._reader.segments.blocks(chunk=chunk):
            for line in lines:
                if not line.startswith(heads):
                    continue
                try:
                    record = decode(line)
                except (DamagedRecord, RecursionError):
                    continue
                if record is not None:
                    yield self._shared(record)

    def _shared(self, record: Record) -> Record:
        """A record under shared names and numbers."""
        names = self._names
        if isinstance(record, Call):
            if record.op not in POINT_TO_POINT:
                record.seq += names.shifts.get(record.group, 0)
            record.group = names.shared.get(record.group, record.group)
            return record
        match record:
            case Group() | Join() | Unwaited():
                record.group = names.shared.get(record.group or "", record.group or "")
            case Done():
                return names.numbered(record)
        return record

    def first_row(self, stream: StreamKey) -> int:
        """The row of the first call that was traced."""
        return 1 + self._own(stream)[1]

    def spans(self, stream: StreamKey) -> list[tuple[int, int]]:
        """The rows (first, last) that the log holds; more than one after losses."""
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
    """Whether the default group is gone, and all others with it: no call can come any more."""
    return any(group.phase == "destroyed" and group.ordinal == 0 for group in groups)


def _end_of_thread(raised: Sequence[Raised], last: int) -> Exit | None:
    """The exception that ended the thread of the calls, though the process may live on.

    ``last``: when the last call was issued.
    """
    ended = next((r for r in reversed(raised) if r.what == THREAD), None)
    if ended is None or ended.t < last:
        return None
    return Exit(
        t=ended.t, reason="exception", error=ended.error, message=ended.message, site=ended.site
    )

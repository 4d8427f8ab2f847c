"""One rank's log, as those who compare and judge see it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from collectrace.align.reading.evidence import ChannelKey, Digests, StreamKey
from collectrace.align.reading.rank_reader import Progress, Reading
from collectrace.align.reading.rank_records import Key
from collectrace.align.reading.rows import Track
from collectrace.align.reading.stack_dumps import NOTHING, Remains
from collectrace.errors import DamagedRecord
from collectrace.records import (
    Activity,
    Alive,
    Batch,
    Call,
    Done,
    Epoch,
    Exit,
    Group,
    Header,
    Join,
    NoSync,
    Stall,
    Sync,
    Unwaited,
    decode,
)
from collectrace.signature import EMPTY

_Named = TypeVar("_Named", Group, Join, Unwaited)
_Numbered = TypeVar("_Numbered", Activity, Done)
_Moment = TypeVar("_Moment", Alive, Stall, Exit)


class FileLog:
    """Implements :class:`collectrace.align.reading.evidence.RankLog` over the segments of one rank.

    ``header`` stands in where the file has none that can be read.
    """

    header: Header
    groups: Sequence[Group]
    joins: Sequence[Join]
    no_syncs: Sequence[NoSync]
    batches: Sequence[Batch]
    epochs: Sequence[Epoch]
    syncs: Sequence[Sync]
    unwaited: Sequence[Unwaited]
    dones: Mapping[StreamKey, Done]
    channel_dones: Mapping[ChannelKey, Done]
    failed: Sequence[Done]
    alive: Alive | None
    stall: Stall | None
    exit: Exit | None
    disabled: bool
    last_call: Call | None
    last_t: int
    last_seq: Mapping[StreamKey, int]
    last_channel_seq: Mapping[ChannelKey, int]
    damaged: int
    dropped: int
    rotated: bool
    scanned: bool

    def __init__(
        self, reading: Reading, *, header: Header, provisional: bool, remains: Remains = NOTHING
    ) -> None:
        self.rank = reading.intake.rank
        self.provisional = provisional
        self.remains = remains
        self.tape = reading.tape
        self._header = header
        self._reading = reading
        self._names: Mapping[str, str] = {}
        self._shifts: Mapping[str, int] = {}
        self._local: dict[str, str] = {}
        self._publish()

    def scan(self, progress: Progress | None = None) -> None:
        """Read every line that has not been read."""
        if not self._reading.scanned:
            self._reading.scan(progress)
            self._publish()

    def settle(self, names: Mapping[str, str], shifts: Mapping[str, int]) -> None:
        """Use these names for groups, and number their rows on from these offsets.

        Both are keyed by the names of the file.
        """
        self._names, self._shifts = names, shifts
        self._local = {public: local for local, public in names.items()}
        self._publish()

    def _publish(self) -> None:
        found = self._reading.intake
        self.scanned = self._reading.scanned
        self.header = found.header or replace(self._header, t=found.first_t or 0)
        self.groups = [self._named(group) for group in found.groups]
        self.joins = [self._named(join) for join in found.joins]
        self.no_syncs, self.batches = found.no_syncs, found.batches
        self.epochs, self.syncs = found.epochs, found.syncs
        self.unwaited = [self._named(record) for record in found.unwaited]
        self.alive, self.stall = self._moment(found.alive), self._moment(found.stall)
        self.exit = self._moment(found.exit)
        if self.exit is None:
            self.stall = self.remains.sign(found.last_t()) or self.stall
        self.disabled = found.disabled
        self.failed = [self._numbered(done) for done in found.failed]
        self.damaged, self.dropped = found.damaged + found.doubled, found.dropped
        self.rotated = bool(found.rotated or self.tape.holes())
        self.last_t = found.last_t()
        self.dones, self.channel_dones = {}, {}
        for key, done in found.dones.items():
            if isinstance(key, StreamKey):
                stream = self._stream(key)
                seq = done.seq + self._shift(key)
                self.dones[stream] = replace(done, group=stream.group, seq=seq)
            else:
                channel = self._channel(key)
                self.channel_dones[channel] = replace(done, group=channel.group)
        self.last_seq, self.last_channel_seq = {}, {}
        for key, track in found.tracks.items():
            if isinstance(key, StreamKey):
                self.last_seq[self._stream(key)] = track.last() + self._shift(key)
            else:
                self.last_channel_seq[self._channel(key)] = track.last()
        latest = max(
            (
                (track.offset[-1], key, track.seq[-1])
                for key, track in found.tracks.items()
                if track
            ),
            default=None,
        )
        self.last_call = None if latest is None else self._call(latest[1], latest[2])

    # -- names --------------------------------------------------------------------------------

    # Records stay as the file has them, for a later look that may know the groups better; what
    # goes out bears the settled names and numbers.

    def _named(self, record: _Named) -> _Named:
        name = self._names.get(record.group or "")
        return record if name in (None, record.group) else replace(record, group=name)

    def _numbered(self, record: _Numbered) -> _Numbered:
        local = record.group or ""
        name, shift = self._names.get(local, local), self._shifts.get(local, 0)
        if name == local and not shift:
            return record
        seq = record.seq + shift if record.peer is None and record.seq is not None else record.seq
        return replace(record, group=name, seq=seq)

    def _moment(self, record: _Moment | None) -> _Moment | None:
        if record is None or not record.in_:
            return record
        return replace(record, in_=[self._numbered(activity) for activity in record.in_])

    def _shift(self, key: Key) -> int:
        return self._shifts.get(key.group, 0)

    def _stream(self, key: StreamKey) -> StreamKey:
        return key._replace(group=self._names.get(key.group, key.group))

    def _channel(self, key: ChannelKey) -> ChannelKey:
        return key._replace(group=self._names.get(key.group, key.group))

    def _private(self, stream: StreamKey) -> tuple[StreamKey, int]:
        local = self._local.get(stream.group, stream.group)
        return StreamKey(local, stream.device), self._shifts.get(local, 0)

    # -- questions ----------------------------------------------------------------------------

    @property
    def bytes_read(self) -> int:
        """From its files, so far."""
        return self.tape.bytes_read

    @property
    def records(self) -> int:
        """Lines that held a record, so far."""
        return self._reading.intake.records

    def _call(self, key: Key, seq: int) -> Call | None:
        row = self._reading.locate(key, seq)
        if row is None:
            return None
        try:
            call = decode(self.tape.line(self._reading.intake.tracks[key].offset[row]))
        except DamagedRecord:
            return None
        if not isinstance(call, Call):
            return None
        if isinstance(key, StreamKey):
            call.seq += self._shift(key)
        call.group = self._names.get(call.group, call.group)
        return call

    def calls(self, stream: StreamKey, start: int, stop: int) -> list[Call | None]:
        """Calls ``start`` .. ``stop - 1`` of a stream; None where none was recorded."""
        key, shift = self._private(stream)
        return [self._call(key, seq - shift) for seq in range(start, stop)]

    def channel_track(self, channel: ChannelKey) -> Track:
        """The rank's own side of a channel, as far as it has been read."""
        found = self._reading.intake.tracks.get(self._private_channel(channel))
        return Track(self._reading.intake.vocabulary) if found is None else found

    def channel_call(self, channel: ChannelKey, seq: int) -> Call | None:
        """One message of it; None where it has not been read."""
        if self.channel_track(channel).find(seq) is None:
            return None
        return self._call(self._private_channel(channel), seq)

    def _private_channel(self, channel: ChannelKey) -> ChannelKey:
        return channel._replace(group=self._local.get(channel.group, channel.group))

    def digests(self, stream: StreamKey, seq: int) -> Digests | None:
        """Where a stream stands after call ``seq``; None where the log cannot tell."""
        key, shift = self._private(stream)
        seq -= shift
        if seq == 0:
            return Digests(EMPTY, EMPTY, None)
        track = self._reading.intake.tracks.get(key)
        if track is None:
            return None
        if seq not in track.standing:
            call = self._call(key, seq)
            if call is not None:
                return Digests(call.digest, call.program, call.pairs)
        # The search may have come by a checkpoint.
        found = track.standing.get(seq)
        return None if found is None else Digests(*found)

    def track(self, stream: StreamKey) -> tuple[Track, int]:
        """The rows of a stream that were read, and what to add to their numbers."""
        key, shift = self._private(stream)
        found = self._reading.intake.tracks.get(key)
        return (Track(self._reading.intake.vocabulary) if found is None else found), shift

    def first_row(self, stream: StreamKey) -> int:
        """The row of the first call that was traced."""
        return 1 + self._private(stream)[1]

    def spans(self, stream: StreamKey) -> list[tuple[int, int]]:
        """The rows (first, last) that the log holds; more than one after losses."""
        track, shift = self.track(stream)
        if self.scanned:
            return [(first + shift, last + shift) for first, last, _ in track.runs()]
        spans, first = [], 1
        for hole in self.tape.holes():
            at = bisect_left(track.offset, hole)
            marked = [count for count, offset in track.marks if offset < hole]
            before = max(marked[-1], track.seq[at - 1] if at else 0)
            after = min((count for count, offset in track.marks if offset >= hole), default=before)
            if before >= first:
                spans.append((first + shift, before + shift))
            first = max(first, after + 1)
        if track.last() >= first:
            spans.append((first + shift, track.last() + shift))
        return spans

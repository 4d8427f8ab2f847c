"""One rank's log, as those who compare and judge see it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from collectrace.align.evidence import ChannelKey, Digests, StreamKey
from collectrace.align.intake import Key
from collectrace.align.reading import Progress, Reading
from collectrace.align.remains import NOTHING, Remains
from collectrace.align.tape import Tape
from collectrace.align.track import Track, Vocabulary
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
    decode,
)
from collectrace.signature import EMPTY


class FileLog:
    """Implements :class:`collectrace.align.evidence.RankLog` over the segments of one rank.

    ``header`` stands in where the file has none that can be read. Nothing is known before
    :meth:`scan` or :meth:`skim` was called.
    """

    header: Header
    groups: Sequence[Group]
    joins: Sequence[Join]
    no_syncs: Sequence[NoSync]
    batches: Sequence[Batch]
    epochs: Sequence[Epoch]
    syncs: Sequence[Sync]
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
        self, tape: Tape, rank: int, vocabulary: Vocabulary, *, header: Header, provisional: bool,
        remains: Remains = NOTHING,
    ) -> None:  # fmt: skip
        self.rank = rank
        self.provisional = provisional
        self.remains = remains
        self.vocabulary = vocabulary
        self.tape = tape
        self._header = header
        self._reading = Reading(tape, rank, vocabulary)
        self._names: Mapping[str, str] = {}
        self._shifts: Mapping[str, int] = {}
        self._local: dict[str, str] = {}

    def scan(self, progress: Progress | None = None) -> None:
        """Read every line that has not been read."""
        if not self._reading.scanned:
            self._reading.scan(progress)
            self._publish()

    def skim(self) -> None:
        """Read the head and the tail, and leave the rest to look-ups."""
        self._reading.skim()
        self._publish()

    def settle(self, names: Mapping[str, str], shifts: Mapping[str, int]) -> None:
        """Use these names for groups, and number their rows on from these offsets.

        Both are keyed by the names of the file. To be called once.
        """
        self._names, self._shifts = names, shifts
        self._local = {public: local for local, public in names.items()}
        self._publish()

    def _publish(self) -> None:
        found = self._reading.intake
        self.scanned = self._reading.scanned
        self.header = found.header or replace(self._header, t=found.first_t or 0)
        self.groups, self.joins, self.no_syncs = found.groups, found.joins, found.no_syncs
        self.batches, self.epochs, self.syncs = found.batches, found.epochs, found.syncs
        self.alive, self.stall, self.exit = found.alive, found.stall, found.exit
        if self.exit is None:
            self.stall = self.remains.sign(found.last_t()) or self.stall
        self.disabled, self.failed = found.disabled, found.failed
        self.damaged, self.dropped = found.damaged + found.doubled, found.dropped
        self.rotated = bool(found.rotated or self.tape.holes())
        self.last_t = self.when(found.last_t())
        self._rename()
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

    def _rename(self) -> None:
        """Put the settled names into records that were decoded under those of the file."""
        names = self._names
        for record in self.groups:
            record.group = names.get(record.group, record.group)
        for join in self.joins:
            join.group = names.get(join.group, join.group) if join.group is not None else None
        items: list[Activity | Done] = [*self.failed]
        for moment in (self.alive, self.stall, self.exit):
            items += moment.in_ if moment is not None else []
        for item in items:
            if item.group is not None:
                if item.peer is None and item.seq is not None:
                    item.seq += self._shifts.get(item.group, 0)
                item.group = names.get(item.group, item.group)

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

    def when(self, t: int) -> int:
        """A record's ``t`` on the clock that all ranks share."""
        return self.header.wall + t - self.header.t

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

    def channel_calls(self, channel: ChannelKey) -> list[Call]:
        """The rank's own side of a channel, in order, as far as it has been read."""
        key = channel._replace(group=self._local.get(channel.group, channel.group))
        track = self._reading.intake.tracks.get(key)
        found = [self._call(key, seq) for seq in track.seq] if track is not None else []
        return [call for call in found if call is not None]

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
        return (Track(self.vocabulary) if found is None else found), shift

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

"""Parse the lines of one rank's files: calls become rows, other lines are kept as records."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from collectrace.align.reading.keys import Answered, ChannelKey, Key, StreamKey
from collectrace.align.reading.recorded_values import RecordedValues
from collectrace.align.reading.rows import Rows
from collectrace.align.reading.source_files import is_hash
from collectrace.align.reading.vocabulary import MAX_SEQ, NO_ITERATION, Vocabulary
from collectrace.errors import DamagedRecord
from collectrace.members import Members
from collectrace.ops import ALL_TO_ALL, ANY_SOURCE, POINT_TO_POINT, ends
from collectrace.records import (
    DDP_FORWARD,
    UNITS,
    Activity,
    Alive,
    Answer,
    Blind,
    Call,
    Checkpoint,
    Done,
    Exit,
    Group,
    Header,
    Imported,
    Record,
    Source,
    SourceFile,
    Stack,
    Stall,
    Unfamiliar,
    Unit,
    Values,
    decode,
)
from collectrace.signature import pair_step

T = TypeVar("T", bound=Record)

_HEAD: Final = re.compile(rb'\{"kind":"call","t":([1-9]\d{0,17}),"seq":([1-9]\d{0,17}),')
_TAIL: Final = re.compile(
    rb'(?:,"iteration":([1-9]\d{0,17}))?(?:,"digest":\d{1,19},"program":\d{1,19})?'
    rb'(?:,"pairs":\d{1,19})?\}'
)
_MESSAGE_TAIL: Final = re.compile(rb'(?:,"iteration":([1-9]\d{0,17}))?\}')
"""A message with a digest is a line that was spliced with another one."""
_BEAT: Final = re.compile(rb'\{"kind":"alive","t":([1-9]\d{0,17}),')
_TIME: Final = re.compile(rb'"t":(\d{1,18})[,}]')
_NUMBERED: Final = b'"seq":'
"""An unknown kind of line that holds this may be a call."""

_MAX_FORMS: Final = 20_000
"""Distinct calls remembered by their bytes; all_to_all with changing splits never repeats."""


class _Form(NamedTuple):
    """The common data of calls that differ only in time, number, iteration and digests."""

    rows: Rows
    meaning: int
    appearance: int
    is_exchange: bool
    step: int | None
    is_message: bool


def _fixed_end(line: bytes, start: int) -> int:
    """Return where the shared bytes of a call's line end, before its iteration and digests."""
    cut = line.find(b',"iteration":', start)
    if cut < 0:
        cut = line.find(b',"digest":', start)
    return cut if cut >= 0 else len(line) - 1


class RankRecords:
    """The records and rows that have been read of one rank's files so far."""

    def __init__(self, rank: int, vocabulary: Vocabulary) -> None:
        self.rank = rank
        self.vocabulary = vocabulary
        self.header: Header | None = None
        self.rows: dict[Key, Rows] = {}
        self.groups: list[Group] = []
        self._of_kind: defaultdict[type[Record], list[Any]] = defaultdict(list)
        self.dones: dict[Key, Done] = {}
        self.failed: list[Done] = []
        self.answers: dict[ChannelKey, dict[int, Answered]] = {}
        """Of receives from any source: by channel and number, the sender of the message."""
        self.refused: list[tuple[Key, int | None, Done]] = []
        """Calls that never reached a peer: stream or channel, offset of the line if it was read,
        and the record that says so."""
        self.stacks: dict[int, Stack] = {}
        """By number."""
        self.stack_counts: list[tuple[int, int]] = []
        """(stack records written before an offset, that offset), from checkpoints."""
        self.sources: dict[str, Source] = {}
        """By site."""
        self.source_files: dict[str, str] = {}
        """By path, the hash of the text."""
        self.unit: str | None = DDP_FORWARD
        """The unit of the calls' iterations, one of ``records.UNITS``; None: another."""
        self.unfamiliar: Unfamiliar | None = None
        self.imported: Imported | None = None
        self.blind: dict[str, Blind] = {}
        """By name."""
        self.alive: Alive | None = None
        self._beat: bytes | None = None  # the line of ``alive`` after its time
        self.stall: Stall | None = None
        self.values = RecordedValues()
        self.exit: Exit | None = None
        self.disabled = False
        self.damaged = 0
        self.damaged_at: int | None = None
        """Offset of the first damaged line."""
        self.unreadable = -1
        """Offset of the latest unreadable line that may have held a call; -1: none."""
        self.unknown = -1
        """Offset of the latest line of an unknown kind; -1: none."""
        self.failure_counts: list[tuple[int, int]] = []
        """(offset of a line that counts the tracer's failures, that count)."""
        self.doubled = 0
        """Calls that repeat the number of an earlier one."""
        self.lines = 0
        """Lines that held a record."""
        self.dropped = 0
        self.failures = 0
        """Internal failures of the tracer, as far as read: calls may be void."""
        self.rotated = 0
        self.first_t: int | None = None
        self.latest: tuple[int, bytes] = (-1, b"")
        """Offset and bytes of the last line that holds a record."""
        self.members: dict[str, Members] = {}
        """By the name of the group."""
        self.ungrouped: set[str] = set()
        """Groups that had an all_to_all before their members were known."""
        self._forms: dict[bytes, _Form] = {}

    @property
    def is_end_unknown(self) -> bool:
        """Whether the last line is of an unknown kind: it may report the end of the process."""
        return 0 <= self.latest[0] == self.unknown

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cache."""
        return {**self.__dict__, "_forms": {}}

    def of(self, kind: type[T]) -> Sequence[T]:
        """Return all records of a kind for which nothing else is kept, in the order of reading."""
        return self._of_kind[kind]

    def last_t(self) -> int:
        """Return ``t`` of the last line; 0 if no line was read."""
        found = _TIME.search(self.latest[1])
        return int(found[1]) if found else 0

    def feed(self, offset: int, lines: Sequence[bytes], torn: int, *, calls_only: bool) -> None:
        """Read lines that begin at ``offset``; a line that ends at ``torn`` may be incomplete.

        ``calls_only`` skips records that a look into the middle would collect haphazardly.
        """
        forms, head, tail, beat = self._forms, _HEAD.match, _TAIL.fullmatch, _BEAT.match
        message_tail = _MESSAGE_TAIL.fullmatch
        self.alive = self.alive and replace(self.alive)
        latest, latest_line = self.latest
        taken, after = 0, offset
        # Millions of lines pass here. A call or heartbeat with the bytes of an earlier one is not
        # decoded: only the parts that vary are read.
        for line in lines:
            offset, after = after, after + len(line) + 1
            start = head(line)
            if start is not None:
                at = start.end()
                cut = _fixed_end(line, at)
                form = forms.get(line[at:cut]) or self._known_form(line[at:cut])
                if form is not None:
                    end = message_tail(line, cut) if form.is_message else tail(line, cut)
                    seq, rows = int(start[2]), form.rows
                    is_next = seq > (rows.seq[-1] if rows.seq else 0)
                    is_free = seq not in rows.refused and seq not in rows.disproved
                    if end is not None and seq:
                        iteration = NO_ITERATION if end[1] is None else int(end[1])
                        t = int(start[1])
                        if is_next and is_free and not form.is_exchange:
                            rows.seq.append(seq)
                            rows.t.append(t)
                            rows.offset.append(offset)
                            rows.meaning.append(form.meaning)
                            rows.appearance.append(form.appearance)
                            rows.iteration.append(iteration)
                        else:
                            self._add(form, seq, t, offset, iteration)
                        taken += 1
                        if offset > latest:
                            latest, latest_line = offset, line
                        continue
            if not line:
                continue
            again = beat(line)
            if again and line[again.end() :] == self._beat and self.alive:
                self.alive.t = max(self.alive.t, int(again[1]))
            else:
                try:
                    self._decoded(offset, line, calls_only=calls_only)
                except (ValueError, RecursionError):
                    # Besides DamagedRecord: numbers too large to be written out.
                    if after - 1 != torn:
                        self.damaged += 1
                        self.unreadable = max(self.unreadable, offset)
                        known = self.damaged_at
                        self.damaged_at = offset if known is None else min(known, offset)
                    continue
            taken += 1
            if offset > latest:
                latest, latest_line = offset, line
        self.latest = latest, latest_line
        self.lines += taken

    def settle(self) -> None:
        """Put the rows of all that was fed into their order."""
        for rows in self.rows.values():
            rows.settle()

    def _decoded(self, offset: int, line: bytes, *, calls_only: bool) -> None:
        record = decode(line)
        if isinstance(record, Call):
            self._call(record, offset, line)
        elif record is not None:
            self._record(record, offset, calls_only=calls_only)
            if record is self.alive:
                beat = _BEAT.match(line)
                self._beat = line[beat.end() :] if beat else None
        else:
            self.unknown = max(self.unknown, offset)
            if _NUMBERED in line:
                self.unreadable = max(self.unreadable, offset)

    # -- calls --------------------------------------------------------------------------------

    def key(self, of: Call | Done | Activity) -> Key:
        """Return the stream or channel of a call or another record, by the file's names."""
        group, device = of.group or "", of.device or ""
        if of.op in POINT_TO_POINT:
            between = ends(of.op, self.rank, -1 if of.peer is None else of.peer)
            return ChannelKey(group, device, *between, of.tag or 0)
        return StreamKey(group, device)

    def named(self) -> dict[Key, int]:
        """Return by stream or channel the highest call number that other records mention."""
        found = {key: done.seq for key, done in self.dones.items()}
        for moment in (self.alive, self.stall):
            for one in moment.in_ if moment is not None else ():
                key, seq = self.key(one), one.seq or 0
                rows = self.rows.get(key)
                if seq > found.get(key, 0) and not (rows is not None and seq in rows.refused):
                    found[key] = seq
        return found

    def rows_of(self, key: Key) -> Rows:
        """Return the rows of a stream or channel, created if it is new."""
        found = self.rows.get(key)
        if found is None:
            found = self.rows[key] = Rows(self.vocabulary)
        return found

    def _call(self, call: Call, offset: int, line: bytes) -> None:
        if not 0 < call.seq < MAX_SEQ:
            raise DamagedRecord("seq out of range")
        if call.op in POINT_TO_POINT and call.digest is not None:
            raise DamagedRecord("a message with a digest")
        form = self._form(call)
        told = call.iteration
        iteration = NO_ITERATION if told is None or not 0 <= told < MAX_SEQ else told
        t = min(max(call.t, 0), MAX_SEQ)
        if not self._add(form, call.seq, t, offset, iteration):
            return
        start = _HEAD.match(line)
        if start is None:
            return
        cut = _fixed_end(line, start.end())
        if _TAIL.fullmatch(line, cut):
            fixed = line[start.end() : cut]
            self._remember(fixed, form)
            if call.op not in POINT_TO_POINT and call.splits is None:
                self.vocabulary.share(fixed, call, self._frames(call))

    def _add(self, form: _Form, seq: int, t: int, offset: int, iteration: int) -> bool:
        """Add a row in any order; false if its number is there already."""
        rows = form.rows
        is_new = rows.add(seq, t, offset, form.meaning, form.appearance, iteration)
        if not is_new:
            self.doubled += 1
        elif form.is_exchange:
            rows.steps[seq] = form.step
        return is_new

    def _form(self, call: Call) -> _Form:
        vocabulary = self.vocabulary
        return _Form(
            self.rows_of(self.key(call)),
            vocabulary.meaning(call),
            vocabulary.appearance(call, self._frames(call)),
            call.op in ALL_TO_ALL and not call.void,
            self._step(call),
            call.op in POINT_TO_POINT,
        )

    def _remember(self, fixed: bytes, form: _Form) -> None:
        if len(self._forms) >= _MAX_FORMS:
            self._forms.clear()
        self._forms[fixed] = form

    def _known_form(self, fixed: bytes) -> _Form | None:
        """Return the form of a call that another rank has issued from the same lines."""
        shared = self.vocabulary.shared.get(fixed)
        if shared is None or tuple(self._frames(shared.call)) != shared.frames:
            return None
        call = shared.call
        form = _Form(
            self.rows_of(StreamKey(call.group, call.device)), shared.meaning, shared.appearance,
            call.op in ALL_TO_ALL and not call.void, None, is_message=False,
        )  # fmt: skip
        self._remember(fixed, form)
        return form

    def _frames(self, call: Call) -> Sequence[str]:
        stack = self.stacks.get(call.stack) if call.stack is not None else None
        return stack.frames if stack is not None else ()

    def _step(self, call: Call) -> int | None:
        members = self.members.get(call.group)
        if members is None and call.splits is not None:
            self.ungrouped.add(call.group)
        if call.splits is None or members is None or self.rank not in members:
            return None
        if len(call.splits) != 2 or any(len(row) != len(members) for row in call.splits):
            return None
        return pair_step(members.index(self.rank), call.splits[0], call.splits[1])

    # -- everything else ----------------------------------------------------------------------

    def _record(self, record: Record, offset: int, *, calls_only: bool) -> None:
        if isinstance(record, Checkpoint):
            self._checkpoint(record, offset)
        elif isinstance(record, Done | Answer):
            self._of_call(record, offset)
        elif isinstance(record, Stack | SourceFile | Source | Unit | Unfamiliar | Blind | Imported):
            self._of_calls(record)
        elif calls_only:
            return
        elif isinstance(record, Header):
            self._header(record)
        elif isinstance(record, Group):
            record.ranks = members = self.vocabulary.members(record.ranks)
            self.groups.append(record)
            if members:
                self.members[record.group] = members
        elif isinstance(record, Alive):
            self.alive = _later(self.alive, record)
        elif isinstance(record, Stall):
            self.stall = _later(self.stall, record)
        elif isinstance(record, Exit):
            self.exit = _later(self.exit, record)
            self.disabled |= record.reason == "disabled"
            self.dropped = max(self.dropped, record.dropped)
            self.failures = max(self.failures, record.failures)
            self.failure_counts.append((offset, record.failures))
        elif isinstance(record, Values):
            self.values.append(record)
        else:
            self._of_kind[type(record)].append(record)
        self.first_t = record.t if self.first_t is None else self.first_t

    def _of_calls(
        self, record: Stack | SourceFile | Source | Unit | Unfamiliar | Blind | Imported
    ) -> None:
        """Keep a record that is written once and applies to many calls."""
        if isinstance(record, Imported):
            self.imported = record
            return
        if isinstance(record, Stack):
            self.stacks[record.stack] = record
        elif isinstance(record, SourceFile):
            if is_hash(record.sha256):
                self.source_files[record.path] = record.sha256
        elif isinstance(record, Unit):
            self.unit = record.of if record.of in UNITS else None
        elif isinstance(record, Unfamiliar):
            self.unfamiliar = record
        elif isinstance(record, Blind):
            self.blind[record.name] = record
        else:
            self.sources[record.site] = record

    def _header(self, header: Header) -> None:
        # Each segment begins with one. The first has the paired clocks, later ones may know more.
        known = {
            name: value
            for name in ("run", "rank", "world_size", "local_rank")
            if (value := getattr(header, name)) is not None
        }
        self.header = replace(self.header or header, **known)

    def _of_call(self, record: Done | Answer, offset: int) -> None:
        """Keep a record about one call, or about all calls up to it."""
        if not 0 < record.seq < MAX_SEQ:
            raise DamagedRecord("seq out of range")
        if isinstance(record, Done):
            self._done(record, offset)
            return
        key = ChannelKey(record.group, record.device, ANY_SOURCE, self.rank, record.tag)
        self.answers.setdefault(key, {})[record.seq] = Answered(record.source, offset)

    def _done(self, done: Done, offset: int) -> None:
        if done.failed and not done.refused:
            self.failed.append(done)
            return
        key = self.key(done)
        if done.refused:
            self.refused.append((key, self.rows_of(key).refuse(done.seq, offset), done))
            return
        known = self.dones.get(key)
        if known is None or done.seq > known.seq:
            self.dones[key] = done

    def _checkpoint(self, record: Checkpoint, offset: int) -> None:
        self.dropped = max(self.dropped, record.dropped)
        self.rotated = max(self.rotated, record.rotated)
        self.failures = max(self.failures, record.failures)
        self.failure_counts.append((offset, record.failures))
        self.stack_counts.append((record.known_stacks, offset))
        seen: dict[Key, int] = {}
        for row in record.streams:
            match row:
                case [str(group), str(device), int(seq), digest, program, pairs] if (
                    0 < seq < MAX_SEQ
                    and all(n is None or n.__class__ is int for n in (digest, program, pairs))
                ):
                    stream = StreamKey(group, device)
                    seen[stream] = seq
                    self.rows_of(stream).checkpoints[seq] = (digest, program, pairs)
                case _:
                    self.damaged += 1
        for row in record.channels:
            match row:
                case [str(group), str(device), int(source), int(to), int(tag), int(seq)] if (
                    0 < seq < MAX_SEQ
                ):
                    seen[ChannelKey(group, device, source, to, tag)] = seq
                case _:
                    self.damaged += 1
        for key, seq in seen.items():
            self.rows_of(key).mark(seq, offset)


def _later(known: T | None, new: T) -> T:
    return new if known is None or new.t >= known.t else known

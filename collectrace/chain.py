"""Write rank files from calls without numbers and digests: number, chain and lay them out.

For writers of rank files other than the tracer: importers of another tool's trace, tools, tests.
The tracer numbers its calls by an inlined copy on its hot path (``tracer/record/recorder.py``). A
test compares the two.

    file = RankFile(Header(t=t, format=FORMAT, rank=0, ...))
    file.add(Group(t=t, phase="ready", group="0", backend="gloo", ranks=[0, 1]))
    file.add(Call(t=t, seq=0, group="0", device="cpu", op="barrier"))
    file.write(folder / "rank00000.jsonl")
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from collectrace import ops
from collectrace.records import Call, Checkpoint, Group, Header, Record, Stack, backend_for, encode
from collectrace.signature import (
    BASE,
    EMPTY,
    PRIME,
    extend,
    pair_step,
    program_text,
    stable_hash,
    wire_text,
)

CHECKPOINT_EVERY: Final = 64 * 1024
"""Bytes between checkpoints: the most that a reader scans to find the position of every stream."""

_CHECKPOINT_SHARE: Final = 4


def checkpoint_gap(size: int, every: int = CHECKPOINT_EVERY) -> int:
    """Return the bytes between a checkpoint of ``size`` bytes and the next one.

    A checkpoint lists every stream and channel. Thousands of them would fill the file, so
    checkpoints take at most a quarter of it.
    """
    return max(every, _CHECKPOINT_SHARE * size)


_VOID: Final = stable_hash("void")


class Step(NamedTuple):
    """What one call adds to the digests of its stream: hashes, residues mod 2**61 - 1."""

    wire: int
    program: int
    pair: int | None = None
    """An all_to_all's share of ``pairs``; None: another op."""


def step(call: Call, backend: str, group_rank: int | None) -> Step:
    """Return what a call adds on this rank of its group; ``backend`` serves its device.

    Raises:
        ValueError: the ``splits`` of an all_to_all are not two lists of the same length.

    """
    if call.void:
        return Step(_VOID, _VOID)
    pair = None
    if call.op in ops.ALL_TO_ALL and call.splits and group_rank is not None:
        sent, expected = call.splits
        pair = pair_step(group_rank, sent, expected)
    return Step(stable_hash(wire_text(call, backend)), stable_hash(program_text(call)), pair)


def body(call: Call) -> bytes:
    """Return the part of a call's line after ``seq`` and before ``iteration`` and the digests.

    The call must have neither: ``{"kind":"call","t":0,"seq":0,"group":"0",...}`` gives
    ``,"group":"0",...``.
    """
    _, _, rest = encode(replace(call, t=0, seq=0)).partition(b'"seq":0')
    return rest.removesuffix(b"}\n")


@dataclass(slots=True)
class _Counter:
    """The number of calls of a channel: the messages of one tag from one rank to another."""

    seq: int = 0


@dataclass(slots=True)
class _Stream(_Counter):
    """The number of calls and the digests of a stream: collectives of one group and device."""

    digest: int = EMPTY
    program: int = EMPTY
    pairs: int | None = None
    known: bool = True
    """Whether the digests cover all calls since the first in the file."""

    def extend(self, by: Step) -> None:
        """Count one more call."""
        self.digest = (self.digest * BASE + by.wire) % PRIME
        self.program = (self.program * BASE + by.program) % PRIME
        if self.pairs is not None or by.pair is not None:
            self.pairs = extend(self.pairs or EMPTY, by.pair or 0)


@dataclass(frozen=True, slots=True)
class Form:
    """A repeated call, prepared by :meth:`Chain.form` of one chain."""

    body: bytes
    counter: _Counter
    step: Step | None
    """None: a message, which is part of no digest."""


class Chain:
    """The positions of the streams and channels of one rank.

    ``rank`` is the global rank; None: not known. Then no message can be numbered.
    """

    def __init__(self, rank: int | None) -> None:
        self.rank = rank
        self._groups: dict[str, Group] = {}
        self._stacks = 0
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._channels: dict[tuple[str, str, int, int, int], _Counter] = {}

    def know(self, group: Group) -> None:
        """Record the members and backends of a group, before the first call on it.

        Without them no all_to_all counts in ``pairs``, and every barrier counts as a barrier on the
        wire.
        """
        self._groups[group.group] = group

    def know_stack(self) -> None:
        """Count a stack record that was written: checkpoints hold the count."""
        self._stacks += 1

    def groups(self) -> list[Group]:
        """The groups that this rank is in: ready and not destroyed."""
        return [group for group in self._groups.values() if group.phase == "ready" and group.member]

    def number(self, call: Call) -> Call:
        """Give a call its number and digests, in place, and return it.

        A call keeps a number (``seq`` not 0) and a digest that it has, and the stream continues
        from them.
        """
        counter = self._counter(call)
        counter.seq = call.seq = call.seq or counter.seq + 1
        if not isinstance(counter, _Stream):
            return call
        if call.digest is None or call.program is None:
            counter.extend(self._step(call))
            call.digest, call.program, call.pairs = counter.digest, counter.program, counter.pairs
        else:
            counter.digest, counter.program = call.digest, call.program
            counter.pairs = counter.pairs if call.pairs is None else call.pairs
        return call

    def form(self, call: Call) -> Form:
        """Prepare a call without number and digests for many uses by :meth:`line`."""
        counter = self._counter(call)
        by = self._step(call) if isinstance(counter, _Stream) else None
        return Form(body(replace(call, iteration=None)), counter, by)

    def begin_at(self, group: str, device: str, seq: int) -> None:
        """Begin a stream after ``seq`` calls that are not known.

        Its digests are those of a history that begins with the next call. They are linear, so they
        prove as much about any stretch of it.
        """
        self._streams[group, device] = _Stream(seq, known=False)

    def line(
        self, form: Form, t: int, iteration: int | None = None, seq: int | None = None
    ) -> bytes:
        """Return the line of one more such call, issued at ``t`` ns, in this DDP iteration.

        ``seq`` where it is not the next number: behind a gap a stream has no digests any more.
        """
        counter = form.counter
        before, counter.seq = counter.seq, counter.seq + 1 if seq is None else seq
        of = b',"iteration":%d' % iteration if iteration else b""
        if isinstance(counter, _Stream):
            counter.known = counter.seq == before + 1 and (counter.known or not counter.digest)
        if form.step is None or not isinstance(counter, _Stream) or not counter.known:
            return b'{"kind":"call","t":%d,"seq":%d%b%b}\n' % (t, counter.seq, form.body, of)
        counter.extend(form.step)
        return b'{"kind":"call","t":%d,"seq":%d%b%b,"digest":%d,"program":%d%b}\n' % (
            t, counter.seq, form.body, of,
            counter.digest, counter.program,
            b"" if counter.pairs is None else b',"pairs":%d' % counter.pairs,
        )  # fmt: skip

    def checkpoint(self, t: int, *, dropped: int = 0, rotated: int = 0) -> Checkpoint:
        """Return a checkpoint: the positions of all streams and channels at ``t`` ns."""
        return Checkpoint(
            t=t,
            streams=[
                [*key, s.seq, s.digest, s.program, s.pairs]
                if s.known
                else [*key, s.seq, None, None, None]
                for key, s in self._streams.items()
            ],
            channels=[[*key, channel.seq] for key, channel in self._channels.items()],
            known_stacks=self._stacks,
            dropped=dropped,
            rotated=rotated,
        )

    def _counter(self, call: Call) -> _Counter:
        # A message with an unknown peer has its position in the stream.
        if call.op in ops.POINT_TO_POINT and call.peer is not None and self.rank is not None:
            between = ops.ends(call.op, self.rank, call.peer)
            channel = (call.group, call.device, *between, call.tag or 0)
            return self._channels.setdefault(channel, _Counter())
        return self._streams.setdefault((call.group, call.device), _Stream())

    def _step(self, call: Call) -> Step:
        group = self._groups.get(call.group)
        if group is None:
            return step(call, "", None)
        members = group.ranks
        me = members.index(self.rank) if self.rank in members else None
        return step(call, backend_for(group.backend, call.device), me)


class RankFile:
    """One rank's file: lines, checkpoints and segments as the tracer lays them out.

    ``checkpoint_every`` and ``segment_bytes`` are sizes in bytes; a segment without a size never
    ends. ``keep`` is how many segments are left of a file, the first and the latest; None: all.
    """

    def __init__(
        self,
        header: Header,
        *,
        checkpoint_every: int = CHECKPOINT_EVERY,
        segment_bytes: int | None = None,
        keep: int | None = None,
    ) -> None:
        self.chain = Chain(header.rank)
        self.dropped = 0
        """The number of lost calls."""
        self._header = header
        self._checkpoint_every = checkpoint_every
        self._segment_bytes = segment_bytes
        self._keep = keep
        self._t = header.t
        self._lost = False
        self._segments: list[bytearray] = []
        self._gone: set[int] = set()
        """Ordinals of segments that never existed: see :meth:`begin_at`."""
        self._begin()

    def add(self, record: Record) -> None:
        """Add a record; a call without number and digests gets them."""
        self._recover()
        if isinstance(record, Group):
            self.chain.know(record)
        elif isinstance(record, Stack):
            self.chain.know_stack()
        elif isinstance(record, Call):
            self.chain.number(record)
        self._t = record.t
        self._append(encode(record))

    def call(
        self, form: Form, t: int, iteration: int | None = None, seq: int | None = None
    ) -> None:
        """Add one more call of a form of this file's chain; see :meth:`Chain.line`."""
        self._recover()
        self._t = t
        self._append(self.chain.line(form, t, iteration, seq))

    def calls(self, those: Iterable[tuple[Form, int, int]]) -> None:
        """Add many calls: of each its form, when it was issued, ns, and its number.

        As :meth:`call` would write them, at a third of the cost: what imports a trace writes
        hundreds of thousands.
        """
        self._recover()
        chain, data = self.chain, self._segments[-1]
        for form, t, seq in those:
            counter, by = form.counter, form.step
            if (
                counter.seq + 1 != seq
                or by is None
                or by.pair is not None
                or not isinstance(counter, _Stream)
                or not counter.known
                or counter.pairs is not None
            ):
                data += chain.line(form, t, None, seq)
            else:
                counter.seq = seq
                counter.digest = digest = (counter.digest * BASE + by.wire) % PRIME
                counter.program = program = (counter.program * BASE + by.program) % PRIME
                data += b'{"kind":"call","t":%d,"seq":%d%b,"digest":%d,"program":%d}\n' % (
                    t, seq, form.body, digest, program,
                )  # fmt: skip
            if len(data) >= self._next_checkpoint:
                self._t = t
                self._append(b"")
                data = self._segments[-1]
            self._t = t

    def begin_at(self, streams: Iterable[tuple[str, str, int]]) -> None:
        """Note that the first calls are lost: per stream, how many.

        The file then looks as if a segment was deleted, so that readers know that calls are
        missing.
        """
        for stream in streams:
            self.chain.begin_at(*stream)
        self._gone.add(len(self._segments))
        self._segments.append(bytearray())
        self._begin()

    def lose(self, call: Call) -> None:
        """Count a call that was issued and never written: it has a number and is in the digests."""
        self.chain.number(call)
        self.dropped += 1
        self._lost = True

    def raw(self, line: bytes) -> None:
        """Add bytes unchanged."""
        self._recover()
        self._append(line)

    def segments(self) -> list[tuple[int, bytes]]:
        """Return the segments that the file has: ordinal and bytes of each."""
        last = len(self._segments) - 1
        return [
            (n, bytes(data))
            for n, data in enumerate(self._segments)
            if n not in self._gone and (self._keep is None or n == 0 or n > last - (self._keep - 1))
        ]

    def write(self, path: Path) -> None:
        """Write the segments: the first to ``path``, such as ``rank00000.jsonl``, others beside."""
        for n, data in self.segments():
            name = f"{path.stem}.{n:04d}{path.suffix}" if n else path.name
            path.with_name(name).write_bytes(data)

    def _append(self, line: bytes) -> None:
        data = self._segments[-1]
        data += line
        if len(data) >= self._next_checkpoint:
            self._checkpoint()
        if self._segment_bytes is not None and len(data) >= self._segment_bytes:
            self._begin()

    def _begin(self) -> None:
        self._segments.append(bytearray())
        self._preamble()

    def _recover(self) -> None:
        # After a loss, a checkpoint comes before the first line.
        if self._lost:
            self._lost = False
            self._preamble()

    def _preamble(self) -> None:
        first, t = self._header, self._t
        header = replace(first, segment=len(self._segments) - 1, t=t, wall=first.wall + t - first.t)
        self._segments[-1] += encode(header)
        for group in self.chain.groups():
            self._segments[-1] += encode(group)
        self._checkpoint()

    def _checkpoint(self) -> None:
        rotated = max(0, len(self._segments) - self._keep) if self._keep else len(self._gone)
        record = self.chain.checkpoint(self._t, dropped=self.dropped, rotated=rotated)
        line = encode(record)
        self._segments[-1] += line
        gap = checkpoint_gap(len(line), self._checkpoint_every)
        self._next_checkpoint = len(self._segments[-1]) + gap

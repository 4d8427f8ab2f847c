"""Runs that never ran: rank files from a compact description, byte for byte what a tracer writes.

    run = Run(world=2)
    for rank in run:
        rank.call("all_reduce", shape=[4], site="train.py:10")
    run.rank(1).call("barrier")
    run.rank(0).exit()
    folder = run.write(tmp_path)          # tmp_path/<run id>/rank00000.jsonl, ...

Every rank has the default group ``"0"`` of the whole world, asked for and ready, unless the run is
made with ``default_group=False``. Sequence numbers, digests, programs, pairs, checkpoints and
times are kept as the tracer keeps them. Every record advances its rank's clock by ``Run.step``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from collectrace import ops
from collectrace.records import (
    FORMAT,
    Activity,
    Alive,
    Batch,
    Call,
    Checkpoint,
    Done,
    Epoch,
    Exit,
    Group,
    Header,
    Join,
    NoSync,
    Record,
    Stall,
    Sync,
    backend_for,
    encode,
)
from collectrace.signature import (
    EMPTY,
    extend,
    pair_step,
    program_text,
    stable_hash,
    wire_text,
)

SECOND: Final = 1_000_000_000
DEFAULT: Final = "0"

R = TypeVar("R", bound=Record)
_Stream = tuple[str, str]
_Channel = tuple[str, str, int, int, int]


@dataclass
class _Lost:
    """A call that was issued and never written."""

    call: Call


@dataclass
class _Standing:
    """Where a stream is after its latest call."""

    seq: int = 0
    digest: int = EMPTY
    program: int = EMPTY
    pairs: int | None = None


@dataclass
class Rank:
    """One rank of a synthetic run; every method appends a record and returns it."""

    run: Run
    rank: int
    now: int
    """The rank's monotonic clock, ns."""
    header: Header
    provisional: bool = False
    """Written to ``pending``, without a run id: see ``stuck_in_init``."""
    omitted: bool = False
    items: list[Record | bytes | _Lost] = field(default_factory=list)
    _groups: dict[str, Group] = field(default_factory=dict)
    _asked: int = 0
    _streams: dict[_Stream, _Standing] = field(default_factory=dict)
    _channels: dict[tuple[_Channel, str], int] = field(default_factory=dict)

    # -- time ---------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Nothing happens for so long."""
        self.now += round(seconds * SECOND)

    def record(self, record: R) -> R:
        """Append a record; its time is now unless it has one."""
        if not record.t:
            self.now += self.run.step
            record.t = self.now
        self.items.append(record)
        return record

    def raw(self, line: bytes) -> None:
        """Append bytes as they are, newline included or not."""
        self.items.append(line)

    def stuck_in_init(self, *, rank_known: bool = True) -> None:
        """Never got past ``init_process_group``: a provisional file with the group asked for."""
        self.provisional = True
        asked = [i for i in self.items if isinstance(i, Group) and i.phase == "asked"]
        self.items = list(asked[:1])
        if not rank_known:
            self.header.rank = None

    # -- groups -------------------------------------------------------------------------------

    def group(
        self,
        name: str,
        ranks: Sequence[int],
        *,
        phase: str | None = None,
        description: str = "",
        backend: str | None = None,
        **fields: Any,
    ) -> Group:
        """A group that is asked for and ready; or one ``phase`` only."""
        known = self._groups.get(name)
        if phase in ("ready", "destroyed") and known is not None:
            ordinal = known.ordinal
        else:
            ordinal, self._asked = self._asked, self._asked + 1
        for one in ("asked", "ready") if phase is None else (phase,):
            made = self.record(
                Group(
                    phase=one,
                    group=name,
                    description=description,
                    backend=self.run.backend if backend is None else backend,
                    ranks=list(ranks),
                    member=self.rank in ranks,
                    ordinal=ordinal,
                    **fields,
                )
            )
        self._groups[name] = made
        return made

    # -- calls --------------------------------------------------------------------------------

    def call(
        self,
        op: str,
        group: str = DEFAULT,
        *,
        device: str | None = None,
        lost: bool = False,
        seq: int | None = None,
        **fields: Any,
    ) -> Call:
        """One collective; ``lost``: it counts in seq and digests but is not written.

        Shape, dtype, reduce op, root and site have plain defaults where the op needs them.
        """
        op = ops.canonical_op(op)
        if not fields.get("void") and op not in ops.BARRIERS:
            fields.setdefault("dtype", "float32")
            fields.setdefault("shape", [1])
        if ops.of(op).reduces:
            fields.setdefault("reduce_op", "SUM")
        if op in ops.ROOTED:
            fields.setdefault("root", 0)
        fields.setdefault("site", "train.py:10")
        device = device or self.run.device
        standing = self._streams.setdefault((group, device), _Standing())
        if seq is not None:
            standing.seq = seq - 1
        standing.seq += 1
        call = Call(seq=standing.seq, group=group, device=device, op=op, **fields)
        self._count(call, standing)
        return self._issue(call, lost=lost)

    def _count(self, call: Call, standing: _Standing) -> None:
        known = self._groups.get(call.group)
        backend = backend_for(known.backend if known else self.run.backend, call.device)
        void = stable_hash("void")
        wire = void if call.void else stable_hash(wire_text(call, backend))
        program = void if call.void else stable_hash(program_text(call))
        standing.digest = extend(standing.digest, wire)
        standing.program = extend(standing.program, program)
        pairs = None
        if call.splits is not None and known is not None:
            pairs = pair_step(known.ranks.index(self.rank), call.splits[0], call.splits[1])
        if pairs is not None or standing.pairs is not None:
            call.pairs = standing.pairs = extend(standing.pairs or EMPTY, pairs or 0)
        call.digest, call.program = standing.digest, standing.program

    def _issue(self, call: Call, *, lost: bool) -> Call:
        if lost:
            self.now += self.run.step
            call.t = self.now
            self.items.append(_Lost(call))
            return call
        return self.record(call)

    def calls(self, count: int, op: str, group: str = DEFAULT, **fields: Any) -> None:
        """The same call so many times."""
        for _ in range(count):
            self.call(op, group, **fields)

    def send(self, peer: int, *, tag: int = 0, **fields: Any) -> Call:
        """A send to a global rank."""
        return self._message("send", peer, tag, **fields)

    def recv(self, peer: int, *, tag: int = 0, **fields: Any) -> Call:
        """A receive from a global rank; -1: from any."""
        return self._message("recv", peer, tag, **fields)

    def _message(
        self,
        op: str,
        peer: int,
        tag: int,
        group: str = DEFAULT,
        *,
        device: str | None = None,
        lost: bool = False,
        **fields: Any,
    ) -> Call:
        device = device or self.run.device
        channel = (group, device, *ops.ends(op, self.rank, peer), tag)
        seq = self._channels[channel, op] = self._channels.get((channel, op), 0) + 1
        if not fields.get("void"):
            fields = {"dtype": "float32", "shape": [1]} | fields
        fields.setdefault("site", "train.py:20")
        call = Call(seq=seq, group=group, device=device, op=op, peer=peer, tag=tag, **fields)
        return self._issue(call, lost=lost)

    def done(self, seq: int, group: str = DEFAULT, **fields: Any) -> Done:
        """A watermark of a stream (or, with ``peer``, ``tag`` and ``op``, of a channel)."""
        device = fields.pop("device", self.run.device)
        return self.record(Done(group=group, device=device, seq=seq, **fields))

    # -- everything else ----------------------------------------------------------------------

    def inside(self, call: Call, what: str = "call", thread: str = "MainThread") -> Activity:
        """What a thread that is in this call is doing, for ``alive``, ``stall`` and ``exit``."""
        return Activity(
            thread=thread, what=what, since=call.t, group=call.group, device=call.device,
            seq=call.seq, op=call.op, peer=call.peer, tag=call.tag, site=call.site,
        )  # fmt: skip

    def alive(self, *inside: Activity) -> Alive:
        return self.record(Alive(in_=list(inside)))

    def beat(self, seconds: float, *inside: Activity) -> None:
        """Heartbeats for so many seconds."""
        until = self.now + round(seconds * SECOND)
        period = round(self.header.heartbeat * SECOND)
        while self.now + period <= until:
            self.now += period - self.run.step
            self.alive(*inside)
        self.now = max(self.now, until)

    def stall(self, *inside: Activity, pending: float = 60.0, **fields: Any) -> Stall:
        return self.record(Stall(in_=list(inside), pending=round(pending * SECOND), **fields))

    def exit(self, reason: str = "finished", *inside: Activity, **fields: Any) -> Exit:
        dropped = sum(isinstance(item, _Lost) for item in self.items)
        fields = {"dropped": dropped} | fields
        return self.record(Exit(reason=reason, in_=list(inside), **fields))

    def join(self, phase: str, **fields: Any) -> Join:
        return self.record(Join(phase=phase, **fields))

    def no_sync(self, phase: str, **fields: Any) -> NoSync:
        return self.record(NoSync(phase=phase, **fields))

    def batch(self, batch: int, *, loader: int = 0, wait: int = 1000, **fields: Any) -> Batch:
        return self.record(Batch(loader=loader, batch=batch, wait=wait, **fields))

    def epoch(self, epoch: int, **fields: Any) -> Epoch:
        return self.record(Epoch(epoch=epoch, **fields))

    def sync(self, wait: int, api: str = "torch.cuda.synchronize", **fields: Any) -> Sync:
        return self.record(Sync(api=api, wait=wait, **fields))


class Run:
    """Some ranks, and how their files are laid out.

    ``checkpoint`` and ``segment`` are bytes between checkpoints and per segment; ``keep`` is how
    many segments a rank may keep (the first and the latest), ``None`` all.
    """

    def __init__(
        self,
        world: int = 2,
        name: str = "run-1",
        *,
        backend: str = "gloo",
        device: str = "cpu",
        start: int = 1_760_000_000 * SECOND,
        step: int = 1_000_000,
        default_group: bool = True,
        checkpoint: int = 65536,
        segment: int | None = None,
        keep: int | None = None,
        **header: Any,
    ) -> None:
        self.world, self.name, self.backend, self.device = world, name, backend, device
        self.start, self.step = start, step
        self.checkpoint, self.segment, self.keep = checkpoint, segment, keep
        self.ranks = [self._rank(rank, header) for rank in range(world)]
        if default_group:
            self.group(DEFAULT, range(world), description="default_pg")

    def _rank(self, rank: int, header: dict[str, Any]) -> Rank:
        # Every host has a monotonic clock of its own.
        origin = (rank + 1) * 1000 * SECOND
        values: dict[str, Any] = {
            "t": origin, "format": FORMAT, "run": self.name, "rank": rank, "world_size": self.world,
            "local_rank": rank, "host": "node0", "pid": 1000 + rank, "wall": self.start,
        }  # fmt: skip
        return Rank(self, rank, origin, Header(**(values | header)))

    def __iter__(self) -> Iterator[Rank]:
        return iter(self.ranks)

    def rank(self, rank: int) -> Rank:
        return self.ranks[rank]

    def group(
        self,
        name: str,
        ranks: Sequence[int],
        *,
        asked_by: Sequence[int] | None = None,
        **fields: Any,
    ) -> None:
        """A group, asked for and ready on all ranks (members or not), or on ``asked_by``."""
        for rank in range(self.world) if asked_by is None else asked_by:
            self.ranks[rank].group(name, list(ranks), **fields)

    def all(self, op: str, group: str = DEFAULT, **fields: Any) -> None:
        """The same call on every member of a group."""
        for rank in self.ranks:
            known = rank._groups.get(group)
            if known is not None and known.member:
                rank.call(op, group, **fields)

    def finish(self) -> None:
        """Every rank ends well."""
        for rank in self.ranks:
            rank.exit()

    def omit(self, rank: int) -> None:
        """Write no file for this rank."""
        self.ranks[rank].omitted = True

    # -- files --------------------------------------------------------------------------------

    def write(self, log_dir: Path) -> Path:
        """Write every rank's file; the run's folder."""
        folder = log_dir / self.name
        folder.mkdir(parents=True, exist_ok=True)
        for rank in self.ranks:
            if rank.omitted:
                continue
            if rank.provisional:
                pending = log_dir / "pending"
                pending.mkdir(exist_ok=True)
                stem = pending / f"{rank.header.host}-{rank.header.pid}"
            else:
                stem = folder / f"rank{rank.rank:05d}"
            segments = list(self._segments(rank))
            last = len(segments) - 1
            for n, data in enumerate(segments):
                if self.keep is None or n == 0 or n > last - (self.keep - 1):
                    suffix = f".{n:04d}.jsonl" if n else ".jsonl"
                    stem.with_name(stem.name + suffix).write_bytes(data)
        return folder

    def _segments(self, rank: Rank) -> Iterator[bytes]:
        state = _Layout(self, rank)
        for item in rank.items:
            if isinstance(item, _Lost):
                state.lost(item.call)
                continue
            state.line(item)
            if self.segment is not None and len(state.data) >= self.segment:
                yield bytes(state.data)
                state.begin()
        yield bytes(state.data)


class _Layout:
    """One rank's bytes, as its writer lays them out."""

    def __init__(self, run: Run, rank: Rank) -> None:
        self.run, self.rank = run, rank
        self.data = bytearray()
        self.segment = -1
        self.dropped = 0
        self.lost_since = False
        self.t = rank.header.t
        self.streams: dict[_Stream, list[Any]] = {}
        self.channels: dict[_Channel, list[Any]] = {}
        self.begin()

    def begin(self) -> None:
        self.segment += 1
        self.data = bytearray()
        self.preamble()

    def preamble(self) -> None:
        base = self.rank.header
        header = replace(base, segment=self.segment, t=self.t, wall=base.wall + self.t - base.t)
        if self.rank.provisional:
            header.run = None
        self.data += encode(header)
        self.checkpoint()

    def checkpoint(self) -> None:
        rotated = 0 if self.run.keep is None else max(0, self.segment + 1 - self.run.keep)
        self.data += encode(
            Checkpoint(
                t=self.t,
                streams=list(self.streams.values()),
                channels=list(self.channels.values()),
                dropped=self.dropped,
                rotated=rotated,
            )
        )
        self.next = len(self.data) + self.run.checkpoint

    def line(self, item: Record | bytes) -> None:
        if self.lost_since:
            # Before the first line after a loss the writer says where the streams stand.
            self.lost_since = False
            self.preamble()
        if isinstance(item, Record):
            self.t = item.t
            if isinstance(item, Call):
                self._stand(item)
            self.data += encode(item)
        else:
            self.data += item
        if len(self.data) >= self.next:
            self.checkpoint()

    def lost(self, call: Call) -> None:
        self.dropped += 1
        self.lost_since = True
        self._stand(call)

    def _stand(self, call: Call) -> None:
        if call.op in ops.POINT_TO_POINT:
            me, peer = self.rank.rank, call.peer if call.peer is not None else -1
            key = (call.group, call.device, *ops.ends(call.op, me, peer), call.tag or 0)
            self.channels[key] = [*key, call.seq]
            return
        stream = (call.group, call.device)
        before = self.streams.get(stream)
        pairs = call.pairs if call.pairs is not None else (before[5] if before else None)
        self.streams[stream] = [*stream, call.seq, call.digest, call.program, pairs]


# -- harm ------------------------------------------------------------------------------------------


def truncate(path: Path, keep: int) -> None:
    """Cut a file after so many bytes (negative: so many from its end)."""
    path.write_bytes(path.read_bytes()[:keep])


def damage(path: Path, line: int, by: bytes = b'{"kind":"call","t":12,"se') -> None:
    """Replace one line of a file, counted from 0."""
    lines = path.read_bytes().split(b"\n")
    lines[line] = by
    path.write_bytes(b"\n".join(lines))

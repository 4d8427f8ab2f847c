"""Runs that never ran: rank files from a compact description, byte for byte what a tracer writes.

    run = Run(world=2)
    for rank in run:
        rank.call("all_reduce", shape=[4], site="train.py:10")
    run.rank(1).call("barrier")
    run.rank(0).exit()
    folder = run.write(tmp_path)          # tmp_path/<run id>/rank00000.jsonl, ...

Every rank has the default group ``"0"`` of the whole world, asked for and ready, unless the run is
made with ``default_group=False``. Sequence numbers, digests, programs, pairs, checkpoints and
times are kept as the tracer keeps them, and so are the texts of files that calls come from, if the
files exist. Every record advances its rank's clock by ``Run.step``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from collectrace import ops, source_text
from collectrace.align.reading import chains
from collectrace.chain import Chain, RankFile
from collectrace.log_folder import SOURCES
from collectrace.records import (
    FORMAT,
    Activity,
    Alive,
    Answer,
    Batch,
    Call,
    Done,
    Epoch,
    Exit,
    Group,
    Header,
    Join,
    NoSync,
    Record,
    Source,
    SourceFile,
    Stack,
    Stall,
    Sync,
)

SECOND: Final = 1_000_000_000
DEFAULT: Final = "0"

R = TypeVar("R", bound=Record)


@dataclass
class _Lost:
    """A call that was issued and never written."""

    call: Call


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

    def __post_init__(self) -> None:
        self._chain = Chain(self.rank)

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
        self._chain.know(made)
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
        call = Call(seq=seq or 0, group=group, device=device, op=op, **fields)
        return self._issue(call, lost=lost)

    def _issue(self, call: Call, *, lost: bool) -> Call:
        self._chain.number(call)
        if lost:
            self.now += self.run.step
            call.t = self.now
            self.items.append(_Lost(call))
            return call
        return self.record(call)

    def refused(self, op: str, error: str = "ValueError: bad", **fields: Any) -> Call:
        """A call that raised over its own arguments: the next one bears its number again."""
        streams, channels = (
            {key: replace(counter) for key, counter in counters.items()}
            for counters in (self._chain._streams, self._chain._channels)
        )
        issue = self.send if op == "send" else self.recv if op == "recv" else None
        call = issue(**fields) if issue is not None else self.call(op, **fields)
        self._chain._streams, self._chain._channels = streams, channels  # type: ignore[assignment]
        self.record(
            Done(group=call.group, device=call.device, seq=call.seq, failed=True, refused=True,
                 error=error, peer=call.peer, tag=call.tag,
                 op=op if op in ops.POINT_TO_POINT else None)
        )  # fmt: skip
        return call

    def calls(self, count: int, op: str, group: str = DEFAULT, **fields: Any) -> None:
        """The same call so many times."""
        for _ in range(count):
            self.call(op, group, **fields)

    def send(self, peer: int, *, tag: int = 0, **fields: Any) -> Call:
        """A send to a global rank."""
        return self._message("send", peer, tag, **fields)

    def recv(self, peer: int, *, tag: int = 0, took: int | None = None, **fields: Any) -> Call:
        """A receive from a global rank; -1: from any. ``took``: whose message, as is recorded."""
        call = self._message("recv", peer, tag, **fields)
        if took is not None:
            self.answer(call, took)
        return call

    def answer(self, call: Call, source: int) -> Answer:
        """Whose message a receive from any source took."""
        return self.record(
            Answer(group=call.group, device=call.device, seq=call.seq, tag=call.tag or 0,
                   source=source)
        )  # fmt: skip

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
        if not fields.get("void"):
            fields = {"dtype": "float32", "shape": [1]} | fields
        fields.setdefault("site", "train.py:20")
        call = Call(seq=0, group=group, device=device, op=op, peer=peer, tag=tag, **fields)
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

    def creating(self, asked: Group, thread: str = "MainThread") -> Activity:
        """What a thread that is in the creation of this group is doing."""
        return Activity(
            thread=thread, what="group", since=asked.t, op="new_group", group=asked.group,
            site=asked.site,
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

    def stuck_in(self, call: Call) -> None:
        """Wait in a call for a minute, up to the end."""
        self.beat(60, self.inside(call))

    def stall(self, *inside: Activity, pending: float = 60.0, **fields: Any) -> Stall:
        return self.record(Stall(in_=list(inside), pending=round(pending * SECOND), **fields))

    def exit(self, reason: str = "finished", *inside: Activity, **fields: Any) -> Exit:
        dropped = sum(isinstance(item, _Lost) for item in self.items)
        calls = sum(isinstance(item, Call | _Lost) for item in self.items)
        fields = {"dropped": dropped, "calls": calls} | fields
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
    many segments a rank may keep (the first and the latest), ``None`` all. ``texts``: whether the
    texts of files that exist are recorded.
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
        texts: bool = True,
        **header: Any,
    ) -> None:
        self.world, self.name, self.backend, self.device = world, name, backend, device
        self.start, self.step, self.texts = start, step, texts
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
            if self.texts:
                _record_texts(rank, folder / SOURCES)
            self._file(rank).write(stem.with_name(f"{stem.name}.jsonl"))
        return folder

    def _file(self, rank: Rank) -> RankFile:
        header = replace(rank.header, run=None) if rank.provisional else rank.header
        file = RankFile(
            header,
            checkpoint_every=self.checkpoint,
            segment_bytes=self.segment,
            keep=self.keep,
        )
        for item in rank.items:
            if isinstance(item, _Lost):
                file.lose(item.call)
            elif isinstance(item, Record):
                file.add(item)
            else:
                file.raw(item)
        return file


def _record_texts(rank: Rank, folder: Path) -> None:
    """Record the texts of the files that a rank's calls come from, unless a test has done so."""
    known = {item.path for item in rank.items if isinstance(item, SourceFile)}
    sites = (chains.site(frame) for item in rank.items for frame in _sites(item))
    for path in sorted({site.rpartition(":")[0] for site in sites} - known):
        data = source_text.read(path) if path.endswith(".py") else None
        if data is None:
            continue
        sha256 = hashlib.sha256(data).hexdigest()
        record = SourceFile(t=rank.header.t, path=path, sha256=sha256, size=len(data))
        rank.items.insert(0, record)
        folder.mkdir(exist_ok=True)
        (folder / f"{sha256}.py").write_bytes(data)


def _sites(item: Record | bytes | _Lost) -> Sequence[str]:
    match item:
        case Stack(frames=frames):
            return frames
        case Call(site=str(site)) | Group(site=str(site)) | Source(site=site):
            return [site]
        case _:
            return ()


# -- harm ------------------------------------------------------------------------------------------


def truncate(path: Path, keep: int) -> None:
    """Cut a file after so many bytes (negative: so many from its end)."""
    path.write_bytes(path.read_bytes()[:keep])


def damage(path: Path, line: int, by: bytes = b'{"kind":"call","t":12,"se') -> None:
    """Replace one line of a file, counted from 0."""
    lines = path.read_bytes().split(b"\n")
    lines[line] = by
    path.write_bytes(b"\n".join(lines))

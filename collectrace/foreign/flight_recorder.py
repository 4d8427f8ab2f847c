"""PyTorch Flight Recorder: one rank's ring of calls becomes that rank's file.

What a ring knows and a tracer cannot: whether a device has begun with a call, and when it had done it.
What it does not know is left out: which reduce op, which root, the tags of messages (NCCL has none),
heartbeats, how the process ended, and when the dump was made. That last one decides how long ranks
have waited, and so whether that one is absent proves anything; the file's own time says it, where it
is within reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from collectrace.chain import Form, RankFile
from collectrace.foreign import flight_calls, plain_pickle
from collectrace.foreign.errors import NotReadable
from collectrace.foreign.flight_dump import FlightDump, GroupConfig, number, parse
from collectrace.foreign.frames import NOWHERE, Place, place
from collectrace.foreign.trace import Origin, Trace
from collectrace.records import (
    FORMAT,
    Activity,
    Alive,
    Call,
    Done,
    Group,
    Header,
    Imported,
    Stack,
)

TOOL: Final = "PyTorch Flight Recorder"

OPEN: Final = "reduce ops, roots, how ranks ended, and what they did between their calls"
"""What a dump does not tell, for the report."""

_LATEST: Final = 2.0
"""Timeouts after a call that its dump may have been written; more, and the file is a copy."""

_GRACE: Final = 120_000_000_000
"""ns more: the watchdog is late, and dumps take their time."""

_MOST_FORMS: Final = 50_000

Entry = dict[str, Any]
Stream = tuple[str, str]


def read_pickle(data: bytes, origin: Origin) -> Trace:
    """A dump as torch writes it to files.

    Raises:
        NotReadable: it is none.

    """
    return read(parse(plain_pickle.loads(data)), origin)


def read_json(data: bytes, origin: Origin) -> Trace:
    """A dump as ``_dump_fr_trace_json`` and torch's HTTP server give it: without stacks.

    Raises:
        NotReadable: it is none.

    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        raise NotReadable(f"is cut short, or no JSON ({problem})") from None
    return read(parse(found), origin)


def read(dump: FlightDump, origin: Origin) -> Trace:
    """A dump as a rank file.

    Raises:
        NotReadable: no entry of it can be read.

    """
    return _Writer(dump, origin).trace()


@dataclass(slots=True)
class _Progress:
    """How far a stream or channel has come, by the states of its calls in order."""

    done: int = 0
    """Every call up to this number has completed, of those in the ring."""
    front: tuple[int, int, Entry, Call] | None = None
    """The first call that has not: when it was issued, its number, entry and form."""


@dataclass(slots=True)
class _Known:
    """A form of call of this dump, to be issued again and again."""

    form: Form
    call: Call
    progress: _Progress
    is_message: bool


@dataclass
class _Writer:
    dump: FlightDump
    origin: Origin
    file: RankFile = field(init=False)
    base: int = 0
    latest: int = 0
    """The latest time that an entry bears, ns since 1970."""
    _known: dict[Any, _Known | None] = field(default_factory=dict)
    _progress: dict[Any, _Progress] = field(default_factory=dict)
    _places: dict[Any, tuple[Place, int | None]] = field(default_factory=dict)
    _stacks: dict[tuple[str, ...], int] = field(default_factory=dict)
    _odd: Counter[str] = field(default_factory=Counter)

    def trace(self) -> Trace:
        entries = self.dump.entries
        bundles, sequenced = self._bundles(entries)
        times = [t for e in entries[:1] if (t := number(e.get("time_created_ns"))) is not None]
        self.base = self.latest = times[0] if times else 0
        is_whole = self._is_whole(entries)
        self.file = RankFile(self._header())
        self._preamble(is_whole=is_whole)
        if not is_whole:
            partial = self._cut(entries, bundles)
            self.file.begin_at(self._before(sequenced, partial))
        else:
            partial = set()
        for entry in entries:
            try:
                self._entry(entry, bundles, partial)
            except (NotReadable, TypeError) as problem:
                self._odd[str(problem) if isinstance(problem, NotReadable) else "an odd entry"] += 1
        if entries and sum(self._odd.values()) == len(entries):
            raise NotReadable(f"has no entry that can be read: {next(iter(self._odd))}")
        self._ending()
        return Trace(
            self.file, self.base, self.latest, self._until(), is_whole, self.dump.version,
            tuple(self._notes()),
        )  # fmt: skip

    # -- before the calls ---------------------------------------------------------------------

    def _header(self) -> Header:
        default = next(
            (g for g in self.dump.groups.values() if g.description == "default_pg"), None
        )
        world = len(default.ranks) if default is not None else None
        versions = {"flight_recorder": self.dump.version, "comm_lib": self.dump.library}
        return Header(
            t=1, format=FORMAT, rank=self.origin.rank, world_size=world, host="", pid=0,
            wall=self.base, versions={k: v for k, v in versions.items() if v}, heartbeat=0.0,
        )  # fmt: skip

    def _preamble(self, *, is_whole: bool) -> None:
        self.file.add(
            Imported(
                t=1,
                tool=TOOL,
                version=self.dump.version,
                file=self.origin.file,
                open=OPEN,
                lost=None if is_whole else True,
                written=self._dumped() is not None or None,
            )  # fmt: skip
        )
        backends = {}
        names: dict[str, str] = {}
        for entry in self.dump.entries:
            name = entry.get("profiling_name")
            pg = entry.get("process_group")
            key = (pg, name) if pg.__class__ is tuple else (str(pg), str(name))
            try:
                if key in backends:
                    continue
                backends[key] = True
                names.setdefault(_group_name(entry), flight_calls.split(name)[0])
            except (NotReadable, TypeError):
                continue
        groups = dict(self.dump.groups)
        if not any(len(g.ranks) > 0 and g.description == "default_pg" for g in groups.values()):
            default = self._default()
            if default is not None:
                # By what it is, the group of all ranks: of the ranks that left a dump.
                groups[default] = GroupConfig(
                    default, "default_pg", tuple(range(self.origin.world_size))
                )
        self._configs = groups
        for n, group in enumerate(sorted(groups.values(), key=_in_order)):
            self.file.add(
                Group(
                    t=1,
                    phase="ready",
                    group=group.name,
                    description=group.description,
                    backend=names.get(group.name, ""),
                    ranks=list(group.ranks),
                    member=self.origin.rank in group.ranks,
                    ordinal=n,
                )  # fmt: skip
            )

    def _default(self) -> str | None:
        """What the entries call the default group, where no configuration does."""
        for entry in self.dump.entries:
            group = entry.get("process_group")
            if group.__class__ in (tuple, list) and len(group) > 1 and group[1] == "default_pg":
                return str(group[0])
        return None

    def _is_whole(self, entries: Sequence[Entry]) -> bool:
        """Whether the ring holds every call since the process began, or since it was reset."""
        if not entries:
            return True
        first = number(entries[0].get("record_id"))
        if first is not None:
            return first == 0
        return all(_seq(entry) == 1 for entry in entries[:1])

    def _bundles(
        self, entries: Sequence[Entry]
    ) -> tuple[dict[tuple[str, int], list[Entry]], list[tuple[str, int] | None]]:
        """Coalesced groups: several entries with one sequence number; and the numbers of all."""
        sequenced: list[tuple[str, int] | None] = []
        for entry in entries:
            try:
                of = None if flight_calls.is_message(entry) else (_group_name(entry), _seq(entry))
            except NotReadable:
                of = None
            sequenced.append(of)
        told = [one for one in sequenced if one is not None]
        if len(set(told)) == len(told):
            return {}, sequenced
        counted = Counter(told)
        bundles: dict[tuple[str, int], list[Entry]] = {}
        for entry, key in zip(entries, sequenced, strict=True):
            if key is not None and counted[key] > 1:
                bundles.setdefault(key, []).append(entry)
        return bundles, sequenced

    def _cut(
        self, entries: Sequence[Entry], bundles: dict[tuple[str, int], list[Entry]]
    ) -> set[tuple[str, int]]:
        """A coalesced group that the ring may hold only the rest of: its first, if it is one."""
        try:
            first = (_group_name(entries[0]), _seq(entries[0]))
            name = flight_calls.split(entries[0].get("profiling_name"))[1]
        except NotReadable:
            return set()
        is_end = name.endswith(flight_calls.COALESCED) and first not in bundles
        return {first} if first in bundles or is_end else set()

    def _before(
        self,
        sequenced: Sequence[tuple[str, int] | None],
        partial: set[tuple[str, int]],
    ) -> list[tuple[str, str, int]]:
        """Per stream how many calls came before the ring's first."""
        firsts: dict[str, tuple[str, int]] = {}
        for entry, key in zip(self.dump.entries, sequenced, strict=True):
            if key is None or key in partial or key[0] in firsts:
                continue
            backend = flight_calls.split(entry.get("profiling_name"))[0]
            firsts[key[0]] = flight_calls.device(backend), key[1]
        return [(name, device, seq - 1) for name, (device, seq) in firsts.items() if seq > 1]

    # -- calls --------------------------------------------------------------------------------

    def _entry(
        self,
        entry: Entry,
        bundles: dict[tuple[str, int], list[Entry]],
        partial: set[tuple[str, int]],
    ) -> None:
        created = entry.get("time_created_ns")
        if created.__class__ is not int:
            created = number(created) or self.base
        seq = entry.get("collective_seq_id")
        if seq.__class__ is not int:
            seq = _seq(entry)
        if bundles or partial:
            name = _group_name(entry)
            if (name, seq) in partial and not flight_calls.is_message(entry):
                return
            those = bundles.get((name, seq))
            if those is not None and not flight_calls.is_message(entry):
                if those[0] is entry:
                    self._coalesced(those, name, seq, created)
                return
        known = self._form(entry)
        if known is not None:
            self._issue(known, entry, seq, created)

    def _form(self, entry: Entry) -> _Known | None:
        """What all calls share that are alike; None: the entry is no call."""
        get = entry.get
        frames = get("frames")
        sent, received, dtypes = get("input_sizes"), get("output_sizes"), get("input_dtypes")
        group = get("process_group")
        key = (
            get("profiling_name"),
            group if group.__class__ is tuple else str(group),
            *map(tuple, sent or ()),
            None,
            *map(tuple, received or ()),
            tuple(dtypes) if dtypes else tuple(get("output_dtypes") or ()),
            tuple(map(id, frames)) if frames.__class__ is list else None,
            get("pg_id"),
        )
        if key in self._known:
            return self._known[key]
        name = _group_name(entry)
        where, stack = self._place(entry)
        call = flight_calls.call(entry, name, self._configs.get(name), where)
        if len(self._known) >= _MOST_FORMS:
            self._known.clear()
        self._known[key] = found = None if call is None else self._prepared(call, stack)
        return found

    def _prepared(self, call: Call, stack: int | None) -> _Known:
        call.stack = stack
        is_message = call.peer is not None
        key = (call.group, call.device, call.peer, call.op if is_message else None)
        progress = self._progress.setdefault(key, _Progress())
        return _Known(self.file.chain.form(call), call, progress, is_message)

    def _coalesced(self, those: list[Entry], name: str, seq: int, created: int) -> None:
        where, stack = self._place(those[0])
        call = flight_calls.bundle(those, name, self._configs.get(name), where)
        if call is not None:
            self._issue(self._prepared(call, stack), those[-1], seq, created)

    def _issue(self, known: _Known, entry: Entry, seq: int, created: int) -> None:
        if not 0 < seq < 1 << 60 and not known.is_message:
            raise NotReadable("an entry without a sequence number")
        t = max(1, created - self.base + 1)
        if created > self.latest:
            self.latest = created
        if known.is_message:
            self.file.call(known.form, t)
        else:
            if seq <= known.form.counter.seq:
                raise NotReadable("a call that bears an earlier one's number")
            self.file.call(known.form, t, None, seq)
        progress = known.progress
        if self._is_done(entry, known.call, seq):
            if progress.front is None:
                progress.done = known.form.counter.seq
        elif progress.front is None:
            progress.front = t, known.form.counter.seq, entry, known.call

    def _is_done(self, entry: Entry, call: Call, seq: int) -> bool:
        """Whether a call has completed, as far as the host has noticed."""
        completed = entry.get("time_discovered_completed_ns")
        if completed.__class__ is int and completed > 0:
            if completed > self.latest:
                self.latest = completed
            return True
        started = entry.get("time_discovered_started_ns")
        if started.__class__ is int and started > self.latest:
            self.latest = started
        if entry.get("state") == "completed":
            return True
        if entry.get("retired") is not True:
            return False
        # A call that timed out is retired, too. gloo has no events, and retires what is over.
        if call.device == "cpu":
            return True
        status = self.dump.status.get(str(entry.get("pg_id")))
        return status is not None and not call.peer and 0 < seq <= status.completed

    def _place(self, entry: Entry) -> tuple[Place, int | None]:
        frames = entry.get("frames")
        if frames.__class__ is not list or not frames:
            return NOWHERE, None
        key = tuple(map(id, frames))
        found = self._places.get(key)
        if found is None:
            where = place(frames)
            found = self._places[key] = where, self._stack(where)
        return found

    def _stack(self, where: Place) -> int | None:
        if not where.frames:
            return None
        key = (*where.frames, "", *where.path)
        if key not in self._stacks:
            self._stacks[key] = len(self._stacks) + 1
            self.file.add(
                Stack(
                    t=max(1, self.latest - self.base + 1),
                    stack=self._stacks[key],
                    frames=list(where.frames),
                    path=list(where.path),
                )  # fmt: skip
            )
        return self._stacks[key]

    # -- after the calls ----------------------------------------------------------------------

    def _dumped(self) -> int | None:
        """When the dump was made, ns since 1970, by its file; None: that is not known.

        torch writes dumps when a call has timed out, or when it is asked. A file that is much
        younger than that is a copy.
        """
        written, entries = self.origin.written, self.dump.entries
        if written is None or not entries:
            return None
        created = [number(entries[-1].get("time_created_ns")) or 0]
        timeout = (number(entries[-1].get("timeout_ms")) or 0) * 1_000_000
        since = written - max(created)
        return written if 0 <= since <= _LATEST * timeout + _GRACE else None

    def _ending(self) -> None:
        dumped = self._dumped() or 0
        fronts = {key: p.front for key, p in self._progress.items() if p.front is not None}
        for t, _, entry, call in fronts.values():
            timeout = number(entry.get("timeout_ms")) or 0
            if entry.get("retired") is True and call.device != "cpu":
                # It was given up, and so had waited for as long as it was allowed to.
                self.latest = max(self.latest, self.base + t + timeout * 1_000_000)
        end = max(self.latest, dumped) - self.base + 1
        for (group, device, peer, op), progress in self._progress.items():
            if progress.done:
                self.file.add(
                    Done(t=end, group=group, device=device, seq=progress.done, peer=peer, op=op)
                )
        inside = [_activity(*front) for front in fronts.values()]
        on_cpu = sorted((a for a in inside if a.thread == _MAIN), key=lambda a: a.since)
        if inside:
            # Of a rank that has nothing pending it is not known what it does.
            self.file.add(
                Alive(t=end, in_=[*on_cpu[:1], *(a for a in inside if a.thread != _MAIN)])
            )
        self.latest = max(self.latest, dumped)

    def _until(self) -> int:
        timeouts = [number(entry.get("timeout_ms")) or 0 for entry in self.dump.entries[-1:]]
        given_up = [self.latest + ms * 1_000_000 + _GRACE for ms in timeouts if ms]
        return self._dumped() or (given_up[0] if given_up else 1 << 62)

    def _notes(self) -> list[str]:
        return [
            f"{self.origin.file}: {count} of its entries could not be read ({what})"
            for what, count in self._odd.most_common(1)
        ]


_MAIN: Final = "MainThread"


def _activity(t: int, seq: int, entry: Entry, call: Call) -> Activity:
    """A call that has not completed, as what its device is in; gloo's as what its host waits for."""
    on_cpu = call.device == "cpu"
    return Activity(
        thread=_MAIN if on_cpu else call.device, what="call" if on_cpu else "device", since=t,
        group=call.group, device=call.device, seq=seq, op=call.op, peer=call.peer, site=call.site,
        started=None if on_cpu else _has_started(entry),
    )  # fmt: skip


def _has_started(entry: Entry) -> bool:
    started = entry.get("time_discovered_started_ns")
    return entry.get("state") == "started" or (started.__class__ is int and started > 0)


def _group_name(entry: Entry) -> str:
    group = entry.get("process_group")
    if group.__class__ in (tuple, list) and group and isinstance(group[0], str):
        return str(group[0])[:1000]
    if group is None:
        pg_id = number(entry.get("pg_id"))  # before torch 2.4
        if pg_id is not None:
            return str(pg_id)
    raise NotReadable("an entry without a process group")


def _seq(entry: Entry) -> int:
    found = number(entry.get("collective_seq_id", entry.get("seq_id")))
    if found is None:
        raise NotReadable("an entry without a sequence number")
    return found


def _in_order(group: GroupConfig) -> tuple[bool, int, str]:
    """torch names groups by a counter, and by a hash where only the members take part."""
    is_counted = group.name.isdecimal() and len(group.name) < 9
    return not is_counted, int(group.name) if is_counted else 0, group.name

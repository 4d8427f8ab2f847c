"""PyTorch Flight Recorder: one rank's ring of calls becomes that rank's file.

What a ring knows and a tracer cannot: whether a device has begun with a call, and when it had
done it. What it does not know is left out: which reduce op, which root, the tags of messages (NCCL
has none), heartbeats, how the process ended, and when the dump was made. That last one decides how
long ranks have waited, and so whether it proves anything that one is absent; the file's own time
says it, where it is within reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from collectrace.chain import Form, RankFile
from collectrace.foreign import flight_calls, flight_rows, plain_pickle
from collectrace.foreign.errors import NotReadable
from collectrace.foreign.flight_dump import FlightDump, GroupConfig, number, parse
from collectrace.foreign.flight_rows import Row
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
_MOST_SEQ: Final = 1 << 60

Entry = dict[str, Any]
_Numbered = tuple[str, int]
"""A group's name, and the sequence number of a call of it."""


def read_pickle(data: bytes, origin: Origin) -> Trace:
    """A dump as torch writes it to files.

    Raises:
        NotReadable: it is none.

    """
    found = flight_rows.read(data)
    if found is not None:
        return read(parse(*found), origin)
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
    front: tuple[int, int, Row, Call] | None = None
    """The first call that has not: when it was issued, its number, row and form."""


@dataclass(slots=True)
class _Known:
    """A form of call of this dump, to be issued again and again."""

    form: Form
    call: Call
    progress: _Progress
    is_message: bool
    group: str


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
        rows = self.dump.rows
        self.base = self.latest = (number(rows[0].created) or 0) if rows else 0
        is_whole = self._is_whole()
        bundles, firsts = self._bundles()
        self.file = RankFile(self._header())
        self._preamble(is_whole=is_whole)
        partial: set[_Numbered] = set()
        if not is_whole:
            partial = self._cut(bundles)
            self.file.begin_at(
                (name, device, seq + ((name, seq) in partial) - 1)
                for name, (device, seq) in firsts.items()
                if seq + ((name, seq) in partial) > 1
            )
        if bundles or partial:
            self._calls_with_bundles(bundles, partial)
        else:
            self._calls()
        if rows and sum(self._odd.values()) == len(rows):
            raise NotReadable(f"has no entry that can be read: {next(iter(self._odd))}")
        self._ending()
        return Trace(
            self.file, self.base, self.latest, self._until(), is_whole, self.dump.version,
            all(progress.front is None for progress in self._progress.values()),
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
            stall_after=max(
                (number(row.entry.get("timeout_ms")) or 0 for row in self.dump.rows[-1:]), default=0
            ) / 1000,
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
            )
        )
        groups = dict(self.dump.groups)
        if not any(group.description == "default_pg" for group in groups.values()):
            default = next((g for g, d in self._described.items() if d == "default_pg"), None)
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
                    backend=self._backends.get(group.name, ""),
                    ranks=list(group.ranks),
                    member=self.origin.rank in group.ranks,
                    ordinal=n,
                )
            )

    def _is_whole(self) -> bool:
        """Whether the ring holds every call since the process began, or since it was reset."""
        if not self.dump.rows:
            return True
        first = self.dump.rows[0]
        record = number(first.entry.get("record_id"))
        return record == 0 if record is not None else number(first.seq) == 1

    def _bundles(self) -> tuple[dict[_Numbered, list[Row]], dict[str, tuple[str, int]]]:
        """Coalesced groups, several entries with one number; and every stream's first number."""
        firsts: dict[str, tuple[str, int]] = {}
        self._backends: dict[str, str] = {}
        self._described: dict[str, str] = {}
        lasts: dict[str, int] = {}
        names: dict[int, str | None] = {}
        is_plain = True
        for row in self.dump.rows:
            entry, seq = row.entry, row.seq
            name = names.get(id(entry), "")
            if name == "":
                name = names[id(entry)] = self._stream(entry)
            if name is None:
                continue
            if seq.__class__ is not int:
                seq = number(seq)
                if seq is None:
                    continue
            if seq <= lasts.get(name, 0):
                is_plain = False
            elif name not in lasts:
                firsts[name] = flight_calls.device(self._backends.get(name, "")), seq
            lasts[name] = seq
        if is_plain:
            return {}, firsts
        found: dict[_Numbered, list[Row]] = {}
        for row in self.dump.rows:
            name, n = names.get(id(row.entry)), number(row.seq)
            if name is not None and n is not None:
                found.setdefault((name, n), []).append(row)
        return {key: those for key, those in found.items() if len(those) > 1}, firsts

    def _stream(self, entry: Entry) -> str | None:
        """The group of a collective; None: it is none."""
        try:
            name = _group_name(entry)
            self._backends.setdefault(name, flight_calls.split(entry.get("profiling_name"))[0])
        except NotReadable:
            return None
        group = entry.get("process_group")
        if group is not None and len(group) > 1 and isinstance(group[1], str):
            self._described.setdefault(name, group[1])
        return None if flight_calls.is_message(entry) else name

    def _cut(self, bundles: dict[_Numbered, list[Row]]) -> set[_Numbered]:
        """A coalesced group that the ring may hold only the rest of: its first, if it is one."""
        row = self.dump.rows[0]
        name, seq = self._stream(row.entry), number(row.seq)
        if name is None or seq is None:
            return set()
        is_end = flight_calls.is_end(row.entry)
        return {(name, seq)} if (name, seq) in bundles or is_end else set()

    # -- calls --------------------------------------------------------------------------------

    def _calls(self) -> None:
        """Every row is a call: nothing was coalesced."""
        self.file.calls(self._usual())

    def _usual(self) -> Iterator[tuple[Form, int, int]]:
        """Calls of which nothing is odd; others are written on the way."""
        known: dict[int, _Known | None] = {}
        base = self.base
        for row in self.dump.rows:
            entry, seq, created, _, completed = row
            at = id(entry)
            if at not in known:
                known[at] = self._guarded(entry)
            one = known[at]
            if one is None:
                continue
            if (
                one.is_message
                or completed.__class__ is not int
                or completed <= 0
                or seq.__class__ is not int
                or created.__class__ is not int
                or not one.form.counter.seq < seq < _MOST_SEQ
            ):
                self._issue_carefully(one, row)
                continue
            if completed > self.latest:
                self.latest = completed
            t = created - base + 1
            yield one.form, t if t > 0 else 1, seq
            if one.progress.front is None:
                one.progress.done = seq

    def _calls_with_bundles(
        self, bundles: dict[_Numbered, list[Row]], partial: set[_Numbered]
    ) -> None:
        for row in self.dump.rows:
            seq = number(row.seq)
            name = self._stream(row.entry)
            if name is not None and seq is not None:
                if (name, seq) in partial:
                    continue
                those = bundles.get((name, seq))
                if those is not None:
                    if those[0] is row:
                        self._coalesced(those, name)
                    continue
            one = self._guarded(row.entry)
            if one is not None:
                self._issue_carefully(one, row)

    def _guarded(self, entry: Entry) -> _Known | None:
        try:
            return self._form(entry)
        except (NotReadable, TypeError) as problem:
            self._odd[str(problem) if isinstance(problem, NotReadable) else "an odd entry"] += 1
            return None

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
        form = self.file.chain.form(call)
        return _Known(form, call, progress, is_message, call.group)

    def _coalesced(self, those: list[Row], name: str) -> None:
        where, stack = self._place(those[0].entry)
        try:
            entries = [row.entry for row in those]
            call = flight_calls.bundle(entries, name, self._configs.get(name), where)
        except NotReadable as problem:
            self._odd[str(problem)] += len(those)
            return
        if call is not None:
            last = those[-1]._replace(created=those[0].created)
            self._issue_carefully(self._prepared(call, stack), last)

    def _issue_carefully(self, known: _Known, row: Row) -> None:
        """Issue a call of which anything may be odd."""
        seq, created = number(row.seq), number(row.created)
        if created is None:
            created = self.base
        t = max(1, created - self.base + 1)
        self.latest = max(self.latest, created)
        if known.is_message:
            self.file.call(known.form, t)
        elif seq is None or not known.form.counter.seq < seq < _MOST_SEQ:
            self._odd["an entry without a number of its own"] += 1
            return
        else:
            self.file.call(known.form, t, None, seq)
        progress = known.progress
        if self._is_done(row, known.call, seq or 0):
            if progress.front is None:
                progress.done = known.form.counter.seq
        elif progress.front is None:
            progress.front = t, known.form.counter.seq, row, known.call

    def _is_done(self, row: Row, call: Call, seq: int) -> bool:
        """Whether a call has completed, as far as the host has noticed."""
        completed, started = number(row.completed) or 0, number(row.started) or 0
        self.latest = max(self.latest, completed, started)
        entry = row.entry
        if completed > 0 or entry.get("state") == "completed":
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
                )
            )
        return self._stacks[key]

    # -- after the calls ----------------------------------------------------------------------

    def _dumped(self) -> int | None:
        """When the dump was made, ns since 1970, by its file; None: that is not known.

        torch writes dumps when a call has timed out, or when it is asked. A file that is much
        younger than that is a copy.
        """
        written, rows = self.origin.written, self.dump.rows
        if written is None or not rows:
            return None
        timeout = (number(rows[-1].entry.get("timeout_ms")) or 0) * 1_000_000
        since = written - (number(rows[-1].created) or 0)
        return written if 0 <= since <= _LATEST * timeout + _GRACE else None

    def _ending(self) -> None:
        dumped = self._dumped() or 0
        fronts = {key: p.front for key, p in self._progress.items() if p.front is not None}
        for t, _, row, call in fronts.values():
            timeout = number(row.entry.get("timeout_ms")) or 0
            if row.entry.get("retired") is True and call.device != "cpu":
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
        timeouts = [number(row.entry.get("timeout_ms")) or 0 for row in self.dump.rows[-1:]]
        given_up = [self.latest + ms * 1_000_000 + _GRACE for ms in timeouts if ms]
        return self._dumped() or (given_up[0] if given_up else 1 << 62)

    def _notes(self) -> list[str]:
        return [
            f"{self.origin.file}: {count} of its entries could not be read ({what})"
            for what, count in self._odd.most_common(1)
        ]


_MAIN: Final = "MainThread"


def _activity(t: int, seq: int, row: Row, call: Call) -> Activity:
    """A call that has not completed: what its device is in; of gloo what the host waits for."""
    on_cpu = call.device == "cpu"
    return Activity(
        thread=_MAIN if on_cpu else call.device, what="call" if on_cpu else "device", since=t,
        group=call.group, device=call.device, seq=seq, op=call.op, peer=call.peer, site=call.site,
        started=None if on_cpu else _has_started(row),
    )  # fmt: skip


def _has_started(row: Row) -> bool:
    return row.entry.get("state") == "started" or (number(row.started) or 0) > 0


def _group_name(entry: Entry) -> str:
    group = entry.get("process_group")
    if group.__class__ in (tuple, list) and group and isinstance(group[0], str):
        return str(group[0])[:1000]
    if group is None:
        pg_id = number(entry.get("pg_id"))  # before torch 2.4
        if pg_id is not None:
            return str(pg_id)
    raise NotReadable("an entry without a process group")


def _in_order(group: GroupConfig) -> tuple[bool, int, str]:
    """By number, then by name: torch counts groups, and names by a hash what members make alone."""
    is_counted = group.name.isdecimal() and len(group.name) < 9
    return not is_counted, int(group.name) if is_counted else 0, group.name

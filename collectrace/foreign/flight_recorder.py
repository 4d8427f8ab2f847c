"""Convert one rank's Flight Recorder ring to its rank file.

A ring has what a tracer cannot know: whether a device has begun a call, and when it completed it.
It lacks reduce ops, roots, tags of messages (NCCL has none), heartbeats and the end of the process.
It also lacks the time of the dump, which decides how long ranks have waited. Calls that torch's
watchdog had not noticed show that time, or otherwise the time of the file if it is plausible. If
nothing shows it, the aligner assumes that the dump is of a hang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from collectrace.chain import Form, RankFile
from collectrace.dumps import MAIN
from collectrace.foreign import flight_calls, flight_rows, flight_time, plain_pickle
from collectrace.foreign.errors import NotReadable
from collectrace.foreign.flight_dump import FlightDump, GroupConfig, GroupStatus, number, parse
from collectrace.foreign.flight_progress import Progress, activity, counting_collectives, is_done
from collectrace.foreign.flight_ring import Entry, Numbered, Ring, group_name
from collectrace.foreign.flight_rows import Row
from collectrace.foreign.frames import NOWHERE, Place, place
from collectrace.foreign.trace import Origin, Trace
from collectrace.records import (
    DEFAULT_GROUP,
    FORMAT,
    Alive,
    Call,
    Done,
    Group,
    Header,
    Imported,
    Stack,
)

TOOL: Final = "PyTorch Flight Recorder"

LACKS: Final = "reduce ops, roots, how ranks ended, and what they did between their calls"
"""What a dump lacks, for the report."""

_MOST_FORMS: Final = 50_000
_MOST_SEQ: Final = 1 << 60


def read_pickle(data: bytes, origin: Origin) -> Trace:
    """Read a dump as torch writes it to files.

    Raises:
        NotReadable: it is none.

    """
    found = flight_rows.read(data)
    if found is not None:
        return _Writer(parse(*found), origin).trace()
    return _Writer(parse(plain_pickle.loads(data)), origin).trace()


def read_json(data: bytes, origin: Origin) -> Trace:
    """Read a dump as ``_dump_fr_trace_json`` and torch's HTTP server give it: without stacks.

    Raises:
        NotReadable: it is none.

    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        raise NotReadable(f"is cut short, or not JSON ({problem})") from None
    return _Writer(parse(found), origin).trace()


@dataclass(slots=True)
class _Known:
    """A form of call of this dump, prepared for many uses."""

    form: Form
    call: Call
    progress: Progress
    is_message: bool


@dataclass
class _Writer:
    dump: FlightDump
    origin: Origin
    file: RankFile = field(init=False)
    _ring: Ring = field(init=False)
    _made: int | None = None
    """When the dump was made, ns since 1970; None: nothing shows it."""
    _status: Mapping[str, GroupStatus] = field(default_factory=dict)
    base: int = 0
    latest: int = 0
    """The latest time that an entry bears, ns since 1970."""
    _known: dict[Any, _Known | None] = field(default_factory=dict)
    _progress: dict[Any, Progress] = field(default_factory=dict)
    _places: dict[Any, tuple[Place, int | None]] = field(default_factory=dict)
    _stacks: dict[tuple[str, ...], int] = field(default_factory=dict)
    _odd: Counter[str] = field(default_factory=Counter)

    def trace(self) -> Trace:
        """Convert the dump to a rank file.

        Raises:
            NotReadable: no entry of it can be read.

        """
        rows = self.dump.rows
        self._made = flight_time.made(rows, self.dump.status, self.origin.written)
        self._status = counting_collectives(rows, self.dump.status)
        self.base = self.latest = (number(rows[0].created) or 0) if rows else 0
        self._ring = Ring(rows)
        is_whole, bundles = self._ring.is_whole, self._ring.bundles
        self.file = RankFile(self._header())
        self._preamble(is_whole=is_whole)
        partial: set[Numbered] = set()
        if not is_whole:
            partial = self._ring.cut()
            self.file.begin_at(
                (name, device, seq + ((name, seq) in partial) - 1)
                for name, (device, seq) in self._ring.firsts.items()
                if seq + ((name, seq) in partial) > 1
            )
        self.file.calls(self._calls(bundles, partial))
        if rows and sum(self._odd.values()) == len(rows):
            raise NotReadable(f"has no readable entry: {next(iter(self._odd))}")
        self._ending()
        return Trace(
            self.file, self.base, self.latest, self._until(), is_whole,
            all(progress.front is None for progress in self._progress.values()),
            tuple(self._notes()),
        )  # fmt: skip

    # -- before the calls ---------------------------------------------------------------------

    def _header(self) -> Header:
        default = next(
            (g for g in self.dump.groups.values() if g.description == DEFAULT_GROUP), None
        )
        world = len(default.ranks) if default is not None else None
        versions = {"flight_recorder": self.dump.version, "comm_lib": self.dump.library}
        return Header(
            t=1, format=FORMAT, rank=self.origin.rank, world_size=world, host="", pid=0,
            wall=self.base, versions={k: v for k, v in versions.items() if v}, heartbeat=0.0,
            stall_after=self._timeout() / 1000,
        )  # fmt: skip

    def _preamble(self, *, is_whole: bool) -> None:
        self.file.add(
            Imported(
                t=1,
                tool=TOOL,
                version=self.dump.version,
                file=self.origin.file,
                open=LACKS,
                lost=None if is_whole else True,
                written=self._made is not None or None,
            )
        )
        groups = dict(self.dump.groups)
        if not any(group.description == DEFAULT_GROUP for group in groups.values()):
            default = next((g for g, d in self._ring.described.items() if d == DEFAULT_GROUP), None)
            if default is not None:
                # It is the group of all ranks, here of those that left a dump.
                known = groups.get(default)
                ranks = known.ranks if known is not None else range(self.origin.world_size)
                groups[default] = GroupConfig(default, DEFAULT_GROUP, tuple(ranks))
        self._configs = groups
        for n, group in enumerate(sorted(groups.values(), key=_in_order)):
            self.file.add(
                Group(
                    t=1,
                    phase="ready",
                    group=group.name,
                    description=group.description,
                    backend=self._ring.backends.get(group.name, ""),
                    ranks=list(group.ranks),
                    member=self.origin.rank in group.ranks,
                    ordinal=n,
                )
            )

    # -- calls --------------------------------------------------------------------------------

    def _calls(
        self, bundles: Mapping[Numbered, Sequence[Row]], partial: Set[Numbered]
    ) -> Iterator[tuple[Form, int, int]]:
        """Yield the calls of which nothing is odd; the others are written on the way."""
        known: dict[int, _Known] = {}
        base, is_plain = self.base, not bundles and not partial
        for row in self.dump.rows:
            if not is_plain and self._is_coalesced(row, bundles, partial):
                continue
            entry, seq, created, _, completed = row
            one = known.get(id(entry)) or self._guarded(entry)
            if one is None:
                continue
            known[id(entry)] = one
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

    def _is_coalesced(
        self, row: Row, bundles: Mapping[Numbered, Sequence[Row]], partial: Set[Numbered]
    ) -> bool:
        """Return whether a row is part of a coalesced group; at its first row, write the group."""
        seq, name = number(row.seq), self._ring.stream(row.entry)
        if name is None or seq is None:
            return False
        if (name, seq) in partial:
            return True
        those = bundles.get((name, seq), ())
        if those and those[0] is row:
            self._coalesced(those, name)
        return bool(those)

    def _guarded(self, entry: Entry) -> _Known | None:
        try:
            return self._form(entry)
        except (NotReadable, TypeError) as problem:
            self._odd[str(problem) if isinstance(problem, NotReadable) else "an odd entry"] += 1
            return None

    def _form(self, entry: Entry) -> _Known | None:
        """Return what all such calls share; None: the entry is not a call."""
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
        name = group_name(entry)
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
        progress = self._progress.setdefault(key, Progress())
        form = self.file.chain.form(call)
        return _Known(form, call, progress, is_message)

    def _coalesced(self, those: Sequence[Row], name: str) -> None:
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
            self._odd["an entry without a number"] += 1
            return
        else:
            self.file.call(known.form, t, None, seq)
        progress = known.progress
        self.latest = max(self.latest, number(row.completed) or 0, number(row.started) or 0)
        status = self._status.get(str(row.entry.get("pg_id")))
        if is_done(row, known.call, seq or 0, status):
            if progress.front is None:
                progress.done = known.form.counter.seq
        elif progress.front is None:
            progress.front = t, known.form.counter.seq, row, known.call

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

    def _ending(self) -> None:
        dumped = self._made or 0
        fronts = {key: p.front for key, p in self._progress.items() if p.front is not None}
        for t, _, row, call in fronts.values():
            timeout = number(row.entry.get("timeout_ms")) or 0
            if row.entry.get("retired") is True and call.device != "cpu":
                # It timed out, so it had waited for its whole timeout.
                self.latest = max(self.latest, self.base + t + timeout * 1_000_000)
        end = max(self.latest, dumped) - self.base + 1
        for (group, device, peer, op), progress in self._progress.items():
            if progress.done:
                self.file.add(
                    Done(t=end, group=group, device=device, seq=progress.done, peer=peer, op=op)
                )
        inside = [activity(*front) for front in fronts.values()]
        on_cpu = sorted((a for a in inside if a.thread == MAIN), key=lambda a: a.since)
        if inside:
            # It is not known what a rank without a pending call does.
            self.file.add(Alive(t=end, in_=[*on_cpu[:1], *(a for a in inside if a.thread != MAIN)]))
        self.latest = max(self.latest, dumped)

    def _until(self) -> int:
        if timeout := self._timeout():
            return self._made or self.latest + timeout * 1_000_000 + flight_time.GRACE
        return self._made or 1 << 62

    def _timeout(self) -> int:
        """Return the timeout of the last entry, ms; 0: it has none."""
        rows = self.dump.rows
        return (number(rows[-1].entry.get("timeout_ms")) or 0) if rows else 0

    def _notes(self) -> list[str]:
        return [
            f"{self.origin.file}: {count} of its entries could not be read ({what})"
            for what, count in self._odd.most_common(1)
        ]


def _in_order(group: GroupConfig) -> tuple[bool, int, str]:
    """By number, then by name: torch counts groups, and names by a hash what members make alone."""
    is_counted = group.name.isdecimal() and len(group.name) < 9
    return not is_counted, int(group.name) if is_counted else 0, group.name

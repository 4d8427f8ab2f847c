"""What every run's rank files must fulfil, whatever was run: read here with nothing but decode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collectrace.chain import Chain
from collectrace.errors import DamagedRecord
from collectrace.ops import POINT_TO_POINT
from collectrace.records import Call, Checkpoint, Exit, Group, Header, Record, Stack, decode

StreamKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RankFile:
    """One rank's segments, decoded."""

    records: list[Record]
    torn: bool
    """Whether the last line is not whole."""

    def of(self, kind: type[Any]) -> Iterator[Any]:
        return (r for r in self.records if type(r) is kind)

    @property
    def calls(self) -> list[Call]:
        return list(self.of(Call))

    @property
    def header(self) -> Header:
        first = self.records[0]
        assert isinstance(first, Header)
        return first

    @property
    def exit(self) -> Exit:
        last = self.records[-1]
        assert isinstance(last, Exit), f"the last record is {last}"
        return last

    def groups(self) -> dict[str, Group]:
        """The ready group of each name."""
        return {g.group: g for g in self.of(Group) if g.phase == "ready"}

    def streams(self) -> dict[StreamKey, list[Call]]:
        """Collectives by group and device."""
        found: dict[StreamKey, list[Call]] = defaultdict(list)
        for call in self.calls:
            if call.op not in POINT_TO_POINT or call.digest is not None:
                found[call.group, call.device].append(call)
        return found


def read(path: Path) -> RankFile:
    """One file; all lines but a torn last one must decode."""
    *lines, rest = path.read_bytes().split(b"\n")
    return RankFile(list(_decode(lines, path)), torn=bool(rest))


def _decode(lines: Iterable[bytes], path: Path) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        try:
            record = decode(line)
        except DamagedRecord as problem:
            raise AssertionError(f"{path}:{number}: {problem}: {line[:200]!r}") from None
        assert record is not None, f"{path}:{number}: unknown kind: {line[:200]!r}"
        yield record


def run_folder(logs: Path) -> Path:
    """The one run below ``logs``; nothing may be left in pending/."""
    folders = [f for f in logs.iterdir() if f.is_dir()]
    assert len(folders) == 1, f"not one run: {sorted(f.name for f in folders)}"
    assert folders[0].name != "pending"
    return folders[0]


def read_run(logs: Path, ranks: int) -> list[RankFile]:
    """The files of every rank of the one run below ``logs``."""
    folder = run_folder(logs)
    names = sorted(path.name for path in folder.glob("rank*.jsonl"))
    assert names == [f"rank{r:05d}.jsonl" for r in range(ranks)]
    return [read(folder / name) for name in names]


def check_chain(file: RankFile) -> None:
    """Sequence numbers have no gap, and the digests are what chain.py makes of the calls."""
    chain = Chain(file.header.rank)
    for record in file.records:
        if isinstance(record, Group):
            chain.know(record)
        elif isinstance(record, Call):
            bare = replace(record, seq=0, digest=None, program=None, pairs=None)
            assert chain.number(bare) == record


def check_checkpoints(file: RankFile) -> None:
    """Each checkpoint says where the calls before it have left every stream."""
    last: dict[StreamKey, tuple[int, Any, Any]] = {}
    for record in file.records:
        if isinstance(record, Call) and record.digest is not None:
            last[record.group, record.device] = (record.seq, record.digest, record.program)
        elif isinstance(record, Checkpoint):
            for group, device, seq, digest, program, _ in record.streams:
                assert last.get((group, device), (0, 0, 0)) == (seq, digest, program), record


def check_stacks(file: RankFile) -> None:
    """Each stack stands before the calls that bear its number, and begins with their line.

    A file made from what another tool has recorded may have none.
    """
    has_stacks = any(isinstance(record, Stack) for record in file.records)
    known: dict[int, Stack] = {}
    for record in file.records:
        if isinstance(record, Stack):
            assert known.setdefault(record.stack, record) == record
        elif isinstance(record, Checkpoint):
            assert record.known_stacks == max(known, default=0)
        elif isinstance(record, Call):
            assert (record.stack is None) == (record.site is None or not has_stacks), record
            frames = known[record.stack].frames if record.stack else []
            assert not frames or frames[0].startswith(f"{record.site} "), record
    assert list(known) == list(range(1, len(known) + 1))


def check_whole(file: RankFile, ranks: int) -> None:
    """A file whose process ended in peace."""
    assert not file.torn
    assert file.header.world_size == ranks
    assert file.exit.failures == 0
    assert file.exit.dropped == 0
    assert file.exit.calls == len(file.calls)
    assert not any(call.void for call in file.calls)
    # Threads that torch starts itself have no line of the user's on their stack.
    assert not any(call.site is None and call.thread is None for call in file.calls)
    check_chain(file)
    check_checkpoints(file)
    check_stacks(file)


def check_agreement(files: list[RankFile]) -> None:
    """Ranks of one group did the same: equal digests at the end of each stream."""
    ends: dict[Any, dict[int, tuple[int, Any, Any]]] = defaultdict(dict)
    for rank, file in enumerate(files):
        groups = file.groups()
        for (name, device), calls in file.streams().items():
            key = (name, tuple(groups[name].ranks), device)
            ends[key][rank] = (calls[-1].seq, calls[-1].digest, calls[-1].program)
    for (name, members, device), found in ends.items():
        assert set(found) == set(members), f"{name}/{device}: only {sorted(found)} of {members}"
        if len(set(found.values())) == 1:
            continue
        streams = [files[r].streams()[name, device] for r in members]
        for row in zip(*streams, strict=False):
            assert len({c.program for c in row}) == 1, "\n".join(map(str, row))
        lengths = [len(s) for s in streams]
        raise AssertionError(f"{name}/{device}: streams end at {lengths}")

"""A call that is another one, with all digests behind it: as if the rank had made that one."""

from __future__ import annotations

import random

from collectrace import chain
from collectrace.errors import DamagedRecord
from collectrace.records import Call, Checkpoint, Group, Record, backend_for, decode, encode
from collectrace.signature import BASE, PRIME
from tools.fuzz_parts.log import Log, lines_of, rank_of


def forge_call(log: Log, random_: random.Random) -> str | None:
    """Change a collective together with all digests behind it, as if the rank had made another.

    The other ranks show that call, too: only then a log tells that they differ.
    """
    ranks = {r for p in log.logs() if p.endswith(".jsonl") and (r := rank_of(p)) is not None}
    if not ranks:
        return None
    rank = random_.choice(sorted(ranks))
    paths = [p for p in sorted(log.files) if rank_of(p) == rank and p.endswith(".jsonl")]
    at, groups, call = [], dict[str, Group](), None
    records: list[list[Record | bytes]] = []
    for path in paths:
        records.append([_decoded(line) for line in lines_of(log.files[path])])
        for record in records[-1]:
            if isinstance(record, Group) and record.phase == "ready":
                groups[record.group] = record
            elif isinstance(record, Call) and record.digest is not None:
                at.append(record)
    shown = {other: _places(log, other) for other in ranks}
    at = [
        c
        for c in at
        if _is_shared(group := groups.get(c.group)) and not c.void and not c.splits
        if group and all(_place(c) in shown.get(r, ()) for r in group.ranks if shown.get(r, True))
    ]
    if not at:
        return None
    call = random_.choice(at)
    group = groups[call.group]
    backend = backend_for(group.backend, call.device)
    before = chain.step(call, backend, None)
    told = _make_another(call, group, random_)
    after = chain.step(call, backend, None)
    if before.wire == after.wire:
        return None
    forged = log.forged.setdefault(rank, set())
    delta = after.wire - before.wire, after.program - before.program
    for path, those in zip(paths, records, strict=True):
        for record in those:
            _move(record, call, delta)
        now = [r if isinstance(r, bytes) else encode(r) for r in those]
        forged |= {*now} - {*lines_of(log.files[path])}
        log.files[path] = b"".join(now)
    return f"call {call.seq} of {call.group} on rank {rank}: {told}, with its digests"


def _is_shared(group: Group | None) -> bool:
    return group is not None and group.member and len(group.ranks) > 1


def _place(call: Call) -> tuple[str, str, int]:
    return call.group, call.device, call.seq


def _places(log: Log, rank: int) -> set[tuple[str, str, int]]:
    """Return the calls that a rank's files show."""
    found = set()
    for path in log.logs():
        if rank_of(path) == rank and path.endswith(".jsonl"):
            calls = (_decoded(line) for line in lines_of(log.files[path]))
            found |= {_place(call) for call in calls if isinstance(call, Call)}
    return found


def _decoded(line: bytes) -> Record | bytes:
    try:
        record = decode(line)
    except DamagedRecord:
        return line
    return record if isinstance(record, Call | Checkpoint | Group) else line


_NEXT = {"all_reduce": "all_gather", "all_gather": "reduce"}
"""Done twice, it is still another op."""


def _make_another(call: Call, group: Group, random_: random.Random) -> str:
    """Change what is on the wire, in place."""
    how = random_.choice(("op", "dtype", "shape", "root" if call.root is not None else "op"))
    if how == "op":
        call.op = _NEXT.get(call.op, "all_reduce")
    elif how == "dtype":
        call.dtype = "int8" if call.dtype != "int8" else "int16"
    elif how == "shape":
        call.shape = [1234]
    else:
        call.root = next(rank for rank in group.ranks if rank != call.root)
    return how


def _move(record: Record | bytes, call: Call, delta: tuple[int, int]) -> None:
    """Add a difference at a call to all digests of its stream that count it, in place."""

    def moved(digest: int, by: int, seq: int) -> int:
        return (digest + by * pow(BASE, seq - call.seq, PRIME)) % PRIME

    if isinstance(record, Call) and (record.group, record.device) == (call.group, call.device):
        if record.seq >= call.seq and record.digest is not None and record.program is not None:
            record.digest = moved(record.digest, delta[0], record.seq)
            record.program = moved(record.program, delta[1], record.seq)
    elif isinstance(record, Checkpoint):
        for row in record.streams:
            # Another edit may have put anything there.
            is_whole = len(row) > 4 and all(isinstance(one, int) for one in row[2:5])
            if is_whole and row[:2] == [call.group, call.device] and row[2] >= call.seq:
                row[3] = moved(row[3], delta[0], row[2])
                row[4] = moved(row[4], delta[1], row[2])

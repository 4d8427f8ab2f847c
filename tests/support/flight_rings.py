"""Flight Recorder dumps of jobs that never ran, in the structure that torch 2.13 writes on NCCL.

    job = Job(world=2)
    for ring in job:
        ring.call("all_reduce", [4])
    job.ring(1).call("broadcast", [4])
    folder = job.write(tmp_path)

Every call advances the job's clock by a millisecond. A dump is written ``waited`` seconds after the
last call.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.bench_flight import Pickler

MS = 1_000_000
START = 1_795_303_182_000_000_000
Sizes = Sequence[int] | Sequence[Sequence[int]]


def _sizes(sizes: Sizes | None) -> list[list[int]]:
    if sizes is None:
        return []
    listed: list[Any] = [list(one) if isinstance(one, Sequence) else one for one in sizes]
    return listed if listed and isinstance(listed[0], list) else [listed]


@dataclass
class Ring:
    """One rank's recorder."""

    job: Job
    rank: int
    entries: list[dict[str, Any]] = field(default_factory=list)
    seqs: dict[str, int] = field(default_factory=dict)
    p2p: dict[str, int] = field(default_factory=dict)
    forgotten: int = 0

    def call(
        self,
        op: str,
        sent: Sizes | None = None,
        received: Sizes | None = None,
        *,
        dtype: str = "Float",
        out_dtype: str | None = None,
        group: str = "0",
        state: str = "completed",
        line: int = 10,
        coalesced: bool = False,
        is_p2p: bool = False,
        retired: bool | None = None,
    ) -> dict[str, Any]:
        """One entry; ``coalesced``: it has the sequence number of the one before."""
        self.job.now += MS
        if is_p2p:
            self.p2p[group] = self.p2p.get(group, 0) + (not coalesced)
        elif not coalesced:
            self.seqs[group] = self.seqs.get(group, 0) + 1
        ins, outs = _sizes(sent), _sizes(sent if received is None else received)
        now, done = self.job.now, state == "completed"
        entry = {
            "frames": [
                {"name": op, "filename": "/opt/site-packages/torch/distributed/distributed_c10d.py",
                 "line": 3245},
                {"name": "step", "filename": "/job/train.py", "line": line},
                {"name": "<module>", "filename": "/job/train.py", "line": 99},
            ],
            "record_id": self.forgotten + len(self.entries), "pg_id": self.job.ids[group],
            "process_group": (group, self.job.groups[group][0]),
            "thread_name": "pt_main_thread", "thread_id": "139683416202112",
            "collective_seq_id": self.seqs.get(group, 0), "p2p_seq_id": self.p2p.get(group, 0),
            "op_id": len(self.entries) + 1, "profiling_name": f"{self.job.backend}:{op}",
            "time_created_ns": now, "input_sizes": ins, "input_dtypes": [dtype] * len(ins),
            "output_sizes": outs, "output_dtypes": [out_dtype or dtype] * len(outs),
            "state": state,
            "time_discovered_started_ns": None if state == "scheduled" else now + MS // 10,
            "time_discovered_completed_ns": now + MS // 2 if done else None,
            "retired": done if retired is None else retired, "timeout_ms": 600_000,
            "is_p2p": is_p2p,
        }  # fmt: skip
        self.entries.append(entry)
        return entry

    def send(self, to: int, sizes: Sizes, **fields: Any) -> None:
        """To a rank of the group."""
        self.call(f"send {self.rank}->{to}", sizes, is_p2p=True, **fields)

    def recv(self, source: int, sizes: Sizes, **fields: Any) -> None:
        """From a rank of the group."""
        self.call(f"recv {self.rank}<-{source}", sizes, is_p2p=True, **fields)

    def forget(self, keep: int) -> None:
        """The ring has wrapped: the latest entries are left."""
        self.forgotten += max(0, len(self.entries) - keep)
        self.entries = self.entries[-keep:]

    def dump(self) -> dict[str, Any]:
        """What torch would write."""
        mine = {n: g for n, g in self.job.groups.items() if self.rank in g[1]}
        status = {}
        for name in mine:
            of = [e for e in self.entries if e["process_group"][0] == name and not e["is_p2p"]]
            last = {
                what: max((e["collective_seq_id"] for e in of if e["state"] in states), default=-1)
                for what, states in (
                    ("enqueued", ("scheduled", "started", "completed")),
                    ("started", ("started", "completed") if self.job.watched else ("completed",)),
                    ("completed", ("completed",)),
                )
            }  # fmt: skip
            if self.job.completed is not None:
                last["completed"] = self.job.completed
            status[str(self.job.ids[name])] = {f"last_{k}_collective": v for k, v in last.items()}
        return {
            "version": "2.10",
            "pg_config": {
                n: {"name": n, "desc": d, "ranks": str(list(ranks))}
                for n, (d, ranks) in mine.items()
            },
            "comm_lib_version": "2.27.5", "pg_status": status, "entries": self.entries,
        }  # fmt: skip


@dataclass
class Job:
    """The ranks' rings."""

    world: int = 2
    backend: str = "nccl"
    now: int = START
    waited: float = 620.0
    groups: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    rings: list[Ring] = field(default_factory=list)
    watched: bool = True
    """Whether the watchdog has counted what has begun."""
    completed: int | None = None
    """The call up to which the watchdog has counted what has completed; None: by the entries."""

    def __post_init__(self) -> None:
        self.group("0", range(self.world), "default_pg")
        self.rings = [Ring(self, rank) for rank in range(self.world)]

    def __iter__(self) -> Iterator[Ring]:
        return iter(self.rings)

    def ring(self, rank: int) -> Ring:
        return self.rings[rank]

    def group(self, name: str, ranks: Sequence[int], description: str = "undefined") -> str:
        self.ids[name] = len(self.ids)
        self.groups[name] = description, tuple(ranks)
        return name

    def all(self, op: str, sent: Sizes | None = None, received: Sizes | None = None,
            count: int = 1, **fields: Any) -> None:  # fmt: skip
        """The same on every rank of the group."""
        for _ in range(count):
            for rank in self.groups[fields.get("group", "0")][1]:
                self.rings[rank].call(op, sent, received, **fields)

    def write(self, folder: Path, *, form: str = "torch", without: Sequence[int] = ()) -> Path:
        """The dumps, as torch names them."""
        folder.mkdir(parents=True, exist_ok=True)
        for ring in self.rings:
            if ring.rank in without:
                continue
            path = folder / f"nccl_trace_rank_{ring.rank}"
            path.write_bytes(FORMS[form](ring))
            written = self.now + round(self.waited * 1e9)
            os.utime(path, ns=(written, written))
        return folder


def as_torch(ring: Ring) -> bytes:
    """As torch's own pickler writes it."""
    return Pickler().dump(ring.dump())


def as_python(ring: Ring) -> bytes:
    """As Python's pickler does, for whoever read a dump and wrote it again."""
    return pickle.dumps(ring.dump(), 2)


def as_json(ring: Ring) -> bytes:
    """As ``_dump_fr_trace_json``: no frames, 0 where a time is not known, counts as text."""
    dump = ring.dump()
    for entry in dump["entries"]:
        entry.pop("frames", None)
        for name in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            entry[name] = entry[name] or 0
    for status in dump["pg_status"].values():
        status.update({name: str(value) for name, value in status.items()})
    return json.dumps(dump, sort_keys=True).encode()


FORMS: Final[dict[str, Callable[[Ring], bytes]]] = {
    "torch": as_torch, "python": as_python, "json": as_json,
}  # fmt: skip

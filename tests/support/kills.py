"""A rank that is killed at any moment of its life, and what its file must hold then."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace.align import align
from collectrace.errors import DamagedRecord
from collectrace.records import Call, Header, Record, decode
from tests.support import trainings
from tests.support.real_ranks import Ranks

NOTES: Final = 10_000
"""Bytes that a rank notes in its life, or somewhat more."""
EARLY: Final = 1.0
"""Seconds within which a rank that is killed before its first call is killed."""
_KILL: Final = """
import os, signal, sys, time
victim, notes, size, after = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
while os.getppid() == victim:
    try:
        if os.stat(notes).st_size >= size:
            break
    except FileNotFoundError:
        pass
    time.sleep(0.001)
time.sleep(after)
if os.getppid() == victim:
    os.kill(victim, signal.SIGKILL)
"""

SURVIVED: Final = 7
BYTES: Final = 600_000
"""Of a rank's file: it rotates."""


def kill_after(notes: str, size: int, after: float) -> None:
    """Have this process killed ``after`` seconds after ``notes`` have reached ``size`` bytes.

    Progress decides, for seconds differ with how busy the machine is. Another process does it: a
    thread would need the GIL, and never kill while C holds it.
    """
    given = [str(os.getpid()), notes, str(size), str(after)]
    subprocess.Popen([sys.executable, "-S", "-E", "-c", _KILL, *given])


def life(folder: str, victim: int, size: int, after: float, online: bool) -> None:
    """All of a rank's life, from before ``enable`` to its end; notes what it saw complete."""
    rank = int(os.environ["RANK"])
    if rank == victim:
        kill_after(f"{folder}/noted{rank}", size, after)
    noted = os.open(f"{folder}/noted{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        _train(noted, online)
    except RuntimeError:
        if rank == victim:
            raise
        os._exit(SURVIVED)
    if rank != victim:
        os._exit(SURVIVED)


def _train(noted: int, online: bool) -> None:
    collectrace.enable(max_bytes=BYTES, heartbeat=0.1, stall_after=600, online=online)
    patience = timedelta(seconds=3)
    dist.init_process_group("gloo", timeout=patience)
    rank = dist.get_rank()
    model = DistributedDataParallel(trainings.net())
    group = dist.new_group([0, 1], timeout=patience)
    tensors = [torch.ones(n) for n in (1, 7, 1000)]
    for n in range(5):
        trainings.train(model, rank, 1)
        for k in range(150):
            dist.all_reduce(tensors[k % 3], group=group)
            os.write(noted, b"1 all_reduce\n")
        dist.all_reduce(tensors[n % 3], async_op=True, group=group).wait()
        os.write(noted, b"1 all_reduce\n")
        if rank == 0:
            dist.recv(tensors[0], 1, group=group)
            os.write(noted, b"1 recv\n")
        else:
            dist.send(tensors[0], 0, group=group)
            os.write(noted, b"1 send\n")
        dist.barrier(group=group)
        os.write(noted, b"1 barrier\n")
    dist.destroy_process_group()


@dataclass(frozen=True)
class Killed:
    """What one killed rank left, and what the aligner makes of it."""

    calls: int
    """Calls that it has issued, by its file."""
    status: str
    kinds: tuple[str, ...]
    problems: tuple[str, ...]
    """What must not be."""


def kill_once(ranks: Ranks, folder: Path, chance: random.Random, *, online: bool = False) -> Killed:
    """Kill a rank at a random moment; ``online``: while ranks compare digests by the store."""
    folder.mkdir()
    victim, is_early = chance.randrange(2), chance.random() < 0.2
    size = 0 if is_early else chance.randrange(1, NOTES)
    after = chance.uniform(0, EARLY if is_early else 0.01)
    ends = [frozenset({SURVIVED}), frozenset({SURVIVED})]
    ends[victim] = frozenset({0, -signal.SIGKILL})
    ran = ranks.run(
        life,
        2,
        str(folder),
        victim,
        size,
        after,
        online,
        trace=False,
        init=False,
        exits=tuple(ends),
    )
    problems = []
    last: Counter[tuple[str, bool]] = Counter()
    for path in sorted(ran.logs.rglob("*.jsonl")):
        *lines, rest = path.read_bytes().split(b"\n")
        records: list[Record | None] = []
        try:
            records = [decode(line) for line in lines]
        except DamagedRecord as problem:
            problems.append(f"{path.name} has a line that is no record: {problem}")
        if None in records or (rest and path.name != _newest(path).name):
            problems.append(f"{path.name} is torn before its end")
        headers = [record for record in records if isinstance(record, Header)]
        if headers and headers[0].rank != victim:
            continue
        for record in records:
            if isinstance(record, Call) and record.group == "1":
                key = record.op, record.peer is not None
                last[key] = max(last[key], record.seq)
    collectives = max((n for (_, is_message), n in last.items() if not is_message), default=0)
    messages = max((n for (_, is_message), n in last.items() if is_message), default=0)
    for rank in range(2):
        seen = Path(folder, f"noted{rank}").read_text().split("\n") if _has(folder, rank) else []
        ops = Counter(line.partition(" ")[2] for line in seen if line)
        proven = ops["send"] + ops["recv"]
        if messages < proven or collectives < ops.total() - proven:
            problems.append(f"rank {rank} saw {ops}, the victim's file has {last}")
    try:
        alignment = align(ran.logs)
    except Exception as problem:  # noqa: BLE001 - that is what is looked for
        return Killed(collectives, type(problem).__name__, (), (*problems, str(problem)))
    problems += [
        f"blames {f.suspects}: {f.headline}"
        for f in alignment.findings
        if {*f.suspects} - {victim} and f.kind != "straggler"
    ]
    kinds = tuple(f.kind for f in alignment.findings if f.severity == "error")
    wrong = [kind for kind in kinds if kind not in ("missing_call", "early_termination", "stall")]
    return Killed(
        collectives, alignment.status, kinds, (*problems, *(f"finds {kind}" for kind in wrong))
    )


def _has(folder: Path, rank: int) -> bool:
    return Path(folder, f"noted{rank}").exists()


def _newest(path: Path) -> Path:
    rank = path.name.partition(".")[0]
    return max(path.parent.glob(f"{rank}*.jsonl"), key=lambda one: one.stat().st_mtime_ns)

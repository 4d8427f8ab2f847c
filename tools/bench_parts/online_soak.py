"""Ranks that train for minutes, in nothing of which anything is wrong, and compare notes.

Collectives of several kinds on several groups, some of which come and go, messages, calls that are
waited for later, files that rotate; and now and then one rank keeps the others waiting, so that
they have all ranks looked at. A rank that is ended is the one thing that must not happen.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

import collectrace
from collectrace import exchange, words
from collectrace.exchange import Announced, Keys
from collectrace.job_store import JobStore
from collectrace.tracer import switch
from tools.bench_parts.common import fresh, resident

_RANKS: Final = 4
_HEARTBEAT: Final = 0.5
_STALL_AFTER: Final = 1.0
_MAX_BYTES: Final = 8 << 20
"""Bytes of a rank's files: they rotate, and the oldest go."""

_LATE: Final = 20.0
"""Seconds after which some rank is late again."""

_HOW_LATE: Final = 3.0
_NEW_GROUP: Final = 500
"""Rounds after which another group comes, and goes."""

_LONGEST_TURN: Final = 90.0
"""Seconds that one may be open after the ranks have ended."""

_SAMPLE: Final = 5.0
_WARM: Final = 30.0
"""Seconds after which memory has come to what it takes."""


@dataclass(slots=True)
class Sample:
    """What one rank held, and had asked of the store."""

    seconds: float
    resident: int
    threads: int
    files: int
    """Descriptors."""
    requests: int


@dataclass(slots=True)
class Soaked:
    """What is left of it."""

    samples: list[list[Sample]] = field(default_factory=list)
    """By rank; none: the ranks did not come to their end."""
    turns: int = 0
    verdicts: list[str] = field(default_factory=list)
    most_keys: int = 0
    """At the store, of this part."""
    left: list[str] = field(default_factory=list)
    """Keys that are there when all is over, but for the two that a run leaves."""
    bytes: int = 0

    @property
    def is_clean(self) -> bool:
        return bool(self.samples) and not self.verdicts and not self.left

    @property
    def text(self) -> str:
        """As a table."""
        rows = [
            ("ranks that were ended", "0" if self.samples else "see above"),
            ("turns opened", str(self.turns)),
            ("verdicts written", ", ".join(self.verdicts) or "0"),
            ("keys at the store, at most", str(self.most_keys)),
            ("keys left", ", ".join(self.left) or "0"),
            ("bytes of rank files at the end", f"{self.bytes:,}"),
        ]
        for rank, samples in enumerate(self.samples):
            warm = next((s for s in samples if s.seconds >= _WARM), samples[0])
            half, last = samples[len(samples) // 2], samples[-1]
            requests, beats = _requests(samples), last.seconds / _HEARTBEAT
            grown = [(s.resident - warm.resident) / 2**20 for s in (half, last)]
            said = (
                f"{sum(requests) / beats:.1f} requests per heartbeat, "
                f"{words.counted(len(requests) - 1, 'connection')} lost; "
                f"resident {warm.resident / 2**20:.1f} MiB after {warm.seconds:.0f} s, "
                f"{grown[0]:+.1f} after {half.seconds:.0f} s, "
                f"{grown[1]:+.1f} after {last.seconds:.0f} s; "
                f"threads {warm.threads} -> {last.threads}, "
                f"descriptors {warm.files} -> {last.files}"
            )
            rows.append((f"rank {rank}", said))
        return "\n".join(f"{name:32} {value}" for name, value in rows)


def _requests(samples: list[Sample]) -> list[int]:
    """As many as each connection has made: a new one counts from 0."""
    counts = [sample.requests for sample in samples]
    ends = [n for n, later in itertools.pairwise(counts) if later < n]
    return [*ends, counts[-1]]


def measure(seconds: float, logs: Path | None) -> Soaked:
    """Let a job run for so long."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    print(f"the store: 127.0.0.1:{store.port}", flush=True)
    found = Soaked()
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        folder = (logs or Path(temporary)).absolute()
        with _watched(store, found):
            try:
                found.samples = fresh(
                    _train, seconds, str(folder), ranks=_RANKS, port=store.port,
                    limit=seconds + 120,
                )  # fmt: skip
            except SystemExit as problem:
                print(problem)
        found.verdicts = sorted(file.name for file in folder.glob("*/verdict.*"))
        found.bytes = sum(file.stat().st_size for file in folder.glob("*/rank*.jsonl"))
    reader = JobStore("127.0.0.1", store.port, 5)
    announced = exchange.decode(Announced, reader.read(exchange.ANNOUNCED) or b"")
    keys = Keys(announced.run)
    until = time.monotonic() + _LONGEST_TURN
    while (turn := exchange.turn_of(reader.read(keys.turn))) is not None and turn.is_open:
        if time.monotonic() > until:
            break
        time.sleep(_HEARTBEAT)
    found.turns = 0 if turn is None else turn.number
    time.sleep(_HEARTBEAT)
    kept = {exchange.ANNOUNCED, keys.turn, keys.verdict(found.turns)}
    found.left = [key for key in _keys(store) if key not in kept]
    reader.close()
    return found


def _keys(store: Any) -> list[str]:
    """Of comparing notes; older torch cannot list them."""
    if not hasattr(store, "list_keys"):
        return []
    names = (name.removeprefix("/") for name in store.list_keys())
    return [name for name in names if name.startswith("collectrace/online")]


@contextmanager
def _watched(store: TCPStore, found: Soaked) -> Iterator[None]:
    """Count the keys now and then."""
    stop = threading.Event()

    def count() -> None:
        while not stop.wait(_HEARTBEAT):
            found.most_keys = max(found.most_keys, len(_keys(store)))

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join()


def _train(rank: int, seconds: float, folder: str) -> list[Sample]:
    samples: list[Sample] = []
    with collectrace.trace(
        folder, online=True, on_divergence="exit", heartbeat=_HEARTBEAT,
        stall_after=_STALL_AFTER, max_bytes=_MAX_BYTES,
    ):  # fmt: skip
        pairs = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3], [0, 2], [1, 3])]
        mine = [pair for pair in pairs if pair is not dist.GroupMember.NON_GROUP_MEMBER]
        began = time.monotonic()
        go, late = torch.ones(1), 1
        for n in itertools.count():
            passed = time.monotonic() - began
            if passed >= len(samples) * _SAMPLE:
                samples.append(_sample(passed))
            # Rank 0's clock counts: 0 ends it, a number that is new makes one rank late.
            go.fill_(0.0 if passed >= seconds else 1.0 + passed // _LATE)
            dist.broadcast(go, 0)
            if not go:
                break
            if go > late:
                late = int(go)
                if rank == late % _RANKS:
                    time.sleep(_HOW_LATE)
            _round(rank, n, mine)
            if n % _NEW_GROUP == 0:
                group = dist.new_group([1, 2, 3])
                if rank:
                    dist.all_reduce(torch.ones(2), group=group)
                    dist.destroy_process_group(group)
    time.sleep(4 * _HEARTBEAT)  # until the keys are removed
    return samples


def _round(rank: int, n: int, pairs: list[dist.ProcessGroup]) -> None:
    """What a step of some training may issue."""
    gradients = [torch.ones(64) for _ in range(3)]
    works = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
    for pair in pairs:
        dist.all_reduce(torch.ones(8), group=pair)
    ahead, behind = (rank + 1) % _RANKS, (rank - 1) % _RANKS
    sent = dist.isend(torch.full((4,), float(n)), ahead, tag=n % 3)
    dist.recv(torch.empty(4), behind, tag=n % 3)
    tokens = torch.arange(2.0 * _RANKS)
    dist.all_to_all_single(torch.empty_like(tokens), tokens)
    for work in (sent, *works):
        work.wait()
    dist.broadcast(torch.ones(4), n % _RANKS)
    if n % 10 == 0:
        dist.barrier()
    time.sleep(0.002)


def _sample(seconds: float) -> Sample:
    session = switch.current()
    assert session is not None
    assert session._member is not None
    store = session._member._store
    return Sample(
        seconds, resident(), threading.active_count(), len(list(Path("/proc/self/fd").iterdir())),
        0 if store is None else store.requests,
    )  # fmt: skip

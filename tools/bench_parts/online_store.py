"""What comparing notes costs the job's store, and how long a verdict takes, by number of ranks.

Every rank is a thread that runs the tracer's own part, against one real TCPStore, over files of
ranks that never ran; where one of them differs is known, and the diagnosis is the real one, in its
own process. All threads share one Python, so seconds are an upper bound.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from torch._C._distributed_c10d import TCPStore

from collectrace.exchange import Announced, Verdict
from collectrace.job_store import JobStore
from collectrace.records import Call, Group, decode
from collectrace.tracer.online.member import Member
from collectrace.tracer.record.groups import GroupState
from tools.make_logs import RUN, Difference, make

_CALLS: Final = 400
_AT: Final = 201
"""The call that one rank makes otherwise."""

_PATIENCE: Final = 120.0
"""Seconds after which there is no verdict to be had."""


_TO_CONNECT: Final = 300.0
"""Seconds for all to be let in: where names cannot be looked up, the store waits for that."""


class Rank:
    """A rank whose calls are those of its file, up to a point that the benchmark sets."""

    def __init__(
        self, file: Path, rank: int, announced: Announced, at: tuple[str, int],
        heard: threading.Event,
    ) -> None:  # fmt: skip
        world_size = announced.world_size
        record = Group(phase="ready", group="0", backend="cuda:nccl", ranks=list(range(world_size)))
        self._group = GroupState(record, rank)
        self._stream = self._group.stream("cuda")
        self._past = [c for c in map(decode, file.open("rb")) if isinstance(c, Call)]
        self._recorder = SimpleNamespace(
            writer=SimpleNamespace(path=file), calls=0, active=True,
            book=SimpleNamespace(states={0: self._group}), count_failure=self._failed,
            works=SimpleNamespace(oldest_incomplete=list),
        )  # fmt: skip
        recorder: Any = self._recorder
        self.verdict: Verdict | None = None
        self.failures: list[Exception] = []
        self._heard = heard
        self.member = Member(recorder, announced, rank, at, lambda: 0, self._act)

    def come_to(self, seq: int) -> None:
        """Let it have issued so many calls."""
        call = self._past[seq - 1]
        assert call.digest is not None
        assert call.program is not None
        self._stream.digest, self._stream.program = call.digest, call.program
        self._stream.seq = self._recorder.calls = seq

    def _act(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self._heard.set()

    def _failed(self, problem: Exception, doing: str) -> None:  # noqa: ARG002 - as it is called
        self.failures.append(problem)

    @property
    def traffic(self) -> tuple[int, int]:
        """Requests made so far, and bytes sent and received."""
        store: JobStore | None = self.member._store
        return (store.requests, store.bytes) if store is not None else (0, 0)


HEAD: Final = (
    "        healthy, per rank and heartbeat   from the difference to the verdict\n"
    " ranks        requests        bytes     seconds   requests/rank        MB  found"
)


def measure(world_size: int, heartbeat: float, healthy: float) -> str:
    """One row of the table, whose head is :data:`HEAD`."""
    with _quiet():  # every rank says it in a line
        return _measure(world_size, heartbeat, healthy)


@contextmanager
def _quiet() -> Iterator[None]:
    """Standard error of this process, and of those it starts, goes nowhere."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _measure(world_size: int, heartbeat: float, healthy: float) -> str:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    heard = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        odd = world_size // 2
        run = make(
            Path(folder), world_size, _CALLS, Difference(odd, _AT, "reduce_op"), finish=False
        )
        announced = Announced(RUN, world_size, heartbeat)
        files = sorted(run.glob("rank*.jsonl"))
        at = ("127.0.0.1", store.port)
        ranks = [Rank(f, n, announced, at, heard) for n, f in enumerate(files)]
        for rank in ranks:
            rank.come_to(1)
            rank.member.start()
            time.sleep(heartbeat / 2 / world_size)  # real ones do not look all at once, either
        until = time.monotonic() + _TO_CONNECT
        while not all(rank.traffic[0] for rank in ranks) and time.monotonic() < until:
            time.sleep(0.5)
        began, before = time.monotonic(), [rank.traffic for rank in ranks]
        seq = 1
        while (passed := time.monotonic() - began) < healthy:
            seq = min(_AT - 1, seq + 1)
            for rank in ranks:
                rank.come_to(seq)
            time.sleep(0.1)
        after = [rank.traffic for rank in ranks]
        for rank in ranks:
            rank.come_to(_CALLS)
        parted = time.monotonic()
        heard.wait(_PATIENCE)
        seconds = time.monotonic() - parted
        found = next((rank.verdict for rank in ranks if rank.verdict is not None), None)
        last = [rank.traffic for rank in ranks]
        for rank in ranks:
            rank.member.leave(failed=False)
        time.sleep(heartbeat)
    beats = passed / heartbeat * world_size
    requests, sent = (sum(b[n] - a[n] for a, b in zip(before, after, strict=True)) for n in (0, 1))
    to_tell, told = (sum(b[n] - a[n] for a, b in zip(after, last, strict=True)) for n in (0, 1))
    failures = sum(len(rank.failures) for rank in ranks)
    kind = "no verdict" if found is None else found.kind
    return (
        f"{world_size:6}  {requests / beats:14.1f}  {sent / beats:11.0f}  {seconds:10.1f}  "
        f"{to_tell / world_size:14.1f}  {told / 1e6:8.2f}  {kind}, {failures} failures"
    )

"""Synthetic runs in true time: hosts whose clocks are apart, ranks that are late.

cluster = Cluster(hosts=2, per_host=2, apart=3.0)
cluster.step({3: 0.02})                  # rank 3 comes 20 ms late to an all_reduce
cluster.step(op="broadcast")             # which holds nobody
cluster.run.write(folder)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from collectrace.ops import HOLDING
from tests.support.synthetic import SECOND, Run

LATENCY: Final = 0.0002
"""Seconds that a collective takes once everybody has come."""


class Cluster:
    """``apart``: seconds by which each host's wall clock is ahead of the one before; ``drift``:
    seconds per second by which its monotonic clock is faster."""

    def __init__(
        self, hosts: int = 1, per_host: int = 2, *, apart: float = 0.0, drift: float = 0.0,
        **header: Any,
    ) -> None:  # fmt: skip
        self.run = Run(hosts * per_host, **header)
        self._ready = [0.0] * self.run.world
        self._drift = drift
        for rank in self.run:
            host = rank.rank // per_host
            origin = (host + 1) * 5000 * SECOND
            for item in rank.items:
                item.t = origin  # type: ignore[union-attr]
            header_ = rank.header
            header_.host, header_.t = f"node{host}", origin
            header_.wall += round(host * apart * SECOND)
            rank.now = origin
        self._per_host = per_host

    @property
    def now(self) -> float:
        """Seconds since the start, when the last rank is free."""
        return max(self._ready)

    def clock(self, rank: int, at: float) -> int:
        """What a rank's monotonic clock says at a time."""
        host = rank // self._per_host
        return self.run.rank(rank).header.t + round(at * (1 + host * self._drift) * SECOND)

    def step(
        self,
        late: Mapping[int, float] | None = None,
        op: str = "all_reduce",
        *,
        every: float = 0.001,
        holds: bool | None = None,
        **fields: Any,
    ) -> None:
        """All ranks come to a call ``every`` seconds after the last one let them go, some later."""
        came = {
            rank: self._ready[rank] + every + (late or {}).get(rank, 0.0)
            for rank in range(self.run.world)
        }
        if holds is None:
            holds = op in HOLDING and not fields.get("async_")
        for rank, at in came.items():
            self.run.rank(rank).now = self.clock(rank, at)
            self.run.rank(rank).call(op, t=self.clock(rank, at), **fields)
            self._ready[rank] = max(came.values()) + LATENCY if holds else at

    def finish(self) -> None:
        """Every rank ends well."""
        self.run.finish()

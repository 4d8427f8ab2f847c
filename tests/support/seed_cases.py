"""The six cases that started this project, as made-up runs: what the tracer writes in each.

Rank 0 has five batches and rank 1 has six. The sites are those of tools/join_cases.py, which can
be read: a finding may quote its lines.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from collectrace.records import Call, Stack
from tests.support.synthetic import Rank, Run

Barrier = Literal["native", "zeros", "ones"]

BATCHES = (5, 6)
SCRIPT = Path(__file__).parents[2] / "tools" / "join_cases.py"
JOIN, FORWARD, BACKWARD, INSIDE, AFTER = (f"{SCRIPT}:{line}" for line in (48, 50, 51, 53, 55))
LOST = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1185"
TIMEOUT = "[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 15000ms for recv operation"


def barrier(rank: Rank, kind: Barrier, site: str, iteration: int | None = None) -> None:
    if kind == "native":
        rank.call("barrier", site=site, iteration=iteration)
    else:
        rank.call("all_reduce", site=site, iteration=iteration)


def train(rank: Rank, *, join: bool, every_step: Barrier | None = None) -> None:
    """DDP's constructor and the loop, as far as the rank has batches."""
    rank.call("all_gather", role="ddp.construct", dtype="int64", shape=[2], out_shape=[[2], [2]])
    for _ in range(2):
        rank.call("broadcast", role="ddp.construct", shape=[2])
    if join:
        rank.join("entered", group="0", joinables=["DistributedDataParallel"], site=JOIN)
    for n in range(1, BATCHES[rank.rank] + 1):
        if join:
            rank.call("all_reduce", role="ddp.forward.notify_join", site=FORWARD, iteration=n)
            rank.call("all_reduce", role="ddp.forward.sync_check", site=FORWARD, iteration=n)
        if n == 2:
            for _ in range(2):
                role = "ddp.forward.rebuild_buckets"
                rank.call(
                    "broadcast", role=role, dtype="int32", shape=[2], site=FORWARD, iteration=n
                )
        rank.call(
            "all_reduce",
            role="ddp.backward.bucket",
            shape=[2],
            async_=True,
            site=BACKWARD,
            iteration=n,
        )
        if every_step is not None:
            barrier(rank, every_step, INSIDE, n)


def joined(rank: Rank) -> None:
    batches = BATCHES[rank.rank]
    rank.join("joined", group="0", iteration=batches, rounds=[batches], site=JOIN)


def shadow(rank: Rank, role: str, iteration: int, **fields: Any) -> None:
    rank.call("all_reduce", role=f"join.{role}", site=JOIN, iteration=iteration, **fields)


def last_sync(rank: Rank, iteration: int) -> None:
    """What every rank does when none has inputs left."""
    shadow(rank, "count_nonjoined", iteration)
    shadow(rank, "common_rank", iteration, dtype="int64", reduce_op="MAX")
    rank.call("broadcast", role="join.final_sync", shape=[2], root=1, site=JOIN)
    rank.join("left", group="0", site=JOIN)


def shadow_one_batch(rank: Rank) -> None:
    shadow(rank, "count_nonjoined", 6)
    shadow(rank, "sync_check", 6)
    shadow(rank, "bucket", 6, shape=[2])


def case(number: int, kind: Barrier = "native") -> Run:
    """One of the six cases, up to where its ranks finish, raise or are killed."""
    run = _CASES[number](kind)
    for rank in run:
        _record_stacks(rank)
    return run


def _record_stacks(rank: Rank) -> None:
    """Give every call with a line of the script its stack, as the tracer does."""
    sites = dict.fromkeys(call.site for call in rank.items if isinstance(call, Call) and call.site)
    numbers = {site: n for n, site in enumerate(sites, start=1)}
    for call in rank.items:
        if isinstance(call, Call) and call.site:
            call.stack = numbers[call.site]
    rank.items[:0] = [
        Stack(t=rank.header.t, stack=n, frames=[f"{site} train"]) for site, n in numbers.items()
    ]


def _healthy(kind: Barrier, *, at_the_end: bool) -> Run:
    run = Run(world=2)
    for rank in run:
        train(rank, join=True)
        joined(rank)
        if rank.rank == 0:
            shadow_one_batch(rank)
        last_sync(rank, 7)
        if at_the_end:
            barrier(rank, kind, AFTER)
        rank.exit()
    return run


def _without_join(kind: Barrier | None) -> Run:
    run = Run(world=2)
    for rank in run:
        train(rank, join=False, every_step=kind)
    _cut_after_bucket(run.rank(1))
    run.rank(0).exit()
    run.rank(1).wait(0.5)
    run.rank(1).exit("exception", error="RuntimeError", message=LOST, site=BACKWARD)
    return run


def _cut_after_bucket(rank: Rank) -> None:
    """Without its partner rank 1 never gets beyond its sixth bucket."""
    while getattr(rank.items[-1], "op", "") == "barrier" or (
        getattr(rank.items[-1], "site", "") == INSIDE
    ):
        rank.items.pop()


def _barrier_inside_join(kind: Barrier) -> Run:
    run = Run(world=2)
    zero, one = run
    for rank in run:
        train(rank, join=True, every_step=kind)
    joined(zero)
    shadow_one_batch(zero)
    shadow(zero, "count_nonjoined", 7)  # meets rank 1's sixth barrier
    if kind == "native":
        for rank, site in ((zero, JOIN), (one, INSIDE)):
            rank.wait(15)
            rank.exit("exception", error="RuntimeError", message=TIMEOUT, site=site)
        return run
    joined(one)
    shadow(one, "count_nonjoined", 7)
    if kind == "zeros":
        shadow(zero, "common_rank", 7, dtype="int64", reduce_op="MAX")
        shadow(one, "common_rank", 7, dtype="int64", reduce_op="MAX")
    else:
        shadow(zero, "sync_check", 7)
        shadow(zero, "count_nonjoined", 8)
        shadow(one, "common_rank", 7, dtype="int64", reduce_op="MAX")
    # gloo aborts the rank that gets more bytes than it awaits, and its peer loses it.
    raises = zero if kind == "zeros" else one
    raises.wait(0.5)
    raises.exit("exception", error="RuntimeError", message=LOST, site=JOIN)
    return run


def _barrier_after_loop(kind: Barrier) -> Run:
    run = Run(world=2)
    zero, one = run
    for rank in run:
        train(rank, join=False)
    barrier(zero, kind, AFTER, 5)
    for rank, site in ((zero, AFTER), (one, BACKWARD)):
        rank.wait(15)
        rank.exit("exception", error="RuntimeError", message=TIMEOUT, site=site)
    return run


_CASES: Final[dict[int, Callable[[Barrier], Run]]] = {
    1: lambda kind: _healthy(kind, at_the_end=False),
    2: lambda _: _without_join(None),
    3: _without_join,
    4: _barrier_inside_join,
    5: _barrier_after_loop,
    6: lambda kind: _healthy(kind, at_the_end=True),
}

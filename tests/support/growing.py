"""Logs of jobs that grow in one dimension: ``GROWING[name].write(folder, n)`` makes one of size n.

Each is something that a real job does: groups per request, a tag per message, a thread per
client. The work to read such a log, and each report of it, may grow as the log does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from collectrace.records import (
    Blind,
    FrameValues,
    KernelWait,
    Raised,
    Source,
    SourceFile,
    Stack,
    Unwaited,
    Values,
)
from tests.support.synthetic import SECOND, Run

_NEVER: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Growing:
    """One dimension; ``make`` returns a run of that size."""

    make: Callable[[int], Run]

    def write(self, folder: Path, n: int) -> None:
        self.make(n).write(folder)


def _run(world: int = 2, **fields: object) -> Run:
    return Run(world, texts=False, **fields)  # type: ignore[arg-type]


def _exits(run: Run) -> Run:
    run.finish()
    return run


def groups(n: int) -> Run:
    """Groups that are made, used and destroyed."""
    run = _run()
    for i in range(n):
        run.group(f"g{i}", [0, 1], description=f"request {i}", site="serve.py:7")
        run.all("all_reduce", f"g{i}")
        run.group(f"g{i}", [0, 1], phase="destroyed")
    return _exits(run)


def groups_that_differ(n: int) -> Run:
    """Groups in each of which the ranks' calls differ."""
    run = _run()
    for i in range(n):
        run.group(f"g{i}", [0, 1], site="serve.py:7")
        for rank in run:
            rank.call("all_reduce", f"g{i}", shape=[1 + rank.rank])
    return _exits(run)


def groups_left_open(n: int) -> Run:
    """Groups in each of which one rank waits for another that has ended."""
    run = _run()
    for i in range(n):
        run.group(f"g{i}", [0, 1], site="serve.py:7")
    calls = [run.rank(0).call("all_reduce", f"g{i}", async_=True) for i in range(n)]
    run.rank(1).exit()
    run.rank(0).beat(70, run.rank(0).inside(calls[-1]))
    run.rank(0).stall(*(run.rank(0).inside(c, "wait", f"T{i}") for i, c in enumerate(calls)))
    return run


def members_of_groups(n: int) -> Run:
    """n ranks, and a group of two for each neighbouring pair; each rank knows its own."""
    run = _run(n)
    for i in range(n):
        both = sorted({i, (i + 1) % n})
        name = f"{i:040x}"  # as torch names a group that its members alone make
        run.group(name, both, asked_by=both)
        for rank in both:
            run.rank(rank).call("all_reduce", name)
    return _exits(run)


def groups_asked_by_one(n: int) -> Run:
    """Groups whose creation one rank left out."""
    run = _run()
    for i in range(n):
        run.group(f"g{i}", [0, 1], asked_by=[0], site="serve.py:7")
    return _exits(run)


def sends(n: int) -> Run:
    """Unmatched sends, each with a tag of its own."""
    run = _run()
    for tag in range(n):
        run.rank(0).send(1, tag=tag)
    return _exits(run)


def sends_to_other_tags(n: int) -> Run:
    """Sends and receives that never meet, for each has a tag of its own."""
    run = _run()
    for i in range(n):
        run.rank(0).send(1, tag=2 * i, async_=True)
        run.rank(1).recv(0, tag=2 * i + 1, async_=True)
    return _exits(run)


def tags(n: int) -> Run:
    """Messages that meet, each with a tag of its own."""
    run = _run()
    for i in range(n):
        run.rank(0).send(1, tag=i)
        run.rank(1).recv(0, tag=i)
    return _exits(run)


def messages(n: int) -> Run:
    """Messages of one channel, the last of which does not fit."""
    run = _run()
    for i in range(n):
        run.rank(0).send(1)
        run.rank(1).recv(0, shape=[1 + (i == n - 1)])
    return _exits(run)


def messages_from_any(n: int) -> Run:
    """Messages that receives from any source take."""
    run = _run(3)
    for i in range(n):
        run.rank(1 + i % 2).send(0)
        run.rank(0).recv(-1, took=1 + i % 2)
    return _exits(run)


def messages_crossed(n: int) -> Run:
    """Messages between two ranks with a send each in flight, in opposite directions."""
    run = _run()
    for _ in range(n):
        for rank in run:
            rank.send(1 - rank.rank)
            rank.recv(1 - rank.rank)
    stuck = [rank.send(1 - rank.rank) for rank in run]
    for rank, call in zip(run, stuck, strict=True):
        rank.stuck_in(call)
    return run


def ring(n: int) -> Run:
    """A circle of n ranks, each waiting to receive from the one before."""
    run = _run(n)
    for rank in run:
        rank.stuck_in(rank.recv((rank.rank - 1) % n))
    return run


def threads(n: int) -> Run:
    """Threads in one heartbeat, each in a call to which the other rank does not come."""
    run = _run()
    for rank in run:
        calls = [rank.call("all_reduce", async_=True, thread=f"T{i}") for i in range(n)]
        mine = [rank.call("barrier", thread=f"T{i}") for i in range(n * (1 - rank.rank))]
        rank.alive(*(rank.inside(c, "wait", f"T{i}") for i, c in enumerate(mine or calls)))
        rank.stall(*(rank.inside(c, "wait", f"T{i}") for i, c in enumerate(mine or calls)))
        rank.beat(70, *(rank.inside(c, "wait", f"T{i}") for i, c in enumerate(mine[-9:])))
        rank.alive(*(rank.inside(c, "wait", f"T{i}") for i, c in enumerate(mine or calls)))
    return run


def threads_in_groups(n: int) -> Run:
    """Threads of two ranks, each waiting in a group for the next thread of the other."""
    run = _run()
    for i in range(n + 1):
        run.group(f"g{i}", [0, 1], site="serve.py:7")
    calls = [
        [r.call("all_reduce", f"g{i + r.rank}", thread=f"T{i}") for i in range(n)] for r in run
    ]
    for rank, those in zip(run, calls, strict=True):
        rank.beat(70)
        rank.alive(*(rank.inside(c, "call", f"T{i}") for i, c in enumerate(those)))
    return run


def threads_busy(n: int) -> Run:
    """Threads in one stall, with a stack each, and what the kernel says of each."""
    run = _run()
    for rank in run:
        call = rank.call("all_reduce")
        names = [f"T{i}" for i in range(n)]
        rank.stall(
            rank.inside(call),
            stacks={name: [f"serve.py:{i} worker", f"queue.py:{i} get"]
                    for i, name in enumerate(names)},
            waits=[KernelWait(thread=name, call="futex") for name in names],
            children=[KernelWait(pid=i, name="loader", state="S") for i in range(n)],
        )  # fmt: skip
    return run


def unwaited(n: int) -> Run:
    """Works that nobody waited for, from one line."""
    run = _run()
    for rank in run:
        for _ in range(n):
            call = rank.call("all_reduce", async_=True, site="train.py:9")
            rank.record(Unwaited(group="0", device="cpu", seq=call.seq, op=call.op, site=call.site))
    return _exits(run)


def unwaited_messages(n: int) -> Run:
    """Sends that nobody waited for, each with a tag of its own."""
    run = _run()
    for tag in range(n):
        run.rank(0).send(1, tag=tag, async_=True)
        run.rank(1).recv(0, tag=tag)
        run.rank(0).record(
            Unwaited(group="0", device="cpu", seq=1, op="send", peer=1, tag=tag, site="train.py:20")
        )
    return _exits(run)


def unwaited_lines(n: int) -> Run:
    """Works that nobody waited for, each from a line of its own."""
    run = _run()
    for rank in run:
        for i in range(n):
            call = rank.call("all_reduce", async_=True, site=f"train.py:{i + 1}")
            rank.record(Unwaited(group="0", device="cpu", seq=call.seq, op=call.op, site=call.site))
    return _exits(run)


def refused(n: int) -> Run:
    """Calls that torch refused."""
    run = _run()
    for rank in run:
        for _ in range(n):
            rank.refused("all_reduce")
        rank.call("all_reduce")
    return _exits(run)


def refused_on_one(n: int) -> Run:
    """Calls that one rank was refused, and the other made."""
    run = _run()
    for i in range(n):
        run.rank(0).refused("all_reduce", shape=[i + 1])
        run.rank(1).call("all_reduce", shape=[i + 1])
        run.all("barrier")
    return _exits(run)


def refused_messages(n: int) -> Run:
    """Sends that torch refused at first, each with a tag of its own."""
    run = _run()
    for tag in range(n):
        run.rank(0).refused("send", peer=1, tag=tag)
        run.rank(0).send(1, tag=tag)
        run.rank(1).recv(0, tag=tag)
    return _exits(run)


def failed(n: int) -> Run:
    """Calls that raised, the program going on."""
    run = _run()
    for rank in run:
        for i in range(n):
            call = rank.call("all_reduce")
            rank.done(call.seq, failed=True, error=f"RuntimeError: {i}")
    return _exits(run)


def reversed_calls(n: int) -> Run:
    """Calls, each unlike the others, that one rank makes in the opposite order."""
    run = _run()
    for rank in run:
        for i in range(n) if rank.rank else reversed(range(n)):
            rank.call("all_reduce", shape=[i + 1])
    return _exits(run)


def reversed_lines(n: int) -> Run:
    """Calls whose lines stand in the file in the opposite order."""
    run = _run(checkpoint=_NEVER)
    for rank in run:
        rank.calls(n, "all_reduce")
    run.finish()
    # Digests are given in the order in which the calls are written: give them before.
    for rank in run.ranks[1:]:
        head = [item for item in rank.items if getattr(item, "kind", "") == "group"]
        calls = [item for item in rank.items if getattr(item, "kind", "") == "call"]
        rank.items = [*head, *reversed(calls), rank.items[-1]]
    return run


def unlike_calls(n: int) -> Run:
    """Calls from n lines, of n shapes, on which the ranks agree."""
    run = _run()
    for i in range(n):
        run.all("all_reduce", shape=[i + 1], site=f"train.py:{i + 1}")
    return _exits(run)


def other_lines(n: int) -> Run:
    """Calls that the ranks make from different lines, each pair of lines once."""
    run = _run()
    for i in range(n):
        for rank in run:
            rank.call("all_reduce", site=f"{'ab'[rank.rank]}.py:{i + 1}")
    return _exits(run)


def roles(n: int) -> Run:
    """Calls of n parts of a model."""
    run = _run()
    for i in range(n):
        run.all("all_reduce", role="torchmetrics.sync", part=f"layer{i}", iteration=i + 1)
    return _exits(run)


def different_calls(n: int) -> Run:
    """Calls of which each differs in its shape from that of the other rank, with no end."""
    run = _run()
    for i in range(n):
        for rank in run:
            rank.call("all_reduce", shape=[1 + i + rank.rank])
    return _exits(run)


def harmless_differences(n: int) -> Run:
    """Calls that differ in what the backend does not check."""
    run = _run()
    for i in range(n):
        for rank in run:
            rank.call("all_reduce", shape=[[2, 3], [3, 2]][rank.rank], site=f"train.py:{i}")
    return _exits(run)


def ranks(n: int) -> Run:
    """Ranks that make ten calls each and finish."""
    run = _run(n)
    for _ in range(10):
        run.all("all_reduce")
    return _exits(run)


def ranks_waiting(n: int) -> Run:
    """Ranks that all wait for the last one, which has left a call out."""
    run = _run(n)
    run.all("all_reduce")
    for rank in run:
        if rank.rank == n - 1:
            rank.exit()
        else:
            rank.stuck_in(rank.call("barrier"))
    return run


def ranks_that_differ(n: int) -> Run:
    """Ranks of which each calls with a shape of its own."""
    run = _run(n)
    run.all("all_reduce")
    for rank in run:
        rank.call("all_reduce", shape=[rank.rank + 1], site=f"train.py:{rank.rank + 1}")
    return _exits(run)


def ranks_raising(n: int) -> Run:
    """Ranks of which each ends of an exception of its own."""
    run = _run(n)
    for rank in run:
        rank.call("all_reduce")
        rank.exit("exception", error="ValueError", message=f"bad {rank.rank}",
                  site=f"train.py:{rank.rank + 1}")  # fmt: skip
    return run


def hosts(n: int) -> Run:
    """Ranks of which each is on a host of its own, with another environment."""
    run = _run(n)
    for rank in run:
        rank.header = replace(
            rank.header, host=f"node{rank.rank}", env={"NCCL_DEBUG": str(rank.rank)},
            versions={"torch": f"2.{rank.rank}"}, cwd=f"/job/{rank.rank}",
        )  # fmt: skip
    run.all("all_reduce")
    return _exits(run)


def missing(n: int) -> Run:
    """A world of n ranks of which two left a file."""
    run = _run(2, default_group=False)
    for rank in run:
        rank.header = replace(rank.header, world_size=n)
    run.group("0", [0, 1])
    run.all("all_reduce")
    return _exits(run)


def missing_waited_for(n: int) -> Run:
    """A default group of n ranks, of which one left a file and waits for the others."""
    run = _run(1, default_group=False)
    rank = run.rank(0)
    rank.header = replace(rank.header, world_size=n)
    run.group("0", range(n))
    rank.stuck_in(rank.call("all_reduce"))
    return run


def raised(n: int) -> Run:
    """Exceptions that the program handled, from one line each."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.record(Raised(what="all_reduce", error="ValueError", message=f"m{i}",
                               site=f"train.py:{i + 1}"))  # fmt: skip
            rank.call("all_reduce")
    return _exits(run)


def raised_by_one(n: int) -> Run:
    """Exceptions of one rank, after which the ranks' calls differ."""
    run = _run()
    for i in range(n):
        run.rank(0).record(Raised(what="handled", error="ValueError", message=f"m{i}",
                                  site="train.py:3"))  # fmt: skip
        run.all("all_reduce")
    run.rank(0).call("all_reduce", shape=[2])
    run.rank(1).call("all_reduce", shape=[3])
    return _exits(run)


def heartbeats(n: int) -> Run:
    """Heartbeats and stalls of a long wait."""
    run = _run()
    run.all("all_reduce")
    call = run.rank(0).call("barrier")
    for rank in run:
        for _ in range(n):
            rank.wait(5)
            rank.alive(*([rank.inside(call)] if rank.rank == 0 else []))
            if rank.rank == 0:
                rank.stall(rank.inside(call), stacks={"MainThread": ["train.py:10 main"]})
    return run


def deep_stacks(n: int) -> Run:
    """Calls n functions below the script, of which one rank leaves the last one out."""
    run = _run()
    frames = [f"deep.py:{i + 1} f{i}" for i in range(n)]
    for rank in run:
        rank.record(Stack(stack=1, frames=frames, first_lines=list(range(1, n + 1))))
        rank.record(Stack(stack=2, frames=["deep.py:0 g", *frames]))
        rank.calls(3, "all_reduce", stack=1, site="deep.py:1")
    run.rank(0).stuck_in(run.rank(0).call("all_reduce", stack=2, site="deep.py:1"))
    run.rank(1).exit("exception", error="RecursionError", message="deep", site="deep.py:1",
                     through=frames, causes=[f"E: {i}" for i in range(n)])  # fmt: skip
    return run


def stacks(n: int) -> Run:
    """Calls, each with a stack of its own."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.record(Stack(stack=i + 1, frames=["a.py:10 f", f"b.py:{i + 1} g"]))
            rank.call("all_reduce", stack=i + 1, site="a.py:10")
    run.rank(0).stuck_in(run.rank(0).call("barrier", stack=1))
    run.rank(1).exit()
    return run


def pending(n: int) -> Run:
    """Asynchronous calls that are pending as the job hangs."""
    run = _run()
    for rank in run:
        calls = [rank.call("all_reduce", async_=True) for _ in range(n)]
        extra = [rank.call("all_reduce")] if rank.rank == 0 else []
        rank.alive(*(rank.inside(c, "device", "cpu") for c in calls), *map(rank.inside, extra))
        rank.beat(60, *map(rank.inside, extra))
    return run


def values(n: int) -> Run:
    """Values of n variables, of n functions."""
    run = _run()
    for rank in run:
        call = rank.call("all_reduce", shape=[1 + rank.rank])
        rank.stall(rank.inside(call))
        functions = [
            FrameValues(frame=f"train.py:{i + 1} f{i}", first_line=i + 1, values={f"v{i}": i})
            for i in range(n)
        ]
        functions[0].values.update({f"x{i}": i + rank.rank for i in range(n)})
        rank.record(Values(reason="stall", thread="MainThread", functions=functions))
    return run


def value_records(n: int) -> Run:
    """Records of values, one for each stall."""
    run = _run()
    for rank in run:
        call = rank.call("all_reduce", shape=[1 + rank.rank])
        for i in range(n):
            rank.record(Values(
                reason="stall", thread=f"T{i}",
                functions=[FrameValues(frame="train.py:1 f", first_line=1, values={"i": i})],
            ))  # fmt: skip
        rank.stall(rank.inside(call))
    return run


def joins(n: int) -> Run:
    """Contexts of ``join()``, entered and left."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.join("entered", group="0", joinables=["DistributedDataParallel"], site="t.py:3")
            rank.call("all_reduce", role="ddp.forward.notify_join", iteration=i + 1)
            rank.join("joined", group="0", joinables=["DistributedDataParallel"], site="t.py:3")
            rank.join("left", group="0", joinables=["DistributedDataParallel"], site="t.py:3")
    return _exits(run)


def no_syncs(n: int) -> Run:
    """Contexts of ``no_sync()``, entered and left, of which one rank left one out."""
    run = _run()
    for rank in run:
        for i in range(n):
            if rank.rank or i < n - 1:
                rank.no_sync("entered", site="t.py:3")
                rank.no_sync("left", site="t.py:3")
            rank.call("all_reduce", role="ddp.backward.bucket", iteration=i + 1)
    run.rank(0).call("all_reduce", role="ddp.backward.bucket", iteration=n + 1)
    return _exits(run)


def batches(n: int) -> Run:
    """Batches of loaders of n passes, and of epochs that were set."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.epoch(i * rank.rank, shuffle=True)
            rank.batch(1, length=1, site="t.py:3")
            rank.batch(1 + rank.rank, end=True, site="t.py:3")
            rank.call("all_reduce")
    return _exits(run)


def loaders(n: int) -> Run:
    """Loaders and samplers, one for each pass."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.epoch(rank.rank, shuffle=True, sampler=i, site=f"t.py:{i + 1}")
            rank.batch(1, loader=i, length=1, site=f"t.py:{i + 1}")
            rank.batch(1 + rank.rank, loader=i, end=True, site=f"t.py:{i + 1}")
            rank.call("all_reduce")
    return _exits(run)


def syncs(n: int) -> Run:
    """Waits for a device."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.sync(SECOND, site=f"t.py:{i + 1}")
            rank.call("all_reduce")
    return _exits(run)


def blind_spots(n: int) -> Run:
    """Things that communicate and are not recorded."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.record(Blind(name=f"lib{i}", what=f"call{i}"))
    run.all("all_reduce")
    return _exits(run)


def files_of_source(n: int) -> Run:
    """Files that the program's code lies in, of other texts on each rank."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.record(SourceFile(path=f"m{i}.py", sha256=f"{i * 2 + rank.rank:064x}", size=9))
            rank.record(Source(site=f"m{i}.py:1", lines=["1 x = 1"]))
    for rank in run:
        rank.call("all_reduce", shape=[1 + rank.rank])
    return _exits(run)


def models(n: int) -> Run:
    """DDP models, of which one rank leaves the last one's bucket out."""
    run = _run()
    for i in range(n):
        run.all("all_gather", role="ddp.init.verify_shapes", model=i + 1, site="t.py:3")
        run.all("broadcast", role="ddp.init.sync_params", model=i + 1, site="t.py:3")
    for rank in run:
        for i in range(n - rank.rank):
            rank.call("all_reduce", role="ddp.backward.bucket", model=i + 1, iteration=i + 1)
    run.rank(0).beat(60)
    return run


def gaps(n: int) -> Run:
    """Lines that are lost, one behind every call."""
    run = _run()
    for rank in run:
        for i in range(n):
            rank.call("all_reduce")
            rank.call("all_reduce", lost=bool(i % 2 == rank.rank))
    return _exits(run)


def damaged(n: int) -> Run:
    """Lines that cannot be read."""
    run = _run()
    for rank in run:
        for _ in range(n):
            rank.raw(b'{"kind":"call","t":12,"se\n')
            rank.call("all_reduce")
    return _exits(run)


def doubled(n: int) -> Run:
    """Numbers of calls that contradict each other."""
    run = _run(checkpoint=_NEVER)
    for rank in run:
        for i in range(n):
            rank.call("all_reduce")
            rank.call("all_reduce", shape=[2], seq=max(1, i))
    return _exits(run)


def iterations(n: int) -> Run:
    """Iterations of a loop, in the last of which one rank skips a call."""
    run = _run()
    for rank in run:
        for i in range(n):
            for bucket in range(3):
                if rank.rank or bucket or i < n - 1:
                    rank.call("all_reduce", shape=[bucket + 1], iteration=i + 1,
                              site=f"train.py:{bucket + 1}")  # fmt: skip
    for rank in run:
        rank.stuck_in(rank.call("barrier"))
    return run


def skipped_each(n: int) -> Run:
    """Calls of which one rank skips every third."""
    run = _run()
    for rank in run:
        for i in range(n):
            for site in range(3):
                if rank.rank or site:
                    rank.call("all_reduce", shape=[site + 1], iteration=i + 1,
                              site=f"train.py:{site + 1}")  # fmt: skip
    return _exits(run)


def segments(n: int) -> Run:
    """Segments of a rank's file."""
    run = _run(segment=4096, checkpoint=2048)
    for rank in run:
        rank.calls(10 * n, "all_reduce")
    return _exits(run)


def exchanges(n: int) -> Run:
    """all_to_alls whose splits differ from call to call, the last ones not fitting."""
    run = _run()
    for i in range(n):
        for rank in run:
            last = i == n - 1 and rank.rank
            rank.call("all_to_all_single", shape=[i + 2], splits=[[1, i + 1], [1, i + 2 + last]]
                      if rank.rank == 0 else [[i + 2, 1], [i + 1, 1 + last]])  # fmt: skip
    return _exits(run)


GROWING: Final = {
    make.__name__: Growing(make)
    for make in (
        groups, groups_that_differ, groups_left_open, members_of_groups,
        groups_asked_by_one, sends, sends_to_other_tags, tags, messages,
        messages_from_any, messages_crossed, ring, threads, threads_in_groups,
        threads_busy, unwaited, unwaited_messages, unwaited_lines, refused,
        refused_on_one, refused_messages, failed, reversed_calls, reversed_lines,
        unlike_calls, other_lines, roles, different_calls, harmless_differences, ranks,
        ranks_waiting, ranks_that_differ, ranks_raising, hosts, missing,
        missing_waited_for, raised, raised_by_one, heartbeats, deep_stacks, stacks,
        pending, values, value_records, joins, no_syncs, batches, loaders, syncs,
        blind_spots, files_of_source, models, gaps, damaged, doubled, iterations,
        skipped_each, segments, exchanges,
    )
}  # fmt: skip

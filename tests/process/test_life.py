"""Signs of life: what is complete, what a thread is in; and what watching must not cost."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from typing import Any, Final

import torch
import torch.distributed as dist

import collectrace
from collectrace.records import Activity, Alive, Done, Record
from collectrace.tracer.switch import current
from tests.support.real_ranks import Log, Ranks

LATE: Final = 1.2
"""Seconds that rank 1 comes late; the runner's heartbeat is 0.3 s."""


def dones(log: Log) -> list[tuple[str, int]]:
    """Watermarks, in the order of the file."""
    return [(d.op or "", d.seq) for d in log.of(Done) if not d.failed]


def inside(log: Log) -> list[Activity]:
    """What the main thread was in, at each heartbeat that found it in something."""
    return [a for beat in log.of(Alive) for a in beat.in_ if a.thread == "MainThread"]


# -- done and in ----------------------------------------------------------------------------


def one_comes_late() -> None:
    rank = dist.get_rank()

    def wait_for_it() -> None:
        if rank == 1:
            time.sleep(LATE)

    dist.all_reduce(torch.ones(1))
    wait_for_it()
    dist.barrier()  # 2: in a call
    wait_for_it()
    works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(100)]  # 3 .. 102
    for work in works:
        assert work is not None
        work.wait()  # the first of many
    polled = dist.all_reduce(torch.ones(1), async_op=True)  # 103: nobody waits, it is asked
    large = dist.all_reduce(torch.ones(20 << 20), async_op=True)  # 104: too large to be held
    assert large is not None
    large.wait()
    time.sleep(LATE)
    assert polled is not None
    del polled
    wait_for_it()
    if rank == 0:
        dist.recv(torch.ones(1), 1)
    else:
        dist.send(torch.ones(1), 0)
    time.sleep(LATE / 2)


def test_what_is_complete_and_what_is_waited_for(ranks: Ranks) -> None:
    ran = ranks.run(one_comes_late)
    waiting, late = ran.log(0), ran.log(1)
    for log in (waiting, late):
        marks = [seq for op, seq in dones(log) if not op]
        assert marks == sorted(set(marks)), "each once, and upwards"
        assert marks[-1] == 104
    told = [(a.what, a.op, a.seq) for a in inside(waiting)]
    assert ("call", "barrier", 2) in told
    assert ("wait", "all_reduce", 3) in told
    assert ("call", "recv", 1) in told
    # A heartbeat may see the late one in there, too, but not for long.
    seen = [sum(a.op == "barrier" for a in inside(log)) for log in (late, waiting)]
    assert seen[0] < seen[1]
    # A watermark never runs ahead of what is still waited for.
    passed = 0
    for record in waiting.records:
        if isinstance(record, Done) and not record.op and not record.failed:
            passed = record.seq
        elif isinstance(record, Alive):
            assert all(a.seq is None or a.peer is not None or a.seq > passed for a in record.in_)
    for rank, op in ((0, "recv"), (1, "send")):
        assert (op, 1) in dones(ran.log(rank))
    assert all(a.site and a.site.startswith(__file__) for a in inside(waiting) if a.seq)


# -- memory ---------------------------------------------------------------------------------


def many_works() -> dict[str, Any]:
    """Works the user drops, waits for, or keeps; none of their tensors outlives its use."""
    seen: list[weakref.ref[torch.Tensor]] = []

    def issue(count: int, *, wait: bool) -> None:
        for _ in range(count):
            tensor = torch.ones(1 << 18)
            seen.append(weakref.ref(tensor))
            work = dist.all_reduce(tensor, async_op=True)
            if wait and work is not None:
                work.wait()

    def resident() -> int:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - one line
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    issue(50, wait=True)
    before = resident()
    peak = 0
    for _ in range(10):
        issue(50, wait=True)
        issue(50, wait=False)
        dist.barrier()
        gc.collect()
        peak = max(peak, sum(reference() is not None for reference in seen))
    grown = resident() - before
    dist.barrier()
    time.sleep(LATE)
    gc.collect()
    recorder = current().recorder  # type: ignore[union-attr]
    assert recorder is not None
    left = [
        counter for group in recorder.book.states.values() for counter in group.streams.values()
    ]
    return {
        "alive": sum(reference() is not None for reference in seen),
        "peak": peak,
        "grown": grown,
        "open": sum(len(counter.open) for counter in left),
    }


def test_no_tensor_is_kept_alive(ranks: Ranks) -> None:
    ran = ranks.run(many_works)
    for rank in range(2):
        found = ran.result(rank)
        assert found["alive"] == 0
        assert found["peak"] < 70, "of 1000 tensors"
        assert found["grown"] < 150 << 20, "of 1 GiB"
        assert found["open"] < 200, "of 1050: a work that was let go is not waited for for ever"


# -- the thread -----------------------------------------------------------------------------


def watching() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "collectrace"]


def forks_and_stops() -> int:
    assert watching() == ["collectrace"]
    dist.barrier()
    pid = os.fork()
    if pid == 0:
        # The child has no such thread, no file, and its end is not its parent's.
        recorder = current().recorder  # type: ignore[union-attr]
        os._exit(10 if recorder is None and not watching() else 11)
    _, status = os.waitpid(pid, 0)
    time.sleep(LATE)
    dist.barrier()
    collectrace.disable()
    assert watching() == []
    dist.barrier()  # not recorded any more
    collectrace.disable()
    return os.waitstatus_to_exitcode(status)


def test_the_thread_survives_a_fork_and_ends_with_disable(ranks: Ranks) -> None:
    ran = ranks.run(forks_and_stops)
    for rank in range(2):
        assert ran.result(rank) == 10
        log = ran.log(rank)
        assert [call.seq for call in log.calls] == [1, 2]
        beats: list[Record] = list(log.of(Alive))
        assert len(beats) >= 2
        assert [beat.t for beat in beats] == sorted(beat.t for beat in beats)
        assert log.exit is not None
        assert log.exit.reason == "disabled"
        assert log.records[-1] is log.exit


def a_thread_of_its_own() -> None:
    """Another thread is in a collective while the main one is in nothing, and at the exit."""
    group = dist.new_group([0, 1])
    dist.barrier()

    def wait() -> None:
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(1), group=group)

    thread = threading.Thread(target=wait, name="evaluator", daemon=True)
    thread.start()
    time.sleep(LATE)
    dist.barrier()
    os._exit(0)  # gloo's destructor would wait for the thread


LEAVES: Final = """
import os, threading, time, torch, torch.distributed as dist
import collectrace; collectrace.enable(heartbeat=0.1)
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store", rank=0, world_size=1)
dist.all_reduce(torch.ones(1))
works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(20)]
assert [t.name for t in threading.enumerate() if not t.daemon] == ["MainThread"]
# What gloo frees while the interpreter ends aborts the process, untraced as well.
while not all(work.is_completed() for work in works): time.sleep(0.01)
print("leaving", flush=True)
"""


def test_tracing_keeps_no_process_alive(ranks: Ranks) -> None:
    """With a group that was never destroyed, and works that were never waited for."""
    ran = ranks.script(LEAVES)
    assert ran.output().splitlines()[0] == "leaving"
    [log] = ran.files
    assert log.exit is not None
    assert (log.exit.reason, log.exit.calls) == ("finished", 21)


def test_another_threads_call_is_seen_from_outside(ranks: Ranks) -> None:
    ran = ranks.run(a_thread_of_its_own, limit=20)
    told = {(a.thread, a.what, a.op, a.group) for beat in ran.log(0).of(Alive) for a in beat.in_}
    assert ("evaluator", "call", "all_reduce", "1") in told
    assert not [a for a in inside(ran.log(0)) if a.op == "all_reduce"]

"""The code in C that records calls writes the same bytes as that in Python, but for times."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

import collectrace
from collectrace.tracer.record import scopes
from collectrace.tracer.switch import current
from collectrace.tracer.tap import compiled
from tests.support import op_rows_c10d, op_rows_functional, op_rows_group
from tests.support.op_table import WORLD, walk
from tests.support.real_ranks import ROOT, Ran, Ranks
from tools import build_native

pytestmark = pytest.mark.skipif(
    not (ROOT / build_native.target()).exists(),
    reason="not built: run tools/build_native.py where there is a compiler",
)

CODES: Final = ("python", "c")


def lines(ran: Ran, rank: int, *kinds: str) -> list[bytes]:
    """The lines of these kinds in all segments of a rank, without their times."""
    begin = tuple(b'{"kind":"%b"' % kind.encode() for kind in kinds)
    return [
        re.sub(rb'"t":\d+', b'"t":0', line)
        for path in sorted(ran.logs.rglob(f"rank{rank:05}*.jsonl"))
        for line in path.read_bytes().splitlines()
        if line.startswith(begin)
    ]


def both(
    ranks: Ranks,
    function: Callable[..., Any],
    size: int,
    *args: Any,
    env: Any = None,
    **options: Any,
) -> list[Ran]:
    """Run on ranks that record in Python, and on ranks that record in C; what each left."""
    runs = []
    for code in CODES:
        given = {**(env or {}), "COLLECTRACE_NATIVE": str(int(code == "c"))}
        ran = ranks.run(function, size, *args, env=given, **options)
        heads = [path.read_bytes().splitlines()[0] for path in ran.logs.rglob("*.jsonl")]
        assert {orjson.loads(head)["code"] for head in heads} == {code}
        runs.append(ran)
    return runs


def agree(
    ranks: Ranks, function: Callable[..., Any], size: int, *args: Any, **options: Any
) -> list[bytes]:
    """Hold both to the same calls; those of rank 0."""
    runs = both(ranks, function, size, *args, **options)
    for rank in range(size):
        in_python, in_c = (lines(ran, rank, "call", "raised", "outside") for ran in runs)
        assert in_c == in_python
    return lines(runs[1], 0, "call")


# -- every call that torch has --------------------------------------------------------------


@pytest.mark.parametrize("table", [op_rows_c10d, op_rows_functional, op_rows_group])
def test_every_row_of_the_op_table(table: Any, ranks: Ranks) -> None:
    assert agree(ranks, walk, len(WORLD), table.__name__, limit=100)


def models() -> None:
    """Two models that share a group, iterations, messages, splits, a batch and a deep stack."""
    torch.manual_seed(0)
    rank, size = dist.get_rank(), dist.get_world_size()
    both_models = [DistributedDataParallel(nn.Linear(4, 4)) for _ in range(2)]
    for step in range(4):
        for model in both_models:
            model(torch.ones(2, 4)).sum().backward()
        if step > 1:
            out = torch.zeros(size)
            dist.all_to_all_single(out, torch.ones(size))
            dist.all_to_all([torch.zeros(1) for _ in range(size)], list(torch.ones(size, 1)))
        peer = (rank + 1) % size
        sends = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, torch.ones(2), peer),
             dist.P2POp(dist.irecv, torch.ones(2), (rank - 1) % size)]
        )  # fmt: skip
        for one in sends:
            one.wait()
        deep(12, lambda: dist.all_reduce(torch.ones(3, dtype=torch.int64), op=dist.ReduceOp.MAX))
        dist.all_gather_object([None] * size, {"step": step})
        pending = dist.broadcast(torch.ones(1), 0, async_op=True)
        assert pending is not None
        pending.wait()


def deep(levels: int, call: Callable[[], Any]) -> None:
    if levels:
        deep(levels - 1, call)
    else:
        call()


def test_models_messages_and_splits(ranks: Ranks) -> None:
    calls = agree(ranks, models, 2)
    assert any(b'"pairs":' in line for line in calls)
    assert any(b'"iteration":4' in line for line in calls)
    assert any(b'"model":' in line for line in calls)


# -- what may come between ------------------------------------------------------------------


def handled_and_raised() -> None:
    for n in range(3):
        try:
            dist.all_reduce(torch.ones(n), group=dist.new_group([0]))
            dist.broadcast(torch.ones(n), 5)
        except (ValueError, RuntimeError):
            dist.all_reduce(torch.ones(n + 1))
    with pytest.raises(TypeError):
        dist.all_reduce("no tensor")


def test_exceptions(ranks: Ranks) -> None:
    assert agree(ranks, handled_and_raised, 1)


def outside_of_the_group() -> None:
    mine, other = (dist.new_group([rank]) for rank in (dist.get_rank(), 1 - dist.get_rank()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for group in (mine, other, other):
            dist.all_reduce(torch.ones(1), group=group)
        dist.barrier(other)
        assert dist.all_reduce(torch.ones(1), group=other, async_op=True) is None


def test_calls_that_torch_ignores(ranks: Ranks) -> None:
    runs = both(ranks, outside_of_the_group, 2)
    for ran in runs:
        found = [orjson.loads(line) for line in lines(ran, 1, "outside")]
        assert [one["op"] for one in found] == ["all_reduce", "barrier", "all_reduce"]
        assert len({one["site"] for one in found}) == 3
        assert len(lines(ran, 1, "call")) == 1


def in_threads(count: int) -> None:
    """Threads that take turns, each on a group of its own; then all at once."""
    groups = [dist.new_group([0]) for _ in range(count)]

    def work(group: Any) -> None:
        for n in range(1, 200):
            dist.all_reduce(torch.ones(n % 3 + 1), group=group)

    for group in groups:
        one = threading.Thread(target=work, args=(group,), name="worker")
        one.start()
        one.join()
    together = [threading.Thread(target=work, args=(dist.group.WORLD,)) for _ in range(count)]
    for one in together:
        one.start()
    for one in together:
        one.join()


def test_threads(ranks: Ranks) -> None:
    runs = both(ranks, in_threads, 1, 4)
    alone = re.compile(rb'"thread":"worker"')
    in_python, in_c = ([one for one in lines(ran, 0, "call") if alone.search(one)] for ran in runs)
    assert in_c == in_python
    assert len(in_c) == 4 * 199
    for ran in runs:  # at once: in no order, but each number once, and in the order of the file
        log = ran.log()
        assert [c.seq for c in log.calls if c.group == "0"] == list(range(1, 4 * 199 + 1))


def rotated() -> int:
    for n in range(30_000):
        dist.all_reduce(torch.ones(n % 5 + 1))
    session = current()
    assert session is not None
    assert session.recorder is not None
    return session.recorder.writer.rotated


def test_rotation_and_checkpoints(ranks: Ranks) -> None:
    env = {"COLLECTRACE_MAX_BYTES": "2M", "COLLECTRACE_HEARTBEAT": "600"}
    runs = both(ranks, rotated, 1, env=env)
    assert runs[0].result() == runs[1].result() > 0
    names = [[path.name for path in sorted(ran.logs.rglob("rank*.jsonl"))] for ran in runs]
    assert names[0] == names[1]
    first, second = ([re.sub(rb'"bytes":\d+', b"", x) for x in lines(ran, 0, "call", "checkpoint")]
                     for ran in runs)  # fmt: skip
    # A header has another length, and a time may have another digit: a segment may end one line
    # earlier. So the lines of both are compared where both still have them.
    assert set(map(bytes, first)) & set(map(bytes, second))
    assert [x for x in first if b'"call"' in x][-1000:] == [x for x in second if b'"call"' in x][
        -1000:
    ]


def full() -> list[int]:
    """Calls while the file takes only part of a line, then nothing, then everything again."""
    import resource

    session = current()
    assert session is not None
    assert session.recorder is not None
    writer = session.recorder.writer
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for n in range(8):
        if n == 2:
            end = os.fstat(writer.fd).st_size + 50
            resource.setrlimit(resource.RLIMIT_FSIZE, (end, resource.RLIM_INFINITY))
        if n == 5:
            everything = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_FSIZE, everything)
            writer._retry_at = 0
        dist.all_reduce(torch.ones(n % 2))
    return [writer.dropped, session.recorder.calls, session.recorder.failures]


def test_a_file_that_takes_part_of_a_line(ranks: Ranks) -> None:
    runs = both(ranks, full, 1, env={"COLLECTRACE_HEARTBEAT": "600", "COLLECTRACE_SOURCES": "off"})
    assert runs[0].result() == runs[1].result() == [3, 8, 0]
    assert lines(runs[0], 0, "call") == lines(runs[1], 0, "call")


def forked() -> int:
    dist.all_reduce(torch.ones(1))
    child = os.fork()
    if not child:
        os._exit(current().recorder is not None)  # type: ignore[union-attr]
    dist.all_reduce(torch.ones(2))
    return os.waitpid(child, 0)[1]


def test_a_fork(ranks: Ranks) -> None:
    runs = both(ranks, forked, 1)
    assert [ran.result() for ran in runs] == [0, 0]
    assert lines(runs[0], 0, "call") == lines(runs[1], 0, "call")


def handlers_that_call(times: int) -> list[int]:
    """A handler issues calls of its own, wherever the program is."""
    seen = [0]

    def handler(*_: object) -> None:
        seen[0] += 1
        dist.all_reduce(torch.ones(2))

    signal.signal(signal.SIGALRM, handler)
    count = 0
    while seen[0] < times:
        if signal.getitimer(signal.ITIMER_REAL)[0] == 0:
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + count % 10 * 0.00001)
        dist.all_reduce(torch.ones(1))
        count += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    return [count, seen[0]]


def test_a_handler_that_issues_calls(ranks: Ranks) -> None:
    ran = ranks.run(handlers_that_call, 1, 1000)
    count, seen = ran.result()
    calls = ran.calls()
    assert sorted(call.seq for call in calls) == list(range(1, count + seen + 1))
    assert sum(call.shape == [2] for call in calls) == seen
    assert ran.log().exit.failures == 0  # type: ignore[union-attr]


def finalizers_that_call(times: int) -> list[int]:
    """Finalizers issue calls of their own, wherever the collector happens to run.

    On the ``fake`` backend: gloo hangs if one runs while it enqueues a call, traced or not.
    """
    if not dist.is_initialized():
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    seen = [0]

    class Circle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            seen[0] += 1
            dist.all_reduce(torch.ones(2))

    gc.freeze()  # or it would look at all of torch's each time
    for n in range(times):
        Circle()
        gc.set_threshold(n % 20 + 1, 1000, 1000)
        dist.all_reduce(torch.ones(1))
    gc.set_threshold(700)
    while seen[0] < times:  # another thread may be the one that collects
        gc.collect()
    gc.unfreeze()
    return [times, seen[0]]


def test_a_finalizer_that_issues_calls(ranks: Ranks) -> None:
    ran = ranks.run(finalizers_that_call, 1, 2000, init=False)
    count, seen = ran.result()
    assert seen == count
    assert sorted(call.seq for call in ran.calls()) == list(range(1, count + seen + 1))
    assert ran.log().exit.failures == 0  # type: ignore[union-attr]


# -- kernels in C++ ---------------------------------------------------------------------------


def kernels() -> str:
    return torch._C._dispatch_dump("c10d::allreduce_")


@pytest.mark.skipif(not compiled.path().exists(), reason="not built for this torch")
def test_the_compiled_kernels_are_used(ranks: Ranks) -> None:
    told = [ran.result() for ran in both(ranks, kernels, 1)]
    assert ["_tap.cpp" in one for one in told] == [False, True]


def disabled_within() -> str:
    """End tracing on one thread while another is inside of an operator, which then raises."""
    done = torch.distributed.distributed_c10d._get_default_store()
    if dist.get_rank():
        done.wait(["done"])
        return ""
    raised = []

    def wait() -> None:
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=3))
        except RuntimeError as problem:
            raised.append(str(problem))

    thread = threading.Thread(target=wait)
    thread.start()
    while not any(state.call for state in scopes.all_states()):
        time.sleep(0.01)
    collectrace.disable()
    assert thread.is_alive()
    thread.join()
    done.set("done", "")
    return raised[0]


def test_tracing_may_end_while_an_operator_runs(ranks: Ranks) -> None:
    for ran in both(ranks, disabled_within, 2, limit=60):
        assert "Rank 1 failed to pass monitoredBarrier" in ran.result()


# -- memory ---------------------------------------------------------------------------------


def references(calls: int) -> list[Any]:
    """How much the counts of what a call touches have grown, and the memory."""
    from tools.bench_parts.common import resident

    session = current()
    assert session is not None
    recorder: Any = session.recorder
    tensor = torch.ones(2)
    held: list[Any] = []
    before: list[int] = []
    began = 0
    for some in (1, calls // 10, calls):  # all from one line: they share one template
        if some == calls:
            before, began = [sys.getrefcount(one) for one in held], resident()
        for _ in range(some):
            dist.all_reduce(tensor)
        if not held:
            group = recorder.book.states[dist.group.WORLD]
            ((key, template),) = group.templates.items()
            held += [
                None, True, False, tensor, group, template, template.body, template.stream,
                template.counter, recorder, *key, recorder.writer, recorder.lock, recorder.issue,
                dist.group.WORLD,
            ]  # fmt: skip
    grown = [sys.getrefcount(one) - n for one, n in zip(held, before, strict=True)]
    return [max(grown), min(grown), resident() - began]


@pytest.mark.parametrize("calls", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_nothing_is_kept(calls: int, ranks: Ranks) -> None:
    env = {"COLLECTRACE_MAX_BYTES": "16M"}
    most, least, bytes_ = ranks.run(references, 1, calls, env=env, limit=500).result()
    assert most < 50  # small numbers and None come and go
    assert least > -50
    assert bytes_ < 2 << 20


SANITIZED: Final = """
import sys, importlib.util
from collectrace.tracer.record import native
assert native.chosen(wanted=True).name == "c"
from tests.process import test_native
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
import collectrace
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
with collectrace.trace("logs", max_bytes="1M", native=True):
    test_native.in_threads(2)
    test_native.rotated()
    test_native.handlers_that_call(200)
    test_native.finalizers_that_call(500)
    test_native.deep(40, lambda: dist.all_reduce(test_native.torch.ones(1)))
with collectrace.trace("logs", native=True):
    test_native.full()
print("done")
"""


@pytest.mark.slow
def test_address_sanitizer_finds_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(
        ROOT / "collectrace", copy / "collectrace", ignore=shutil.ignore_patterns("*.so")
    )
    for name in ("tests", "tools"):
        (copy / name).symlink_to(ROOT / name)
    problem = build_native.build(
        copy / build_native.target(), "-g", "-O1", "-fsanitize=address,undefined"
    )
    assert problem is None
    # With the library of C++, which throws: the sanitizer looks for that function at the start.
    libraries = [
        subprocess.run(
            ["cc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    environment = os.environ | {
        "PYTHONPATH": str(copy), "LD_PRELOAD": " ".join(libraries), "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1",
        "COLLECTRACE_ANNOUNCE": "0",
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", SANITIZED], cwd=tmp_path, env=environment, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.endswith("done\n")
    assert "Sanitizer" not in ran.stdout

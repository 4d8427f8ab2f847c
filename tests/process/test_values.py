"""What variables held when a rank stalled, failed, or was interrupted, as its file tells it."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace.records import (
    ASKED,
    ENDED,
    INTERRUPTED,
    STALLED,
    FrameValues,
    Stall,
    Values,
    decode,
    encode,
)
from tests.process.test_failures import failing
from tests.process.test_online import BEGIN
from tests.support import trainings
from tests.support.apart import Apart
from tests.support.real_ranks import Log, Ranks, read_log

# The runner's heartbeat is 0.3 s and its stall_after 2 s.
LONG: Final = 4.0
BYTES: Final = 24 << 10

TOKEN: Final = "token-" + "4f2a"

BOTH_CODES: Final = pytest.mark.parametrize("native", ["0", "1"])
"""Calls recorded by the code in Python, and by that in C if it was built."""


def names(record: Values) -> list[str]:
    """The functions that were read."""
    return [f.frame.rpartition(" ")[2] for f in record.functions]


def read(log: Log, reason: str, name: str, thread: str = "MainThread") -> Values:
    """The first record for this reason with this function: a busy machine stalls before, too."""
    found = [v for v in log.of(Values) if (v.reason, v.thread) == (reason, thread)]
    return next(v for v in found if name in names(v))


def function(log: Log, reason: str, name: str, thread: str = "MainThread") -> FrameValues:
    record = read(log, reason, name, thread)
    return record.functions[names(record).index(name)]


def held(log: Log, reason: str, name: str, thread: str = "MainThread") -> dict[str, Any]:
    """The values of one function."""
    return function(log, reason, name, thread).values


# -- a stall ---------------------------------------------------------------------------------


def one_is_late() -> None:
    settled, loss = torch.tensor(5.0), torch.tensor(float("nan"))
    for step in range(1, 4):
        if dist.get_rank() == 1 and step == 3:
            time.sleep(LONG)
        dist.all_reduce(loss)
    assert settled


@BOTH_CODES
def test_both_sides_of_a_stall(ranks: Ranks, native: str) -> None:
    ran = ranks.run(one_is_late, env={"COLLECTRACE_NATIVE": native})
    for rank in range(2):
        found = read(ran.log(rank), STALLED, "one_is_late")
        here = function(ran.log(rank), STALLED, "one_is_late")
        line = one_is_late.__code__.co_firstlineno
        assert here.first_line == line
        assert here.frame == f"{__file__}:{line + 4 + (rank == 0)} one_is_late"
        assert here.values["step"] == 3
        tensor = {"type": "Tensor", "dtype": "float32", "shape": []}
        assert here.values["settled"] == {**tensor, "value": 5.0}
        waits = {"unsettled": True} if rank == 0 else {}
        assert here.values["loss"] == {**tensor, "value": "nan", **waits}
        assert here.left_out == found.functions_left_out == found.threads_left_out == 0
        # The stall itself comes first: it must not wait for this.
        kinds = [type(r) for r in ran.log(rank).records if isinstance(r, Stall | Values)]
        assert kinds[:2] == [Stall, Values]


def writes(work_on: str) -> None:
    settled, same = torch.tensor(5.0), torch.tensor(7)
    summed, gathered = torch.tensor(1.0), [torch.tensor(n) for n in range(2)]
    first = gathered[0]
    work: Any = dist.all_reduce(summed, async_op=True)
    work.wait()
    if dist.get_rank() == 1:
        time.sleep(LONG)
    if work_on == "all_gather":
        work = dist.all_gather(gathered, torch.tensor(3), async_op=True)
    elif work_on == "all_reduce":
        work = dist.all_reduce(summed, async_op=True)
    else:
        work = dist.isend(same, 0) if dist.get_rank() else dist.irecv(first, 1)
    work.wait()
    assert settled or same or first


@pytest.mark.parametrize(
    ("op", "pending"),
    [("all_reduce", {"summed"}), ("all_gather", {"first", "same"}), ("irecv", {"first", "same"})],
)
def test_what_an_asynchronous_call_may_write_is_not_settled(
    ranks: Ranks, op: str, pending: set[str]
) -> None:
    """Of some the buffer is known, of others its kind and size."""
    found = held(ranks.run(writes, 2, op).log(0), STALLED, "writes")
    unsettled = {name for name, x in found.items() if isinstance(x, dict) and "unsettled" in x}
    assert unsettled == pending
    assert found["settled"]["value"] == 5.0


def waits_in_backward() -> None:
    model = DistributedDataParallel(nn.Linear(4, 4))
    loss = model(torch.ones(2, 4)).sum() * 0
    if dist.get_rank() == 1:
        time.sleep(LONG)
    loss.backward()


def test_the_loss_of_a_backward_that_hangs_is_settled(ranks: Ranks) -> None:
    ran = ranks.run(waits_in_backward)
    found = held(ran.log(0), STALLED, "waits_in_backward")
    assert found["loss"]["value"] == 0.0
    assert "unsettled" not in found["loss"]
    assert read(ran.log(0), STALLED, "waits_in_backward").iteration == 1


def trains_and_stalls() -> Any:
    model = DistributedDataParallel(trainings.net(norm=True))
    found = [trainings.train(model, dist.get_rank())]
    if dist.get_rank() == 1:
        time.sleep(LONG)
    found.append(trainings.train(model, dist.get_rank()))
    return found


def test_the_results_are_the_same_with_and_without_values(ranks: Ranks) -> None:
    on, off = (ranks.run(trains_and_stalls, env={"COLLECTRACE_VALUES": v}) for v in ("all", "0"))
    for rank in range(2):
        assert on.result(rank) == off.result(rank)
        assert on.log(rank).of(Values)
        assert off.log(rank).of(Stall)
        assert not off.log(rank).of(Values)


# -- threads ---------------------------------------------------------------------------------


def in_c(number: int) -> None:
    time.sleep(LONG)


def in_python(number: int) -> None:
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        number = number * 1


def holding_a_lock(number: int) -> None:
    mine, others = threading.Lock(), threading.Lock()
    with mine, others:
        others.acquire(timeout=LONG)


def three_threads() -> None:
    jobs = (in_c, in_python, holding_a_lock)
    groups = [dist.new_group([0, 1]) for _ in jobs]

    def work(n: int) -> None:
        dist.all_reduce(torch.ones(1), group=groups[n])
        jobs[n](n)

    threads = [threading.Thread(target=work, args=(n,), name=f"thread {n}") for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_in_c_in_python_and_under_a_lock(ranks: Ranks) -> None:
    log = ranks.run(three_threads).log()
    for n, job in enumerate((in_c, in_python, holding_a_lock)):
        assert held(log, STALLED, job.__name__, f"thread {n}")["number"] == n
    assert held(log, STALLED, "three_threads")["groups"] == {"type": "list", "len": 3}


def many_threads() -> None:
    group = dist.new_group([0, 1])
    source = "\n".join(
        ["def waits(begun, go_on):", *(f"    name_{n} = {n}" for n in range(500)),
         "    begun.release()", "    go_on.wait()"]
    )  # fmt: skip
    made: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), made)
    begun, go_on, one_by_one = threading.Semaphore(0), threading.Event(), threading.Lock()

    def work() -> None:
        with one_by_one:
            dist.all_reduce(torch.ones(1), group=group)
        made["waits"](begun, go_on)

    threads = [threading.Thread(target=work) for _ in range(60)]
    for thread in threads:
        thread.start()
    for _ in threads:
        begun.acquire()
    time.sleep(LONG)
    go_on.set()
    for thread in threads:
        thread.join()


def test_many_threads_take_no_more_room(ranks: Ranks) -> None:
    ran = ranks.run(many_threads)
    log = ran.log()
    first = next(v for v in log.of(Values) if v.threads_left_out == 61 - 16)
    rest = log.records[log.records.index(first) :]
    found = list(itertools.takewhile(lambda record: isinstance(record, Values), rest))
    size = sum(len(encode(record)) for record in found)
    took = sum(record.ns for record in found if isinstance(record, Values)) / 1e6
    print(f"61 threads with 500 variables: {size} bytes, {took:.1f} ms")
    assert first.thread == "MainThread"
    assert 1 < len(found) <= 16
    assert size <= BYTES
    assert any(f.left_out for v in found if isinstance(v, Values) for f in v.functions)


# -- an exception, and Ctrl-C ----------------------------------------------------------------

GLOBAL: Final = TOKEN
LIMIT: Final = 3


class Learner:
    def __init__(self) -> None:
        self.secret, self.steps = TOKEN, 7

    def step(self, secret: str) -> None:
        count = LIMIT
        if count and self.secret == secret == GLOBAL and self.steps:
            raise ValueError("too many steps")


def fails() -> None:
    dist.all_reduce(torch.ones(1))
    Learner().step(TOKEN)


@pytest.mark.parametrize("mode", ["on", "all"])
def test_an_exception(ranks: Ranks, mode: str) -> None:
    ran = ranks.run(fails, 1, exits=(1,), env={"COLLECTRACE_VALUES": mode})
    log = ran.log()
    found = held(log, ENDED, "Learner.step")
    assert (found["self.steps"], found["LIMIT"], found["count"]) == (7, 3, 3)
    assert found["self.secret"] == found["secret"] == found["GLOBAL"]
    assert found["secret"]["len"] == len(TOKEN)
    last = read(log, ENDED, "fails")
    assert names(last)[:2] == ["Learner.step", "fails"]
    text = log.path.read_text()
    assert (TOKEN in text) == (mode == "all")
    assert log.exit is not None
    assert (log.exit.error, log.exit.message) == ("ValueError", "too many steps")
    assert log.records.index(last) < log.records.index(log.exit)


def fails_in_a_call(ends_with: str) -> None:
    half, settled = torch.tensor(1.0), torch.tensor(2.0)
    dist.barrier()
    if dist.get_rank() == 1:
        os._exit(0)
    try:
        dist.all_reduce(half)
    except RuntimeError:
        if ends_with == "another call":
            dist.all_reduce(torch.ones(1))
        if ends_with == "another exception":
            raise ValueError from None
        raise
    assert settled


@BOTH_CODES
@pytest.mark.parametrize("ends_with", ["the exception", "another exception", "another call"])
def test_the_buffer_of_a_call_that_raised_is_not_settled(
    ranks: Ranks, ends_with: str, native: str
) -> None:
    env = {"COLLECTRACE_NATIVE": native}
    ran = ranks.run(fails_in_a_call, 2, ends_with, exits=(1, 0), env=env)
    found = held(ran.log(0), ENDED, "fails_in_a_call")
    assert found["half"]["unsettled"]
    assert found["settled"] == {"type": "Tensor", "dtype": "float32", "shape": [], "value": 2.0}


def fails_in_threads() -> None:
    dist.barrier()

    def work(number: int) -> None:
        if number:
            raise ValueError

    for number in range(1, 30):
        thread = threading.Thread(target=work, args=(number,), name=f"thread {number}")
        thread.start()
        thread.join()


def test_exceptions_that_end_threads(ranks: Ranks) -> None:
    log = ranks.run(fails_in_threads, 1).log()
    found = [v for v in log.of(Values) if v.reason == ENDED]
    assert [v.thread for v in found] == [f"thread {n}" for n in range(1, 21)], "and no more"
    assert [v.functions[0].values["number"] for v in found] == list(range(1, 21))


def is_interrupted() -> None:
    dist.barrier()
    threading.Timer(1, signal.raise_signal, [signal.SIGINT]).start()
    for step in range(1_000_000):
        time.sleep(0.01)
        assert step >= 0


def test_ctrl_c(ranks: Ranks) -> None:
    log = ranks.run(is_interrupted, 1, exits=(1,)).log()
    found = held(log, INTERRUPTED, "is_interrupted")
    assert found["step"] > 0
    assert log.exit is not None
    assert log.exit.error == "KeyboardInterrupt"


def is_ended() -> None:
    dist.barrier()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LONG)


def test_sigterm_is_handled_in_c(ranks: Ranks) -> None:
    log = ranks.run(is_ended, 1, exits=(-signal.SIGTERM,)).log()
    assert not log.of(Values)


def traced(folder: str) -> str:
    step = 3
    try:
        with collectrace.trace(Path(folder), values="all"):
            dist.barrier()
            fails()
    except ValueError as problem:
        return f"{problem} in step {step}"
    return ""


def test_an_exception_that_leaves_a_traced_block(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(traced, 1, str(tmp_path), trace=False)
    assert ran.result() == "too many steps in step 3"
    (path,) = tmp_path.glob("*/rank00000.jsonl")
    found = read(read_log(path), ENDED, "traced")
    assert names(found)[:3] == ["Learner.step", "fails", "traced"]
    assert found.functions[2].values["step"] == 3


# -- a diagnosis, and failures of ours ---------------------------------------------------------

DIFFERS: Final = (
    BEGIN
    + """
init()
for n in range(10**9):
    op = dist.ReduceOp.MAX if n == 100 and rank else dist.ReduceOp.SUM
    dist.all_reduce(torch.zeros(4), op=op)
    time.sleep(0.01)
"""
)


def test_a_diagnosis_asks_for_values(tmp_path: Path) -> None:
    def asked(rank: int) -> bool:
        for file in ranks.logs(rank).glob("2*/rank*.jsonl"):
            whole = file.read_bytes().rpartition(b"\n")[0]
            records = [decode(line) for line in whole.splitlines()]
            found = [v for v in records if isinstance(v, Values) and v.reason == ASKED]
            return any(v.functions[0].values["rank"] == rank for v in found)
        return False

    with Apart(tmp_path, DIFFERS, stall_after=600) as ranks:
        ranks.wait_for(lambda: asked(0) and asked(1))


PLACES: Final = (
    "tracer.values.value_records:Pending", "tracer.values.value_records:read_frame",
    "tracer.values.stack:of_traceback", "records:Values",
)  # fmt: skip


def without_values(folder: str) -> None:
    for place in PLACES:
        with failing(place):
            try:
                with collectrace.trace(Path(folder) / place):
                    dist.barrier()
                    fails()
            except ValueError:
                continue


def test_values_that_fail_are_left_out(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(without_values, 1, str(tmp_path), trace=False, fails=True)
    assert ran.output().count("internal failure while reading values") == len(PLACES)
    for place in PLACES:
        (path,) = (tmp_path / place).glob("*/rank00000.jsonl")
        log = read_log(path)
        assert not log.of(Values)
        assert log.exit is not None
        assert (log.exit.reason, log.exit.error, log.exit.failures) == (
            "exception",
            "ValueError",
            1,
        )

"""Stacks and source lines in real ranks' files: whose they are, and that none is missing."""

from __future__ import annotations

import _thread
import functools
import os
import sysconfig
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace.align.reading.run_reader import read
from collectrace.records import Call, Checkpoint, Group, Stack
from tests.support import rank_file_checks
from tests.support.real_ranks import Log, Ranks

HERE: Final = __file__


def stacks(log: Log) -> dict[int, Stack]:
    return {stack.stack: stack for stack in log.of(Stack)}


def functions(log: Log, call: Call) -> list[str]:
    """The functions of this file on the stack of a call, innermost first."""
    assert call.stack is not None
    frames = [frame.partition(" ") for frame in stacks(log)[call.stack].frames]
    return [name for where, _, name in frames if where.startswith(f"{HERE}:")]


def text(site: str | None) -> str:
    """The line that a site names."""
    path, _, number = (site or "").rpartition(":")
    return Path(path).read_text().splitlines()[int(number) - 1].strip()


def user_calls(log: Log) -> list[Call]:
    return [call for call in log.calls if call.role == "user"]


# -- who called whom --------------------------------------------------------------------------


def reduce(tensor: torch.Tensor) -> None:
    """A project's own helper, which all its collectives go through."""
    dist.all_reduce(tensor)


def clip() -> None:
    reduce(torch.ones(1))


def log_loss() -> None:
    reduce(torch.ones(1))


def helper_of_two() -> None:
    for _ in range(3):
        clip()
        log_loss()


def test_two_callers_of_a_helper_are_told_apart(ranks: Ranks) -> None:
    ran = ranks.run(helper_of_two)
    for rank in range(2):
        log = ran.log(rank)
        calls = user_calls(log)
        assert len({call.site for call in calls}) == 1
        assert text(calls[0].site) == "dist.all_reduce(tensor)"
        assert [functions(log, call) for call in calls] == [
            ["reduce", "clip", "helper_of_two"], ["reduce", "log_loss", "helper_of_two"]
        ] * 3  # fmt: skip
        assert len({call.stack for call in calls}) == 2
        assert len({stack.stack for stack in log.of(Stack)}) == len(log.of(Stack))
    [one] = rank_file_checks.read_run(ran.logs, 2)[:1]
    rank_file_checks.check_stacks(one)


def groups_of_two_callers() -> None:
    def made() -> None:
        dist.new_group([0])

    made()
    made()


def test_who_asked_for_a_group(ranks: Ranks) -> None:
    log = ranks.run(groups_of_two_callers).log(0)
    asked = [group for group in log.of(Group) if group.phase == "asked"]
    assert [group.stack is None for group in asked] == [True, False, False]
    (one, other) = (stacks(log)[group.stack or 0].frames for group in asked[1:])
    assert one[0] == other[0]
    assert one[1] != other[1]
    ready = [group.stack for group in log.of(Group) if group.phase == "ready"]
    assert ready == [group.stack for group in asked]


PACKAGES: Final = Path(sysconfig.get_path("purelib"))
LIBRARY: Final = """\
def rank_zero_only(function):
    def wrapper(*args):
        return function(*args)
    return wrapper

class Trainer:
    def fit(self, callback):
        self._run(callback)
        self.strategy(2)
    def save_checkpoint(self):
        self.strategy(1)
    def _run(self, callback):
        for _ in range(2):
            callback(self)
    @rank_zero_only
    def strategy(self, depth):
        return Strategy().barrier(dist) if not depth else self.strategy(depth - 1)

class Strategy:
    def barrier(self, dist):
        dist.barrier()
"""


def on_batch_end(trainer: Any) -> None:
    dist.all_reduce(torch.ones(1))
    trainer.save_checkpoint()


def with_a_library() -> None:
    names = {"dist": dist}
    exec(compile(LIBRARY, str(PACKAGES / "trainers" / "trainer.py"), "exec"), names)
    trainer: Any = names["Trainer"]
    trainer().fit(on_batch_end)


def test_a_callback_of_a_library_is_below_the_line_that_runs_it(ranks: Ranks) -> None:
    log = ranks.run(with_a_library).log(1)
    reduced, saved, *_, last = user_calls(log)
    for call in (reduced, saved):
        assert functions(log, call) == ["on_batch_end", "with_a_library"]
    ways = [stacks(log)[call.stack or 0].path for call in (reduced, saved, last)]
    assert ways == [
        [],
        ["Trainer.save_checkpoint", "Trainer.strategy", "Strategy.barrier"],
        ["Trainer.fit", "Trainer.strategy", "Strategy.barrier"],
    ]
    assert text(saved.site) == "trainer.save_checkpoint()"
    assert text(last.site) == "trainer().fit(on_batch_end)"
    assert last.via == saved.via == f"{PACKAGES / 'trainers' / 'trainer.py'}:21"


def step(model: nn.Module) -> None:
    model(torch.ones(2)).sum().backward()


def with_ddp() -> None:
    model = DistributedDataParallel(nn.Linear(2, 2))
    for _ in range(2):
        step(model)


def test_a_gradient_bucket_has_the_stack_of_the_backward(ranks: Ranks) -> None:
    log = ranks.run(with_ddp).log()
    buckets = [call for call in log.calls if call.role == "ddp.backward.bucket"]
    assert len(buckets) == 2
    for call in buckets:
        assert functions(log, call) == ["step", "with_ddp"]
        assert text(call.site) == "model(torch.ones(2)).sum().backward()"


# -- threads --------------------------------------------------------------------------------


def on_native(function: Callable[..., Any], *args: Any) -> None:
    """Call it on a thread that Python's threading knows nothing of, as autograd's are."""
    ended = threading.Event()
    call = functools.partial(_NATIVE["then"], ended)
    _thread.start_new_thread(functools.partial(call, function), args)
    assert ended.wait(30)


_NATIVE: Final[dict[str, Any]] = {}
# As code of torch's, which is no line of the user's.
exec(
    compile(
        "def then(ended, function, *args):\n    function(*args)\n    ended.set()\n",
        str(Path(dist.__file__).with_name("made_up.py")),
        "exec",
    ),
    _NATIVE,
)


def threads() -> None:
    pool = ThreadPoolExecutor(1)

    def hook(_: torch.Tensor) -> None:
        on_native(dist.all_reduce, torch.ones(1))
        pool.submit(dist.all_reduce, torch.ones(2)).result()

    weight: Any = torch.ones(3, requires_grad=True)
    weight.register_hook(hook)
    weight.sum().backward()
    on_native(dist.all_reduce, torch.ones(3))
    started = threading.Thread(target=dist.all_reduce, args=(torch.ones(4),), name="started")
    started.start()
    started.join()
    pool.submit(lambda: dist.all_reduce(torch.ones(5))).result()
    list(pool.map(dist.all_reduce, [torch.ones(6)]))
    pool.submit(pool.submit, dist.all_reduce, torch.ones(7)).result().result()
    pool.shutdown()


def test_a_thread_has_the_line_that_gave_it_its_work(ranks: Ranks) -> None:
    ran = ranks.run(threads)
    for rank in range(2):
        log = ran.log(rank)
        lines = {call.shape[0]: call for call in user_calls(log) if call.shape}
        assert text(lines[1].site) == "weight.sum().backward()"
        assert (lines[1].thread or "").startswith("native-")
        assert functions(log, lines[1]) == ["threads"]
        assert text(lines[2].site) == "pool.submit(dist.all_reduce, torch.ones(2)).result()"
        assert functions(log, lines[2]) == ["threads.<locals>.hook", "threads"]
        assert (lines[3].site, lines[3].stack) == (None, None)
        assert (text(lines[4].site), lines[4].thread) == ("started.start()", "started")
        # Behind the user's own lines in the thread, too, is the one that gave it its work.
        assert functions(log, lines[5]) == ["threads.<locals>.<lambda>", "threads"]
        assert text(lines[5].site) == "pool.submit(lambda: dist.all_reduce(torch.ones(5))).result()"
        assert text(lines[6].site) == "list(pool.map(dist.all_reduce, [torch.ones(6)]))"
        assert text(lines[7].site).startswith("pool.submit(pool.submit, dist.all_reduce")


def background_checkpoint(folder: str) -> None:
    model = nn.Linear(2, 2)
    from torch.distributed.checkpoint import state_dict_saver  # seconds, and here alone

    saved: Any = state_dict_saver.async_save({"model": model.state_dict()}, checkpoint_id=folder)
    until = time.monotonic() + 30
    while not saved.done() and time.monotonic() < until:
        model(torch.ones(2)).sum().backward()
    saved.result()


def test_a_checkpoint_in_the_background_has_the_line_that_saved(
    ranks: Ranks, tmp_path: Path
) -> None:
    ran = ranks.run(background_checkpoint, 2, str(tmp_path / "saved"))
    for rank in range(2):
        calls = [call for call in ran.calls(rank) if call.thread is not None]
        assert calls
        assert {"async_save(" in text(call.site) for call in calls} == {True}


# -- files ----------------------------------------------------------------------------------

MAX_BYTES: Final = 1 << 20


def grows() -> None:
    """The stacks of the first calls are in a segment that is deleted later."""
    for _ in range(2500):
        clip()
        log_loss()
    helper_of_two()


def test_later_segments_know_the_stacks_of_earlier_ones(ranks: Ranks) -> None:
    ran = ranks.run(grows, env={"COLLECTRACE_MAX_BYTES": str(MAX_BYTES)})
    for rank in range(2):
        files = sorted(ran.logs.glob(f"2*/rank{rank:05}.*.jsonl"))
        assert len(files) > 3
        assert files[0].name != f"rank{rank:05}.0001.jsonl", "some were deleted"
        for path in files:
            rank_file_checks.check_stacks(rank_file_checks.read(path))
    [folder] = ran.logs.glob("2*")
    for small in (0, 1 << 30):
        log = read(folder, small=small).logs[0]
        [stream] = log.last_seq
        last = log.last_seq[stream]
        rows = [row for row in log.calls(stream, last - 10, last) if row is not None]
        found = [log.stack(row) for row in rows]
        assert all(found)
        assert {stack.frames[1].rpartition(" ")[2] for stack in found if stack is not None} == {
            "clip", "log_loss",
        }  # fmt: skip


def again() -> None:
    clip()
    dist.destroy_process_group()
    for n in range(2):
        meeting = f"file://{Path.cwd()}/store{n}"
        dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
        log_loss()
        clip()
        dist.destroy_process_group()


def test_each_run_numbers_its_own(ranks: Ranks) -> None:
    ran = ranks.run(again, 1)
    logs = [log for log in ran.files if log.path.name == "rank00000.jsonl"]
    assert len(logs) == 3
    for log in logs:
        calls = user_calls(log)
        assert [call.stack for call in calls] == list(range(1, len(calls) + 1))
        assert [stack.stack for stack in log.of(Stack)] == list(range(1, len(calls) + 1))
        assert log.of(Checkpoint)[-1].known_stacks == len(calls)


def forks() -> None:
    clip()
    dist.destroy_process_group()
    child = os.fork()
    if child == 0:
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        dist.init_process_group("gloo")
        log_loss()
        dist.destroy_process_group()
        collectrace.disable()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_numbers_its_own(ranks: Ranks) -> None:
    ran = ranks.run(forks, 1)
    [parent, child] = sorted(ran.files, key=lambda log: log.header.t)
    assert parent.header.pid != child.header.pid
    assert functions(parent, parent.calls[0]) == ["reduce", "clip", "forks"]
    assert functions(child, child.calls[0]) == ["reduce", "log_loss", "forks"]
    assert [call.stack for call in (*parent.calls, *child.calls)] == [1, 1]


# -- source lines -----------------------------------------------------------------------------


def branches() -> None:
    for epoch in range(2):
        if epoch == 1:
            dist.all_reduce(
                torch.ones(1),
            )


def test_a_line_is_known_by_its_text(ranks: Ranks) -> None:
    ran = ranks.run(branches)
    log = ran.log()
    [call] = user_calls(log)
    evidence = read(ran.logs)
    assert evidence.source_files.line(call.site) == "dist.all_reduce("
    # Of every frame above it, too.
    for frame in stacks(log)[call.stack or 0].frames:
        assert evidence.source_files.line(frame.partition(" ")[0])
    assert evidence.source_files.notes == ()

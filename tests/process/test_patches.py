"""Patches come and go without a trace: by identity, under other wrappers, late, again and again."""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import os
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import all_reduce as imported_before
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace.records import Group
from collectrace.tracer.patches import patching
from collectrace.tracer.patches.targets import TARGETS
from collectrace.tracer.record import groups
from tests.support import rank_file_checks
from tests.support.meeting import inits
from tests.support.real_ranks import Log, Ranks, read_log

HERE = [t for t in TARGETS if importlib.util.find_spec(t.modules[0].partition(".")[0])]
"""Targets of packages that are installed: those of frameworks need not be."""


def one(size: int = 1) -> torch.Tensor:
    return torch.ones(size)


def logs_in(folder: Path, rank: int = 0) -> list[Log]:
    return [read_log(path) for path in sorted(folder.rglob(f"rank{rank:05}.jsonl"))]


# -- on and off -----------------------------------------------------------------------------


def installed() -> dict[str, Any]:
    """What stands at every target now."""
    found: dict[str, Any] = {}
    for target in HERE:
        for module in target.modules:
            importlib.import_module(module)
            place = patching._find(module, target.name)
            if place is not None:
                parent, attribute, _ = place
                found[f"{module}.{target.name}"] = vars(parent).get(attribute, "inherited")
    return found


def changed(before: dict[str, Any]) -> set[str]:
    now = installed()
    assert now.keys() == before.keys()
    return {name for name, value in now.items() if value is not before[name]}


def fails_while_it_is_on(folder: str) -> None:
    with collectrace.trace(folder):
        dist.all_reduce(one(5 // int(dist.get_world_size() - 1)))
        dist.all_reduce(one(5 // int(dist.get_world_size() - 2)))


def on_and_off(folder: str) -> None:
    before = installed()
    assert len(before) > 90
    with collectrace.trace(folder):
        assert changed(before) == before.keys()
        dist.all_reduce(one())
    assert changed(before) == set()
    for _ in range(2):
        collectrace.enable(folder)
        collectrace.enable(Path(folder) / "never")  # a second one changes nothing
        dist.all_reduce(one())
        collectrace.disable()
        collectrace.disable()
        assert changed(before) == set()
    with collectrace.trace(folder):
        dist.all_reduce(one(2))
        with collectrace.trace(folder):
            dist.all_reduce(one(3))
        dist.all_reduce(one(4))
    assert changed(before) == set()
    with pytest.raises(ZeroDivisionError):
        fails_while_it_is_on(folder)
    assert changed(before) == set()
    dist.all_reduce(one(6))


def test_everything_is_put_back_by_identity(ranks: Ranks, tmp_path: Path) -> None:
    ranks.run(on_and_off, 2, str(tmp_path), trace=False)
    for rank in range(2):
        found = sorted([c.shape for c in log.calls] for log in logs_in(tmp_path, rank))
        assert found == [[[1]], [[1]], [[1]], [[2], [3], [4]], [[5]]]
    assert not (tmp_path / "never").exists()
    ends = {
        (str([c.shape for c in log.calls]), log.exit.reason if log.exit else "none")
        for log in logs_in(tmp_path)
    }
    assert ends == {
        ("[[1]]", "disabled"),
        ("[[2], [3], [4]]", "disabled"),
        ("[[5]]", "exception"),  # it went through the block
    }


# -- under other wrappers -------------------------------------------------------------------


def over(function: Callable[..., Any], calls: Counter[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def theirs(*args: Any, **kwargs: Any) -> Any:
        calls[function.__name__] += 1
        return function(*args, **kwargs)

    return theirs


def wrapped_on_top(folder: str) -> None:
    calls: Counter[str] = Counter()
    places: list[tuple[Any, str]] = [
        (dist, "all_reduce"), (torch.autograd, "backward"),
        (DistributedDataParallel, "_pre_forward"),
    ]  # fmt: skip
    before = installed()
    originals = [vars(place)[name] for place, name in places]
    model = DistributedDataParallel(nn.Linear(2, 1))

    def work() -> None:
        x = one()
        dist.all_reduce(x)
        assert x.item() == 2
        model.zero_grad()
        model(torch.full((1, 2), float(dist.get_rank()))).sum().backward()
        assert model.module.weight.grad is not None
        assert model.module.weight.grad.tolist() == [[0.5, 0.5]]

    with collectrace.trace(folder):
        for place, name in places:
            setattr(place, name, over(getattr(place, name), calls))
        work()
    mine = {"torch.distributed.all_reduce", "torch.autograd.backward",
            "torch.nn.parallel.distributed.DistributedDataParallel._pre_forward"}  # fmt: skip
    assert changed(before) == mine, "theirs stays"
    theirs = [vars(place)[name] for place, name in places]
    work()  # through theirs and what of ours is below it, which does nothing any more
    with collectrace.trace(folder):
        work()
    assert [vars(place)[name] for place, name in places] == theirs
    work()
    assert calls == dict.fromkeys(("all_reduce", "backward", "_pre_forward"), 4)
    for (place, name), original in zip(places, originals, strict=True):
        setattr(place, name, original)


def test_a_wrapper_on_top_stays_and_ours_goes_quiet(ranks: Ranks, tmp_path: Path) -> None:
    ranks.run(wrapped_on_top, 2, str(tmp_path), trace=False)
    first, second = logs_in(tmp_path)
    for log in (first, second):
        assert [c.role for c in log.calls] == ["user", "ddp.backward.bucket"]
        assert log.exit is not None
        assert log.exit.failures == 0


# -- functions as values --------------------------------------------------------------------


def as_values(folder: str) -> list[str]:
    before = installed()
    functions = [t for t in HERE if "." not in t.name and t.modules[0] != "sys"]

    def current(target: patching.Target) -> Any:
        return getattr(importlib.import_module(target.modules[0]), target.name)

    able = [t for t in functions if _pickles(current(t))]
    with collectrace.trace(folder):
        imported_before(one())
        dist.all_reduce(one())
        told = [pickle.dumps(current(t)) for t in able]
        methods = [
            pickle.dumps(m)
            for m in (
                torch.utils.data.DistributedSampler.set_epoch,
                DistributedDataParallel.no_sync,
            )
        ]
        for target in able:
            function = current(target)
            assert pickle.loads(pickle.dumps(function)) is function
            assert copy.deepcopy(function) is copy.copy(function) is function
            assert function.__name__ == target.name
    assert changed(before) == set()
    for target, text in zip(able, told, strict=True):
        assert pickle.loads(text) is current(target)
    assert [pickle.loads(m) for m in methods] == [
        torch.utils.data.DistributedSampler.set_epoch, DistributedDataParallel.no_sync
    ]  # fmt: skip
    return [t.name for t in able]


def _pickles(function: Any) -> bool:
    try:
        return pickle.loads(pickle.dumps(function)) is function
    except (pickle.PicklingError, AttributeError):
        return False


def test_functions_are_values_as_before(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(as_values, 2, str(tmp_path), trace=False)
    assert {"all_reduce", "barrier", "new_group", "init_process_group"} <= set(ran.result())
    [log] = logs_in(tmp_path)
    early, patched = log.calls
    assert (early.op, early.api, early.role) == (patched.op, patched.api, patched.role)
    lines = Path(__file__).read_text().splitlines()
    for call, text in ((early, "imported_before(one())"), (patched, "dist.all_reduce(one())")):
        assert call.site is not None
        path, _, line = call.site.rpartition(":")
        assert path == __file__
        assert lines[int(line) - 1].strip() == text


SPAWNED = """
import torch, torch.distributed as dist, torch.multiprocessing as mp
import collectrace

def work(rank, port, reduce):
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    x = torch.ones(3)
    reduce(x)
    assert x[0] == 2
    dist.destroy_process_group()

if __name__ == "__main__":
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    collectrace.enable()
    mp.spawn(work, args=(port, dist.all_reduce), nprocs=2)
"""


@pytest.mark.slow
def test_a_patched_function_is_spawned(ranks: Ranks) -> None:
    ran = ranks.script(SPAWNED)
    for rank in range(2):
        [call] = ran.calls(rank)
        assert (call.op, call.shape, call.role) == ("all_reduce", [3], "user")
        assert call.site == f"{ran.folder / 'script.py'}:9"


# -- late, and again and again --------------------------------------------------------------


def late(folder: str) -> Any:
    half = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    for _ in range(4):
        dist.all_reduce(one())
    work = dist.all_reduce(one(), async_op=True)
    counted = groups.backend_sequence(dist.group.WORLD)
    with collectrace.trace(folder):
        assert work is not None
        work.wait()  # of a call that was never seen
        for n in range(5):
            dist.all_reduce(one(n + 1))
        dist.all_reduce(one(), group=half)
        dist.barrier()
    return counted


def test_enabled_after_init(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(late, 2, str(tmp_path), trace=False)
    for rank in range(2):
        [log] = logs_in(tmp_path, rank)
        default, half = log.of(Group)
        assert default.start_seq == ran.result(rank) >= 4
        assert (default.ranks, default.ordinal, default.phase) == ([0, 1], 0, "ready")
        assert (half.ranks, half.ordinal) == ([rank], 1)
        assert log.records.index(default) < log.records.index(log.calls[0])
        shapes = [c.shape for c in log.calls if c.group == default.group]
        assert shapes == [[1], [2], [3], [4], [5], None]
        assert [c.seq for c in log.calls if c.group == default.group] == [1, 2, 3, 4, 5, 6]
    assert len({log.header.run for rank in range(2) for log in logs_in(tmp_path, rank)}) == 1


INITS = 20


def again_and_again() -> None:
    for n in inits(INITS):
        pair = dist.new_group([0, 1])
        for _ in range(n):
            dist.all_reduce(one(n))
        dist.barrier(group=pair)
        if n % 2:
            dist.destroy_process_group(pair)


def test_every_init_is_a_run_of_its_own(ranks: Ranks) -> None:
    ran = ranks.run(again_and_again, 2, init=False)
    folders = sorted(ran.logs.iterdir())
    assert len(folders) == INITS
    seen = set()
    for folder in folders:
        files = [rank_file_checks.read(folder / f"rank{rank:05}.jsonl") for rank in range(2)]
        assert sorted(path.name for path in folder.glob("*.jsonl")) == [
            "rank00000.jsonl", "rank00001.jsonl"
        ]  # fmt: skip
        for file in files:
            *reduces, barrier = file.calls
            n = len(reduces)
            assert [c.shape for c in reduces] == [[n]] * n
            assert [c.seq for c in reduces] == list(range(1, n + 1))
            assert barrier.op == "barrier"
            assert file.header.run == folder.name
            assert file.exit.reason == "finished"
            phases = Counter(g.phase for g in file.of(Group))
            assert phases == {"asked": 2, "ready": 2, "destroyed": 2}
            rank_file_checks.check_whole(file, 2)
        rank_file_checks.check_agreement(files)
        seen.add(len(files[0].calls) - 1)
    assert seen == set(range(1, INITS + 1))


# -- threads --------------------------------------------------------------------------------

EACH = 25


def threads(crew_size: int) -> None:
    def issue() -> None:
        for n in range(EACH):
            x = one()
            # Asynchronous and not: both kinds of account.
            work = dist.all_reduce(x, async_op=bool(n % 2))
            if work is not None:
                work.wait()
            assert x.item() == dist.get_world_size()

    crew = [threading.Thread(target=issue, name=f"crew-{n}") for n in range(crew_size)]
    for member in crew:
        member.start()
    issue()
    for member in crew:
        member.join()


# gloo gives a call its tag and its place in the queue in two steps: among ranks three threads can
# block both of its workers, traced or not.
@pytest.mark.parametrize(("world", "crew_size"), [(1, 4), (2, 1)])
def test_threads_on_one_group(world: int, crew_size: int, ranks: Ranks) -> None:
    ran = ranks.run(threads, world, crew_size)
    for file in rank_file_checks.read_run(ran.logs, world):
        rank_file_checks.check_whole(file, world)
        calls = file.calls
        assert [c.seq for c in calls] == list(range(1, EACH * (crew_size + 1) + 1))
        names = [None, *(f"crew-{n}" for n in range(crew_size))]
        assert Counter(c.thread for c in calls) == dict.fromkeys(names, EACH)
        assert all(c.site and c.site.startswith(__file__) for c in calls)


# -- backward within backward -----------------------------------------------------------------


class Within(torch.autograd.Function):
    """Runs another backward in its own, as many deep as its input is high."""

    deepest: list[FrameType]

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_() - 1
        value: torch.Tensor = ctx.x.detach()
        return value

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        if ctx.x < 0:
            Within.deepest = list(_stack())
            return grad
        with torch.enable_grad():
            within(ctx.x).sum().backward()  # type: ignore[no-untyped-call]
        return grad


within: Final[Callable[[torch.Tensor], torch.Tensor]] = Within.apply


def _stack() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def deep() -> dict[str, int]:
    """How often each function of the tracer is on the stack of a backward within 20 others."""
    within(torch.tensor(20.0, requires_grad=True)).sum().backward()  # type: ignore[no-untyped-call]
    names = (f.f_code.co_filename for f in Within.deepest)
    found = Counter(name for name in names if f"collectrace{os.sep}tracer" in name)
    # As torch's own test does (test/test_autograd.py, test_deep_reentrant).
    within(torch.tensor(2000.0, requires_grad=True)).sum().backward()  # type: ignore[no-untyped-call]
    return {Path(name).name: count for name, count in found.items()}


def test_a_backward_has_one_frame_of_ours(ranks: Ranks) -> None:
    assert ranks.run(deep, 1).result() == {"scoping.py": 21}

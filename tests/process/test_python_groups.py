"""ProcessGroups written in Python: recorded before the call, once, and as a normal group is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace.align.alignment import align
from collectrace.records import Call, Done, Group
from collectrace.tracer.patches.python_groups import METHODS, MethodReader
from collectrace.tracer.switch import current
from tests.support import rank_file_checks, torch_names
from tests.support.real_ranks import Log, Ranks


class Work(dist.Work):
    """A handle of the group's own."""

    def __init__(self, inner: dist.Work) -> None:
        super().__init__()
        self.inner = inner

    def wait(self, *timeout: Any) -> bool:
        return self.inner.wait(*timeout)

    def is_completed(self) -> bool:
        raise AssertionError("run on a thread that its author never thought of")

    def get_future(self) -> Any:
        return self.inner.get_future()


class Through(dist.ProcessGroup):
    """Hands every call on to another group, as torchft's wrappers do."""

    def __init__(self, inner: dist.ProcessGroup) -> None:
        super().__init__(inner.rank(), inner.size())  # type: ignore[call-arg]
        self.inner = inner
        self.called = ""

    def getBackendName(self) -> str:  # noqa: N802 - torch's
        return "through"

    def getGroupName(self) -> str:  # noqa: N802
        return self.called

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self.called = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return ""

    def setGroupDesc(self, name: str) -> None:  # noqa: N802
        pass

    def allreduce(self, values: Any, opts: Any = None) -> Any:  # type: ignore[override]
        return Work(self.inner.allreduce(values, opts or dist.AllreduceOptions()))

    def barrier(self, opts: Any = None) -> Any:
        return self.allreduce([torch.ones(1)])


def handed_on(name: str) -> Callable[..., Any]:
    def method(self: Through, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.inner, name)(*args, **kwargs)

    return method


for _name in (
    "broadcast", "reduce", "allgather", "all_gather_single", "all_gather_single_coalesced",
    "reduce_scatter", "reduce_scatter_single", "gather", "scatter", "alltoall",
    "all_to_all_single", "send", "recv", "recv_anysource", "allreduce_coalesced",
):  # fmt: skip
    setattr(Through, _name, handed_on(_name))


class OnTop(Through):
    """Inherits all but one method, which it hands to the class below."""

    def broadcast(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override]
        return super().broadcast(tensors, opts)


def through(cls: type[Through] = Through) -> tuple[Any, Any]:
    """A registered group of the class, and its inner one; both of all ranks."""
    inner = dist.new_group(group_desc="inner")
    assert isinstance(inner, dist.ProcessGroup)
    kind = f"through_{cls.__name__.lower()}"
    if kind not in dist.Backend.backend_list:
        dist.Backend.register_backend(kind, lambda *_: cls(inner), devices=["cpu"])
    return dist.new_group(backend=kind, group_desc="through"), inner


def of_group(log: Log, index: int) -> list[Call]:
    """The calls of the n-th group."""
    name = [g for g in log.of(Group) if g.phase == "ready"][index].group
    return [c for c in log.calls if c.group == name]


# -- the same record as a normal group's ----------------------------------------------------


def every_collective(group: Any) -> None:
    import torch.distributed._functional_collectives as fc

    rank = dist.get_rank()
    x = torch.arange(4.0)
    slots = [torch.empty(4), torch.empty(4)]
    dist.all_reduce(x, op=dist.ReduceOp.MAX, group=group)
    work = dist.all_reduce(x, group=group, async_op=True)
    assert work is not None
    work.wait()
    dist.broadcast(x, src=1, group=group)
    dist.reduce(x, dst=1, op=dist.ReduceOp.MIN, group=group)
    dist.all_gather(slots, x, group=group)
    torch_names.all_gather_single(torch.empty(8), x, group=group)
    dist.reduce_scatter(x, slots, group=group)
    torch_names.reduce_scatter_single(torch.empty(2), x, op=dist.ReduceOp.MAX, group=group)
    dist.gather(x, slots if rank == 1 else None, dst=1, group=group)
    dist.scatter(x, slots if rank == 0 else None, src=0, group=group)
    dist.all_to_all_single(x.clone(), x, group=group)
    sent = [1, 2] if rank == 0 else [2, 1]
    dist.all_to_all_single(torch.empty(3), torch.ones(3), [1, 2] if rank == 0 else [2, 1], sent,
                           group=group)  # fmt: skip
    dist.barrier(group=group)
    dist.all_gather_object([None, None], {"rank": rank}, group=group)
    if rank == 0:
        dist.send(x, 1, tag=7, group=group)
        dist.recv(x, group=group)
    else:
        dist.recv(x, 0, tag=7, group=group)
        dist.send(x, 0, group=group)
    wait: Any = fc.wait_tensor
    wait(fc.all_reduce(x, "sum", group))
    wait(fc.all_gather_single(x, 0, group))


def both() -> None:
    """The same lines on a group in Python, then on one of torch's."""
    for group in (through()[0], dist.new_group(group_desc="normal")):
        every_collective(group)


SAME = ("op", "dtype", "shape", "out_shape", "reduce_op", "root", "peer", "tag", "splits",
        "async_", "role", "api", "site", "via", "seq", "digest", "program", "pairs")  # fmt: skip


def test_recorded_as_a_normal_group_is(ranks: Ranks) -> None:
    ran = ranks.run(both)
    for rank in range(2):
        python, normal = of_group(ran.log(rank), 2), of_group(ran.log(rank), 3)
        assert len(python) == len(normal) == 19
        for one, other in zip(python, normal, strict=True):
            assert {n: getattr(one, n) for n in SAME} == {n: getattr(other, n) for n in SAME}
    for file in rank_file_checks.read_run(ran.logs, 2):
        rank_file_checks.check_whole(file, 2)
    rank_file_checks.check_agreement(rank_file_checks.read_run(ran.logs, 2))


def within() -> None:
    group, _ = through(OnTop)
    dist.barrier(group=group)
    dist.broadcast(torch.ones(3), src=0, group=group)
    group.allreduce([torch.ones(2)]).wait()
    group.allreduce(values=[torch.ones(4)], opts=dist.AllreduceOptions()).wait()


def test_one_record_per_call_and_group(ranks: Ranks) -> None:
    ran = ranks.run(within)
    for rank in range(2):
        log = ran.log(rank)
        python, inner = of_group(log, 2), of_group(log, 1)
        # A barrier made of the group's own allreduce; a broadcast made of the base class's.
        assert [c.op for c in python] == ["barrier", "broadcast", "all_reduce", "all_reduce"]
        assert [c.op for c in inner] == ["all_reduce", "broadcast", "all_reduce", "all_reduce"]
        assert [c.shape for c in python[1:]] == [c.shape for c in inner[1:]] == [[3], [2], [4]]
        order = [c.group for c in log.calls]
        assert order == [python[0].group, inner[0].group] * 4, "each before what it is made of"
        # wait() of the group's own Work was seen, and completes the call.
        assert [d.seq for d in log.of(Done) if d.group == python[0].group][-1] == 4


# -- what C++ calls, groups nobody registered, failures -------------------------------------


def training() -> None:
    group, inner = through(OnTop)
    alone = DistributedDataParallel(nn.Linear(2, 2), process_group=OnTop(inner))
    alone(torch.ones(1, 2)).sum().backward()
    model = DistributedDataParallel(nn.Linear(3, 2), process_group=group)
    with model.join():
        for _ in range(2 + dist.get_rank()):
            model(torch.ones(1, 3)).sum().backward()


def test_ddp(ranks: Ranks) -> None:
    ran = ranks.run(training)
    joined, worked = (of_group(ran.log(rank), 2) for rank in range(2))
    for rank in range(2):
        # Not registered with torch, it goes by the name of its class.
        unknown = [c for c in ran.calls(rank) if c.group == "OnTop"]
        assert [c.role for c in unknown] == [*["ddp.construct"] * 3, "ddp.backward.bucket"]
    assert [c.role for c in worked] == [
        *["ddp.construct"] * 3,
        "ddp.forward.notify_join", "ddp.forward.sync_check", "ddp.backward.bucket",
        "ddp.forward.notify_join", *["ddp.forward.rebuild_buckets"] * 2,
        "ddp.forward.sync_check", "ddp.backward.bucket",
        "ddp.forward.notify_join", "ddp.forward.sync_check", "ddp.backward.bucket",
        "join.count_nonjoined", "join.common_rank", "join.final_sync",
    ]  # fmt: skip
    assert [c.role for c in joined[-6:]] == [
        "join.count_nonjoined", "join.sync_check", "join.bucket",
        "join.count_nonjoined", "join.common_rank", "join.final_sync",
    ]  # fmt: skip
    assert [c.program for c in joined] == [c.program for c in worked]
    assert all(c.site and c.site.startswith(__file__) for c in worked)


def refusals() -> Any:
    group, _ = through()
    said = []
    wrongs: list[Callable[[], Any]] = [
        lambda: group.allreduce(["no tensor"]),
        lambda: group.allreduce(),
        lambda: group.broadcast([torch.ones(1)], 1, 2, 3),
    ]
    for wrong in wrongs:
        try:
            wrong()
        except TypeError as problem:
            said.append(str(problem).partition("\n")[0])
    group.allreduce([torch.ones(1)]).wait()
    return said


def test_a_refused_call_raises_as_it_would(ranks: Ranks) -> None:
    bare = ranks.run(refusals, trace=False)
    traced = ranks.run(refusals, fails=True)
    assert traced.result() == bare.result()
    calls = of_group(traced.log(), 2)
    assert [c.void for c in calls] == [True, True, True, None]


# -- split sizes as tensors -------------------------------------------------------------------


class Splitting(Through):
    """Takes split sizes in whatever form, as a group that exchanges them on a device does."""

    def alltoall_base(self, out: Any, x: Any, out_sizes: Any, sizes: Any, opts: Any = None) -> Any:
        got, sent = (torch.as_tensor(s).tolist() for s in (out_sizes, sizes))
        return self.inner.alltoall_base(out, x, got, sent, opts or dist.AllToAllOptions())


def tensor_splits() -> list[int]:
    group, _ = through(Splitting)
    rank = dist.get_rank()
    got, sent = ([1, 2], [1, 3]) if rank == 0 else ([3, 0], [2, 0])
    forms: list[Callable[[list[int]], Any]] = [
        list, torch.tensor, lambda sizes: [torch.tensor(n) for n in sizes],
    ]  # fmt: skip
    for form in forms:
        for _ in range(2):
            out, x = torch.empty(sum(got)), torch.ones(sum(sent))
            group.alltoall_base(out, x, form(got), form(sent)).wait()
    session = current()
    assert session is not None
    assert session.recorder is not None
    recorder = session.recorder
    return [recorder.failures, len(recorder.book.states[group].templates)]


def test_split_sizes_may_be_tensors(ranks: Ranks) -> None:
    ran = ranks.run(tensor_splits)
    for rank in range(2):
        failures, templates = ran.result(rank)
        assert failures == 0
        assert templates == 1, "of one line, and none holds a tensor"
        calls = of_group(ran.log(rank), 2)
        assert [c.op for c in calls] == ["all_to_all_single"] * 6
        splits = [[1, 3], [1, 2]] if rank == 0 else [[2, 0], [3, 0]]
        assert [c.splits for c in calls] == [splits] * 6
    assert align(ran.logs).status == "aligned"


def test_split_sizes_on_a_device_are_not_read() -> None:
    reader = MethodReader(*METHODS["alltoall_base"])
    told = torch.tensor([1, 2], device="meta")
    for sizes in (told, list(told)):
        args: Any = None, (torch.empty(3), torch.ones(3), [1, 2], sizes), {}
        assert reader.fields(args, 2).splits is None
        assert reader.key(args) == reader.key(args)


# -- on and off -----------------------------------------------------------------------------


def on_and_off(folder: str) -> None:
    def methods() -> list[Any]:
        return [vars(Through).copy(), vars(OnTop).copy(), vars(Work).copy(),
                vars(dist.ProcessGroup)["__init__"]]  # fmt: skip

    before = methods()
    group, _ = through(OnTop)
    with collectrace.trace(folder):
        assert vars(Through)["allreduce"] is not before[0]["allreduce"]
        group.allreduce([torch.ones(1)]).wait()

        class Late(OnTop):
            def reduce(self, *args: Any) -> Any:
                return super().reduce(*args)

        untouched = vars(Late)["reduce"]
        late = Late(group.inner)
        dist.reduce(torch.ones(1), 0, group=through(OnTop)[0])
        late.reduce([torch.ones(1)], dist.ReduceOptions()).wait()
        assert vars(Late)["reduce"] is not untouched
    assert vars(Late)["reduce"] is untouched
    assert methods() == before
    group.allreduce([torch.ones(1)]).wait()


def test_disable_puts_the_methods_back(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(on_and_off, 2, str(tmp_path / "logs"), trace=False)
    assert ran.exits == (0, 0)
    [first, second] = rank_file_checks.read_run(tmp_path / "logs", 2)
    assert [c.op for c in first.calls if c.group == "Late"] == ["reduce"]
    rank_file_checks.check_whole(first, 2)
    rank_file_checks.check_whole(second, 2)


# -- ranks that are threads -----------------------------------------------------------------

THREADED = """
import threading
import torch, torch.distributed as dist
import collectrace
from torch.distributed import HashStore
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed import multi_threaded_pg as threaded

collectrace.enable()
torch._C._distributed_c10d._set_thread_isolation_mode(True)
threaded._install_threaded_pg()

def rank(r, store, failed):
    try:
        dist.init_process_group("threaded", rank=r, world_size=3, store=store)
        sub = dist.new_group([0, 2])
        for _ in range(4):
            t = torch.full((2,), float(r))
            dist.all_reduce(t)
            assert t[0] == 3
        dist.barrier()
        if r != 1:
            dist.broadcast(t, 2, group=sub)
        model = DistributedDataParallel(torch.nn.Linear(2, 1))
        for _ in range(2):
            model(t).sum().backward()
        dist.destroy_process_group()
    except BaseException as problem:
        failed.append(problem)
        raise

for _ in range(2):
    store, failed = HashStore(), []
    threads = [threading.Thread(target=rank, args=(r, store, failed)) for r in (2, 0, 1)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not failed
threaded._uninstall_threaded_pg()
"""


@pytest.mark.slow
def test_the_rank_that_begins_first_is_recorded_and_no_other(ranks: Ranks) -> None:
    ran = ranks.script(THREADED)
    assert len(ran.files) == 2, "one per init"
    for log in ran.files:
        rank = log.header.rank
        assert log.path.name == f"rank{rank:05}.jsonl"
        mine = [g.ranks for g in log.of(Group) if g.phase == "ready"]
        assert mine == ([[0, 1, 2]] if rank == 1 else [[0, 1, 2], [0, 2]])
        assert len({c.thread for c in log.calls}) == 1
        default = [c for c in log.calls if c.group == log.calls[0].group]
        assert [c.op for c in default[:5]] == ["all_reduce"] * 4 + ["barrier"]
        assert [c.iteration for c in default if c.role == "ddp.backward.bucket"] == [1, 2]
        assert [c.seq for c in default] == list(range(1, len(default) + 1))
        assert log.exit is not None
        assert log.exit.failures == 0

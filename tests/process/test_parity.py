"""Tracing changes nothing: the same bits, warnings and random numbers; and the record is whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

import collectrace
from tests.process import rankfiles
from tests.process.ranks import Ranks


def bits(tensor: torch.Tensor) -> str:
    """Equal exactly where every bit is."""
    plain = tensor.detach().contiguous()
    raw = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"{plain.dtype} {list(plain.shape)} {hashlib.sha256(raw).hexdigest()}"


def state(module: nn.Module) -> dict[str, str]:
    return {k: bits(v) for k, v in module.state_dict().items()}


def net(seed: int = 0, *, norm: bool = False, width: int = 16) -> nn.Sequential:
    torch.manual_seed(seed)
    middle: list[nn.Module] = [nn.BatchNorm1d(width)] if norm else []
    return nn.Sequential(nn.Linear(8, width), *middle, nn.ReLU(), nn.Linear(width, 4))


def batches(rank: int, count: int) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(rank + 1)
    for _ in range(count):
        yield torch.randn(5, 8, generator=generator)


def train(model: nn.Module, rank: int, count: int = 4) -> dict[str, Any]:
    """Losses, parameters and buffers after some steps of SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for batch in batches(rank, count):
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(bits(loss))
    return {"losses": losses, "state": state(model)}


# -- DDP ------------------------------------------------------------------------------------


def ddp(rank: int) -> Any:
    return train(DistributedDataParallel(net()), rank)


def ddp_many_buckets(rank: int) -> Any:
    # One bucket at first, two as soon as they have been rebuilt.
    model = nn.Sequential(net(width=64), nn.Linear(4, 64), nn.Linear(64, 64))
    return train(DistributedDataParallel(model, bucket_cap_mb=0.003), rank)


def ddp_bucket_views(rank: int) -> Any:
    return train(DistributedDataParallel(net(), gradient_as_bucket_view=True), rank)


def ddp_static_graph(rank: int) -> Any:
    return train(DistributedDataParallel(net(), static_graph=True), rank)


def ddp_buffers(rank: int) -> Any:
    return train(DistributedDataParallel(net(norm=True)), rank)


class Forks(nn.Module):
    """Which of its branches is used depends on the rank and the step."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right, self.out = nn.Linear(8, 6), nn.Linear(8, 6), nn.Linear(6, 2)
        self.turn = rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.turn += 1
        branch = self.left if self.turn % 2 else self.right
        return self.out(branch(x))  # type: ignore[no-any-return]


def ddp_unused_parameters(rank: int) -> Any:
    return train(DistributedDataParallel(Forks(rank), find_unused_parameters=True), rank)


def ddp_no_sync(rank: int) -> Any:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, batch in enumerate(batches(rank, 6)):
        with model.no_sync() if step % 3 else contextlib.nullcontext():
            model(batch).sum().backward()
        if step % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return state(model)


def ddp_fp16_hook(rank: int) -> Any:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = DistributedDataParallel(net())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return train(model, rank)


def ddp_powersgd_hook(rank: int) -> Any:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    model = DistributedDataParallel(net())
    model.register_comm_hook(
        powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=0.5
        ),
        powerSGD_hook.powerSGD_hook,
    )
    return train(model, rank, 8)


def own_hook(counter: Counter[str], bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    counter["buckets"] += 1
    tensor = bucket.buffer().div_(2)
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None

    def halve(future: torch.futures.Future[Any]) -> torch.Tensor:
        counter["callbacks"] += 1
        return future.value()[0]  # type: ignore[no-any-return]

    return work.get_future().then(halve)  # type: ignore[no-any-return]


# Not as text: DDP looks at them.
own_hook.__annotations__ = {
    "bucket": GradBucket,
    "return": torch.futures.Future[torch.Tensor],
}


def ddp_own_hook(rank: int) -> Any:
    counter: Counter[str] = Counter()
    model = DistributedDataParallel(net())
    model.register_comm_hook(counter, own_hook)
    return train(model, rank), counter


def ddp_join(rank: int) -> Any:
    model = DistributedDataParallel(net(norm=True))
    with model.join():
        return train(model, rank, 4 + 2 * rank)


def ddp_join_unused_parameters(rank: int) -> Any:
    model = DistributedDataParallel(Forks(0), find_unused_parameters=True)
    with model.join():
        return train(model, rank, 4 + rank)


def ddp_join_own_hook(rank: int) -> Any:
    model = DistributedDataParallel(net())
    counter: Counter[str] = Counter()
    model.register_comm_hook(counter, own_hook)
    with model.join():
        return train(model, rank, 4 + 2 * rank)


def ddp_join_throws(rank: int) -> Any:
    model = DistributedDataParallel(net())
    caught = ""
    try:
        with model.join(throw_on_early_termination=True):
            train(model, rank, 3 + rank)
    except RuntimeError as problem:
        caught = str(problem)
    return caught, state(model)


def zero_with_join(rank: int) -> Any:
    from torch.distributed.algorithms.join import Join
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        for batch in batches(rank, 3 + rank):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    return state(model)


def two_models(rank: int) -> Any:
    first, second = DistributedDataParallel(net(1)), DistributedDataParallel(net(2))
    return train(first, rank), train(second, rank), train(first, rank)


# -- parallelism beyond DDP -----------------------------------------------------------------


def fsdp2(rank: int) -> Any:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    model = net()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for batch in batches(rank, 4):
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(bits(loss))
    whole = []
    for p in model.parameters():
        assert isinstance(p, DTensor)
        whole.append(bits(p.full_tensor()))
    return losses, whole


def tensor_parallel(rank: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (2,))
    model = net()
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for batch in batches(0, 4):
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(bits(loss))
    whole = [bits(p.full_tensor() if isinstance(p, DTensor) else p) for p in model.parameters()]
    return losses, whole


def pipeline(rank: int) -> Any:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(rank)
    module = nn.Linear(8, 8)
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    losses: list[torch.Tensor] = []
    for batch in batches(0, 3):
        inputs = torch.cat([batch, batch])[:4]
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=torch.ones(4, 8), losses=losses)
    grads = [bits(p.grad) for p in module.parameters() if p.grad is not None]
    return grads, [bits(one) for one in losses]


def checkpoints(rank: int) -> Any:
    from torch.distributed.checkpoint.state_dict_loader import load
    from torch.distributed.checkpoint.state_dict_saver import async_save, save

    folder = Path(os.environ["COLLECTRACE_LOG_DIR"]).with_name("saved")
    model = DistributedDataParallel(net())
    trained = train(model, rank)
    saved = {"model": model.module.state_dict()}
    save(saved, checkpoint_id=folder / "sync")
    # Its thread issues beside training: on the default group nothing would order the two.
    saving = async_save(
        saved, checkpoint_id=folder / "async", process_group=dist.new_group(backend="gloo")
    )
    more = train(DistributedDataParallel(net(3)), rank)
    assert isinstance(saving, Future)
    saving.result()
    loaded = []
    for name in ("sync", "async"):
        fresh = {"model": net(7).state_dict()}
        load(fresh, checkpoint_id=folder / name)
        loaded.append({k: bits(v) for k, v in fresh["model"].items()})
    return trained, more, loaded


def compiled_ddp(rank: int, backend: str) -> Any:
    model = torch.compile(DistributedDataParallel(net()), backend=backend)
    return train(model, rank)  # type: ignore[arg-type]


# -- plain collectives ----------------------------------------------------------------------


def every_collective(rank: int) -> Any:
    size = dist.get_world_size()
    x = torch.arange(6.0).reshape(2, 3) + rank
    out: list[torch.Tensor] = []

    def keep(*tensors: torch.Tensor) -> None:
        out.extend(t.clone() for t in tensors)

    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        y = x.clone()
        dist.all_reduce(y, op=op)
        keep(y)
    y = x.clone()
    work = dist.all_reduce(y, async_op=True)
    assert work is not None
    work.wait()
    keep(y)
    dist.broadcast(y, src=1)
    dist.reduce(y, dst=0)
    slots = [torch.zeros(2, 3) for _ in range(size)]
    dist.all_gather(slots, x)
    keep(y, *slots)
    flat = torch.zeros(2 * size, 3)
    dist.all_gather_single(flat, x)
    share = torch.zeros(1, 3)
    dist.reduce_scatter_single(share, x)
    dist.gather(x, slots if rank == 0 else None, dst=0)
    dist.scatter(share, [x[:1], x[1:]] if rank == 1 else None, src=1)
    keep(flat, share, *slots)
    swapped = torch.zeros(2, 3)
    dist.all_to_all_single(swapped, x)
    keep(swapped)
    uneven = torch.zeros(2 if rank == 0 else 4)
    dist.all_to_all_single(uneven, torch.arange(3.0), [1, 1] if rank == 0 else [2, 2], [1, 2])
    keep(uneven)
    if rank == 0:
        dist.send(x, 1, tag=3)
        dist.recv(y, 1)
    else:
        dist.recv(y, 0, tag=3)
        dist.send(x, 0)
    keep(y)
    both = [
        dist.P2POp(dist.isend, x, 1 - rank),
        dist.P2POp(dist.irecv, y, 1 - rank),
    ]
    for request in dist.batch_isend_irecv(both):
        request.wait()
    keep(y)
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    one: list[Any] = [rank]
    dist.broadcast_object_list(one, src=1)
    dist.barrier()
    dist.monitored_barrier()
    half = dist.new_group([rank], use_local_synchronization=True)
    dist.all_reduce(x, group=half)
    keep(x)
    return [bits(t) for t in out], objects, one


# -- the comparison -------------------------------------------------------------------------


def scenario(name: str, args: list[Any], traced: bool) -> Any:
    """One rank, every warning printed."""
    warnings.simplefilter("always")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if traced:
        collectrace.enable()
    dist.init_process_group("gloo")
    result = globals()[name](dist.get_rank(), *args)
    dist.destroy_process_group()
    return result


def said(output: str) -> str:
    """Without the time and the process id that torch's log lines begin with."""
    return re.sub(r"^(.*[IWE]\d{4} )[\d:.]+ \d+", r"\1", output, flags=re.MULTILINE)


def run_twice(
    ranks: Ranks, function: Callable[..., Any], *args: Any
) -> tuple[list[Any], list[rankfiles.RankFile]]:
    """Run untraced and traced: equal in every bit and every word. The traced run's files."""
    bare, traced = (
        ranks.run(scenario, 2, function.__name__, args, traced, trace=False, init=False)
        for traced in (False, True)
    )
    for rank in range(2):
        assert traced.result(rank) == bare.result(rank)
        assert said(traced.output(rank)) == said(bare.output(rank))
    files = rankfiles.read_run(traced.logs, 2)
    for file in files:
        rankfiles.check_whole(file, 2)
    rankfiles.check_agreement(files)
    return [traced.result(rank) for rank in range(2)], files


def ops(file: rankfiles.RankFile) -> Counter[str]:
    return Counter(call.op for call in file.calls)


def roles(file: rankfiles.RankFile) -> Counter[str]:
    return Counter(call.role for call in file.calls)


@pytest.mark.parametrize(
    ("function", "role", "count"),
    [
        (ddp, "ddp.backward.bucket", 4),
        (ddp_many_buckets, "ddp.backward.bucket", 7),
        (ddp_bucket_views, "ddp.backward.bucket", 4),
        (ddp_static_graph, "ddp.backward.bucket", 4),
        (ddp_buffers, "ddp.forward.sync_buffers", 8),
        (ddp_unused_parameters, "ddp.backward.unused_params", 4),
        (ddp_no_sync, "ddp.backward.bucket", 2),
        (ddp_fp16_hook, "ddp.backward.bucket", 4),
        (ddp_own_hook, "ddp.backward.bucket", 4),
        (ddp_powersgd_hook, "ddp.backward.bucket", 20),
        (two_models, "ddp.backward.bucket", 12),
    ],
)
def test_ddp(function: Callable[..., Any], role: str, count: int, ranks: Ranks) -> None:
    _, files = run_twice(ranks, function)
    for file in files:
        assert roles(file)[role] == count, roles(file)
        assert "user" not in roles(file)
        assert "unknown" not in roles(file)


@pytest.mark.parametrize(
    "function", [ddp_join, ddp_join_unused_parameters, ddp_join_own_hook, zero_with_join]
)
def test_uneven_inputs(function: Callable[..., Any], ranks: Ranks) -> None:
    _, files = run_twice(ranks, function)
    joined, worked = map(roles, files)
    assert joined["join.bucket"] > 0
    assert worked["join.bucket"] == 0
    assert joined["ddp.backward.bucket"] + joined["join.bucket"] == worked["ddp.backward.bucket"]
    assert "user" not in joined + worked


def test_early_termination(ranks: Ranks) -> None:
    results, files = run_twice(ranks, ddp_join_throws)
    assert "exhausted all inputs" in results[0][0]
    assert "Detected at least one rank" in results[1][0]
    assert roles(files[0])["join.terminate"] == 1
    assert roles(files[1])["ddp.forward.terminate_check"] == 4


def test_fsdp2(ranks: Ranks) -> None:
    _, files = run_twice(ranks, fsdp2)
    for file in files:
        assert ops(file)["reduce_scatter_single"] == 4 * 2
        assert ops(file)["all_gather_single"] >= 4 * 2


def test_tensor_parallel(ranks: Ranks) -> None:
    _, files = run_twice(ranks, tensor_parallel)
    for file in files:
        assert ops(file)["all_reduce"] >= 4


def test_pipeline(ranks: Ranks) -> None:
    results, files = run_twice(ranks, pipeline)
    assert results[1][1], "no loss"
    # Two microbatches, each way, in three steps.
    for file in files:
        assert min(ops(file)["send"], ops(file)["recv"]) >= 6


def test_distributed_checkpoint(ranks: Ranks) -> None:
    results, files = run_twice(ranks, checkpoints)
    _, _, (saved, saved_beside) = results[0]
    assert saved == saved_beside
    for file in files:
        assert any(call.thread for call in file.calls), "async_save issues from another thread"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_ddp(backend: str, ranks: Ranks) -> None:
    _, files = run_twice(ranks, compiled_ddp, backend)
    for file in files:
        assert roles(file)["ddp.backward.bucket"] == 4


def test_every_collective(ranks: Ranks) -> None:
    _, files = run_twice(ranks, every_collective)
    told = ops(files[0])
    assert told["all_reduce"] == 5
    assert {"broadcast", "reduce", "all_gather", "gather", "scatter", "barrier"} <= told.keys()
    assert sum((file.calls[-1].seq for file in files), 0) > 0


# -- what else could change -----------------------------------------------------------------


def rng_states(rank: int) -> Any:
    return (
        torch.random.get_rng_state().tolist(),
        random.Random(0).random(),
        [torch.rand(3).tolist(), ddp(rank)],
        torch.random.get_rng_state().tolist(),
    )


def test_random_numbers_stay_the_same(ranks: Ranks) -> None:
    run_twice(ranks, rng_states)


def python_random(rank: int) -> Any:
    random.seed(rank)
    before = random.getstate()
    with collectrace.trace(Path.cwd()) if rank < 0 else contextlib.nullcontext():
        dist.all_reduce(torch.ones(1))
    return before == random.getstate(), random.random()


def test_the_random_module_stays_the_same(ranks: Ranks) -> None:
    results, _ = run_twice(ranks, python_random)
    assert all(same for same, _ in results)


def on_and_off(rank: int) -> Any:
    def look() -> tuple[Any, ...]:
        return (
            sorted(t.name for t in threading.enumerate()),
            sys.excepthook,
            dist.all_reduce,
            dist.Work.wait,
            torch.Tensor.backward,
            DistributedDataParallel.__init__,
            sys.exit,
        )

    before = look()
    trained = [ddp(rank)]
    for _ in range(3):
        collectrace.enable()
        during = look()
        trained.append(ddp(rank))
        collectrace.disable()
    after = look()
    trained.append(ddp(rank))
    assert all(a is not b for a, b in zip(before[2:], during[2:], strict=True))
    assert len(during[0]) == len(before[0]) + 1
    assert all(a is b for a, b in zip(before[1:], after[1:], strict=True))
    assert before[0] == after[0]
    return trained


def test_disable_leaves_nothing_behind(ranks: Ranks) -> None:
    ran = ranks.run(scenario, 2, "on_and_off", [], False, trace=False, init=False)
    for rank in range(2):
        first, *others = ran.result(rank)
        assert all(one == first for one in others)
        assert ran.output(rank) == ""

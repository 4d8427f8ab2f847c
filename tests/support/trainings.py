"""What is trained, with and without tracing: every way of training that torch brings along."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from tests.support import torch_names


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


def hsdp(rank: int) -> Any:
    """FSDP2 with one rank per shard group: gradients are reduced between the replicas."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = net()
    fully_shard(model, mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "shard")))
    return [bits(loss) for loss in steps(model, rank)]


def fsdp1(rank: int) -> Any:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = net()
    for i in (0, 2):
        model[i] = FullyShardedDataParallel(model[i], device_id=torch.device("cpu"))
    whole = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    losses = [bits(loss) for loss in steps(whole, rank)]
    return losses, bits(whole.clip_grad_norm_(1.0))


def steps(model: nn.Module, rank: int) -> Iterator[torch.Tensor]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for batch in batches(rank, 3):
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss


def zero(rank: int) -> Any:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    for batch in batches(rank, 3):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    optimizer.consolidate_state_dict(to=0)
    return state(model)


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
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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


def compiled_collectives(rank: int, backend: str) -> Any:
    from torch.distributed import _functional_collectives as functional

    @torch.compile(backend=backend)
    def average(x: torch.Tensor) -> torch.Tensor:
        whole = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        return functional.all_gather_tensor(whole, 0, dist.group.WORLD) + 1

    return [bits(average(batch)) for batch in batches(rank, 3)]


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
    torch_names.all_gather_single(flat, x)
    share = torch.zeros(1, 3)
    torch_names.reduce_scatter_single(share, x)
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

"""torch.compile cannot tell that its collectives are traced: the same graphs, breaks and frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.support.real_ranks import Ran, Ranks

pytestmark = pytest.mark.slow  # test_parity.py has compiled DDP by default


def in_place(x: torch.Tensor) -> torch.Tensor:
    """Dynamo turns these into functional collectives, by the identity of the functions."""
    y = x * 2
    dist.all_reduce(y)
    gathered = torch.empty(8)
    dist.all_gather_into_tensor(gathered, y)
    mine = torch.empty(4)
    dist.reduce_scatter_tensor(mine, gathered, op=dist.ReduceOp.SUM)
    listed = [torch.empty(4) for _ in range(2)]
    dist.all_gather(listed, mine)
    exchanged = torch.empty(4)
    dist.all_to_all_single(exchanged, listed[1])
    return exchanged + y


def functionally(x: torch.Tensor) -> torch.Tensor:
    group = dist.distributed_c10d._get_default_group()
    summed = functional.all_reduce(x * 2, "sum", group)
    return functional.all_gather_tensor(summed, 0, group) + 1


def asynchronous(x: torch.Tensor) -> torch.Tensor:
    work = dist.all_reduce(x, async_op=True)
    assert work is not None
    work.wait()
    return x + 1


def barrier(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    dist.barrier()
    return x * 2


def broadcast(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    dist.broadcast(y, 0)
    return y.cos()


def backward(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().clone().requires_grad_()
    (leaf * leaf).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return leaf.grad + 1


def autograd_backward(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().clone().requires_grad_()
    torch.autograd.backward([(leaf * leaf).sum()])
    assert leaf.grad is not None
    return leaf.grad + 1


class Averages(nn.Module):
    """A module with a collective of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y: torch.Tensor = self.layer(x)
            dist.all_reduce(y)
            return y / dist.get_world_size()


WHOLE: Final = (in_place, functionally)
BROKEN: Final = (asynchronous, barrier, broadcast, backward, autograd_backward)


def counted() -> dict[str, Any]:
    """What Dynamo has counted since it was reset."""
    from torch._dynamo.utils import counters

    found = {name: dict(counters[name]) for name in ("frames", "stats", "inline_call")}
    return found | {"breaks": sum(counters["graph_break"].values())}


def compiled(function: Callable[[torch.Tensor], torch.Tensor], backend: str) -> dict[str, Any]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    run = torch.compile(function, backend=backend)
    results = [run(torch.arange(4.0) + n).tolist() for n in range(3)]
    found = counted() | {"results": results}
    torch._dynamo.reset()
    explained = torch._dynamo.explain(function)(torch.arange(4.0))
    return found | {
        "explained": [explained.graph_count, explained.graph_break_count, explained.op_count]
    }


def ddp(backend: str, *, step: bool) -> dict[str, Any]:
    """A model in DDP, compiled; or the whole step, its backward included."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(x).square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    run = torch.compile(train if step else model, backend=backend)
    losses = []
    for n in range(4):
        optimizer.zero_grad()
        x = torch.full((3, 4), float(n + dist.get_rank()))
        if step:
            losses.append(run(x).item())
        else:
            loss = run(x).square().sum()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return counted() | {"losses": losses, "ends": [p.tolist() for p in model.parameters()]}


def everything(backend: str) -> dict[str, Any]:
    found = {function.__name__: compiled(function, backend) for function in (*WHOLE, *BROKEN)}
    found["module"] = compiled(Averages(), backend)
    found["ddp"] = ddp(backend, step=False)
    found["ddp step"] = ddp(backend, step=True)
    return found


@pytest.fixture(scope="module", params=["eager", "aot_eager"])
def both(
    request: pytest.FixtureRequest, server: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Ran, Ran]:
    """The same without and with tracing."""
    ranks = Ranks(server, tmp_path_factory.mktemp("compiled"))
    alone, traced = (
        ranks.run(everything, 2, request.param, trace=trace, limit=120) for trace in (False, True)
    )
    return alone, traced


WHOLE_NAMES: Final = {*(function.__name__ for function in WHOLE), "module"}
NAMES: Final = [function.__name__ for function in (*WHOLE, *BROKEN)]


@pytest.mark.parametrize("name", [*NAMES, "module", "ddp", "ddp step"])
def test_graphs_breaks_and_results_are_the_same(both: tuple[Ran, Ran], name: str) -> None:
    alone, traced = both
    for rank in range(2):
        assert traced.result(rank)[name] == alone.result(rank)[name]
        breaks = alone.result(rank)[name]["breaks"]
        # What is compared breaks where this test means it to.
        assert (breaks > 0) == (name not in WHOLE_NAMES), breaks


def test_what_a_graph_issues_is_recorded(both: tuple[Ran, Ran]) -> None:
    _, traced = both
    for rank in range(2):
        ops = {call.op for call in traced.calls(rank)}
        for op in ("all_reduce", "all_gather_single", "reduce_scatter_single", "all_to_all_single"):
            assert op in ops, ops
        assert "barrier" in ops
        buckets = [call for call in traced.calls(rank) if call.role == "ddp.backward.bucket"]
        assert len(buckets) == 8
        exit_ = traced.log(rank).exit
        assert exit_ is not None
        assert exit_.failures == 0

"""Who issued what: each role of the frameworks on a working rank, and on one that has joined."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import BuiltinCommHookType
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from collectrace.records import Call, NoSync
from collectrace.records import Join as JoinRecord
from tests.support import rank_file_checks, trainings
from tests.support.rank_file_checks import RankFile
from tests.support.real_ranks import Ranks

PAIRS: Final = {
    # class of design's table: working rank, joined rank
    ("ddp.forward.notify_join", "join.count_nonjoined"),
    ("ddp.forward.terminate_check", "join.terminate"),
    ("ddp.forward.sync_check", "join.sync_check"),
    ("ddp.forward.buffers_rank", "join.buffers_rank"),
    ("ddp.forward.sync_buffers", "join.sync_buffers"),
    ("ddp.backward.bucket", "join.bucket"),
    ("ddp.backward.unused_params", "join.unused_params"),
}


def step(model: nn.Module, width: int = 4) -> None:
    model(torch.ones(2, width)).sum().backward()


def net(**options: Any) -> DistributedDataParallel:
    return DistributedDataParallel(nn.Linear(4, 4), **options)


def hooked(kind: str) -> DistributedDataParallel:
    model = net()
    if kind == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif kind == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=0.5
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif kind == "own":
        model.register_comm_hook(Counter(), trainings.own_hook)
    else:
        register: Any = model._register_builtin_comm_hook
        register(BuiltinCommHookType.FP16_COMPRESS)
    return model


def joined_steps(model: DistributedDataParallel, extra: int = 2) -> None:
    with model.join():
        for _ in range(2 + extra * dist.get_rank()):
            step(model)


def hooks_plain() -> None:
    for kind in HOOKS:
        model = hooked(kind)
        for _ in range(4):
            step(model)
        dist.barrier()


def hooks_under_join() -> None:
    for kind in ("fp16", "own", "builtin"):
        joined_steps(hooked(kind))
        dist.barrier()


HOOKS: Final = ("fp16", "powersgd", "own", "builtin")


def parts(file: RankFile) -> list[list[Call]]:
    """The calls between the user's barriers."""
    found: list[list[Call]] = [[]]
    for call in file.calls:
        if call.op == "barrier":
            found.append([])
        else:
            found[-1].append(call)
    return found[:-1]


def checked(ranks: Ranks, function: Callable[..., Any], *args: Any) -> list[RankFile]:
    """Run on two ranks whose streams must agree; every pair of roles must be in the table."""
    files = rank_file_checks.read_run(ranks.run(function, 2, *args).logs, 2)
    for file in files:
        rank_file_checks.check_whole(file, 2)
    rank_file_checks.check_agreement(files)
    joined, worked = (f.calls for f in files)
    for one, other in zip(joined, worked, strict=True):
        assert one.role == other.role or (other.role, one.role) in PAIRS, (one, other)
    return files


def roles(calls: list[Call]) -> Counter[str]:
    return Counter(c.role for c in calls)


def test_comm_hooks(ranks: Ranks) -> None:
    for file in checked(ranks, hooks_plain):
        for kind, calls in zip(HOOKS, parts(file), strict=True):
            assert set(roles(calls)) <= {
                "ddp.construct", "ddp.backward.bucket", "ddp.forward.rebuild_buckets"
            }, kind  # fmt: skip
            buckets = [c for c in calls if c.role == "ddp.backward.bucket"]
            dtype = {"fp16": "float16", "builtin": "float16"}.get(kind, "float32")
            assert {c.dtype for c in buckets} == {dtype}, kind
            # PowerSGD's P, Q and what it leaves uncompressed, from its third step on.
            assert len(buckets) == (2 + 2 * 3 if kind == "powersgd" else 4), kind


def test_a_comm_hook_keeps_the_role_of_the_one_who_runs_it(ranks: Ranks) -> None:
    joined, worked = checked(ranks, hooks_under_join)
    for calls, others in zip(parts(joined), parts(worked), strict=True):
        assert roles(calls)["join.bucket"] == 2
        assert roles(calls)["ddp.backward.bucket"] == 2
        assert roles(others)["ddp.backward.bucket"] == 4
        assert "user" not in roles(calls) + roles(others)


# -- join() in all its forms ----------------------------------------------------------------


def with_buffers() -> DistributedDataParallel:
    return DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))


class Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)  # type: ignore[no-any-return]


def plain_join() -> None:
    joined_steps(net())


def buffers_join() -> None:
    joined_steps(with_buffers())


def unused_join() -> None:
    joined_steps(DistributedDataParallel(Half(), find_unused_parameters=True))


def no_sync_join() -> None:
    model = net()
    with model.join():
        for n in range(4 + dist.get_rank()):
            with model.no_sync() if n % 2 else contextlib.nullcontext():
                step(model)


def test_join(ranks: Ranks) -> None:
    joined, worked = checked(ranks, plain_join)
    assert [c.role for c in worked.calls] == [
        *["ddp.construct"] * 3,
        "ddp.forward.notify_join", "ddp.forward.sync_check", "ddp.backward.bucket",
        "ddp.forward.notify_join", *["ddp.forward.rebuild_buckets"] * 2,
        "ddp.forward.sync_check", "ddp.backward.bucket",
        *["ddp.forward.notify_join", "ddp.forward.sync_check", "ddp.backward.bucket"] * 2,
        "join.count_nonjoined", "join.common_rank", "join.final_sync",
    ]  # fmt: skip
    assert [c.role for c in joined.calls[11:]] == [
        *["join.count_nonjoined", "join.sync_check", "join.bucket"] * 2,
        "join.count_nonjoined", "join.common_rank", "join.final_sync",
    ]  # fmt: skip
    phases = [(j.phase, j.iteration) for j in joined.of(JoinRecord)]
    assert phases == [("entered", None), ("joined", 2), ("left", 4)]
    assert [c.iteration for c in joined.calls if c.role == "join.bucket"] == [3, 4]


def test_buffers_under_join(ranks: Ranks) -> None:
    joined, worked = checked(ranks, buffers_join)
    told, others = roles(joined.calls), roles(worked.calls)
    assert others["ddp.forward.buffers_rank"] == 4
    assert (told["ddp.forward.buffers_rank"], told["join.buffers_rank"]) == (2, 2)
    assert others["ddp.forward.sync_buffers"] == 2 * told["join.sync_buffers"] > 0
    # _find_common_rank serves three masters; only at the end is it join()'s own.
    assert told["join.common_rank"] == others["join.common_rank"] == 1
    assert {c.dtype for c in joined.calls if c.role == "join.common_rank"} == {"int64"}


def test_unused_parameters_under_join(ranks: Ranks) -> None:
    joined, worked = checked(ranks, unused_join)
    told, others = roles(joined.calls), roles(worked.calls)
    assert others["ddp.backward.unused_params"] == 4
    assert (told["ddp.backward.unused_params"], told["join.unused_params"]) == (2, 2)
    maps = {(c.dtype, tuple(map(str, c.shape or ()))) for c in joined.calls if "unused" in c.role}
    assert maps == {("int32", ("4",))}


def test_no_sync_under_join(ranks: Ranks) -> None:
    joined, worked = checked(ranks, no_sync_join)
    assert roles(worked.calls)["ddp.forward.sync_check"] == 5
    assert roles(worked.calls)["ddp.backward.bucket"] == 3
    told = [(n.phase, n.site) for n in worked.of(NoSync)]
    assert [phase for phase, _ in told] == ["entered", "left"] * 2
    assert all(site and site.startswith(__file__) for _, site in told)
    assert roles(joined.calls)["join.sync_check"] == 1


def static_graph() -> None:
    model = DistributedDataParallel(Half(), static_graph=True)
    for _ in range(4):
        step(model)


def find_unused() -> None:
    model = DistributedDataParallel(Half(), find_unused_parameters=True)
    for _ in range(4):
        step(model)


@pytest.mark.parametrize(("function", "count"), [(static_graph, 1), (find_unused, 4)])
def test_which_parameters_were_used(function: Any, count: int, ranks: Ranks) -> None:
    for file in checked(ranks, function):
        told = roles(file.calls)
        assert told["ddp.backward.unused_params"] == count
        assert told["ddp.backward.bucket"] == 4
        assert set(told) <= {
            "ddp.construct", "ddp.backward.unused_params", "ddp.backward.bucket",
            "ddp.forward.rebuild_buckets",
        }  # fmt: skip


def throws() -> None:
    model = net()
    try:
        with model.join(throw_on_early_termination=True):
            for _ in range(2 + dist.get_rank()):
                step(model)
    except RuntimeError:
        return
    raise AssertionError("nothing was thrown")


def test_throw_on_early_termination(ranks: Ranks) -> None:
    joined, worked = checked(ranks, throws)
    assert [c.role for c in worked.calls[-7:]] == [
        "ddp.forward.terminate_check", *["ddp.forward.rebuild_buckets"] * 2,
        "ddp.forward.sync_check", "ddp.backward.bucket",
        "ddp.forward.notify_join", "ddp.forward.terminate_check",
    ]  # fmt: skip
    assert [c.role for c in joined.calls[-2:]] == ["join.count_nonjoined", "join.terminate"]
    for file in (joined, worked):
        assert [j.throws for j in file.of(JoinRecord)][:1] == [True]


# -- several models -------------------------------------------------------------------------


def two_models() -> None:
    first, second = net(broadcast_buffers=True), with_buffers()
    for _ in range(3):
        step(second)
        step(first)


def test_two_models_on_one_group(ranks: Ranks) -> None:
    for file in checked(ranks, two_models):
        constructed = [c.model for c in file.calls if c.role == "ddp.construct"]
        assert constructed == [None] * 3 + [2] * (len(constructed) - 3)
        assert len(constructed) > 6
        buffers = [c.model for c in file.calls if c.role == "ddp.forward.sync_buffers"]
        assert buffers
        assert set(buffers) == {2}


def one_model() -> None:
    model = net()
    for _ in range(3):
        step(model)


def alternately() -> None:
    first, second = net(), with_buffers()
    for _ in range(3):
        step(second)
        with torch.no_grad():
            second(torch.ones(2, 4))
        step(first)


def together() -> None:
    first, second = net(), net()
    for _ in range(3):
        (first(torch.ones(2, 4)).sum() + second(torch.ones(2, 4)).sum()).backward()


def both_forwards_first() -> None:
    first, second = net(), net()
    for _ in range(3):
        a, b = first(torch.ones(2, 4)).sum(), second(torch.ones(2, 4)).sum()
        b.backward()
        a.backward()


def accumulating() -> None:
    first, second = net(), net()
    for _ in range(3):
        with first.no_sync():
            step(first)
        step(second)


@pytest.mark.parametrize(
    ("function", "models"),
    [
        (one_model, [None] * 3),
        (alternately, [2, 1] * 3),
        (together, [2, 1] * 3),
        (both_forwards_first, [2, 1] * 3),
        (accumulating, [2] * 3),
    ],
    ids=lambda case: case.__name__ if callable(case) else "",
)
def test_whose_gradients_a_bucket_holds(function: Any, models: list[int], ranks: Ranks) -> None:
    """Told where several models have run forward on the group."""
    for file in checked(ranks, function):
        buckets = [c.model for c in file.calls if c.role == "ddp.backward.bucket"]
        assert buckets == models


def zero_join(zero_first: bool) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = net()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.01)
    joinables: list[Any] = [optimizer, model] if zero_first else [model, optimizer]
    # Torch hangs where a rank that has joined shadows a first joinable that is ZeRO: its hook
    # calls step(), which gives notice once more.
    extra = 0 if zero_first else dist.get_rank()
    with Join(joinables):
        for _ in range(2 + extra):
            step(model)
            optimizer.step()


@pytest.mark.parametrize("zero_first", [False, True])
def test_zero_and_ddp_in_one_join(zero_first: bool, ranks: Ranks) -> None:
    joined, worked = checked(ranks, zero_join, zero_first)
    told, others = roles(joined.calls), roles(worked.calls)
    extra = 0 if zero_first else 1
    assert others["zero.step"] == told["zero.step"] >= 2 + extra
    assert others["ddp.forward.notify_join"] == 2 + extra
    assert (told["ddp.forward.notify_join"], told["join.count_nonjoined"]) == (2, 1 + extra)
    assert (told["ddp.backward.bucket"], told["join.bucket"]) == (2, extra)
    # The first joinable gives notice, and may be no DDP at all.
    notices = {c.api for c in worked.calls if c.role == "ddp.forward.notify_join"}
    assert notices == ({"ZeroRedundancyOptimizer.step"} if zero_first else {None})
    names = ["ZeroRedundancyOptimizer", "DistributedDataParallel"]
    [entered] = [j for j in joined.of(JoinRecord) if j.phase == "entered"]
    assert entered.joinables == (names if zero_first else names[::-1])

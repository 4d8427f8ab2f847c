"""Run a program on one rank. Stand-ins for torch.distributed note where calls come from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest import mock

import torch
import torch.distributed as dist

import tests.zoo.common
from tests.unit.align.code.standin import Call, Run, traced, user_stack

OPS: Final = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather",
    "scatter",
    "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier",
    "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list",
    "monitored_barrier", "send", "recv",
)  # fmt: skip


def described(value: object) -> object:
    """What ranks must agree in of an argument."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape)
    if isinstance(value, list | tuple):
        return tuple(described(one) for one in value)
    return str(value) if isinstance(value, int | str | dist.ReduceOp.RedOpType) else None


@contextmanager
def recording(run: Run, world: int, is_user: Callable[[str], bool]) -> Iterator[None]:
    """Collectives only note their calls; nothing is exchanged."""

    def stand_in(op: str) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            arguments = tuple(map(described, (*args, *kwargs.values())))
            run.calls.append(Call(op, user_stack(sys._getframe(1), is_user), arguments))

        return call

    with ExitStack() as stack:
        for op in OPS:
            stack.enter_context(mock.patch.object(dist, op, stand_in(op)))
        for owner, name, value in (
            (dist, "get_rank", run.rank),
            (dist, "get_world_size", world),
            (tests.zoo.common, "init", run.rank),
        ):
            stack.enter_context(mock.patch.object(owner, name, return_value=value))
        yield


def alone(path: str, text: str, rank: int, world: int) -> Run:
    """What a rank of a program does if no collective has a result."""
    run = Run(rank)

    def is_user(file: str) -> bool:
        return file == path

    with recording(run, world, is_user):
        try:
            exec(compile(text, path, "exec"), {"__name__": "__main__", "__file__": path})
        except Exception as error:  # noqa: BLE001  the program's own
            run.raised = traced(error, is_user)
    return run

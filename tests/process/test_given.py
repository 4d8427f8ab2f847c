"""A thread keeps the arguments of the call that it is in, and nothing after it."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from collectrace.tracer.record.scopes import local
from collectrace.tracer.record.storages import storages
from tests.process.test_python_groups import Through, Work, through
from tests.support.real_ranks import Ranks


def given() -> list[int]:
    """Addresses of the tensors that the thread keeps for the call that it is in."""
    return [storage.data_ptr() for storage in storages(local.state.given)]


class Waiting(Work):
    """Notes what the thread keeps while it waits."""

    seen: list[list[int]] = []  # noqa: RUF012 - of the process

    def wait(self, *timeout: Any) -> bool:
        self.seen.append(given())
        return super().wait(*timeout)


class Outer(Through):
    """Makes a call of its own on the group inside it, before the one that it is asked for."""

    def allreduce(self, values: Any, opts: Any = None) -> Any:  # type: ignore[override]
        dist.all_reduce(torch.ones(2), group=self.inner)
        return Waiting(super().allreduce(values, opts))


class Raising(Through):
    """Is interrupted in the middle of a call."""

    def allreduce(self, values: Any, opts: Any = None) -> Any:  # type: ignore[override]
        dist.all_reduce(values[0], group=self.inner)
        raise KeyboardInterrupt


def raising(tensor: torch.Tensor) -> None:
    with pytest.raises(RuntimeError):
        dist.all_reduce(tensor.to(torch.float8_e4m3fn))


def interrupted(tensor: torch.Tensor) -> None:
    group, _ = through(Raising)
    with pytest.raises(KeyboardInterrupt):
        dist.all_reduce(tensor, group=group)


def bare(tensor: torch.Tensor) -> None:
    group: Any = dist.group.WORLD
    group.allreduce([tensor]).wait()


def objects(tensor: torch.Tensor) -> None:
    dist.all_gather_object([None], tensor)


WAYS: list[Callable[[torch.Tensor], object]] = [
    dist.all_reduce,
    objects,
    bare,
    raising,
    interrupted,
]


def keeps() -> list[Any]:
    """Per way of issuing a call: the tensors that are kept after it, and whether its own lives."""
    found: list[Any] = []
    for way in WAYS:
        tensor = torch.ones(3)
        way(tensor)
        gone = weakref.ref(tensor)
        del tensor
        until = time.monotonic() + 20  # threads of gloo may let go of it later
        while gone() is not None and time.monotonic() < until:
            gc.collect()
        found.append([given(), gone() is None])
    return found


@pytest.mark.parametrize("native", ["0", "1"])
def test_nothing_is_kept_after_a_call(ranks: Ranks, native: str) -> None:
    ran = ranks.run(keeps, 1, env={"COLLECTRACE_NATIVE": native})
    assert ran.result() == [[[], True]] * len(WAYS)


def calls_within() -> list[Any]:
    outer, _ = through(Outer)
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=outer)
    return [Waiting.seen == [[tensor.data_ptr()]], given()]


@pytest.mark.parametrize("native", ["0", "1"])
def test_calls_within_a_call_leave_its_arguments(ranks: Ranks, native: str) -> None:
    ran = ranks.run(calls_within, 1, env={"COLLECTRACE_NATIVE": native})
    assert ran.result() == [True, []]

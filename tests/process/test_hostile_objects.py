"""Objects of the program that count and refuse whatever they are asked: the tracer does not ask.

What exceptions do when asked for a text is in ``test_hostile_texts``, what is read of variables in
``tests/unit/tracer/values``.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

import collectrace
from collectrace.align import align
from collectrace.records import Exit, Stall
from tests.support import trainings
from tests.support.real_ranks import Ranks

ASKED: Final[Counter[str]] = Counter()

HOOKS: Final = (
    "__repr__", "__str__", "__len__", "__eq__", "__bool__", "__iter__", "__contains__",
    "__format__", "__dir__", "__sizeof__", "__int__", "__float__", "__index__",
)  # fmt: skip


def _refusing(name: str) -> Any:
    def hook(*_: Any, **__: Any) -> Any:
        ASKED[name] += 1
        raise ValueError(name)

    return hook


def refusing(*hooks: str) -> dict[str, Any]:
    """Members of a class that count, and raise."""
    return {hook: _refusing(hook) for hook in hooks}


def _number(thing: object) -> int:
    ASKED["__hash__"] += 1
    return id(thing) >> 4


class Meta(type(torch.Tensor)):  # type: ignore[misc]  # a metaclass of torch's
    """The classes themselves refuse, too."""

    __repr__ = _refusing("class __repr__")
    __len__ = _refusing("class __len__")
    __bool__ = _refusing("class __bool__")
    __eq__ = _refusing("class __eq__")

    def __hash__(cls) -> int:
        ASKED["class __hash__"] += 1
        return id(cls) >> 4


class Tensor(torch.Tensor, metaclass=Meta):
    """Counts each function of torch that is called with it."""

    locals().update(refusing(*HOOKS))
    __hash__ = _number

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        ASKED[f"torch {getattr(function, '__name__', '?')}"] += 1
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


class Module(nn.Module):
    locals().update(refusing(*HOOKS))
    __hash__ = _number

    def __init__(self) -> None:
        super().__init__()
        self.inner = trainings.net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        return out


class Optimizer(torch.optim.SGD):
    locals().update(refusing(*HOOKS))
    __hash__ = _number


class Sampler(DistributedSampler[int]):
    locals().update(refusing(*(hook for hook in HOOKS if hook not in ("__iter__", "__len__"))))
    __hash__ = _number


class Plain:
    """Travels as an object, and is a local variable where a rank stalls."""

    locals().update(refusing(*HOOKS))
    __hash__ = _number

    def __getattr__(self, name: str) -> Any:
        ASKED[f"attribute {name}"] += 1
        raise AttributeError(name)


def collectives() -> None:
    t = torch.ones(4).as_subclass(Tensor)
    for _ in range(3):
        dist.all_reduce(t)
        dist.broadcast(t, 0)
        dist.all_gather([torch.zeros(4).as_subclass(Tensor) for _ in range(2)], t)
        work = dist.all_reduce(t, async_op=True)
        assert work is not None
        work.wait()
        if dist.get_rank():
            dist.send(t, 0)
        else:
            dist.recv(t, 1)


def training() -> None:
    model = DistributedDataParallel(Module())
    optimizer = Optimizer(model.parameters(), lr=0.1)
    sampler = Sampler([0] * 6)  # type: ignore[arg-type]  # any sequence is a data set
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for _ in iter(sampler):
            collectrace.step()
            model(torch.ones(2, 8)).sum().backward()
            optimizer.step()
    with model.join():
        model(torch.ones(2, 8)).sum().backward()


def stalls() -> None:
    held = [Plain(), Module(), torch.ones(1).as_subclass(Tensor), Tensor]
    if dist.get_rank():
        time.sleep(1.5)
    dist.barrier()
    assert held


def raises() -> None:
    one = Plain()
    for sent in (Tensor, one):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            dist.all_reduce(sent)
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            dist.broadcast(torch.ones(1), group=sent, src=0)  # type: ignore[arg-type]


def asked(part: str) -> dict[str, int]:
    """What was asked of such objects."""
    PARTS[part]()
    return dict(ASKED)


PARTS: Final = {part.__name__: part for part in (collectives, training, stalls, raises)}


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_asked_of_them(part: str, ranks: Ranks) -> None:
    env = {"COLLECTRACE_STALL_AFTER": "0.5", "COLLECTRACE_HEARTBEAT": "0.1"}
    untraced = ranks.run(asked, 2, part, trace=False)
    traced = ranks.run(asked, 2, part, env=env if part == "stalls" else {})
    for rank in range(2):
        assert traced.result(rank) == untraced.result(rank)
        log = traced.log(rank)
        assert [end.failures for end in log.of(Exit)] == [0]
        assert log.calls or part == "raises"
        assert part != "stalls" or log.of(Stall)
    assert [f for f in align(traced.logs).findings if f.severity == "error"] == []

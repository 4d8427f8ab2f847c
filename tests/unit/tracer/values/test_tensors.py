"""What is written of tensors: nothing that asks a device, a subclass, or a mode of the program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.func import functionalize, grad, vmap
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from collectrace.tracer.values import tensors
from collectrace.tracer.values.plain import PlainValues, Written

PLAIN = PlainValues(None, rows=tensors.rows(lambda _: False))


def told(**fields: Any) -> dict[str, Any]:
    return {"type": "Tensor", **fields}


def transformed(transform: Callable[..., Any], x: torch.Tensor) -> Written:
    """What is written of the tensor that a transformation hands to a function."""
    found: list[Written] = []

    def look(inner: torch.Tensor) -> torch.Tensor:
        found.append(PLAIN.written(inner))
        return inner.sum()

    transform(look)(x)
    return found[0]


TABLE: list[tuple[Any, Any]] = [
    (torch.tensor(1.5), told(dtype="float32", shape=[], value=1.5)),
    (torch.tensor([math.nan]), told(dtype="float32", shape=[1], value="nan")),
    (torch.ones(1, 1, dtype=torch.bfloat16), told(dtype="bfloat16", shape=[1, 1], value=1.0)),
    (torch.tensor(3), told(dtype="int64", shape=[], value=3)),
    (torch.tensor(True), told(dtype="bool", shape=[], value=True)),
    (torch.tensor(1j), told(dtype="complex64", shape=[], value="1j")),
    (torch.ones(2, 3), told(dtype="float32", shape=[2, 3])),
    (torch.ones(0), told(dtype="float32", shape=[0])),
    (torch.ones(9)[3:4], told(dtype="float32", shape=[1], value=1.0)),
    (torch.tensor(2.0, requires_grad=True), told(dtype="float32", shape=[], value=2.0)),
    (torch.nn.Parameter(torch.zeros(1)),
     {"type": "Parameter", "dtype": "float32", "shape": [1], "value": 0.0}),
    (torch.ones(1, device="meta"), told(dtype="float32", device="meta", shape=[1])),
    (torch.ones(1).to_sparse(), told(dtype="float32", shape=[1])),
    (torch.ones(2, 3).shape, {"type": "Size", "shape": [2, 3]}),
    (torch.float16, {"type": "dtype", "value": "float16"}),
    (torch.device("cuda", 1), {"type": "device", "value": "cuda:1"}),
    (torch.nn.Linear(1, 1), {"type": "Linear"}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "written"), TABLE)
def test_what_is_written_of_a_tensor(value: Any, written: Any) -> None:
    assert PLAIN.written(value) == written


def test_a_nested_tensor_is_its_name() -> None:
    ragged = [torch.ones(2), torch.ones(3)]
    nested = torch.nested.nested_tensor(ragged, layout=torch.jagged)
    assert PLAIN.written(nested) == {"type": "NestedTensor"}


def test_a_tensor_that_stands_for_another_has_no_number() -> None:
    with FakeTensorMode():
        assert PLAIN.written(torch.ones(1)) == {"type": "FakeTensor"}
    shape = told(dtype="float32", shape=[1])
    assert transformed(functionalize, torch.ones(1)) == shape
    assert transformed(grad, torch.ones(1)) == shape
    assert transformed(vmap, torch.ones(3, 1)) == shape


class Refuses(torch.Tensor):
    """A subclass whose own code must not run."""

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        raise SystemExit


class FunctionMode(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_a_subclass_is_its_name() -> None:
    x = torch.Tensor._make_subclass(Refuses, torch.ones(1))
    assert PLAIN.written(x) == {"type": "Refuses"}


@pytest.fixture(params=[FunctionMode, DispatchMode])
def mode(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: AbstractContextManager[Any] = request.param()
    with made:
        yield made


def test_modes_of_the_program_are_not_asked(mode: Any) -> None:
    x = torch.ones(1)
    asked = mode.calls
    assert asked
    found = PLAIN.written(x)
    assert mode.calls == asked
    assert isinstance(found, dict)
    assert found["shape"] == [1]
    assert ("value" in found) == isinstance(mode, FunctionMode)


def test_what_the_program_put_in_place_of_torchs_methods_is_not_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("item", "shape", "dtype", "device", "untyped_storage", "numel"):
        monkeypatch.setattr(torch.Tensor, name, property(lambda _: 1 / 0), raising=False)
    found = PLAIN.written(torch.Tensor._make_subclass(torch.Tensor, torch.ones(1)))
    assert found == told(dtype="float32", shape=[1], value=1.0)


def test_a_number_that_a_call_may_be_writing_is_not_settled() -> None:
    one, other = torch.ones(1), torch.ones(1)
    plain = PlainValues(None, rows=tensors.rows(lambda x: x is one))
    assert plain.written(one) == told(dtype="float32", shape=[1], value=1.0, unsettled=True)
    assert plain.written(other) == told(dtype="float32", shape=[1], value=1.0)

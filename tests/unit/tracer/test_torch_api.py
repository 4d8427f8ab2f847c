"""What a torch has and lacks: by what is taken away from this one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

import collectrace
from collectrace.errors import CollectraceError
from collectrace.tracer import torch_api
from collectrace.tracer.tap import wire
from collectrace.tracer.tap.arguments import OPERATORS


def test_this_torch_has_all_that_is_needed() -> None:
    torch_api.check()


def test_an_older_torch_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(dist.ProcessGroup, "unbox")
    monkeypatch.setattr(torch, "__version__", "2.3.1+cpu")
    with pytest.raises(CollectraceError) as caught:
        torch_api.check()
    said = str(caught.value)
    assert said.startswith("torch is 2.3, and must be 2.6 or newer ")
    assert "ProcessGroup.unbox" in said
    assert "\n" not in said


def test_a_torch_that_has_lost_something_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(torch._C, "_jit_get_all_schemas")
    with pytest.raises(CollectraceError, match=r"it has no torch\._C\._jit_get_all_schemas"):
        torch_api.check()


def test_kernels_without_a_key_set_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.library.Library, "impl", lambda _, name, kernel, key: None)
    with pytest.raises(CollectraceError, match="with_keyset"):
        torch_api.check()


def test_a_torch_without_distributed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_available", lambda: False)
    with pytest.raises(CollectraceError, match=r"built without torch\.distributed"):
        torch_api.check()


@pytest.mark.parametrize("entry", [collectrace.enable, collectrace.trace().__enter__])
def test_nothing_is_patched_where_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, entry: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    switch = importlib.import_module("collectrace.tracer.switch")
    monkeypatch.delattr(torch._C.DispatchKeySet, "raw_repr")
    before = dist.all_reduce, dist.Work.wait, sys.exit, torch.Tensor.backward
    entry()
    assert "not traced" in caplog.text
    assert "raw_repr" in caplog.text
    assert (dist.all_reduce, dist.Work.wait, sys.exit, torch.Tensor.backward) == before
    assert switch.current() is None
    assert not switch._undos._exit_callbacks


def test_the_current_name_of_a_function_comes_before_earlier_ones() -> None:
    module = SimpleNamespace(old=1, older=2)
    assert torch_api.first_of(module, "new", "old", "older") == "old"
    assert torch_api.first_of(module, "new") == "new"


@pytest.mark.parametrize(
    ("names", "tells"),
    [
        (("tensors", "async_op", "timeout"), True),
        (("tensors", "asyncOp", "timeout"), False),
        (("tensors", "timeout"), False),
        (("tensor", "device_ids", "timeout", "wait_all_ranks"), True),
    ],
)
def test_whether_an_operator_is_told_that_it_is_asynchronous(
    names: tuple[str, ...], tells: bool
) -> None:
    assert torch_api.tells_async([SimpleNamespace(name=name) for name in names]) == tells


@pytest.mark.parametrize(
    ("module", "known", "is_async"),
    [
        ("torch.distributed.distributed_c10d", {"async_op": False}, False),
        ("torch.distributed.distributed_c10d", {"async_op": True}, True),
        ("torch.distributed.distributed_c10d", {"async_ops": False}, False),
        ("torch.distributed.distributed_c10d", {}, True),
        ("train", {"async_op": False}, True),
    ],
)
def test_a_public_function_is_asked_whether_its_caller_waits(
    module: str, known: dict[str, bool], is_async: bool
) -> None:
    namespace: dict[str, Any] = {"__name__": module, "asked": torch_api.asked_async}
    lines = [f"    {name} = {value}" for name, value in known.items()]
    exec("\n".join(["def function():", *lines, "    return asked()"]), namespace)
    assert namespace["function"]() is is_async


def test_a_reduce_op_is_a_number_in_either_form() -> None:
    for one in (dist.ReduceOp.MAX, dist.ReduceOp(dist.ReduceOp.MAX)):
        assert torch_api.reduce_op_number(one) == 4


def test_dynamo_is_told_in_the_way_that_it_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    code = test_this_torch_has_all_that_is_needed.__code__
    skipped: list[Any] = []
    monkeypatch.setattr(torch._C._dynamo, "eval_frame", SimpleNamespace(skip_code=skipped.append))
    torch_api.hide_from_dynamo(code, callees=True)
    assert skipped == [code]
    monkeypatch.setattr(torch._C._dynamo, "eval_frame", SimpleNamespace())
    torch_api.hide_from_dynamo(code, callees=True)


def test_operators_without_a_row_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wire.guessed() == []
    monkeypatch.delitem(OPERATORS, "broadcast_")
    assert wire.guessed() == ["broadcast_"]

"""What a call's record says of its device, as far as that can be asked without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from collectrace.records import Group
from collectrace.tracer.patches.lifecycle import _device_id
from collectrace.tracer.record import make_template, scopes
from collectrace.tracer.record.groups import GroupState
from collectrace.tracer.record.make_template import Origin
from collectrace.tracer.record.sites import NOWHERE
from collectrace.tracer.tap.arguments import OPERATORS, ArgumentReader, CallFields


class Reads(ArgumentReader):
    """Has read a message on a device already."""

    def __init__(self, device: str) -> None:
        self._device = device

    def fields(self, args: Any, group_size: int) -> CallFields:
        index = None if self._device == "cpu" else 1
        return CallFields("send", self._device, "float32", [3], peer=1, tag=7, device_index=index)


def channel_of(backend: str, device: str) -> tuple[str, Any]:
    group = GroupState(Group(phase="ready", group="0", backend=backend, ranks=[0, 1]), 0)
    stacks: Any = SimpleNamespace(number=lambda _: None)
    origin = Origin(scopes.local.state, scopes.ROOT, None, NOWHERE, False, None, stacks)
    made = make_template.make_template(group, Reads(device), (), origin)
    return made.body.decode(), made.counter


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The current CUDA stream, whatever the device."""
    stream = SimpleNamespace(stream_id=0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: stream if index == 1 else None)
    return stream


def test_device_and_stream_are_told(current: SimpleNamespace) -> None:
    told, _ = channel_of("nccl", "cuda")
    assert '"device_index":1' in told
    assert "cuda_stream" not in told, "it is the default one"
    current.stream_id = 35
    told, _ = channel_of("nccl", "cuda")
    assert '"cuda_stream":35' in told


def test_of_the_cpu_there_is_neither() -> None:
    told, _ = channel_of("gloo", "cpu")
    assert "device_index" not in told
    assert "cuda_stream" not in told


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl2"])
def test_nccl_takes_no_notice_of_tags(backend: str, current: SimpleNamespace) -> None:
    told, counter = channel_of(backend, "cuda")
    assert (counter.tag, '"tag"' in told) == (0, False)
    told, counter = channel_of("cpu:gloo,cuda:nccl", "cpu")
    assert (counter.tag, '"tag":7' in told) == (7, True)


def test_the_index_is_that_of_the_tensor() -> None:
    schema = torch.ops.c10d.send.default._schema
    reader = ArgumentReader(OPERATORS["send"], schema.arguments)
    with FakeTensorMode():
        on_cuda = torch.empty(2, device="cuda:1")
    assert reader.fields(([on_cuda], None, 1, 0), 2).device_index == 1
    assert reader.fields(([torch.ones(2)], None, 1, 0), 2).device_index is None


def test_a_group_may_be_bound_to_a_device() -> None:
    assert _device_id({"device_id": torch.device("cuda:1")}) == "cuda:1"
    assert _device_id({"device_id": None}) is _device_id({}) is None

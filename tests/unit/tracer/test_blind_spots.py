"""What is not recorded is noticed by what is loaded, each once, and only where it is used."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from collectrace.tracer.life import blind_spots
from collectrace.tracer.life.blind_spots import BLIND_SPOTS, BlindSpots
from collectrace.tracer.patches.blind_spots import capture_begin, capture_end, symmetric_memory


@pytest.fixture(autouse=True)
def nothing_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blind_spots, "_noticed", set())


def names(spots: BlindSpots) -> list[str]:
    return [record.name for record in spots.take()]


def test_torch_alone_has_none() -> None:
    assert torch.cuda.graphs is not None
    assert names(BlindSpots()) == []


@pytest.mark.parametrize("spot", [s for s in BLIND_SPOTS if s.modules], ids=lambda s: s.name)
def test_each_row_is_noticed_once(spot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spots = BlindSpots()
    for name in spot.modules:
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        if spot.used:
            assert names(spots) == [], "loaded, and not used"
            setattr(module, spot.used, {"qkv": 1})
    assert names(spots) == [spot.name]
    assert names(spots) == []
    assert names(BlindSpots()) == [spot.name], "another run has it, too"


def call(make: Any, session: Any, instance: Any) -> Any:
    return make(session)(lambda: "result", instance, (), {})


@pytest.mark.parametrize(("issued", "told"), [(0, []), (2, [blind_spots.CUDA_GRAPH])])
def test_a_graph_counts_that_collectives_were_captured_in(issued: int, told: list[str]) -> None:
    session, graph = SimpleNamespace(recorder=SimpleNamespace(calls=7)), object()
    assert call(capture_begin, session, graph) == "result"
    session.recorder.calls += issued
    assert call(capture_end, session, graph) == "result"
    assert names(BlindSpots()) == told


def test_symmetric_memory_is_noticed_when_it_is_asked_for() -> None:
    assert call(symmetric_memory, SimpleNamespace(recorder=None), None) == "result"
    assert names(BlindSpots()) == []
    assert call(symmetric_memory, SimpleNamespace(recorder=object()), None) == "result"
    assert names(BlindSpots()) == [blind_spots.SYMMETRIC_MEMORY]

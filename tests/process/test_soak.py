"""A traced process that lives long holds no more at the end: a short part of ``tools/soak.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import tool


def soak(folder: Path, *arguments: str) -> list[list[dict[str, Any]]]:
    """The samples of each rank; the runs that it leaves must be aligned."""
    told = folder / "soak.json"
    _, printed = tool.run("soak", *arguments, "--json", told)
    assert told.exists(), printed
    result: dict[str, Any] = json.loads(told.read_text())
    verdicts = [c["holds"] for c in result["claims"] if c["text"].startswith("runs that are not")]
    assert verdicts == [True], printed
    samples: list[list[dict[str, Any]]] = result["samples"]
    return samples


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_calls_leave_nothing_behind(tmp_path: Path) -> None:
    [samples] = soak(tmp_path, "--calls", "600000")
    warm, last = samples[len(samples) // 6], samples[-1]
    grown = (last["resident"] - warm["resident"]) / (last["calls"] - warm["calls"])
    assert grown * 100_000 < 200 << 10
    assert last["objects"] - warm["objects"] < 100
    assert (last["descriptors"], last["threads"]) == (warm["descriptors"], warm["threads"])
    assert last["disk"] < 40 << 20
    third = len(samples) // 3
    costs = [sample["call_ns"] for sample in samples]
    assert min(costs[-third:]) < 1.3 * min(costs[:third])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_groups_models_and_threads_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    for samples in soak(tmp_path, "--minutes", "1", "--cycles", "10"):
        half, last = samples[len(samples) // 2], samples[-1]
        cycles = last["cycles"] - half["cycles"]
        assert last["runs"] > half["runs"]
        # Torch itself keeps two for each group, and four for each default group.
        assert last["objects"] - half["objects"] < 15 * cycles
        assert last["resident"] - half["resident"] < 4 << 20
        assert (last["descriptors"], last["threads"]) == (half["descriptors"], half["threads"])

"""The bench of what tracing costs: its own figures, held to bounds that a busy machine keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import tool


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_costs_stay_within_generous_bounds(tmp_path: Path) -> None:
    told = tmp_path / "costs.json"
    status, printed = tool.run("bench_record", "--quick", "--only", "abcde", "--json", told)
    assert told.exists(), printed
    parts: dict[str, dict[str, Any]] = {p["letter"]: p for p in json.loads(told.read_text())}
    claims = [claim for part in parts.values() for claim in part["claims"]]
    assert status == (0 if all(c["holds"] for c in claims) else 1)
    verdicts = ["holds" if c["holds"] else "does not hold" for c in claims]
    told_claims = [line for line in printed.splitlines() if "=>" in line]
    assert [line.rpartition(", ")[2] for line in told_claims] == verdicts
    figures = {letter: part["figures"] for letter, part in parts.items()}
    assert 1 < figures["a"]["ratio"] < 3
    assert figures["b"]["bill_percent"] < 15
    assert figures["c"]["detail_ns"] > figures["c"]["traced_ns"]
    assert all(100 < size < 300 for size in figures["d"].values())
    assert figures["e"]["end"] - figures["e"]["begin"] < 2 << 20

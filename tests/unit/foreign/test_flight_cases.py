"""What Flight Recorder dumps show is found, and no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align import align
from tests.support.flight_cases import CASES, FlightCase, healthy_one_call_apart


@pytest.mark.parametrize("form", ["torch", "python", "json"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: FlightCase, form: str, tmp_path: Path) -> None:
    found = align(case.build().write(tmp_path / "dumps", form=form, without=case.without))
    errors = [f for f in found.findings if f.severity == "error"]
    if not case.kinds:
        assert not errors
        # Ranks a call apart are told of: it may become something.
        assert not found.findings or case.build is healthy_one_call_apart
        return
    assert errors
    assert errors[0].kind in case.kinds
    if case.suspects is not None:
        assert errors[0].suspects == case.suspects

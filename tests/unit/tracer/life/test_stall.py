"""When a rank that does nothing counts as stalled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from collectrace.records import Record, Stall
from collectrace.tracer.life import stall
from collectrace.tracer.life.stall import Stalls

SECOND = 10**9


@pytest.mark.parametrize(
    ("rank", "last_call", "expected"),
    [
        pytest.param(1, None, 1, id="no call yet, since it is part of the job"),
        pytest.param(1, 15, 0, id="a call soon after, not long ago"),
        pytest.param(1, 5, 1, id="a call long ago"),
        pytest.param(None, None, 0, id="not part of a job yet"),
    ],
)
def test_a_rank_in_nothing(
    rank: int | None, last_call: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Record] = []
    recorder = SimpleNamespace(global_rank=rank, last_t=0, write=written.append)
    stalls = Stalls(cast(Any, recorder), stall_after=20)
    monkeypatch.setattr(stall.Stalls, "_dump_flight_recorder", lambda _: None)
    for second in range(1, 32):
        monkeypatch.setattr(stall, "now", lambda second=second: second * SECOND)
        if last_call is not None and second >= last_call:
            recorder.last_t = last_call * SECOND
        stalls.check([])
    assert [type(record) for record in written] == [Stall] * expected

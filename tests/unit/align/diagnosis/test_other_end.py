"""Who finished without its last words to one rank: told where it never spoke so to that one."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.diagnosis import other_end
from collectrace.align.diagnosis.wording import Wording
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

WORK, BYE, WAIT = 1, 2, 3
LINES = {WORK: 10, BYE: 20, WAIT: 30}


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        pytest.param([WORK] * 3, True, id="it never had a goodbye"),
        pytest.param([WORK] * 2 + [BYE] + [WORK] * 40, False, id="it had one, long before"),
        pytest.param([WORK] * 2 + [BYE], False, id="it had it last"),
    ],
)
def test_last_words(said: list[int], *, is_told: bool, tmp_path: Path) -> None:
    """``said``: by which lines rank 0 sends to rank 2, which waits for one message more."""
    run = Run(3)
    ranks = list(run)
    for rank in ranks:
        for number, line in LINES.items():
            rank.record(Stack(stack=number, frames=[f"train.py:{line} <module>"]))
    server, other, waiter = ranks
    for line in [WORK] * 3 + [BYE]:
        server.send(1, site=f"train.py:{LINES[line]}", stack=line)
        other.recv(0, site="train.py:30", stack=WAIT)
    for line in said:
        server.send(2, site=f"train.py:{LINES[line]}", stack=line)
        waiter.recv(0, site="train.py:30", stack=WAIT)
    last = waiter.recv(0, site="train.py:30", stack=WAIT)
    server.exit()
    other.exit()
    waiter.beat(60, waiter.inside(last))
    case = case_of(run, tmp_path / "logs")
    candidate = judge(case)[0]
    assert candidate.kind == "p2p_unmatched"
    found = other_end.other_end(case, candidate)
    assert (found is not None) is is_told
    if found is not None:
        assert (found.waiter, found.absent, found.beside) == (2, 0, 1)
        assert found.met.site == "train.py:20"
        told = other_end.added(case, candidate, Wording("", "", ""))
        assert "to which rank 0 never came for rank 2" in told.cause
        assert "as it does for rank 1" in told.fix

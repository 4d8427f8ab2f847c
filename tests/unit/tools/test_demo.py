"""What the demo makes of its cases: right, wrong, or not to be told on this machine."""

from __future__ import annotations

import argparse
import threading
import time

import pytest

from tools import demo, join_cases

CASE = demo.CASES[3]
FIRST = {"kind": CASE.kind, "seq": 29, "suspects": list(CASE.suspects)}
RIGHT = demo.Result(CASE, 0, "raised, raised", "diverged", FIRST)
WRONG = demo.Result(CASE, 0, "raised, raised", "aligned", None)
OTHER = demo.Result(CASE, 1, "hung, raised", "diverged", FIRST)
SLOW = demo.Result(CASE, join_cases.TOO_SLOW, "hung, raised", "hung", None)


@pytest.mark.parametrize(
    ("results", "status", "says"),
    [
        ([RIGHT], 0, "as expected"),
        ([RIGHT, WRONG], 1, "EXPECTED op_mismatch"),
        ([RIGHT, OTHER], 1, "NOT WHAT GLOO IS KNOWN TO DO"),
        ([RIGHT, SLOW], 3, "this machine is too slow to say"),
        ([SLOW, WRONG], 1, "EXPECTED op_mismatch"),
    ],
)
def test_a_slow_machine_is_told_from_a_wrong_result(
    results: list[demo.Result], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.verdict(results) == status
    assert ("less busy" in capsys.readouterr().out) is (status == 3)
    assert says in demo.summary(results)


def test_one_exit_status_says_too_slow() -> None:
    assert demo.TOO_SLOW == join_cases.TOO_SLOW


def test_gloo_waits_longer_where_ranks_start_slowly() -> None:
    assert join_cases.patience(30, 0) == 10
    assert join_cases.patience(30, 4) == 10
    assert join_cases.patience(30, 40) == 80


class Ended(join_cases.Rank):
    """A rank that has come to its end already, after so many seconds until it had met the other."""

    def __init__(self, start: float | None, said: join_cases.Outcome) -> None:
        self.start, self._said = start, said
        self.has_met = threading.Event()
        self.has_met.set()

    def outcome(self, deadline: float) -> tuple[join_cases.Outcome, str]:
        self.deadline = deadline
        return self._said, "."


@pytest.mark.parametrize(
    ("start", "ends", "status"),
    [
        (3.0, ("raised", "raised"), 0),
        (90.0, ("raised", "raised"), 0),
        (3.0, ("hung", "hung"), 1),
        (90.0, ("hung", "hung"), join_cases.TOO_SLOW),
        (None, ("raised", "raised"), 0),
    ],
)
def test_only_a_slow_start_excuses_another_end(
    start: float | None,
    ends: tuple[join_cases.Outcome, join_cases.Outcome],
    status: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = argparse.Namespace(case=4, barrier="native", timeout=30.0)
    ranks = [Ended(start, end) for end in ends]
    assert join_cases._judge(options, list(ranks)) == status
    said = capsys.readouterr().err
    assert ("too slow" in said) is (status == join_cases.TOO_SLOW)
    if start == 90.0:
        # The clock is the case's own: what the start took is not taken from it.
        assert ranks[0].deadline - time.monotonic() > 3 * 2 * 90 - 60

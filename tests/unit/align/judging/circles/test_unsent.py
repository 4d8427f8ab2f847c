"""A message to a hub that one of its senders left out, and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.circles.unsent import Unsent, unsent
from collectrace.align.judging.judge import judge
from tests.support.judging import case_of
from tests.support.synthetic import Run

USUAL = 2
"""Messages of a worker in each round."""


def told(
    folder: Path,
    *,
    world: int = 4,
    rounds: int = 4,
    sent: Mapping[int, int] | None = None,
    asked: Sequence[int] = (),
    before: Mapping[int, int] | None = None,
    lines: Mapping[int, str] | None = None,
    plan: Mapping[str, object] | None = None,
) -> Unsent | None:
    """Ranks 1 to ``world - 1`` push to rank 0; the last leaves out one of its pushes in the end.

    Args:
        folder: where the rank files go.
        world: ranks, the hub included.
        rounds: in which nothing is left out.
        sent: per worker, its pushes in the last round.
        asked: how many the hub asks of each worker in the last round, in turn.
        before: per worker, its pushes in the second round.
        lines: per worker, where it pushes.
        plan: what all call at the beginning of each round.

    """
    run = Run(world)
    hub, *workers = run
    last = world - 1
    for n in range(rounds + 1):
        is_end = n == rounds
        if plan is not None:
            run.all(**plan, site="plan.py:3")  # type: ignore[arg-type]
        for worker in workers:
            count = USUAL
            if is_end:
                count = (sent or {last: USUAL - 1}).get(worker.rank, USUAL)
            elif n == 1:
                count = (before or {}).get(worker.rank, USUAL)
            wanted = (*asked, *[USUAL] * world)[worker.rank - 1] if is_end else count
            for _ in range(count):
                worker.send(0, site=(lines or {}).get(worker.rank, "work.py:5"))
            for _ in range(wanted):
                one = hub.recv(worker.rank, site="serve.py:5")
        for worker in () if is_end else workers:
            hub.send(worker.rank, site="serve.py:9")
            worker.recv(0, site="work.py:9")
    hub.stuck_in(one)
    for worker in workers:
        worker.stuck_in(worker.recv(0, site="work.py:9"))
    case = case_of(run, folder)
    found = [one for one in judge(case) if one.kind == "deadlock"]
    return unsent(case, found[0]) if found else None


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(None, id="messages alone"),
        pytest.param({"op": "broadcast", "shape": [64]}, id="weights"),
        pytest.param({"op": "broadcast", "shape": [1], "root": 1}, id="not of the hub"),
        pytest.param({"op": "barrier"}, id="a barrier"),
    ],
)
def test_one_left_out_what_the_others_sent(
    plan: Mapping[str, object] | None, tmp_path: Path
) -> None:
    found = told(tmp_path, plan=plan)
    assert found is not None
    assert (found.left.rank, found.hub, found.likes) == (3, 0, (1, 2))


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"world": 3}, id="one against one"),
        pytest.param({"rounds": 2}, id="two rounds are no habit"),
        pytest.param({"before": {2: 3}}, id="another had sent more in a round"),
        pytest.param({"before": {3: 1}}, id="it had sent less before"),
        pytest.param({"lines": {3: "other.py:5"}}, id="it sends from a line of its own"),
        pytest.param({"lines": {2: "other.py:5"}}, id="one of the others does"),
        pytest.param({"sent": {}, "asked": [2, 2, 3]}, id="the hub asks for one more than ever"),
        pytest.param({"sent": {3: 1, 2: 1}, "asked": [2, 1, 2]}, id="another left it out, too"),
        pytest.param({"plan": {"op": "broadcast", "shape": [4]}}, id="who is to send, by a mask"),
        pytest.param({"plan": {"op": "scatter", "out_shape": [1]}}, id="how much, to each"),
        pytest.param({"plan": {"op": "broadcast", "shape": [64], "dtype": "int64"}}, id="numbers"),
    ],
)
def test_what_proves_nothing(how: dict[str, object], tmp_path: Path) -> None:
    assert told(tmp_path, **how) is None  # type: ignore[arg-type]

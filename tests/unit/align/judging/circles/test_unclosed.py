"""A report that one of several workers left out of a round, and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.circles.unclosed import Unclosed, unclosed
from collectrace.align.judging.judge import judge
from collectrace.ops import ANY_SOURCE
from tests.support.judging import case_of
from tests.support.synthetic import Run

ORDER, REPORT = 1, 2
ROWS = ((1, 2, 1), (2, 1, 1), (1, 1, 2), (2, 2, 1))
"""What each worker is given in each round; so no two rounds are equal."""


def told(
    folder: Path,
    *,
    rows: Sequence[Sequence[int]] = ROWS,
    silent: Mapping[int, Sequence[int]] | None = None,
    asked: int | None = None,
    named: bool = False,
    late: bool = False,
) -> Unclosed | None:
    """Rank 0 gives the others rows, takes a report of each, and all meet; in the end one is silent.

    Args:
        folder: where the rank files go.
        rows: per round how many each worker is given.
        silent: by round the workers that do not report; the last one in the last by default.
        asked: how many reports the hub asks for in the last round, if not one of each.
        named: the hub asks each worker by its number.
        late: another worker has not come to the meeting.

    """
    workers = len(rows[0])
    run = Run(workers + 1)
    hub, *others = run
    silent = silent if silent is not None else {len(rows) - 1: [workers]}
    for n, round_ in enumerate(rows):
        is_end = n == len(rows) - 1
        for worker, count in zip(others, round_, strict=True):
            for _ in range(count):
                hub.send(worker.rank, tag=ORDER, site="serve.py:5")
                worker.recv(0, tag=ORDER, site="work.py:5")
        reporting = [one for one in others if one.rank not in silent.get(n, ())]
        for worker in reporting:
            worker.send(0, tag=REPORT, site="work.py:9")
        wanted = asked if is_end and asked is not None else workers
        for source in range(1, wanted + 1):
            if is_end or source <= len(reporting):
                site = "serve.py:9"
                last = hub.recv(source if named else ANY_SOURCE, tag=REPORT, site=site)
        if not is_end:
            run.all("barrier", site="main.py:9")
    hub.stuck_in(last)
    for worker in others:
        if late and worker.rank == 1:
            worker.stuck_in(worker.recv(0, tag=ORDER, site="work.py:5"))
        else:
            worker.stuck_in(worker.call("barrier", site="main.py:9"))
    case = case_of(run, folder)
    found = [one for one in judge(case) if one.kind == "deadlock"]
    return unclosed(case, found[0]) if found else None


@pytest.mark.parametrize("named", [False, True])
def test_one_went_home_without_its_report(named: bool, tmp_path: Path) -> None:
    found = told(tmp_path, named=named)
    assert found is not None
    assert (found.rank, found.hub, found.likes, found.rounds) == (3, 0, (1, 2), 3)
    assert not found.is_straight


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"rows": [one[:2] for one in ROWS]}, id="one against one"),
        pytest.param({"rows": ROWS[2:]}, id="one round is no habit"),
        pytest.param({"silent": {3: [2, 3]}}, id="two left it out"),
        pytest.param({"silent": {1: [2], 3: [3]}}, id="another had left it out before"),
        pytest.param({"silent": {}, "asked": 4}, id="the hub asks for one more than ever"),
        pytest.param({"late": True}, id="another may still come to it"),
    ],
)
def test_what_proves_nothing(how: dict[str, object], tmp_path: Path) -> None:
    assert told(tmp_path, **how) is None  # type: ignore[arg-type]

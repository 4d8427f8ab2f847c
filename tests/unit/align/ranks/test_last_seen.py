"""The latest stack of a rank, by what its log has of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.ranks.last_seen import LastSeen, last_seen
from collectrace.dumps import MAIN
from collectrace.records import INTERRUPTED, FrameValues, Values
from tests.support.judging import aligned, case_of
from tests.support.synthetic import Run

STALLED = "/job/train.py:20 load"
SITES: dict[str, Any] = {"site": "/job/data.py:7", "through": ["/job/train.py:30"]}


def waited_for(*, stall: str = "", **leaving: Any) -> Run:
    """Rank 1 does not come to a barrier; ``stall`` is the line in its stall."""
    run = Run(3)
    run.all("all_reduce", site="/job/train.py:31")
    for rank in run:
        if rank.rank != 1:
            rank.stuck_in(rank.call("barrier", site="/job/train.py:32"))
            continue
        rank.beat(50)
        if stall:
            rank.stall(stacks={f"{MAIN} (7)": [stall]})
        rank.beat(10)
        if leaving:
            rank.exit("exception", error="KeyboardInterrupt", message="", **leaving)
    return run


def seen(run: Run, folder: Path) -> LastSeen | None:
    return last_seen(case_of(run, folder).log(1))


def test_a_stall_has_the_last_stack(tmp_path: Path) -> None:
    found = seen(waited_for(stall=STALLED), tmp_path)
    assert found == LastSeen({f"{MAIN} (7)": [STALLED]}, "stall")


def test_ctrl_c_tells_more_than_a_stall_before_it(tmp_path: Path) -> None:
    frames = ["/job/train.py:30 main", "/env/lib/python3.11/queue.py:171 get"]
    found = seen(waited_for(stall=STALLED, frames=frames, **SITES), tmp_path)
    assert found == LastSeen({MAIN: frames}, "interrupt")


def test_ctrl_c_shows_a_wait_that_was_too_short_for_a_stall(tmp_path: Path) -> None:
    frames = ["/job/train.py:30 main", "/env/lib/python3.11/queue.py:171 get",
              "/env/lib/python3.11/threading.py:327 wait"]  # fmt: skip
    case = case_of(waited_for(frames=frames, **SITES), tmp_path)
    wait = case.standings[1].host_wait
    assert wait is not None
    assert wait.what == "another thread", "nothing is known of the others"
    stalled = case_of(waited_for(stall=STALLED, frames=frames, **SITES), tmp_path / "stalled")
    assert stalled.standings[1].host_wait is None


def test_an_older_record_of_ctrl_c_has_the_users_lines(tmp_path: Path) -> None:
    found = seen(waited_for(**SITES), tmp_path)
    assert found == LastSeen({MAIN: ["/job/train.py:30 ", "/job/data.py:7 "]}, "interrupt")


def test_values_know_the_functions_of_those_lines(tmp_path: Path) -> None:
    run = waited_for(**SITES)
    functions = [FrameValues(frame=f"/job/{one}", first_line=1, values={}, left_out=0)
                 for one in ("data.py:7 Shards.get", "train.py:30 main")]  # fmt: skip
    run.rank(1).record(Values(reason=INTERRUPTED, thread=MAIN, functions=functions))
    found = seen(run, tmp_path)
    frames = ["/job/train.py:30 main", "/job/data.py:7 Shards.get"]
    assert found == LastSeen({MAIN: frames}, "interrupt")


def test_a_stall_before_the_last_call_tells_nothing(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(1).stall(stacks={MAIN: [STALLED]})
    run.all("all_reduce")
    assert seen(run, tmp_path) is None


@pytest.mark.parametrize("how", [{"stall": STALLED}, SITES])
def test_py_spy_is_advised_only_if_nothing_is_known(how: dict[str, Any], tmp_path: Path) -> None:
    known = aligned(waited_for(**how), tmp_path / "known").findings[0]
    unknown = aligned(waited_for(), tmp_path / "unknown").findings[0]
    assert (known.code, unknown.code) == ("CT302", "CT302")
    assert known.stacks is not None
    assert unknown.stacks is None
    assert "py-spy" not in known.fix
    assert "py-spy" in unknown.fix

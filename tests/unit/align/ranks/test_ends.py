"""How ranks ended that were interrupted, or whose threads did not end with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing
from collectrace.records import Raised
from tests.support.judging import aligned, case_of
from tests.support.synthetic import Rank, Run


def standing(run: Run, folder: Path, rank: int = 0) -> Standing:
    return case_of(run, folder).standings[rank]


def ctrl_c(rank: Rank) -> None:
    rank.exit("exception", error="KeyboardInterrupt", message="")


def test_ctrl_c_in_a_wait_is_a_wait(tmp_path: Path) -> None:
    run = Run(2)
    run.all("all_reduce")
    for rank in run:
        if rank.rank:
            rank.beat(51)
        else:
            call = rank.call("barrier", site="train.py:9")
            rank.beat(51, rank.inside(call))
            rank.done(call.seq, failed=True, error="KeyboardInterrupt: ")
        ctrl_c(rank)
    found = standing(run, tmp_path)
    assert (found.state, found.ended, found.by_peers) == ("blocked", "signal", False)
    assert detail.detail(found) == "in barrier at train.py:9 for 51 s (call 2 of the default group)"
    assert standing(run, tmp_path, 1).state == "busy"
    first = aligned(run, tmp_path / "again").findings[0]
    assert (first.kind, first.code, first.suspects) == ("missing_call", "CT302", (1,))


def test_ctrl_c_before_the_first_heartbeat(tmp_path: Path) -> None:
    run = Run(2)
    run.all("all_reduce")
    call = run.rank(0).call("barrier", site="train.py:9")
    run.rank(0).wait(3)
    run.rank(0).done(call.seq, failed=True, error="KeyboardInterrupt: ")
    ctrl_c(run.rank(0))
    found = standing(run, tmp_path)
    assert (found.state, detail.detail(found)) == (
        "blocked", "in barrier at train.py:9 for 3.0 s (call 2 of the default group)"
    )  # fmt: skip


def test_ctrl_c_that_was_caught_and_after_which_the_rank_went_on(tmp_path: Path) -> None:
    run = Run(2)
    call = run.rank(0).call("barrier")
    run.rank(0).done(call.seq, failed=True, error="KeyboardInterrupt: ")
    run.rank(0).call("all_reduce")
    run.rank(0).done(2)
    run.rank(0).exit()
    assert standing(run, tmp_path).state == "finished"


@pytest.mark.parametrize(
    ("waited", "earlier", "status"),
    [
        pytest.param(2, 0, "unknown", id="all were interrupted, after a short wait"),
        pytest.param(90, 0, "hung", id="all were interrupted, after a long wait"),
        pytest.param(9, 7, "unknown", id="they took seconds to be gone, after a short wait"),
        pytest.param(29, 7, "hung", id="they took seconds to be gone, after a long wait"),
        pytest.param(90, 80, "hung", id="the others had ended long before"),
        pytest.param(25, 24, "hung", id="the others had ended before, by themselves"),
    ],
)
def test_ctrl_c_that_every_rank_caught(
    waited: float, earlier: float, status: str, tmp_path: Path
) -> None:
    """Rank 0 is interrupted in its wait; the others, in something else, at once or not at all."""
    run = Run(3)
    for _ in range(3):
        run.all("all_reduce")
    for rank in run:
        if rank.rank:
            rank.beat(waited - earlier)
        else:
            call = rank.call("all_reduce")
            rank.beat(waited, rank.inside(call))
            rank.done(call.seq, failed=True, error="KeyboardInterrupt: ")
        rank.exit()
    assert aligned(run, tmp_path).status == status


def test_ctrl_c_while_it_computes(tmp_path: Path) -> None:
    run = Run(2)
    run.all("all_reduce")
    run.rank(0).done(1)
    run.rank(0).beat(20)
    ctrl_c(run.rank(0))
    assert standing(run, tmp_path).state == "busy"


def test_a_handler_of_sigterm_that_leaves(tmp_path: Path) -> None:
    run = Run(2)
    call = run.rank(0).call("barrier", site="train.py:9")
    run.rank(0).beat(20, run.rank(0).inside(call))
    run.rank(0).done(call.seq, failed=True, error="SystemExit: 0")
    run.rank(0).exit(code=0)
    assert standing(run, tmp_path).state == "blocked"


def test_finished_while_another_thread_waits(tmp_path: Path) -> None:
    run = Run(2)
    one = run.rank(0)
    call = one.call("barrier", site="train.py:9", thread="train")
    one.wait(30)
    one.exit("finished", one.inside(call, thread="train"))
    found = standing(run, tmp_path)
    assert found.state == "blocked"
    assert detail.detail(found) == "in barrier at train.py:9 for 30 s (call 1 of the default group)"


def test_finished_and_what_its_thread_was_in_is_known_to_be_over(tmp_path: Path) -> None:
    run = Run(2)
    one = run.rank(0)
    call = one.call("barrier", thread="train")
    one.done(call.seq)
    one.exit("finished", one.inside(call, thread="train"))
    assert standing(run, tmp_path).state == "finished"


def raised(rank: Rank, what: str = "batch") -> None:
    rank.record(Raised(what=what, error="ValueError", message="shard 2", site="/a/data.py:7"))


def test_an_exception_that_ended_the_thread_of_the_calls(tmp_path: Path) -> None:
    run = Run(2)
    run.all("all_reduce")
    raised(run.rank(0), "thread")
    run.rank(0).beat(40)
    found = standing(run, tmp_path)
    assert (found.state, detail.detail(found)) == (
        "raised", "ValueError: shard 2 at data.py:7"
    )  # fmt: skip


def test_an_exception_that_was_caught(tmp_path: Path) -> None:
    run = Run(2)
    raised(run.rank(0))
    run.all("all_reduce")
    run.finish()
    logs = case_of(run, tmp_path).evidence.logs
    assert [(r.what, r.error, r.site) for r in logs[0].caught] == [
        ("batch", "ValueError", "/a/data.py:7")
    ]
    assert logs[1].caught == []


def test_an_exception_that_ended_the_rank_was_not_caught(tmp_path: Path) -> None:
    run = Run(2)
    run.all("all_reduce")
    raised(run.rank(0))
    run.rank(0).exit("exception", error="ValueError", message="shard 2", site="/a/data.py:7")
    assert case_of(run, tmp_path).evidence.logs[0].caught == []


def test_a_workers_exception_in_words(tmp_path: Path) -> None:
    run = Run(2)
    text = (
        "Caught ValueError in DataLoader worker process 0.\n"
        "Original Traceback (most recent call last):\n"
        '  File "/env/lib/python3.11/site-packages/torch/utils/data/x.py", line 3, in fetch\n'
        "    data = dataset[i]\n"
        '  File "/job/dataset.py", line 18, in __getitem__\n'
        "    raise ValueError(text)\n"
        "ValueError: corrupt JPEG: sample 37\n"
    )
    run.rank(0).exit("exception", error="ValueError", message=text, site="/job/train.py:40")
    found = standing(run, tmp_path)
    assert detail.detail(found) == "ValueError: corrupt JPEG: sample 37 at dataset.py:18"


def test_what_an_exception_was_raised_from(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).exit(
        "exception", error="RuntimeError", message="the step failed", site="/job/train.py:40",
        causes=["ValueError: loss is nan"],
    )  # fmt: skip
    found = standing(run, tmp_path)
    assert detail.detail(found) == (
        "RuntimeError: the step failed at train.py:40, after ValueError: loss is nan"
    )
    assert not found.by_peers


def test_an_exception_about_peers_that_was_wrapped(tmp_path: Path) -> None:
    run = Run(2)
    lost = "RuntimeError: Connection closed by peer [127.0.0.1]:1185"
    call = run.rank(0).call("barrier")
    run.rank(0).done(call.seq, failed=True, error=lost)
    run.rank(0).exit("exception", error="JobFailed", message="step 7", causes=[lost])
    assert standing(run, tmp_path).by_peers


@pytest.mark.parametrize("seconds", [0, 5])
def test_a_rank_that_gave_up_before_its_first_call_was_elsewhere(
    seconds: int, tmp_path: Path
) -> None:
    run = Run(2)
    run.rank(0).beat(seconds)  # in nothing: it waits for a key that the program asked for
    run.rank(0).exit("exception", error="DistStoreError", message="wait timeout after 8000ms")
    assert standing(run, tmp_path).by_peers == (seconds == 0), "it may have been in the first call"

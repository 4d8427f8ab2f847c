"""Rounds that were left out, told by the batches of a DataLoader."""

from __future__ import annotations

from pathlib import Path

from collectrace.align.diagnosis import slip
from collectrace.align.diagnosis.slip import Slip
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

SCRIPT = """\
for batch in loader:
    try:
        dist.all_reduce(loss(batch))
    except ValueError:
        print("left out")
"""


def rounds(
    skipped: set[int], *, loaders: int = 1, passes: int = 1, script: str = "/job/train.py"
) -> Run:
    """Three ranks, ten batches in each pass and a call for each; rank 1 leaves out some calls."""
    run = Run(3)
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{script}:3 <module>"]))
    count = 0
    for _ in range(passes):
        for n in range(1, 11):
            count += 1
            for rank in run:
                for loader in range(loaders):
                    rank.batch(n, loader=loader)
                if rank.rank != 1 or count not in skipped:
                    rank.call("all_reduce", site=f"{script}:3", stack=1)
    for rank in run:
        call = rank.call("barrier", site="/job/train.py:9")
        rank.beat(60, rank.inside(call))
    return run


def found(run: Run, folder: Path) -> tuple[Slip | None, Reason | None]:
    case = case_of(run, folder)
    candidate = judge(case)[0]
    assert candidate.suspects == (1,)
    return slip.slip(case, candidate), slip.reason(case, candidate)


def test_the_batch_of_the_round_that_was_left_out(tmp_path: Path) -> None:
    told, reason = found(rounds({4}), tmp_path)
    assert told is not None
    assert (told.seq, told.skipped, told.unit) == (4, (4,), "batch")
    assert reason is not None
    assert "Rank 1 skipped batch 4: it issued no collective in it" in reason.cause
    assert "nothing failed before call 10" in reason.cause
    assert "try" not in reason.cause


def test_several_batches_in_a_row(tmp_path: Path) -> None:
    told, reason = found(rounds({4, 5}), tmp_path)
    assert told is not None
    assert told.skipped == (4, 5)
    assert reason is not None
    assert "skipped batches 4 and 5" in reason.cause


def test_batches_are_counted_over_all_passes(tmp_path: Path) -> None:
    told, _ = found(rounds({14}, passes=2), tmp_path)
    assert told is not None
    assert (told.seq, told.skipped) == (14, (14,))


def test_the_last_round_left_out_is_a_loop_that_ended(tmp_path: Path) -> None:
    assert found(rounds({10}), tmp_path) == (None, None)


def test_of_two_loaders_neither_counts_the_rounds(tmp_path: Path) -> None:
    assert found(rounds({4}, loaders=2), tmp_path) == (None, None)


def test_without_batches_nothing_counts_them(tmp_path: Path) -> None:
    assert found(rounds({4}, loaders=0), tmp_path) == (None, None)


def test_a_handler_around_the_line_would_have_caught_what_left_it_out(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    _, reason = found(rounds({4}, script=str(script)), tmp_path / "logs")
    assert reason is not None
    assert (
        "It stands in a `try:`: an exception that was caught by `except ValueError:` (train.py:4) "
        "would have left it out." in reason.cause
    )


def test_a_try_that_catches_nothing_is_no_reason(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("except ValueError:", "finally:"))
    _, reason = found(rounds({4}, script=str(script)), tmp_path / "logs")
    assert reason is not None
    assert "try" not in reason.cause


def test_a_guard_that_leaves_out_one_round_and_no_more(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "for batch in loader: # rounds\n"
        "    if not finite(batch): continue\n"
        "    dist.all_reduce(loss(batch))\n"
        "    if done(batch): break\n"
    )
    _, reason = found(rounds({4}, script=str(script)), tmp_path / "logs")
    assert reason is not None
    assert (
        "`if not finite(batch): continue` (train.py:2), with a continue, may have led past it."
        in reason.cause
    )
    assert "done" not in reason.cause


def test_a_condition_around_the_line_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "for batch in loader:\n"
        "    if torch.isfinite(loss(batch)):\n"
        "        dist.all_reduce(loss(batch))\n"
    )
    _, reason = found(rounds({4}, script=str(script)), tmp_path / "logs")
    assert reason is not None
    assert (
        "It stands under `if torch.isfinite(loss(batch)):` (train.py:2), which looks at data."
        in reason.cause
    )
    assert reason.fix.startswith("Let every rank issue the collectives of every round")
    assert "Let all ranks decide together at train.py:2" in reason.fix


def test_a_condition_around_the_loop_has_left_out_no_round(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("if training:\n  for batch in loader:\n    dist.all_reduce(loss(batch))\n")
    _, reason = found(rounds({4}, script=str(script)), tmp_path / "logs")
    assert reason is not None
    assert "training" not in reason.cause


def test_a_damaged_number_of_a_round_is_not_counted_up_to(tmp_path: Path) -> None:
    run = Run(3)
    for n in range(1, 11):
        for rank in run:
            ahead = 10**18 if rank.rank == 1 and n > 4 else 0
            rank.call("all_reduce", iteration=n + ahead, site="/job/train.py:3")
    for rank in run:
        rank.stuck_in(rank.call("all_reduce", shape=[2 + (rank.rank == 1)], site="/job/train.py:9"))
    case = case_of(run, tmp_path)
    told = slip.slip(case, judge(case)[0])
    assert told is not None
    assert told.skipped[0] == 5

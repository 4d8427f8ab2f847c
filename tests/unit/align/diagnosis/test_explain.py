"""The table of what words a candidate of each kind; where in a unit of work a row lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align import align
from collectrace.align.diagnosis import caught
from collectrace.align.diagnosis.explain import EXPLAINERS
from collectrace.align.judging.judge import judge
from collectrace.findings import KINDS
from collectrace.records import Raised, Unit
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Run


def test_every_kind_that_can_be_an_error_has_its_words() -> None:
    assert EXPLAINERS.keys() == {kind for kind, row in KINDS.items() if row.status is not None}


# -- the place in a unit of work -------------------------------------------------------------------


def note(run: Run, folder: Path) -> str:
    return " ".join(errors(aligned(run, folder))[0].notes)


def in_step(lengths: tuple[int, int, int], unit: str = "optimizer.step") -> Run:
    """Three steps of two calls, and a fourth of so many; then another call on rank 0."""
    run = Run(3)
    for rank, last in zip(run, lengths, strict=True):
        rank.record(Unit(of=unit))
        for step, count in enumerate((2, 2, 2, last), 1):
            rank.calls(count, "all_reduce", iteration=step)
        call = rank.call("all_reduce", iteration=4, shape=[7 if rank.rank == 0 else 1])
        rank.beat(60, rank.inside(call))
    return run


def test_a_call_is_counted_within_its_step(tmp_path: Path) -> None:
    assert "Step 4; the 2nd call in it." in note(in_step((1, 1, 1)), tmp_path)


def test_the_first_call_of_a_step(tmp_path: Path) -> None:
    assert "Step 4; the 1st call in it." in note(in_step((0, 0, 0)), tmp_path)


def test_steps_that_differ_in_length_are_counted_on_each_side(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        first = rank.rank == 0
        rank.record(Unit(of="optimizer.step"))
        rank.calls(3, "all_reduce", iteration=1)
        rank.calls(2, "all_reduce", iteration=1 if first else 2)
        call = rank.call("all_reduce", iteration=2, shape=[7 if first else 1])
        rank.beat(60, rank.inside(call))
    assert "the 1st call in it on rank 0, the 3rd call in it on ranks 1-2" in note(run, tmp_path)


@pytest.mark.parametrize(("thread", "told"), [("saver_0", False), ("native-1", True), (None, True)])
def test_what_a_thread_of_its_own_issues_is_in_no_step(
    thread: str | None, *, told: bool, tmp_path: Path
) -> None:
    run = Run(3)
    for rank in run:
        rank.record(Unit(of="optimizer.step"))
        first = rank.rank == 0
        call = rank.call(
            "all_reduce", iteration=4 if first else 5, shape=[7 if first else 1], thread=thread
        )
        rank.beat(60, rank.inside(call))
    assert ("4 on rank 0, 5 on ranks 1-2" in note(run, tmp_path)) == told


def test_calls_of_ddp_are_not_counted_within_a_forward(tmp_path: Path) -> None:
    told = note(in_step((1, 1, 1), unit="ddp.forward"), tmp_path)
    assert "DDP iteration 4" in told
    assert "call in it" not in told


def test_a_step_that_the_log_does_not_reach_back_to(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        rank.record(Unit(of="optimizer.step"))
        rank.calls(1200, "all_reduce", iteration=1)
        call = rank.call("all_reduce", iteration=1, shape=[7 if rank.rank == 0 else 1])
        rank.beat(60, rank.inside(call))
    assert "call in it" not in note(run, tmp_path)


# -- exceptions that were caught -------------------------------------------------------------------


def after_an_exception(at: int) -> Run:
    """Before its call of this number rank 2 catches an exception; it leaves out the barrier, 3."""
    run = Run(3)
    for rank in run:
        for n in range(1, 6):
            if rank.rank == 2 and n == at:
                full, site = "No space left on device", "/job/save.py:9"
                rank.record(Raised(what="backward", error="OSError", message=full, site=site))
            if n != 3:
                rank.call("all_reduce", site="/job/train.py:4")
            elif rank.rank != 2:
                rank.call("barrier", site="/job/save.py:12")
        rank.exit()
    return run


def test_an_exception_that_a_suspect_went_on_after_is_told(tmp_path: Path) -> None:
    (found,) = errors(aligned(after_an_exception(3), tmp_path))
    assert found.cause.startswith(
        "Rank 2 raised OSError: No space left on device in backward at save.py:9. After it rank 2 "
        "called all_reduce at train.py:4. Nothing was raised there on the others: ranks 0-1 "
        "called barrier at save.py:12."
    )
    assert not any("OSError" in told for told in found.notes)
    assert found.fix.startswith("Mend what raised OSError: No space left on device at save.py:9.")


def test_an_exception_that_the_cause_does_not_tell_of_is_noted(tmp_path: Path) -> None:
    case = case_of(after_an_exception(3), tmp_path)
    (found,) = judge(case)
    (noted,) = caught.notes(case, found, 3, "They differ in what the groups do.")
    assert noted.startswith("Just before, OSError (No space left on device) left backward at save")
    assert caught.notes(case, found, 3, "OSError: No space left on device was raised.") == []


@pytest.mark.parametrize("at", [2, 5])
def test_an_exception_before_or_after_that_is_not(at: int, tmp_path: Path) -> None:
    (found,) = errors(aligned(after_an_exception(at), tmp_path))
    assert "OSError" not in " ".join((found.cause, found.fix, *found.notes))


# -- ranks that a backend ended --------------------------------------------------------------------

ABORTED = """Fatal Python error: Aborted

Current thread 0x00007f01 (most recent call first):
  File "/job/train.py", line 12 in step
"""


@pytest.mark.parametrize(
    ("backend", "shapes", "told"),
    [("gloo", (4, 8), True), ("nccl", (4, 8), False), ("gloo", (8, 8), False)],
    ids=["other sizes", "NCCL aborts nobody for it", "nothing differs"],
)
def test_a_process_that_gloo_aborted(
    backend: str, shapes: tuple[int, int], told: bool, tmp_path: Path
) -> None:
    run = Run(2, backend=backend)
    for rank, shape in zip(run, shapes, strict=True):
        rank.call("all_reduce", shape=[shape])
    run.rank(1).exit()
    folder = run.write(tmp_path) or tmp_path / run.name
    (folder / "rank00000.ends.txt").write_text(ABORTED)
    notes = [note for finding in align(folder).findings for note in finding.notes]
    assert any("sent more bytes than it awaits: rank 0 ended so" in note for note in notes) == told

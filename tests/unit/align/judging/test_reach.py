"""Where a rank's record does not reach, nothing is told, and the verdict is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align import align
from collectrace.findings import Alignment
from collectrace.records import Checkpoint
from tests.support.judging import aligned
from tests.support.synthetic import Run

GAVE_UP = {"error": "KeyError", "message": "x", "failures": 20}


def told(alignment: Alignment) -> list[str]:
    return [finding.kind for finding in alignment.findings]


def gap(alignment: Alignment) -> str:
    (finding,) = (f for f in alignment.findings if f.kind == "evidence_gap")
    return finding.headline


def test_a_tracer_that_gave_up_everywhere_is_no_proof(tmp_path: Path) -> None:
    run = Run(2)
    for _ in range(4):
        run.all("all_reduce")
    for rank in run:
        rank.exit("disabled", **GAVE_UP)
    alignment = aligned(run, tmp_path)
    assert (alignment.status, alignment.exit_status) == ("unknown", 3)
    assert gap(alignment) == (
        "ranks 0-1: the tracer gave up after 20 failures of its own (KeyError), after call 4 of "
        "the default group"
    )


def test_what_followed_a_mismatch_that_nobody_saw_is_not_told(tmp_path: Path) -> None:
    run = Run(3)
    run.all("all_reduce")
    run.rank(0).exit("disabled", **GAVE_UP)
    run.rank(1).call("all_reduce")
    run.rank(2).call("all_reduce")
    for rank in (1, 2):  # where rank 0, unseen, had called something else
        run.rank(rank).exit(
            "exception", error="RuntimeError", message="Connection closed by peer [127.0.0.1]"
        )
    alignment = aligned(run, tmp_path)
    assert (alignment.status, told(alignment)) == ("unknown", ["evidence_gap"])
    assert "network" not in str(alignment)


def test_a_rank_that_was_switched_off_is_not_counted_as_agreeing(tmp_path: Path) -> None:
    run = Run(2)
    run.all("all_reduce")
    run.rank(0).exit("disabled")
    for _ in range(3):
        run.rank(1).call("all_reduce")
    run.rank(1).exit()
    alignment = aligned(run, tmp_path)
    assert (alignment.status, alignment.evidence.agreed) == ("unknown", 1)
    assert gap(alignment) == "rank 0: tracing was switched off, after call 1 of the default group"
    assert "after destroy_process_group()" in alignment.findings[0].fix


def test_switched_off_when_the_groups_are_gone_is_an_end(tmp_path: Path) -> None:
    run = Run(2)
    run.all("all_reduce")
    for rank in run:
        rank.group("0", [0, 1], phase="destroyed")
        rank.exit("disabled")
    assert aligned(run, tmp_path).status == "aligned"


@pytest.mark.parametrize("differs_at", [3, 5])
def test_a_difference_counts_up_to_the_first_call_that_could_not_be_described(
    tmp_path: Path, differs_at: int
) -> None:
    run = Run(2)
    for row in range(1, 7):
        run.rank(0).call("all_reduce")
        if row == 4:
            run.rank(1).call("all_reduce", void=True)
        else:
            run.rank(1).call("barrier" if row == differs_at else "all_reduce")
    run.finish()
    alignment = aligned(run, tmp_path)
    if differs_at == 3:
        assert (alignment.status, told(alignment)[0]) == ("diverged", "op_mismatch")
    else:
        assert (alignment.status, told(alignment)) == ("unknown", ["evidence_gap"])
        assert alignment.evidence.agreed == 3
    assert gap(alignment) == (
        "rank 1: 1 call could not be described, the first is call 4 of the default group"
    )


def test_others_may_differ_in_the_very_row_of_a_void_call(tmp_path: Path) -> None:
    run = Run(3)
    run.all("all_reduce")
    run.rank(0).call("all_reduce")
    run.rank(1).call("all_reduce", void=True)
    run.rank(2).call("broadcast")
    run.finish()
    alignment = aligned(run, tmp_path)
    assert (alignment.status, alignment.findings[0].seq) == ("diverged", 2)


def test_ranks_that_have_nothing_to_do_with_it_are_told_of(tmp_path: Path) -> None:
    run = Run(4)
    run.group("tp", [2, 3])
    run.all("all_reduce")
    run.rank(0).exit("disabled", **GAVE_UP)
    run.rank(2).call("all_reduce", group="tp", dtype="float32")
    run.rank(3).call("all_reduce", group="tp", dtype="float64")
    for rank in (1, 2, 3):
        run.rank(rank).exit()
    alignment = aligned(run, tmp_path)
    assert alignment.status == "diverged"
    assert told(alignment) == ["dtype_mismatch", "evidence_gap"]


@pytest.mark.parametrize("void", [True, None])
def test_what_a_hidden_difference_led_to_is_hidden_too(tmp_path: Path, void: bool | None) -> None:
    run = Run(3)
    run.group("dp", [0, 1])
    run.group("tp", [1, 2])
    run.rank(0).call("all_reduce", group="dp", void=void)
    run.rank(1).call("all_reduce", group="dp")
    late = run.rank(1).call("all_reduce", group="dp")
    run.rank(0).exit("exception", error="ValueError", message="own")
    waits = run.rank(2).call("all_reduce", group="tp")
    for _ in range(30):
        run.rank(1).beat(5, run.rank(1).inside(late))
        run.rank(2).beat(5, run.rank(2).inside(waits))
    alignment = aligned(run, tmp_path)
    if void:
        assert (alignment.status, told(alignment)) == ("unknown", ["evidence_gap"])
    else:
        assert (alignment.status, told(alignment)) == ("hung", ["missing_call"] * 2)


def test_logs_read_in_part_are_read_whole_where_a_tracer_failed(tmp_path: Path) -> None:
    run = Run(2)
    for row in range(6000):
        for rank in run:
            rank.call("all_reduce", void=True if row == 3000 else None)
    for rank in run:
        rank.record(Checkpoint(failures=1))
        rank.exit(failures=1)
    run.write(tmp_path)
    from collectrace.align.alignment import compared, judged
    from collectrace.align.reading.run_reader import RunReader

    alignment = judged(compared(RunReader(tmp_path, small=0).read()))
    assert alignment.status == align(tmp_path).status == "unknown"
    assert gap(alignment).startswith("ranks 0-1: 1 call could not be described")

"""Ranks that did not come: what they did instead, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace import words
from collectrace.align.diagnosis import inputs, loop
from collectrace.align.reading import code_lines
from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support import kind_examples
from tests.support.code import code_of
from tests.support.judging import aligned, case_of
from tests.support.kind_examples import LOST, STEP, crash, ddp_step, steps, waits
from tests.support.synthetic import Run

INSIDE = "/job/train.py:40"


def first(run: Run, folder: Path) -> Finding:
    return aligned(run, folder).findings[0]


# -- who did not come ------------------------------------------------------------------------


def test_ranks_that_raised_each_in_words_of_their_own(tmp_path: Path) -> None:
    found = first(kind_examples.missing_call(), tmp_path)
    assert found.suspects == (3, 17, 18, 19, 250)
    assert found.headline == (
        "ranks 3,17-19,250 raised ValueError at data.py:7; "
        f"{words.ranks(set(range(512)) - set(found.suspects))} wait for them in all_reduce "
        "at train.py:40"
    )
    assert found.cause.startswith("Rank 3: ValueError: shard 3 is corrupt at data.py:7 (4 more")
    assert "error flag" in found.fix


def test_who_lost_its_peer_is_not_told_to_fix_its_exception(tmp_path: Path) -> None:
    """Rank 1 alone made the call, and raised because the others had left by then."""
    run = steps(3)
    for rank in run:
        if rank.rank == 1:
            rank.call("all_reduce", site="/job/log.py:9")
            rank.wait(1)
            crash(rank, "RuntimeError", LOST, "/job/log.py:9")
        else:
            rank.exit()
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert found.headline == "ranks 0,2 finished; rank 1 waits for them in all_reduce at log.py:9"
    assert "Ranks 0,2 finished without all_reduce at log.py:9, which rank 1 issued" in found.cause
    assert "Fix what raised" not in found.fix


def test_a_group_that_was_gone(tmp_path: Path) -> None:
    run = steps(2)
    waits(run.rank(0), **STEP)
    message = "Default process group has not been initialized, please make sure to call init."
    crash(run.rank(1), "ValueError", message, INSIDE)
    found = first(run, tmp_path)
    assert "The process group was gone, or had never been made" in found.cause
    assert "destroy_process_group()" in found.fix


def test_a_rank_that_died(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        if rank.rank != 1:
            waits(rank, **STEP)
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert found.headline.startswith("rank 1 died after all_reduce at train.py:40; ranks 0,2 wait")
    assert "left no last line, as a process does that is killed (out of memory)" in found.cause
    assert "dmesg" in found.fix


def test_a_rank_that_is_busy_and_where(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        if rank.rank != 1:
            waits(rank, **STEP)
    busy = run.rank(1)
    busy.beat(28)
    busy.stall(stacks={"MainThread": ["/job/train.py:60 main", "/job/data.py:12 decode"]})
    busy.beat(2)
    found = first(run, tmp_path)
    assert found.headline.startswith("rank 1 is busy at data.py:12; ranks 0,2 wait for it in")
    assert "Rank 1 was at data.py:12 (decode), called at train.py:60 (main)." in found.cause
    assert "Ctrl-C" not in found.cause
    assert "(`py-spy dump`, the `stall` line in the log of rank 1)" in found.fix


def test_no_line_is_promised_that_is_not_there(tmp_path: Path) -> None:
    run = steps(3, stall_after=45.0)
    for rank in run:
        if rank.rank == 1:
            rank.beat(30)
        else:
            waits(rank, **STEP)
    found = first(run, tmp_path)
    assert found.headline.startswith("rank 1 is busy")
    assert "`stall`" not in found.fix
    assert "enable(stall_after=...), with less than the 45 s of this one" in found.fix


def test_a_call_that_one_rank_was_refused(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        call = rank.call("all_gather_single", shape=[4], site="/job/eval.py:7")
        if rank.rank == 2:
            message = "ProcessGroupGloo::allgather: invalid tensor size at index 0"
            rank.done(call.seq, failed=True)
            crash(rank, "RuntimeError", message, "/job/eval.py:7")
        else:
            rank.beat(30, rank.inside(call))
    found = first(run, tmp_path)
    assert found.suspects == (2,)
    assert found.headline == (
        "all_gather_single at eval.py:7 raised on rank 2 and never reached ranks 0-1"
    )
    assert "the other ranks did nothing wrong" in found.fix


def test_an_absence_that_leads_to_another(tmp_path: Path) -> None:
    run = Run(world=3)
    run.group("1", [0, 1], description="tp")
    run.group("2", [1, 2], description="dp")
    waits(run.rank(0), group="1", site="/job/a.py:1")
    waits(run.rank(1), group="2", site="/job/b.py:2")
    crash(run.rank(2), "ValueError", "shard 2 is corrupt", "/job/data.py:7")
    root, effect = aligned(run, tmp_path).findings[:2]
    assert root.headline.startswith("rank 2 raised ValueError at data.py:7; rank 1 waits for it")
    assert effect.caused_by == 0
    assert "Rank 1 could not come because of the cause above (call 1 of group dp)" in effect.cause
    assert "Rank 1 waits for rank 2 in all_reduce of group dp at b.py:2." in effect.cause


def test_too_early_to_tell(tmp_path: Path) -> None:
    found = first(kind_examples.killed_everywhere(), tmp_path)
    assert (found.kind, found.severity) == ("missing_call", "info")
    assert found.headline.startswith("ranks 1-2 had not come to all_reduce at train.py:40 when")
    assert "this proves nothing" in found.cause


def test_nobody_is_missing_and_nothing_completes(tmp_path: Path) -> None:
    found = first(kind_examples.stall(), tmp_path)
    assert found.headline == "every rank came to all_reduce at train.py:40, and it never completes"
    assert "What fails lies below the collective" in found.cause


def test_what_never_completes_behind_another_error_is_not_laid_on_the_network(
    tmp_path: Path,
) -> None:
    run = steps(3)
    for rank in run:
        rank.group("1", [0, 1] if rank.rank else [0, 1, 2], site="/job/mesh.py:9")
    for rank in (run.rank(0), run.rank(1)):
        rank.call("all_reduce", "1", site="/job/mesh.py:12")
    for rank in run:
        rank.wait(30)
        crash(rank, "RuntimeError", "Timed out waiting 30000ms for recv operation", "mesh.py:12")
    root, *effects = aligned(run, tmp_path).findings
    assert root.kind == "group_mismatch"
    assert not any("network" in found.fix + found.cause for found in effects)


def test_one_who_came_stands_still(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        call = rank.call("all_reduce", **STEP)
        if rank.rank != 1:
            rank.beat(90, rank.inside(call))
    found = first(run, tmp_path)
    assert (found.kind, found.suspects) == ("stall", (1,))
    assert found.headline.startswith("rank 1 stopped inside all_reduce at train.py:40")
    assert "gave no sign of life" in found.cause


def test_a_loop_that_ran_longer(tmp_path: Path) -> None:
    run = steps(3, rows=9)
    for rank in run:
        if rank.rank == 2:
            rank.exit()
        else:
            waits(rank, **STEP)
    found = first(run, tmp_path)
    assert found.suspects == (2,)
    assert "Rank 2 finished after 9 times through the loop; ranks 0-1 began another" in found.cause
    assert "agree on the number of steps first" in found.fix


# -- uneven inputs ---------------------------------------------------------------------------


def loaded(*batches: int) -> Run:
    """Each rank goes through its DataLoader, and through DDP with each batch."""
    run = Run(len(batches))
    for rank, most in zip(run, batches, strict=True):
        for n in range(1, most + 1):
            rank.batch(n)
            ddp_step(rank, n)
        rank.batch(most, end=True)
    return run


def test_batches_are_counted_where_a_loader_tells(tmp_path: Path) -> None:
    run = loaded(4, 6, 6)
    for rank in run:
        rank.exit()
    found = first(run, tmp_path)
    assert found.headline == (
        "rank 0 finished after 4 batches without DDP forward() at train.py:21, "
        "to which ranks 1-2 came"
    )
    assert "Uneven inputs: rank 0 had 4 batches and ranks 1-2 had 6." in found.cause
    assert "DistributedSampler" in found.fix


def test_even_inputs_are_not_blamed(tmp_path: Path) -> None:
    run = loaded(4, 4, 4)
    for rank in run:
        if rank.rank == 0:
            rank.exit()
        else:
            waits(rank, "barrier", iteration=4, site="/job/save.py:3")
    found = first(run, tmp_path)
    assert "Uneven inputs" not in found.cause
    assert "which ranks 1-2 issued as one call more" in found.cause


@pytest.mark.parametrize(
    ("told_by", "counts", "ended", "phrase"),
    [
        ("join", {0: 5, 1: 6}, {0}, "rank 0 had 5 batches and rank 1 got to its 6th"),
        ("loader", {0: 5, 1: 6}, {0, 1}, "rank 0 had 5 batches and rank 1 had 6"),
        ("forwards", {0: 5, 1: 6}, {0}, "rank 0 ran 5 forward passes and rank 1 began its 6th"),
        ("join", {0: 1, 1: 3, 2: 3}, {0}, "rank 0 had 1 batch and ranks 1-2 got to their 3rd"),
    ],
)
def test_inputs_in_words(
    told_by: str, counts: dict[int, int], ended: set[int], phrase: str
) -> None:
    found = inputs.Inputs(counts, frozenset(ended), told_by)  # type: ignore[arg-type]
    assert found.phrase() == phrase
    assert found.uneven


# -- the place in the loop -------------------------------------------------------------------


@pytest.mark.parametrize(("world", "blamed"), [(2, ""), (3, "; rank 0 did something else here")])
def test_the_place_in_the_loop(world: int, blamed: str, tmp_path: Path) -> None:
    """Iteration, and which call of a round: counted from where DDP's iteration begins.

    Who left the pattern is told of suspects only: of others it would read as blame.
    """
    run = Run(world)
    for n in range(1, 6):
        for rank in run:
            ddp_step(rank, n)
            rank.call("barrier", iteration=n, site="/job/train.py:24")
    for rank in run:
        ddp_step(rank, 6)
        op, line = ("barrier", 24) if rank.rank else ("all_reduce", 30)
        waits(rank, op, iteration=6, site=f"/job/train.py:{line}")
    found = first(run, tmp_path)
    assert found.notes == (
        (
            "DDP iteration 6; the 3rd of 3 calls in each round of the loop, after 5 equal rounds"
            f"{blamed}."
        ),
    )


def test_the_own_calls_of_a_loop(tmp_path: Path) -> None:
    from collectrace.align.judging.judge import judge

    run = Run(2)
    for n in range(1, 4):
        for rank in run:
            ddp_step(rank, n)
            rank.call("barrier", iteration=n, site="/job/train.py:24")
    run.rank(0).exit()
    ddp_step(run.rank(1), 4)
    run.rank(1).wait(1)
    crash(run.rank(1), "RuntimeError", LOST, "/job/train.py:21")
    case = case_of(run, tmp_path)
    candidate = judge(case)[0]
    assert [c.site for c in loop.own_calls(case, 1, candidate)] == ["/job/train.py:24"]


def test_a_line_after_the_loop_is_read_in_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("for b in bs:\n  step(b)\nbarrier()\ndef f():\n  barrier()\n")
    assert code_lines.loop_before(code_of(script), f"{script}:3", f"{script}:2") == 1
    assert code_lines.loop_before(code_of(script), f"{script}:2", f"{script}:3") is None
    assert code_lines.loop_before(code_of(script), f"{script}:5", f"{script}:2") is None
    assert code_lines.loop_before(code_of(), "/nowhere.py:3", "/nowhere.py:2") is None


JOINED = ["/job/train.py:36 main", "/usr/lib/python3.11/threading.py:1119 join"]


@pytest.mark.parametrize(
    ("main", "where"), [(JOINED, "train.py:30 (train)"), (["/job/train.py:60 main"], "train.py:60")]
)
def test_a_busy_main_thread_and_one_that_joins_another(
    main: list[str], where: str, tmp_path: Path
) -> None:
    """Who waits for a thread of its own is where that thread is."""
    run = steps(3)
    for rank in run:
        if rank.rank != 1:
            waits(rank, **STEP)
    busy = run.rank(1)
    busy.beat(28)
    busy.stall(stacks={"MainThread": main, "Thread-1 (train)": ["/job/train.py:30 train"]})
    busy.beat(2)
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert f"Rank 1 was at {where}" in found.cause


@pytest.mark.parametrize("thread", ["watcher", None])
def test_a_call_that_a_thread_made_is_told_with_it(thread: str | None, tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        if rank.rank == 1:
            rank.exit()
        else:
            call = rank.call("barrier", site="/job/watch.py:4", thread=thread)
            rank.beat(30, rank.inside(call, thread=thread or "MainThread"))
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert ("in thread watcher" in found.cause) == (thread is not None)


@pytest.mark.parametrize("several", [True, False])
def test_a_call_is_told_at_its_own_line_and_its_caller_beside(
    *, several: bool, tmp_path: Path
) -> None:
    run = Run(2)
    for rank in run:
        for n, line in enumerate((90, 93 if several else 90), 1):
            frames = ["/job/train.py:73 prepare", f"/job/train.py:{line} main"]
            rank.record(Stack(stack=n, frames=frames))
        rank.call("all_reduce", site="/job/train.py:73", stack=1)
    last = run.rank(0).call("all_reduce", site="/job/train.py:73", stack=2)
    run.rank(0).beat(60, run.rank(0).inside(last))
    run.rank(1).beat(60)
    headline = first(run, tmp_path).headline
    assert headline.endswith(
        "in all_reduce at train.py:73" + (", called at train.py:93" if several else "")
    )


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Global rank 0 is not part of group <ProcessGroup object at 0x7f>", True),
        ("shard 0 is not part of group 3", False),
    ],
)
def test_a_root_that_is_no_member_of_the_group(message: str, *, told: bool, tmp_path: Path) -> None:
    run = Run(world=3)
    for rank in (run.rank(0), run.rank(1)):
        waits(rank, site="/job/a.py:1")
    crash(run.rank(2), "ValueError", message, "/job/a.py:7")
    found = aligned(run, tmp_path).findings[0]
    assert ("group_src=" in found.fix) == told
    assert found.fix.startswith("Fix what raised.")


@pytest.mark.parametrize("own", ["/job/watch.py:5", "/job/train.py:40"])
def test_by_which_line_who_finished_took_part(own: str, tmp_path: Path) -> None:
    run = Run(3)
    for n in range(4):
        for rank in run:
            last = rank.rank == 2
            if n < 3 or not last:
                call = rank.call("all_reduce", site=own if last else "/job/train.py:40")
            if n == 3 and not last:
                rank.beat(60, rank.inside(call))
    run.rank(2).exit()
    found = first(run, tmp_path)
    assert found.suspects == (2,)
    told = "Rank 2 took part by all_reduce at watch.py:5 until then."
    assert (told in found.cause) == (own == "/job/watch.py:5")
    assert ("took part by" in found.cause) == (own == "/job/watch.py:5")

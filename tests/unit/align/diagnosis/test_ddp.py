"""What goes wrong around DDP, told from what the logs show and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Finding
from collectrace.records import Stack
from tests.support.judging import aligned
from tests.support.kind_examples import LOST, crash, ddp_step, waits
from tests.support.synthetic import Rank, Run

LINE = "/job/train.py:21"


def first(run: Run, folder: Path) -> Finding:
    return aligned(run, folder).findings[0]


def forward(rank: Rank, n: int, **fields: Any) -> None:
    fields = {"role": "ddp.forward.sync_buffers", "shape": [4], "site": LINE} | fields
    waits(rank, "broadcast", iteration=n, **fields)


def bucket(rank: Rank, n: int, **fields: Any) -> None:
    fields = {"role": "ddp.backward.bucket", "shape": [10], "site": LINE} | fields
    waits(rank, iteration=n, **fields)


def trained(world: int = 3, steps: int = 3) -> Run:
    run = Run(world)
    for n in range(1, steps + 1):
        for rank in run:
            ddp_step(rank, n)
    return run


def test_a_forward_on_one_rank_only(tmp_path: Path) -> None:
    """Evaluation on rank 0, from a line of its own: the buffers' broadcasts still pair."""
    run = trained()
    for rank in run:
        if rank.rank == 0:
            rank.call(
                "broadcast", role="ddp.forward.sync_buffers", shape=[4], iteration=4,
                site="/job/train.py:30",
            )  # fmt: skip
            forward(rank, 5)
        else:
            rank.call(
                "broadcast", role="ddp.forward.sync_buffers", shape=[4], iteration=4, site=LINE
            )
            bucket(rank, 4)
    found = first(run, tmp_path)
    assert (found.kind, found.suspects) == ("op_mismatch", (0,))
    assert "Rank 0 ran a forward of the DDP model at train.py:30 that ranks 1-2 did not run" in (
        found.cause
    )
    assert "From call 7 on" in found.cause
    assert "model.module(...)" in found.fix


def test_a_forward_on_one_rank_only_from_the_line_of_all(tmp_path: Path) -> None:
    """Forwards without a backward, while the others are in the backward of that forward."""
    run = trained()
    for rank in run:
        rank.call("broadcast", role="ddp.forward.sync_buffers", shape=[4], iteration=4, site=LINE)
        forward(rank, 5) if rank.rank == 0 else bucket(rank, 4)
    found = first(run, tmp_path)
    assert "Rank 0 ran a forward of the DDP model at train.py:21 that ranks 1-2 did not run" in (
        found.cause
    )


def test_a_rank_that_is_a_call_ahead_ran_no_forward_alone(tmp_path: Path) -> None:
    """One more collective in the same backward is no forward that the others left out."""
    run = trained()
    for rank in run:
        ddp_step(rank, 4)
        forward(rank, 5) if rank.rank == 0 else bucket(rank, 4)
    assert "ran a forward" not in first(run, tmp_path).cause


def test_evaluation_on_one_rank_after_the_others_finished(tmp_path: Path) -> None:
    run = trained()
    for rank in run:
        if rank.rank == 0:
            rank.call(
                "broadcast", role="ddp.forward.sync_buffers", shape=[4], iteration=4,
                site="/job/train.py:30",
            )  # fmt: skip
            rank.wait(1)
            crash(rank, "RuntimeError", LOST, "/job/train.py:30")
        else:
            rank.exit()
    found = first(run, tmp_path)
    assert (found.kind, found.suspects) == ("missing_call", (0,))
    assert found.headline == (
        "ranks 1-2 finished after 3 forward passes; rank 0 waits for them in DDP forward() "
        "at train.py:30"
    )
    assert "ran forward 4 of the DDP model at train.py:30, and ranks 1-2 ran none" in found.cause
    assert "model.module(...)" in found.fix


def test_find_unused_parameters_on_one_rank(tmp_path: Path) -> None:
    run = trained(steps=1)
    for rank in run:
        if rank.rank == 1:
            waits(
                rank, role="ddp.backward.unused_params", dtype="int32", shape=[2], iteration=1,
                site=LINE,
            )  # fmt: skip
        else:
            forward(rank, 2)
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert "find_unused_parameters=True (or static_graph=True) on rank 1 only" in found.cause
    assert "same arguments" in found.fix


def test_unused_parameters_in_the_middle_of_a_backward(tmp_path: Path) -> None:
    """Rank 1 never fills its second bucket, and goes on within the same iteration."""
    run = trained()
    for rank in run:
        ddp_step(rank, 4)
        bucket(rank, 4) if rank.rank != 1 else waits(rank, "barrier", iteration=4, site="/j/t.py:9")
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert found.headline == (
        "rank 1 called barrier at t.py:9 where ranks 0,2 were in DDP backward() at train.py:21"
    )
    assert "ranks 0,2 issued a gradient bucket that rank 1 did not" in found.cause
    assert "some took no part in the loss" in found.cause
    assert "find_unused_parameters=True, on all ranks" in found.fix


def test_a_call_that_may_come_before_the_backward_or_behind_it(tmp_path: Path) -> None:
    run = trained(2, steps=1)
    for rank in run:
        rank.call("broadcast", role="ddp.forward.sync_buffers", shape=[4], iteration=2, site=LINE)
    bucket(run.rank(0), 2)
    waits(run.rank(1), shape=[3], iteration=2, site="/j/t.py:9")
    found = first(run, tmp_path)
    assert "rank 0 issued a gradient bucket that rank 1 did not" in found.cause
    assert "Either rank 1 had gone on to that: DDP issues a bucket when" in found.cause
    assert "Or that backward() comes behind it, in this round or in the next" in found.cause
    assert found.fix.startswith("If rank 1 had gone on: let every parameter take part")


@pytest.mark.parametrize(("others", "told"), [(1, "after 1 of them"), (0, "without it")])
def test_a_call_that_comes_before_each_backward(others: int, told: str, tmp_path: Path) -> None:
    """Behind epochs of one step, so that there are no equal rounds before it."""
    run = Run(2)
    for rank in run:
        for n in range(1, 4):
            for _ in range(others + 1):
                rank.call("all_reduce", shape=[3], iteration=n, site="/job/t.py:9")
            bucket(rank, n)
            rank.call("all_reduce", shape=[n], iteration=n, site="/job/t.py:30")
        for _ in range(others):
            rank.call("all_reduce", shape=[3], iteration=4, site="/job/t.py:9")
    waits(run.rank(0), shape=[3], iteration=4, site="/job/t.py:9")
    bucket(run.rank(1), 4)
    found = first(run, tmp_path)
    assert f"rank 1 came to that {told}." in found.cause
    assert "in each of the 3 DDP iterations before" in found.cause
    assert "gone on" not in found.cause
    assert "find_unused_parameters" not in found.fix


def test_unused_parameters_that_made_ddp_raise(tmp_path: Path) -> None:
    run = trained(2)
    bucket(run.rank(0), 4)
    message = (
        "Expected to have finished reduction in the prior iteration before starting a new one. "
        "This error indicates that your module has parameters that were not used in producing loss."
    )
    crash(run.rank(1), "RuntimeError", message, LINE)
    found = first(run, tmp_path)
    assert found.headline == (
        "rank 1 raised RuntimeError at train.py:21; rank 0 waits for it in DDP backward() "
        "at train.py:21"
    )
    assert "on rank 1 parameters took no part in the loss" in found.cause
    assert "find_unused_parameters" in found.fix


def test_models_that_the_constructor_found_to_differ(tmp_path: Path) -> None:
    run = Run(2)
    waits(run.rank(0), "broadcast", role="ddp.construct", shape=[5], site="/job/train.py:16")
    message = "DDP expects same model across all ranks, but Rank 1 has 2 params, while rank 0 has 4"
    crash(run.rank(1), "RuntimeError", message, "/job/train.py:16")
    found = first(run, tmp_path)
    assert "DDP's constructor compared the models of the ranks, and they differ" in found.cause
    assert "Build the same model on every rank" in found.fix


def test_a_constructor_on_one_rank_only(tmp_path: Path) -> None:
    run = trained()
    for rank in run:
        if rank.rank == 2:
            waits(rank, "broadcast", role="ddp.construct", shape=[5], site="/job/ema.py:3")
        else:
            forward(rank, 4)
    found = first(run, tmp_path)
    assert "DDP was constructed at ema.py:3 on rank 2 only" in found.cause
    assert "Construct DistributedDataParallel on every rank" in found.fix


def test_gradient_buckets_of_different_sizes(tmp_path: Path) -> None:
    run = trained()
    for rank in run:
        bucket(rank, 4, shape=[6] if rank.rank == 1 else [10])
    found = first(run, tmp_path)
    assert (found.kind, found.suspects) == ("shape_mismatch", (1,))
    assert found.headline == (
        "rank 1 was in DDP backward() with float32[6] at train.py:21, ranks 0,2 with float32[10]"
    )
    assert "The gradient buckets differ in size" in found.cause
    assert "bucket_cap_mb" in found.cause


def test_no_sync_for_other_micro_batches(tmp_path: Path) -> None:
    run = trained()
    for rank in run:
        for _ in range(4 if rank.rank == 2 else 3):
            rank.no_sync("entered")
        if rank.rank == 2:
            waits(rank, "barrier", iteration=4, site="/job/train.py:24")
        else:
            bucket(rank, 4)
    found = first(run, tmp_path)
    assert found.suspects == (2,)
    assert "ranks 0-1 entered it 3 times and rank 2 entered it 4 times" in found.cause
    assert "left out" not in found.headline
    assert "Decide about no_sync() from what all ranks share" in found.fix


def accumulated(reducing: dict[int, list[int]], alone: dict[int, list[int]], last: int = 12) -> Run:
    """Iterations of each rank that reduce, and those inside ``no_sync()``; then a barrier."""
    run = Run(3)
    for rank in run:
        for n in range(1, last + 1):
            if n in alone[rank.rank]:
                rank.no_sync("entered")
            elif n in reducing[rank.rank]:
                rank.call(
                    "all_reduce", role="ddp.backward.bucket", shape=[10], iteration=n, site=LINE
                )
        waits(rank, "barrier", iteration=last, site="/job/train.py:24")
    return run


def test_the_iteration_in_which_no_sync_first_differed(tmp_path: Path) -> None:
    four, odd = [4, 8, 12], [4, 12]
    others = {rank: [n for n in range(1, 13) if n not in four] for rank in (0, 2)}
    run = accumulated(
        {0: four, 1: odd, 2: four}, {**others, 1: [n for n in range(1, 13) if n not in odd]}
    )
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert (
        "in iteration 8 ranks 0,2 issued DDP backward() at train.py:21, call 2, and rank 1 issued "
        "nothing." in found.cause
    )
    assert (
        "Up to call 3 ranks 0,2 entered it 9 times and rank 1 entered it 10 times." in found.cause
    )


def test_who_left_out_a_round_has_entered_no_sync_more_by_being_ahead(tmp_path: Path) -> None:
    own = [1, 4, 7, 10]
    whole = [n for n in range(1, 13) if n not in own]
    less = [n for n in whole if n != 5]
    run = accumulated({0: whole, 1: less, 2: whole}, dict.fromkeys(range(3), own), last=10)
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert "no_sync" not in found.cause
    assert "Rank 1 skipped iteration 5" in found.cause


def test_no_sync_entered_alike_explains_nothing(tmp_path: Path) -> None:
    run = trained()
    for rank in run:
        rank.no_sync("entered")
        if rank.rank == 2:
            waits(rank, "barrier", iteration=4, site="/job/train.py:24")
        else:
            bucket(rank, 4)
    assert "no_sync" not in first(run, tmp_path).cause


def test_as_many_buckets_of_other_micro_batches_are_nothing_to_tell(tmp_path: Path) -> None:
    """Every rank may accumulate over as many as it has, as long as all reduce equally often."""
    run = Run(2)
    for rank in run:
        for n in (2, 4) if rank.rank else (1, 4):
            rank.call("all_reduce", role="ddp.backward.bucket", shape=[10], iteration=n, site=LINE)
        rank.exit()
    assert aligned(run, tmp_path).findings == ()


def test_two_models_in_another_order(tmp_path: Path) -> None:
    run = trained()
    for rank in run:
        forward(rank, 4, model=2 if rank.rank == 2 else 1)
    found = first(run, tmp_path)
    assert (found.kind, found.suspects) == ("role_mismatch", (2,))
    assert "model 1 on ranks 0-1 at train.py:21 and model 2 on rank 2 at train.py:21" in found.cause
    assert found.headline == (
        "rank 2 was in DDP forward() buffers of model 2 where ranks 0-1 were in DDP forward() "
        "buffers of model 1 (train.py:21)"
    )
    assert "in one order" in found.fix


@pytest.mark.parametrize("several", [False, True])
def test_forwards_of_different_models_are_not_compared(several: bool, tmp_path: Path) -> None:
    run = trained()
    for rank in run:
        if several:
            rank.call("broadcast", role="ddp.construct", shape=[5], model=2)
        ddp_step(rank, 4)
        bucket(rank, 5) if rank.rank else rank.exit()
    found = first(run, tmp_path)
    assert ("Uneven inputs: rank 0 ran 4 forward passes" in found.cause) is not several
    assert ("forward passes" in found.headline) is not several


def test_a_call_of_the_script_is_of_no_model(tmp_path: Path) -> None:
    """A ZeRO optimizer was the first of the group, so the DDP model is its second."""
    run = Run(2)
    for rank in run:
        bucket(rank, 1, model=2)
    bucket(run.rank(0), 2, model=2)
    waits(run.rank(1), shape=[3], iteration=2, site="/j/t.py:9")
    assert "model" not in first(run, tmp_path).headline


def test_a_call_of_ones_own_before_the_next_forward(tmp_path: Path) -> None:
    run = trained()
    for rank in run:
        if rank.rank == 0:
            waits(rank, "barrier", iteration=3, site="/job/save.py:17")
        else:
            forward(rank, 4)
    found = first(run, tmp_path)
    assert found.suspects == (0,)
    assert "After 3 forward passes of the DDP model rank 0 called barrier at save.py:17" in (
        found.cause
    )
    assert "ranks 1-2 had begun the 4th instead" in found.cause
    assert "If it is a branch" in found.fix


def test_a_call_of_ones_own_after_which_all_agree_again(tmp_path: Path) -> None:
    """That the streams fit again, one call later, tells an extra call from an ended loop."""
    run = trained(4)
    for rank in run:
        if rank.rank == 0:
            rank.call("all_reduce", iteration=3, shape=[4], site="/job/log.py:5")
        for n in range(4, 7):
            ddp_step(rank, n)
        rank.exit()
    found = first(run, tmp_path)
    assert found.suspects == (0,)
    assert found.headline == (
        "rank 0 called all_reduce at log.py:5 where ranks 1-3 were in DDP forward() at "
        "train.py:21: rank 0 has one extra all_reduce"
    )
    assert "Rank 0 issued all_reduce at log.py:5 (the script's own), and ranks 1-3 did not" in (
        found.cause
    )


def test_sync_batchnorm_inside_join(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.join("entered", group="0", site="/job/train.py:9")
        ddp_step(rank, 1)
    zero, one = run
    zero.join("joined", group="0", iteration=1, site="/job/train.py:9")
    waits(zero, role="join.bucket", shape=[10], iteration=2, site="/job/train.py:9")
    via = "/venv/site-packages/torch/nn/modules/_functions.py:60"
    waits(one, "all_gather_single", shape=[9], iteration=2, via=via, site="/job/model.py:4")
    found = first(run, tmp_path)
    assert (found.kind, found.suspects) == ("op_mismatch", (1,))
    assert "comes from inside the model's forward()" in found.cause
    assert "throw_on_early_termination=True" in found.fix


def test_backward_passes_of_different_lines_are_no_different_models(tmp_path: Path) -> None:
    """Two models take turns in a loop; rank 1 leaves one step out and begins the next round."""
    run = Run(2)
    for n in (1, 3, 5):
        for rank in run:
            bucket(rank, n, shape=[25], site="/job/gan.py:11")
            if n < 5:
                bucket(rank, n + 1, site="/job/gan.py:15")
    bucket(run.rank(0), 6, site="/job/gan.py:15")
    bucket(run.rank(1), 7, shape=[25], site="/job/gan.py:11")
    found = first(run, tmp_path)
    assert "different backward passes, rank 0 at gan.py:15 and rank 1 at gan.py:11" in found.cause
    assert "left out a step" in found.cause


def test_a_line_after_the_loop_in_a_loop_around_it_proves_no_uneven_inputs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "for epoch in range(3):\n    for x in data:\n        step(x)\n    gather(metrics)\n"
    )

    def job(epochs: int) -> Run:
        run = Run(2)
        for n in range(1, 2 * epochs + 1):
            for rank in run:
                bucket(rank, n, site=f"{script}:3")
                if n % 2 == 0 and n < 2 * epochs:
                    rank.call("all_gather", site=f"{script}:4", iteration=n)
        waits(run.rank(0), "all_gather", site=f"{script}:4", iteration=2 * epochs)
        bucket(run.rank(1), 2 * epochs + 1, site=f"{script}:3")
        return run

    assert "Uneven inputs: rank 0 ran 2" in first(job(1), tmp_path / "1").cause
    again = first(job(2), tmp_path / "2").cause
    assert "Uneven" not in again
    assert "Either the loop ended earlier on rank 0" in again


EPOCHS = """\
for epoch in range(9):
    for x in stream(epoch):
        step(x)
    gather(metrics)
    gather(others)
"""


def of_epochs(
    folder: Path, lengths: Sequence[int], mine: int, theirs: int = 4, source: str = EPOCHS
) -> str:
    """The first cause, after epochs of these lengths on all ranks and one of ``mine`` on rank 0.

    The others are in the next forward pass by then. ``theirs``: their line after each epoch.
    """
    script = folder / "train.py"
    folder.mkdir(exist_ok=True)
    script.write_text(source)
    run = Run(3)
    for rank in run:
        for line in (3, 4, 5):
            rank.record(Stack(stack=line, frames=[f"{script}:{line} <module>"]))
    passes = 0
    for length in lengths:
        for n in range(passes, passes + length):
            for rank in run:
                bucket(rank, n + 1, site=f"{script}:3", stack=3)
        passes += length
        for rank in run:
            line = 4 if rank.rank == 0 else theirs
            rank.call("all_gather", site=f"{script}:{line}", stack=line, iteration=passes)
    for n in range(passes, passes + mine):
        for rank in run:
            bucket(rank, n + 1, site=f"{script}:3", stack=3)
    for rank in run:
        if rank.rank == 0:
            waits(rank, "all_gather", site=f"{script}:4", stack=4, iteration=passes + mine)
        else:
            bucket(rank, passes + mine + 1, site=f"{script}:3", stack=3)
    return first(run, folder / "logs").cause


def test_after_fewer_passes_than_in_each_epoch_before(tmp_path: Path) -> None:
    told = of_epochs(tmp_path, [3, 3, 3], mine=2)
    assert (
        "Ranks 0-1 had come there 3 times before, 3 forward passes apart; this time rank 0 came "
        "after 2: the loop `for x in stream(epoch):` (train.py:2) ended earlier there."
    ) in told
    assert "branch" not in told


def test_a_pass_that_a_condition_left_out_is_no_shorter_loop(tmp_path: Path) -> None:
    lines = EPOCHS.splitlines()
    lines[2] += " if x else None"
    told = of_epochs(tmp_path, [3, 3, 3], mine=2, source="\n".join(lines))
    assert (
        "came after 2: either the loop `for x in stream(epoch):` (train.py:2) ended earlier there, "
        "or a round of it was left out."
    ) in told


@pytest.mark.parametrize(
    ("lengths", "mine"), [([3, 3, 3], 3), ([3, 2, 3], 1), ([3], 2), ([3, 3], 4)]
)
def test_passes_that_do_not_tell_which_loop_ended(
    lengths: list[int], mine: int, tmp_path: Path
) -> None:
    """As many as ever, or more; epochs of other lengths before; or one alone."""
    assert "ended earlier there" not in of_epochs(tmp_path, lengths, mine)


def test_others_that_never_came_to_that_line(tmp_path: Path) -> None:
    assert "ended earlier there" not in of_epochs(tmp_path, [3, 3, 3], mine=2, theirs=5)


GUARDED = """\
for epoch in range(9):
    for x in data:
        step(x)
    if rank == 0:
        barrier()
if rank == 0:
    barrier()
model = DDP(model)
"""


@pytest.mark.parametrize("world", [2, 3])
def test_a_call_for_one_rank_behind_an_inner_loop_is_no_shorter_loop(
    world: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(GUARDED)
    run = trained(world)
    for rank in run:
        bucket(rank, 4, site=f"{script}:3")
        if rank.rank == 0:
            waits(rank, "barrier", site=f"{script}:5", iteration=4)
        else:
            bucket(rank, 5, site=f"{script}:3")
    found = first(run, tmp_path / "logs")
    assert found.suspects == (0,)
    assert "Only rank 0 was under `if rank == 0:` (train.py:4)" in found.cause
    assert "Uneven" not in found.cause
    assert "Take the barrier at train.py:5 out" in found.fix
    assert "batches" not in found.fix


def test_a_call_for_one_rank_before_the_constructor(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(GUARDED)
    run = Run(2)
    waits(run.rank(0), "barrier", site=f"{script}:7")
    waits(run.rank(1), "broadcast", role="ddp.construct", shape=[5], site=f"{script}:8")
    found = first(run, tmp_path / "logs")
    assert found.suspects == (0,)
    assert "constructed" not in found.cause + found.fix
    assert "Take the barrier at train.py:7 out of `if rank == 0:` (train.py:6)" in found.fix


def test_a_forward_through_the_line_of_all_by_another_caller(tmp_path: Path) -> None:
    """Since the row at which the callers differ, though the line is the same."""
    run = Run(2)
    for n in range(1, 4):
        for rank in run:
            if n == 1:
                for stack, caller in enumerate(("30 train", "40 validate"), start=1):
                    frames = ["/job/train.py:21 predict", f"/job/train.py:{caller}"]
                    rank.record(Stack(stack=stack, frames=frames))
            forward(rank, n, stack=1)
            bucket(rank, n, stack=1)
    for rank in run:
        forward(rank, 4, stack=2 if rank.rank == 0 else 1)
        forward(rank, 5, stack=2) if rank.rank == 0 else bucket(rank, 4, stack=1)
    found = first(run, tmp_path)
    assert "Rank 0 ran a forward of the DDP model" in found.cause
    assert "From call 7 on" in found.cause
    assert "meets what rank 1 issues" in found.cause
    assert "called at train.py:40, that rank 1 did not run" in found.cause

"""Calls that differ in one thing, or in their order; groups, circles and messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Finding
from collectrace.records import Batch
from tests.support import kind_examples
from tests.support.judging import aligned
from tests.support.kind_examples import part, steps, waits
from tests.support.synthetic import Run

EVAL: dict[str, Any] = {"site": "/job/eval.py:7"}


def first(run: Run, folder: Path) -> Finding:
    return aligned(run, folder).findings[0]


@pytest.mark.parametrize("kind", [
    "op_mismatch", "dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch",
    "split_mismatch", "role_mismatch", "group_mismatch", "missing_call", "p2p_unmatched",
    "p2p_mismatch", "deadlock", "stall", "raised", "straggler", "config_skew", "sampler_epoch",
    "unwaited_work", "early_termination",
])  # fmt: skip
def test_a_story_tells_its_own_kind_in_one_line(kind: str, tmp_path: Path) -> None:
    found = first(kind_examples.KINDS[kind](), tmp_path)
    assert found.kind == kind
    assert found.headline == " ".join(found.headline.split())
    assert len(found.headline) <= 150
    assert found.cause.endswith(".")
    assert found.fix.endswith(".")


# -- one thing differs -----------------------------------------------------------------------


def test_half_precision_on_one_rank(tmp_path: Path) -> None:
    found = first(kind_examples.dtype_mismatch(), tmp_path)
    assert found.headline == (
        "rank 2 called all_reduce with bfloat16[4] at eval.py:7, ranks 0-1,3 with float32[4]"
    )
    assert "autocast" in found.cause
    assert "torch.autocast on every rank or on none" in found.fix


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [("int64", "float32", True), ("int32", "float32", False), ("float64", "float32", False)],
)
def test_other_dtypes_are_no_autocast(wrong: str, right: str, said: bool, tmp_path: Path) -> None:
    found = first(part({"dtype": wrong}, {"dtype": right, **EVAL}), tmp_path)
    assert "autocast" not in found.cause + found.fix
    assert ("made of Python ints" in found.cause) == said


def of_a_last_batch(op: str, tmp_path: Path) -> Finding:
    run = part({"op": op, "shape": [3, 16]}, {"op": op, "site": "/job/eval.py:7", "shape": [8, 16]})
    for rank in run:
        rank.items.insert(-1, Batch(t=rank.now, loader=0, batch=1, wait=1000))
    return first(run, tmp_path)


def test_what_is_reduced_is_no_batch(tmp_path: Path) -> None:
    found = of_a_last_batch("all_reduce", tmp_path)
    assert "ragged" not in found.cause
    assert "drop_last" not in found.fix


def test_a_ragged_batch(tmp_path: Path) -> None:
    found = of_a_last_batch("all_gather_single", tmp_path)
    assert "Only the first dimension differs, as with a ragged batch" in found.cause
    assert "drop_last=True" in found.fix


def test_without_a_loader_there_is_no_batch_to_be_ragged(tmp_path: Path) -> None:
    found = first(kind_examples.shape_mismatch(), tmp_path)
    assert "Only the first dimension differs." in found.cause
    assert "ragged" not in found.cause + found.fix


def test_sizes_that_differ_otherwise_are_no_ragged_batch(tmp_path: Path) -> None:
    found = first(part({"shape": [8, 17]}, {"shape": [8, 16], **EVAL}), tmp_path)
    assert "tensors of different sizes" in found.cause
    assert "ragged" not in found.cause


def test_the_same_line_with_other_tensors_is_no_branch(tmp_path: Path) -> None:
    """The habit of a loop must not explain what the arguments of one line do."""
    run = steps(3)
    for rank in run:
        waits(rank, shape=[3 if rank.rank == 1 else 1024], site=kind_examples.STEP["site"])
    assert "left the loop" not in first(run, tmp_path).cause


def test_reduce_ops(tmp_path: Path) -> None:
    found = first(kind_examples.reduce_op_mismatch(), tmp_path)
    assert found.headline == "rank 2 called all_reduce with MAX at eval.py:7, ranks 0-1,3 with SUM"
    assert "SUM on ranks 0-1,3 and MAX on rank 2" in found.cause


def test_every_rank_is_its_own_root(tmp_path: Path) -> None:
    found = first(kind_examples.root_mismatch(), tmp_path)
    assert "Every rank names itself as the root" in found.cause
    assert "Pass the same src" in found.fix


def test_roots_of_two_sides(tmp_path: Path) -> None:
    right: dict[str, Any] = {"op": "reduce", "root": 0, **EVAL}
    found = first(part({"root": 3}, right), tmp_path)
    assert found.headline == "rank 2 called reduce with dst 3 at eval.py:7, ranks 0-1,3 with dst 0"
    assert "for one reduce: ranks 0-1,3 name rank 0 and rank 2 names rank 3." in found.cause
    assert "own number" not in found.cause


def test_splits_are_told_pair_by_pair(tmp_path: Path) -> None:
    found = first(kind_examples.split_mismatch(), tmp_path)
    assert found.headline == (
        "rank 1 sends rank 2 1 element where rank 2 expects 2, in all_to_all_single at moe.py:88"
    )
    assert "pair by pair: rank 1 sends 1 element to rank 2, which expects 2." in found.cause


def test_batches_that_are_put_together_differently(tmp_path: Path) -> None:
    run = steps(3)
    for rank in run:
        if rank.rank == 1:
            waits(rank, shape=[4], site="/job/opt.py:8")
        else:
            waits(rank, "all_reduce_coalesced", shape=[[4], [4]], reduce_op="SUM",
                  site="/job/opt.py:6")  # fmt: skip
    found = first(run, tmp_path)
    assert found.suspects == (1,)
    assert "2 tensors at once on ranks 0,2 and one at a time on rank 1" in found.cause


# -- order -----------------------------------------------------------------------------------


def test_a_branch_that_some_ranks_took(tmp_path: Path) -> None:
    found = first(kind_examples.op_mismatch(), tmp_path)
    assert found.suspects == tuple(range(0, 64, 8))
    assert found.headline == (
        "ranks 0,8,..,56 called barrier at train.py:44 where 56 ranks (1-7,9-15,..) called "
        "all_reduce at train.py:40"
    )
    assert "left the loop that all ranks had gone through 3 times" in found.cause
    assert "`if rank == 0:`" in found.fix


def test_a_call_that_a_branch_skipped(tmp_path: Path) -> None:
    run = Run(3)
    for n in range(4):
        for rank in run:
            if (n, rank.rank) != (2, 1):
                rank.call("all_reduce", site="/job/train.py:18")
            rank.call("barrier", site="/job/train.py:19")
    run.finish()
    found = first(run, tmp_path)
    assert found.headline.endswith(": rank 1 left out one all_reduce")
    assert "Rank 1 did not issue all_reduce at train.py:18, as ranks 0,2 did" in found.cause


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (19, "Rank 1 did not issue barrier at train.py:19, as rank 0 did. So"),
        (24, "Rank 1 did not issue barrier at train.py:24, as rank 0 did at train.py:19. So"),
    ],
)
def test_the_others_made_it_at_another_line(line: int, told: str, tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        for _ in range(4):
            rank.call("all_reduce", site="/job/train.py:18")
            rank.call("barrier", site=f"/job/train.py:{line if rank.rank else 19}")
        call = rank.call("all_reduce", site="/job/train.py:18")
        if rank.rank == 0:
            call = rank.call("barrier", site="/job/train.py:19")
        else:
            call = rank.call("all_reduce", site="/job/train.py:18")
        rank.beat(60, rank.inside(call))
    assert told in first(run, tmp_path).cause


def test_two_calls_in_the_other_order(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        both = ["all_reduce", "barrier"]
        for op in reversed(both) if rank.rank == 2 else both:
            rank.call(op, site=f"/job/train.py:{both.index(op)}")
    run.finish()
    found = first(run, tmp_path)
    assert found.headline.endswith(": rank 2 has the two calls in the other order")
    assert "in the opposite order of ranks 0-1" in found.cause


def test_two_metrics_reduced_in_the_other_order(tmp_path: Path) -> None:
    found = first(kind_examples.two_metrics_in_swapped_order(), tmp_path)
    assert (found.kind, found.severity, found.suspects) == ("role_mismatch", "warning", (1,))
    assert "the ranks make these calls in swapped order: eval.py:17 and eval.py:21" in found.cause
    assert "never iterate over a set" in found.fix


def test_a_thread_and_the_main_one_in_the_other_order(tmp_path: Path) -> None:
    run = Run(3)
    for _ in range(4):
        for rank in run:
            for line in (17, 21) if rank.rank != 1 else (21, 17):
                thread = "flusher" if line == 21 else None
                rank.call("all_reduce", site=f"/job/eval.py:{line}", thread=thread)
    run.finish()
    found = first(run, tmp_path)
    assert (found.severity, found.suspects) == ("warning", (1,))
    assert "several threads (the main thread and flusher)" in found.cause
    assert "process group of its own" in found.fix


def of_threads(of_one: str | None, of_others: str | None, role: str = "user") -> Run:
    """One rank is in a call of its own at the end; in which thread, and of which role theirs is."""
    run = Run(3)
    for rank in run:
        rank.calls(3, "all_reduce", site="/job/train.py:4")
        if rank.rank == 1:
            waits(rank, "all_reduce", site="/job/train.py:4", thread=of_one)
        else:
            waits(rank, "all_gather", site="/job/save.py:9", thread=of_others, role=role)
    return run


def test_of_which_threads_the_calls_of_a_row_are(tmp_path: Path) -> None:
    found = first(of_threads(None, "keeper"), tmp_path)
    assert found.suspects == (1,)
    assert (
        "The calls are of several threads, that of ranks 0,2 in thread keeper and that of rank 1 "
        "in the main thread, on one group: where neither thread waits for the other, nothing "
        "orders them."
    ) in found.cause
    assert "If nothing orders the threads: give the thread a process group of its" in found.fix


def test_ranks_that_made_the_same_call_in_several_threads(tmp_path: Path) -> None:
    run = Run(4)
    for rank in run:
        rank.calls(3, "all_reduce", site="/job/train.py:4")
        if rank.rank == 0:
            waits(rank, "all_gather", site="/job/save.py:9")
        else:
            thread = "loader" if rank.rank == 1 else None
            waits(rank, "all_reduce", site="/job/train.py:4", thread=thread)
    found = first(run, tmp_path)
    assert found.suspects == (0,)
    assert (
        "that of ranks 0,2-3 in the main thread and that of rank 1 in thread loader" in found.cause
    )


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(of_threads(None, None), id="of one thread"),
        pytest.param(of_threads("keeper", "keeper"), id="of one that is not the main one"),
        pytest.param(of_threads(None, "saver", "dcp.plan"), id="of a framework's thread"),
    ],
)
def test_threads_that_are_not_the_users_to_part(run: Run, tmp_path: Path) -> None:
    found = first(run, tmp_path)
    assert found.kind == "op_mismatch"
    assert "several threads" not in found.cause
    assert "nothing orders" not in found.fix


def test_what_follows_in_another_group(tmp_path: Path) -> None:
    run = steps(4)
    run.group("1", [2, 3], description="tp")
    for rank in run:
        rank.call("all_reduce", role="zero.step" if rank.rank == 3 else "user", **EVAL)
    run.rank(2).call("all_reduce", "1", site="/job/tp.py:3")
    run.rank(3).call("barrier", "1", site="/job/tp.py:8")
    run.finish()
    root, effect = aligned(run, tmp_path).findings[:2]
    assert (root.suspects, effect.caused_by) == ((3,), 0)
    assert "The ranks had parted before, at call 4 of the default group" in effect.cause
    assert "Nothing to change here" in effect.fix


def test_what_nothing_explains_is_said_to_be_unexplained(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        waits(rank, "barrier" if rank.rank == 1 else "all_reduce", site="/job/train.py:3")
    found = first(run, tmp_path)
    assert "The logs do not show what decided it" in found.cause
    assert "same collectives in the same order" in found.fix


# -- groups ----------------------------------------------------------------------------------


def test_groups_that_were_created_differently(tmp_path: Path) -> None:
    found = first(kind_examples.group_mismatch(), tmp_path)
    assert found.headline == (
        "rank 3 called new_group([0, 1, 2]) at mesh.py:9 where ranks 0-2 called new_group([0, 1]) "
        "at mesh.py:9"
    )
    assert "The 1st group after the default one is not the same on all ranks" in found.cause
    assert found.fix.startswith("Pass new_group at mesh.py:9 the same ranks on every rank")
    assert "use_local_synchronization" not in found.fix  # no rank left one out


def test_groups_entered_in_opposite_orders(tmp_path: Path) -> None:
    found = first(kind_examples.deadlock(), tmp_path)
    assert found.headline == (
        "ranks 0-1 wait for each other: rank 0 in all_reduce of group tp at layers.py:9, rank 1 in "
        "all_reduce of group dp at sync.py:4"
    )
    assert "They entered 2 groups in different orders" in found.cause
    assert "rank 0 issues all_reduce of group dp at sync.py:4 before" in found.fix


def test_one_line_that_is_given_different_groups(tmp_path: Path) -> None:
    run = steps(2)
    for name in ("1", "2"):
        run.group(name, [0, 1])
    for rank in run:
        waits(rank, group=str(rank.rank + 1), site="/job/sync.py:4")
    found = first(run, tmp_path)
    assert found.headline.endswith("rank 1 in all_reduce of group 2, all at sync.py:4")
    assert "It is one line, and the ranks give it 2 different groups" in found.cause
    assert found.fix.startswith("Pass the same group on every rank, if one is meant.")


# -- messages --------------------------------------------------------------------------------


def exchange(ops: str, **fields: Any) -> Run:
    """Two ranks that begin with what ``ops`` says, and wait in it."""
    run = steps(2)
    for rank, op in zip(run, ops.split(), strict=True):
        if op in ("send", "recv"):
            call = getattr(rank, op)(1 - rank.rank, **fields)
        else:
            call = rank.call(op, site="/job/train.py:33")
        rank.beat(30, rank.inside(call))
    return run


def test_both_ranks_receive_first(tmp_path: Path) -> None:
    found = first(exchange("recv recv"), tmp_path)
    assert found.kind == "deadlock"
    assert found.headline == "ranks 0-1 wait for each other in recv at train.py:20"
    assert "rank 0 issues its send before its recv" in found.fix
    assert "batch_isend_irecv" in found.fix


def test_a_message_crossed_with_a_collective(tmp_path: Path) -> None:
    found = first(exchange("recv barrier"), tmp_path)
    assert found.kind == "deadlock"
    assert "Some wait in a message, some in a collective" in found.cause
    assert "before the collective, or after it, on every rank alike" in found.fix


def test_a_message_crossed_with_a_collective_is_counted(tmp_path: Path) -> None:
    run = Run(2)
    zero, one = run
    for line in (5, 9):
        zero.send(1, site=f"/job/train.py:{line}")
        one.recv(0, site="/job/train.py:20")
    for rank, call in (
        (zero, zero.call("barrier", site="/job/train.py:33")),
        (one, one.recv(0, site="/job/train.py:20")),
    ):
        rank.beat(30, rank.inside(call))
    found = first(run, tmp_path)
    assert found.kind == "deadlock"
    assert "what rank 1 waits for comes behind the collective, or never" in found.cause
    assert "Rank 0 sent 2 (1 from train.py:5, 1 from train.py:9), rank 1 asked for 3" in found.cause
    assert "Count both" in found.fix


def test_a_message_that_nobody_receives(tmp_path: Path) -> None:
    run = steps(2)
    zero, one = run
    for _ in range(4):
        zero.send(1)
        one.recv(0)
    call = zero.send(1)
    one.exit()
    zero.beat(30, zero.inside(call))
    found = first(run, tmp_path)
    assert found.headline == "rank 0's send at train.py:20 meets no recv of rank 1"
    assert found.cause == (
        "Rank 1 issued only 4 recvs from rank 0 in the default group. Rank 0 sent 5 "
        "(from train.py:20), rank 1 received 4 (from train.py:20). Rank 1 has finished."
    )
    assert "one longer on one side" in found.fix


def test_a_message_under_another_tag(tmp_path: Path) -> None:
    found = first(kind_examples.p2p_unmatched(), tmp_path)
    assert found.headline.endswith("rank 0 sent a message with tag 7, the receive waits for tag 8")
    assert "issued no send at all to rank 1 with tag 8 in the default group." in found.cause
    assert "What rank 0 sent is its send at train.py:20." in found.cause
    assert found.fix.startswith("Pass the same tag to the send and to its recv")


def test_a_message_of_another_dtype(tmp_path: Path) -> None:
    found = first(kind_examples.p2p_mismatch(), tmp_path)
    assert "The 1st message from rank 0 to rank 1 differs in dtype" in found.cause
    assert "the dtype of the tensor that is sent" in found.fix


@pytest.mark.parametrize(
    ("sites", "before", "said"),
    [
        (("moe.py:5",) * 3, (4, 4), True),
        (("moe.py:5", "moe.py:9", "moe.py:5"), (4, 4), False),
        (("moe.py:5",) * 3, (4, 7), False),
        (("moe.py:5",) * 3, (), False),
    ],
    ids=["one line", "two lines", "of two sizes before", "the first"],
)
def test_parts_of_one_size_on_each_rank(
    sites: tuple[str, ...], before: tuple[int, ...], said: bool, tmp_path: Path
) -> None:
    """Of one line they are the same parts, cut by a size that each rank works out by itself."""
    run = Run(3)
    for size in before:
        splits = [[size] * 3, [size] * 3]
        run.all("all_to_all_single", shape=[3 * size], splits=splits, site="moe.py:5")
    for rank, site, size in zip(run, sites, (4, 7, 4), strict=True):
        splits = [[size] * 3, [size] * 3]
        waits(rank, "all_to_all_single", shape=[3 * size], splits=splits, site=site)
    found = first(run, tmp_path)
    assert found.kind == "split_mismatch"
    assert ("parts of one size: 4 on ranks 0,2 and 7 on rank 1." in found.cause) == said
    assert ("agree on that size first: an all_reduce (MAX) of it" in found.fix) == said


@pytest.mark.parametrize(
    ("site", "odd", "said"),
    [("moe.py:5", (7, 7, 7), True), ("moe.py:9", (7, 7, 7), False), ("moe.py:5", (6, 7, 8), False)],
    ids=["one line", "two lines", "parts of several sizes"],
)
def test_equal_parts_of_sizes_that_changed_before(
    site: str, odd: tuple[int, ...], said: bool, tmp_path: Path
) -> None:
    """Whose parts follow the data need the same data, or padding, and no one size for ever."""
    run = Run(3)
    for size in (4, 6):
        splits = [[size] * 3, [size] * 3]
        run.all("all_to_all_single", shape=[3 * size], splits=splits, site="moe.py:5")
    for rank in run:
        parts = list(odd) if rank.rank == 1 else [5, 5, 5]
        at = site if rank.rank == 1 else "moe.py:5"
        waits(rank, "all_to_all_single", shape=[sum(parts)], splits=[parts, parts], site=at)
    found = first(run, tmp_path)
    assert found.kind == "split_mismatch"
    assert ("into equal parts: 5 on ranks 0,2 and 7 on rank 1." in found.cause) == said
    assert found.fix.startswith("Give all ranks tensors of one size there") == said


# -- sizes that all ranks meet in ----------------------------------------------------------------


def branches(
    rounds: int = 4, sizes: tuple[int, ...] = (4, 6), last: tuple[int, int] = (4, 6)
) -> Run:
    """Two ranks exchange each of some sizes in each round, and in the end another one each."""
    run = Run(2)
    for n in range(rounds + 1):
        for rank in run:
            for size in sizes if n < rounds else last[rank.rank : rank.rank + 1]:
                fields: dict[str, Any] = {
                    "site": "/job/moe.py:9", "shape": [2 * size], "splits": [[size] * 2] * 2,
                }  # fmt: skip
                if n < rounds:
                    rank.call("all_to_all_single", **fields)
                else:
                    waits(rank, "all_to_all_single", **fields)
    return run


def test_two_sizes_that_all_meet_in_equally_often_come_in_another_order(tmp_path: Path) -> None:
    found = first(branches(), tmp_path)
    assert (found.kind, found.suspects) == ("split_mismatch", ())
    assert (
        "Both sizes are usual: up to here each rank had made this call with float32[8] and "
        "float32[12] equally often, 4 times each."
    ) in found.cause
    assert "rank 0 with float32[8]; rank 1 with float32[12]" in found.cause
    assert "Make these calls in the same order on every rank, and all of them" in found.fix
    assert "If a size is wrong all the same: input_split_sizes" in found.fix


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(branches(2), id="twice is not always"),
        pytest.param(branches(last=(4, 5)), id="a size that was never made"),
        pytest.param(branches(sizes=(4, 4, 6)), id="the one oftener than the other"),
    ],
)
def test_other_sizes_are_told_as_such(run: Run, tmp_path: Path) -> None:
    found = first(run, tmp_path)
    assert found.kind == "split_mismatch"
    assert "Both sizes are usual" not in found.cause
    assert "exchange the sizes first" in found.fix

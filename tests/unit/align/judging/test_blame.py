"""What is wrong, who is to blame, and what only followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.judge import judge
from tests.support.judging import aligned, case_of, judged, kinds
from tests.support.synthetic import Rank, Run, truncate

LOST = {"error": "RuntimeError", "message": "Connection closed by peer [127.0.0.1]:1185"}
TIMEOUT = {"error": "RuntimeError", "message": "Timed out waiting 3000ms for recv operation"}


def blocked(rank: Rank, op: str = "all_reduce", group: str = "0", **fields: Any) -> None:
    rank.beat(20, rank.inside(rank.call(op, group, **fields)))


def healthy(world: int, rows: int = 5) -> Run:
    run = Run(world=world)
    for _ in range(rows):
        run.all("all_reduce", shape=[4])
    return run


# -- candidates ------------------------------------------------------------------------------------


def test_root_and_fatal_row_of_a_stream_are_candidates(tmp_path: Path) -> None:
    run = healthy(2)
    zero, one = run
    zero.call("all_reduce", role="ddp.backward.bucket")
    one.call("all_reduce")
    zero.call("all_reduce", dtype="int64")
    one.call("all_reduce")
    run.finish()
    found = judged(run, tmp_path)
    assert [(c.kind, c.seq, c.mark) for c in found] == [
        ("role_mismatch", 6, "root"),
        ("dtype_mismatch", 7, "fatal"),
    ]


def test_every_kind_of_disagreement_is_a_candidate(tmp_path: Path) -> None:
    run = Run(world=8)
    run.group("1", [0, 1])
    run.group("2", [2, 3])
    run.rank(0).call("all_reduce", "1", dtype="int64")
    run.rank(1).call("all_reduce", "1")
    blocked(run.rank(2), group="2")
    run.rank(3).exit()
    run.rank(4).send(5, dtype="int64")
    run.rank(5).recv(4)
    run.rank(6).send(7)
    for rank in (0, 1, 4, 5, 6, 7):
        run.rank(rank).exit()
    assert kinds(judged(run, tmp_path)) == [
        "dtype_mismatch", "p2p_mismatch", "missing_call", "p2p_unmatched",
    ]  # fmt: skip


# -- the kind of a row -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("op_mismatch", {"op": "broadcast", "dtype": "int64", "shape": [9]}),
        ("dtype_mismatch", {"dtype": "int64", "shape": [9], "reduce_op": "MAX"}),
        ("shape_mismatch", {"shape": [9], "reduce_op": "MAX"}),
        ("reduce_op_mismatch", {"reduce_op": "MAX", "role": "zero.step"}),
        ("role_mismatch", {"role": "zero.step"}),
    ],
)
def test_the_first_attribute_that_differs_names_the_row(
    kind: str, fields: dict[str, object], tmp_path: Path
) -> None:
    run = healthy(2)
    run.rank(0).call("all_reduce", shape=[4])
    run.rank(1).call(**({"op": "all_reduce", "shape": [4]} | fields))  # type: ignore[arg-type]
    run.finish()
    assert kinds(judged(run, tmp_path)) == [kind]


def test_a_row_is_missing_only_where_those_who_came_agree(tmp_path: Path) -> None:
    run = healthy(3)
    run.rank(0).call("all_reduce")
    run.rank(1).call("barrier")
    run.finish()
    first = judged(run, tmp_path)[0]
    assert first.kind == "op_mismatch"
    assert first.absent == (2,)


# -- causes ----------------------------------------------------------------------------------------


def test_an_absence_is_caused_by_what_the_absent_rank_is_blocked_in(tmp_path: Path) -> None:
    run = Run(world=3)
    run.group("1", [0, 1])
    run.group("2", [1, 2])
    blocked(run.rank(0), group="1")
    blocked(run.rank(1), group="2")
    run.rank(2).exit("exception", error="ValueError", message="shard 2 is corrupt")
    root, effect = judged(run, tmp_path)
    assert (root.group and root.group.name, root.suspects) == ("2", (2,))
    assert effect.cause is root


def test_what_lies_past_a_mismatch_is_caused_by_it(tmp_path: Path) -> None:
    run = healthy(4)
    run.group("1", [2, 3])
    for rank in run:
        rank.call("all_reduce", role="zero.step" if rank.rank == 3 else "user")
    run.rank(2).call("all_reduce", "1")
    run.rank(3).call("barrier", "1")
    run.finish()
    root, effect = judged(run, tmp_path)
    assert (root.kind, root.suspects) == ("role_mismatch", (3,))
    assert effect.kind == "op_mismatch"
    assert effect.cause is root


def test_what_came_before_a_mismatch_is_not_caused_by_it(tmp_path: Path) -> None:
    run = healthy(4)
    run.group("1", [2, 3])
    run.rank(2).call("all_reduce", "1")
    run.rank(3).call("barrier", "1")
    for rank in run:
        rank.call("all_reduce", role="zero.step" if rank.rank == 3 else "user")
    run.finish()
    first, second = judged(run, tmp_path)
    assert first.group is not None
    assert first.group.name == "1"
    assert first.cause is None
    assert second.cause is first


def test_a_fatal_row_is_caused_by_its_root_and_has_its_suspects(tmp_path: Path) -> None:
    run = healthy(3)
    for n in range(2):
        for rank in run:
            odd = rank.rank == 2
            rank.call("all_reduce", role="zero.step" if odd and not n else "user",
                      dtype="int64" if odd and n else "float32")  # fmt: skip
    run.finish()
    root, fatal = judged(run, tmp_path)
    assert fatal.cause is root
    assert fatal.suspects == root.suspects == (2,)


def test_groups_that_miss_the_same_rank_tell_of_one_absence(tmp_path: Path) -> None:
    run = Run(world=3)
    run.group("1", [0, 2])
    run.group("2", [1, 2])
    blocked(run.rank(0), group="1")
    blocked(run.rank(1), group="2")
    run.rank(2).exit("exception", error="ValueError", message="no")
    first, second = judged(run, tmp_path)
    assert first.suspects == second.suspects == (2,)
    assert second.cause is first


# -- order -----------------------------------------------------------------------------------------


def test_mismatches_come_before_absences_and_consequences_behind_their_cause(
    tmp_path: Path,
) -> None:
    run = Run(world=6)
    for name, members in (("1", [0, 1]), ("2", [2, 3]), ("3", [4, 5]), ("4", [0, 4])):
        run.group(name, members)
    # Earliest, and yet behind the mismatch: an absence.
    run.rank(2).call("all_reduce", "2")
    for rank, role in ((4, "user"), (5, "zero.step")):
        run.rank(rank).wait(1)
        run.rank(rank).call("all_reduce", "3", role=role)
    run.rank(4).call("all_reduce", "4")
    run.rank(0).wait(3)
    run.rank(0).call("barrier", "4")
    run.rank(0).call("all_reduce", "1")
    run.rank(1).call("all_reduce", "1", dtype="int64")
    run.finish()
    found = judged(run, tmp_path)
    assert [c.group and c.group.name for c in found] == ["3", "4", "1", "2"]
    assert [c.cause and c.cause.group and c.cause.group.name for c in found] == [
        None, "3", "4", None,
    ]  # fmt: skip


# -- deadlock --------------------------------------------------------------------------------------


def opposite_order() -> Run:
    run = Run(world=2)
    run.group("1", [0, 1])
    run.group("2", [0, 1])
    return run


def test_a_cycle_is_a_deadlock_and_absorbs_its_absences(tmp_path: Path) -> None:
    run = opposite_order()
    blocked(run.rank(0), group="1")
    blocked(run.rank(1), group="2")
    (found,) = judged(run, tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert found.ranks == (0, 1)


def test_a_cycle_after_a_mismatch_is_a_consequence(tmp_path: Path) -> None:
    run = opposite_order()
    run.rank(0).call("all_reduce", "1")
    run.rank(1).call("all_reduce", "1", role="zero.step")
    blocked(run.rank(0), group="1")
    blocked(run.rank(1), group="2")
    found = judged(run, tmp_path)
    assert "deadlock" not in kinds(found)
    assert found[0].kind == "role_mismatch"
    assert all(c.cause is not None for c in found[1:])


def test_who_waits_for_a_rank_in_a_cycle_is_a_consequence(tmp_path: Path) -> None:
    run = Run(world=3)
    run.group("1", [0, 1, 2])
    run.group("2", [0, 1, 2])
    for rank in (0, 2):
        blocked(run.rank(rank), group="1")
    blocked(run.rank(1), group="2")
    root, *rest = judged(run, tmp_path)
    assert root.kind == "deadlock"
    assert all(c.cause is root for c in rest)


# -- missing calls ---------------------------------------------------------------------------------


def test_who_was_only_late_when_another_failed_is_no_suspect(tmp_path: Path) -> None:
    run = healthy(3)
    run.rank(0).call("all_reduce")
    run.rank(1).exit("exception", error="ValueError", message="no")
    run.rank(2).beat(1)
    (found,) = judged(run, tmp_path)
    assert (found.absent, found.suspects) == ((1, 2), (1,))


# -- who finished ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("finished", "suspects"), [((3,), (3,)), ((1, 2, 3), (0,)), ((2, 3), ())])
def test_of_finished_and_waiting_ranks_the_fewer_are_suspects(
    finished: tuple[int, ...], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    run = healthy(4)
    for rank in run:
        if rank.rank in finished:
            rank.exit()
        else:
            rank.call("all_reduce")
            rank.exit("exception", **TIMEOUT)
    (found,) = judged(run, tmp_path)
    assert (found.kind, found.suspects) == ("missing_call", suspects)


def test_unknown_ranks_could_tip_the_balance(tmp_path: Path) -> None:
    run = healthy(4)
    run.rank(3).exit()
    for rank in (0, 1):
        run.rank(rank).call("all_reduce")
        run.rank(rank).exit("exception", **TIMEOUT)
    run.omit(2)
    (found,) = judged(run, tmp_path)
    assert (found.unknown, found.suspects) == ((2,), ())


# -- mismatch --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("odd", "suspects"), [((0,), (0,)), ((1, 2, 3), (0, 4)), ((0, 1), (0, 1))])
def test_more_than_half_of_the_group_is_right(
    odd: tuple[int, ...], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    run = healthy(5)
    for rank in run:
        rank.call("all_reduce", dtype="int64" if rank.rank in odd else "float32")
    run.finish()
    (found,) = judged(run, tmp_path)
    assert found.suspects == suspects


# -- exceptions ------------------------------------------------------------------------------------


def test_an_exception_out_of_a_collective_is_a_consequence(tmp_path: Path) -> None:
    """Rank 1 raises first, but only because rank 2 never came; rank 0 waits for rank 1."""
    run = Run(world=3)
    run.group("1", [0, 1])
    run.group("2", [1, 2])
    run.rank(1).call("all_reduce", "2")
    run.rank(1).wait(3)
    run.rank(1).exit("exception", **TIMEOUT)
    blocked(run.rank(0), group="1")
    run.rank(2).beat(20)
    found = judged(run, tmp_path)
    assert [c.suspects for c in found] == [(2,), (2,)]
    assert found[0].group is not None
    assert found[0].group.name == "2"


def test_an_exception_after_a_mismatch_is_a_consequence(tmp_path: Path) -> None:
    run = healthy(3)
    for rank in run:
        rank.call("all_reduce", role="zero.step" if rank.rank == 2 else "user")
    run.rank(2).exit("exception", error="IndexError", message="rank 1043 out of range")
    for n in (0, 1):
        blocked(run.rank(n))
    root, effect = judged(run, tmp_path)
    assert (root.kind, effect.kind) == ("role_mismatch", "missing_call")
    assert effect.cause is root


# -- evidence --------------------------------------------------------------------------------------


def test_nobody_is_blamed_for_what_only_a_missing_log_could_tell(tmp_path: Path) -> None:
    run = healthy(3)
    for rank in (0, 1):
        blocked(run.rank(rank))
    run.omit(2)
    alignment = aligned(run, tmp_path)
    assert alignment.status == "unknown"
    (gap,) = alignment.findings
    assert (gap.kind, gap.severity, gap.suspects) == ("evidence_gap", "warning", ())


def test_complete_ranks_alone_prove_a_mismatch(tmp_path: Path) -> None:
    run = healthy(6)
    for rank in run:
        rank.call("all_reduce", dtype="int64" if rank.rank == 0 else "float32")
    run.finish()
    run.omit(5)
    first, gap = aligned(run, tmp_path).findings
    assert (first.kind, first.severity, first.suspects) == ("dtype_mismatch", "error", (0,))
    assert (gap.kind, gap.severity) == ("evidence_gap", "info")


def test_a_majority_needs_half_of_the_whole_group(tmp_path: Path) -> None:
    run = healthy(4)
    for rank in run:
        rank.call("all_reduce", dtype="int64" if rank.rank == 0 else "float32")
    run.finish()
    run.omit(3)
    assert aligned(run, tmp_path).findings[0].suspects == ()


# -- absence needs a clock -------------------------------------------------------------------


def test_a_short_wait_proves_nothing(tmp_path: Path) -> None:
    run = healthy(2)
    zero, one = run
    zero.beat(4, zero.inside(zero.call("all_reduce")))
    one.beat(4)
    (found,) = judged(run, tmp_path)
    assert (found.kind, found.severity, found.suspects) == ("missing_call", "info", ())


def test_a_wait_as_long_as_the_stream_has_seen_before_proves_nothing(tmp_path: Path) -> None:
    run = healthy(2)
    zero, one = run
    zero.call("all_reduce")
    one.wait(4)
    one.call("all_reduce")
    zero.wait(4)
    zero.beat(15, zero.inside(zero.call("all_reduce")))
    one.beat(15)
    assert judged(run, tmp_path)[0].severity == "info"


def test_a_long_wait_is_an_error(tmp_path: Path) -> None:
    run = healthy(2)
    blocked(run.rank(0))
    run.rank(1).beat(20)
    (found,) = judged(run, tmp_path)
    assert (found.severity, found.suspects) == ("error", (1,))


def test_an_absent_rank_that_finished_needs_no_clock(tmp_path: Path) -> None:
    run = healthy(2)
    run.rank(0).call("all_reduce")
    run.rank(1).exit()
    assert judged(run, tmp_path)[0].severity == "error"


# -- stillness -------------------------------------------------------------------------------


@pytest.mark.parametrize("async_", [None, True], ids=["it had returned", "it may not have"])
def test_who_died_behind_a_collective_did_not_stall_it(async_: bool | None, tmp_path: Path) -> None:
    run = healthy(3)
    calls = [rank.call("all_reduce", async_=async_) for rank in run]
    run.rank(2).send(0)
    for rank, call in list(zip(run, calls, strict=True))[:2]:
        rank.beat(20, rank.inside(call))
    assert ("stall" in [one.kind for one in judged(run, tmp_path)]) == bool(async_)


def test_work_in_flight_is_no_stall(tmp_path: Path) -> None:
    run = healthy(3)
    for rank in run:
        rank.beat(4, rank.inside(rank.call("all_reduce")))
    assert not judged(run, tmp_path)


def test_judging_torn_logs_raises_nothing(tmp_path: Path) -> None:
    run = opposite_order()
    blocked(run.rank(0), group="1")
    blocked(run.rank(1), group="2")
    folder = run.write(tmp_path)
    size = (folder / "rank00000.jsonl").stat().st_size
    for keep in range(size, 400, -97):
        truncate(folder / "rank00000.jsonl", keep)
        judge(case_of(Run(world=0, default_group=False), tmp_path))

"""Which groups are the same, and where ranks disagree about one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align import align
from collectrace.align.alignment import compared
from collectrace.align.reading.evidence import GroupConflict, RunEvidence
from collectrace.align.reading.run_reader import read
from collectrace.records import backend_for
from tests.support.synthetic import Run

HASH = "5d41402abc4b2a76b9719d911017c592ae0f3b1c"


def found(run: Run, tmp_path: Path) -> RunEvidence:
    run.write(tmp_path)
    skimmed = read(tmp_path, small=0, page=256)
    scanned = read(tmp_path, full=True)
    assert skimmed.groups == scanned.groups
    assert skimmed.conflicts == scanned.conflicts
    return scanned


def conflict(run: Run, tmp_path: Path) -> GroupConflict:
    evidence = found(run, tmp_path)
    (only,) = evidence.conflicts
    assert compared(evidence).conflicts == (only,)
    return only


@pytest.mark.parametrize(
    ("backend", "device", "expected"),
    [("gloo", "cpu", "gloo"), ("cpu:gloo,cuda:nccl", "cuda", "nccl"),
     ("cpu:gloo,cuda:nccl", "xpu", ""), ("", "cpu", "")],
)  # fmt: skip
def test_the_backend_of_a_device(backend: str, device: str, expected: str) -> None:
    assert backend_for(backend, device) == expected


def test_same_name_and_members_are_one_group_whoever_asks(tmp_path: Path) -> None:
    run = Run(3)
    run.group("1", [0, 2], description="tp", backend="cpu:gloo,cuda:nccl")
    evidence = found(run, tmp_path)
    assert set(evidence.groups) == {"0", "1"}
    assert evidence.groups["1"].ranks == (0, 2)
    assert evidence.groups["1"].description == "tp"
    assert evidence.conflicts == ()


def test_groups_of_a_split_share_a_name_and_are_kept_apart(tmp_path: Path) -> None:
    run = Run(4)
    for rank in run:
        low = rank.rank // 2 * 2
        rank.group("1", [low, low + 1], description="default_pg:split:1")
        rank.call("all_reduce", "1", shape=[1 + low])
    run.rank(3).call("barrier", "1")
    evidence = found(run, tmp_path)
    assert set(evidence.groups) == {"0", "1 [0-1]", "1 [2-3]"}
    assert evidence.conflicts == ()
    log = evidence.logs[3]
    assert log.last_call is not None
    assert log.last_call.group == "1 [2-3]"
    assert {key.group for key in log.last_seq} == {"1 [2-3]"}
    (divergence,) = compared(evidence).divergences
    assert (divergence.stream.group, divergence.seq, divergence.attribute) == (
        "1 [2-3]",
        2,
        "absent",
    )


def test_disjoint_groups_in_another_order_are_a_conflict_where_others_ask_too(
    tmp_path: Path,
) -> None:
    run = Run(4)
    for rank in run:
        first, second = ([0, 1], [2, 3]) if rank.rank != 2 else ([2, 3], [0, 1])
        rank.group("1", first)
        rank.group("2", second)
    only = conflict(run, tmp_path)
    assert [ranks for ranks, _ in only.variants] == [(0, 1, 3), (2,)]


def own_groups(
    *,
    waits: float = 0.0,
    comes_about: bool = False,
    name: str = "1",
    description: str = "cp",
    late: int | None = None,
) -> Run:
    """Two pairs, of which each rank makes the one it is in; rank 0 waits for its own in vain.

    ``late``: who has not come to it.
    """
    run = Run(4)
    for rank in run:
        if rank.rank == late:
            continue
        pair = [0, 3] if rank.rank in (0, 3) else [1, 2]
        phase = None if rank.rank or comes_about else "asked"
        asked = rank.group(name, pair, phase=phase, description=description, site="pairs.py:4")
        if phase is None:
            rank.exit()
        else:
            rank.beat(waits, rank.creating(asked))
    return run


def test_groups_of_one_name_of_which_one_did_not_come_about(tmp_path: Path) -> None:
    only = conflict(own_groups(), tmp_path)
    assert only.own
    assert [ranks for ranks, _ in only.variants] == [(0, 3), (1, 2)]


@pytest.mark.parametrize(
    "fields",
    [{"comes_about": True}, {"name": HASH}, {"description": "default_pg:split:1"}, {"late": 3}],
    ids=["all came about", "made by members alone", "parts of a split", "one has not come so far"],
)
def test_groups_of_one_name(fields: dict[str, Any], tmp_path: Path) -> None:
    assert found(own_groups(**fields), tmp_path).conflicts == ()


@pytest.mark.parametrize("calls", [1, 2])
def test_groups_of_one_name_whose_members_met_those_of_another(calls: int, tmp_path: Path) -> None:
    run = Run(4)
    for rank in run:
        pair = [0, 3] if rank.rank in (0, 3) else [1, 2]
        rank.group("1", pair, description="cp", site="pairs.py:4")
        last = [rank.call("all_reduce", "1", site="pairs.py:6") for _ in range(calls)][-1]
        rank.done(last.seq, "1", failed=True, error="RuntimeError: Connection reset by peer")
        rank.exit("exception", error="RuntimeError", message="Connection reset by peer")
    told = found(run, tmp_path / "logs").conflicts
    assert [one.crossed for one in told] == [True] * (calls == 1)
    (finding, *_) = align(tmp_path / "logs").findings
    assert (finding.kind == "group_mismatch") == (calls == 1)


def test_a_group_whose_member_never_came_has_met_no_other(tmp_path: Path) -> None:
    run = Run(4)
    for rank in run:
        pair = [0, 3] if rank.rank in (0, 3) else [1, 2]
        rank.group("1", pair, description="cp", site="pairs.py:4")
        if rank.rank == 3:
            rank.exit("exception", error="ValueError", message="no such file")
            continue
        call = rank.call("all_reduce", "1", site="pairs.py:6")
        if rank.rank == 0:
            rank.done(call.seq, "1", failed=True, error="RuntimeError: Connection closed by peer")
            rank.exit("exception", error="RuntimeError", message="Connection closed by peer")
        else:
            rank.exit()
    assert found(run, tmp_path / "logs").conflicts == ()
    assert align(tmp_path / "logs").findings[0].suspects == (3,)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_group_of_ones_own_is_waited_for_in_vain(seconds: float, tmp_path: Path) -> None:
    run = own_groups(waits=seconds)
    run.write(tmp_path)
    (finding,) = align(tmp_path).findings
    assert (finding.kind, finding.suspects) == ("group_mismatch", ())
    assert finding.severity == ("error" if seconds else "info")


def test_calls_that_met_those_of_another_group_prove_no_lost_lines(tmp_path: Path) -> None:
    run = Run(4)
    for rank in run:
        pair = [0, 1] if rank.rank < 2 else [2, 3]
        if rank.rank in (0, 3):
            rank.beat(60.0, rank.creating(rank.group("1", pair, phase="asked", site="pairs.py:4")))
            continue
        rank.group("1", pair, site="pairs.py:4")
        rank.call("all_reduce", "1", site="pairs.py:6")
        rank.stuck_in(rank.call("barrier", site="pairs.py:7"))
    assert conflict(run, tmp_path).own
    assert not [one for one in compared(read(tmp_path)).unproven if one.why == "cut"]


def test_members_that_differ(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        rank.group("1", [0, 1, 2] if rank.rank else [0, 1])
    run.all("all_reduce", "1")
    evidence = found(run, tmp_path)
    assert [ranks for ranks, _ in evidence.conflicts[0].variants] == [(0,), (1, 2)]
    assert compared(evidence).divergences == ()


def test_new_group_not_called_by_all(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(0).group("1", [0], phase="asked", site="train.py:3")
    only = conflict(run, tmp_path)
    assert [(ranks, record and record.site) for ranks, record in only.variants] == [
        ((0,), "train.py:3"), ((1, 2), None),
    ]  # fmt: skip


def test_a_group_that_became_ready_was_asked_for_by_all_who_had_to(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(0).group("1", [0])
    assert found(run, tmp_path).conflicts == ()


def test_only_members_ask_where_synchronization_is_local(tmp_path: Path) -> None:
    run = Run(3)
    run.group(HASH, [0, 1], asked_by=[0, 1], phase="asked")
    assert found(run, tmp_path).conflicts == ()


def test_a_member_that_does_not_ask_where_synchronization_is_local(tmp_path: Path) -> None:
    run = Run(3)
    run.group(HASH, [0, 1], asked_by=[0], phase="asked")
    assert [ranks for ranks, _ in conflict(run, tmp_path).variants] == [(0,), (1,)]


def test_a_rank_whose_tracer_was_switched_off_may_have_asked(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(1).exit("disabled")
    run.rank(0).group("1", [0, 1], phase="asked")
    assert found(run, tmp_path).conflicts == ()


def test_a_rank_that_never_reached_init_is_named(tmp_path: Path) -> None:
    run = Run(2, default_group=False)
    run.rank(0).group("0", [0, 1], phase="asked", description="default_pg")
    run.rank(0).stuck_in_init()
    run.rank(1).provisional = True
    only = conflict(run, tmp_path)
    assert [ranks for ranks, _ in only.variants] == [(0,), (1,)]


def test_a_name_used_again_is_another_group(tmp_path: Path) -> None:
    run = Run(2)
    run.group("1", [0, 1])
    run.all("all_reduce", "1")
    run.group("1", [0, 1], phase="destroyed")
    run.group("1@2", [0, 1])
    run.all("barrier", "1@2")
    evidence = found(run, tmp_path)
    assert set(evidence.groups) == {"0", "1", "1@2"}
    assert compared(evidence).divergences == ()


def test_a_group_without_a_record_is_compared_among_those_who_use_it(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.call("all_reduce", "lost")
    run.rank(0).call("barrier", "lost")
    evidence = found(run, tmp_path)
    assert evidence.groups["lost"].ranks == (0, 1)
    assert any("'lost'" in note for note in evidence.notes)
    assert [d.seq for d in compared(evidence).divergences] == [2]


@pytest.mark.parametrize("cut", [0, 7])
def test_a_rank_whose_file_ends_within_a_line_may_have_asked(cut: int, tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).group("1", [0, 1], phase="asked")
    file = run.write(tmp_path) / "rank00001.jsonl"
    file.write_bytes(file.read_bytes()[: file.stat().st_size - cut])
    conflicts = read(tmp_path).conflicts
    assert [conflict.variants[-1] for conflict in conflicts] == ([] if cut else [((1,), None)])


def test_a_damaged_group_record_is_made_good_by_the_others(tmp_path: Path) -> None:
    run = Run(3)
    run.group("1", [0, 1], asked_by=[1, 2])
    run.rank(0).call("all_reduce", "1")
    run.rank(1).call("barrier", "1")
    evidence = found(run, tmp_path)
    (divergence,) = compared(evidence).divergences
    assert (divergence.group.ranks, divergence.attribute) == ((0, 1), "op")


def test_a_group_made_late_is_found_by_a_look_into_the_middle(tmp_path: Path) -> None:
    run = Run(2, checkpoint=2000)
    for _ in range(300):
        run.all("all_reduce")
    run.group("1", [0, 1])
    for _ in range(600):
        run.all("all_reduce")
        run.all("broadcast", "1")
    run.write(tmp_path)
    evidence = read(tmp_path, small=0, page=256)
    assert "1" in evidence.groups
    assert not any(log.scanned for log in evidence.logs.values())
    assert compared(evidence).divergences == ()


def test_a_list_in_place_of_a_rank_is_damage(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.raw(
            b'{"kind":"group","t":9,"phase":"asked","group":"1","ranks":[0,[1]],"ordinal":1}\n'
        )
    run.all("all_reduce")
    assert found(run, tmp_path).damaged_lines == 2


def test_a_group_of_its_members_alone_is_theirs_to_call_for(tmp_path: Path) -> None:
    run = Run(world=2)
    run.rank(0).group("9f0c1f2b8f2a4b6d9f0c1f2b8f2a4b6d9f0c1f2b", [0])
    run.all("all_reduce")
    run.finish()
    run.write(tmp_path)
    assert not align(tmp_path).findings


def test_a_rank_that_asked_for_no_group_where_synchronization_is_local(tmp_path: Path) -> None:
    run = Run(world=2)
    run.rank(0).group(HASH, [0, 1], phase="asked", site="/job/train.py:9")
    run.rank(0).wait(8)
    run.rank(0).exit("exception", error="DistStoreError", message="wait timeout after 8000ms")
    run.rank(1).exit()
    run.write(tmp_path)
    first = align(tmp_path).findings[0]
    assert (first.kind, first.code) == ("group_mismatch", "CT603")

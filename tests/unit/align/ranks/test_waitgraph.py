"""Which thread waits for whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.case import Case
from collectrace.align.judging.judge import judge
from collectrace.align.ranks.waitgraph import cycles, follow, reachable, stuck
from tests.support.judging import case_of
from tests.support.synthetic import Rank, Run


def blocked(rank: Rank, op: str = "all_reduce", group: str = "0", **fields: Any) -> None:
    thread = str(fields.get("thread") or "MainThread")
    rank.beat(5, rank.inside(rank.call(op, group, **fields), thread=thread))


def edges(case: Case) -> set[tuple[int, int]]:
    return {(node[0], e.target[0]) for node, out in case.graph.edges.items() for e in out}


def test_a_collective_waits_for_all_who_have_not_come(tmp_path: Path) -> None:
    run = Run(world=4)
    for rank in (run.rank(0), run.rank(1)):
        blocked(rank)
    assert edges(case_of(run, tmp_path)) == {(0, 2), (0, 3), (1, 2), (1, 3)}


def test_nobody_waits_for_who_has_come(tmp_path: Path) -> None:
    run = Run(world=2)
    for rank in run:
        blocked(rank)
    assert not edges(case_of(run, tmp_path))


def test_two_groups_in_opposite_order(tmp_path: Path) -> None:
    run = Run(world=2)
    run.group("1", [0, 1])
    run.group("2", [0, 1])
    blocked(run.rank(0), group="1")
    blocked(run.rank(1), group="2")
    case = case_of(run, tmp_path)
    (cycle,) = cycles(case.graph)
    assert [(e.waiting.rank, e.waiting.group, e.target[0], e.row) for e in cycle] == [
        (0, "1", 1, 1),
        (1, "2", 0, 1),
    ]


def test_a_message_that_was_taken_already_is_still_awaited(tmp_path: Path) -> None:
    run = Run(world=2)
    zero, one = run
    one.send(0)
    one.beat(5, one.inside(one.recv(0)))
    zero.recv(-1, took=1)
    zero.beat(5, zero.inside(zero.recv(1)))
    assert edges(case_of(run, tmp_path)) == {(0, 1), (1, 0)}


def test_a_send_that_was_taken_waits_for_nobody(tmp_path: Path) -> None:
    run = Run(world=2)
    zero, one = run
    one.beat(5, one.inside(one.send(0)))
    zero.recv(-1, took=1)
    zero.beat(5)
    assert not edges(case_of(run, tmp_path))


def test_a_chain_is_no_cycle_and_leads_to_its_end(tmp_path: Path) -> None:
    run = Run(world=3)
    run.group("1", [0, 1])
    run.group("2", [1, 2])
    blocked(run.rank(0), group="1")
    blocked(run.rank(1), group="2")
    run.rank(2).beat(5)
    case = case_of(run, tmp_path)
    assert not cycles(case.graph)
    assert follow(case.graph, case.standings, [1]) == {2}
    assert reachable(case.graph, 0) == {1, 2}


def test_nodes_are_threads(tmp_path: Path) -> None:
    """The saver of each rank waits for the other's, which works: a cycle of ranks, not threads."""
    run = Run(world=2)
    run.group("1", [0, 1])
    zero, one = run
    blocked(zero, group="1", thread="saver")
    blocked(one)
    case = case_of(run, tmp_path)
    assert edges(case) == {(0, 1), (1, 0)}
    assert not cycles(case.graph)


def test_a_receive_from_any_is_released_by_one(tmp_path: Path) -> None:
    """Ranks 0 and 1 wait for each other's message; rank 0 takes one from rank 2 as well."""
    run = Run(world=3)
    zero, one, two = run
    zero.beat(5, zero.inside(zero.recv(-1)))
    one.beat(5, one.inside(one.recv(0)))
    two.beat(5)
    case = case_of(run, tmp_path)
    assert edges(case) == {(0, 1), (0, 2), (1, 0)}
    assert not stuck(case.graph)


def test_a_receive_from_any_is_stuck_when_all_are(tmp_path: Path) -> None:
    run = Run(world=3)
    zero, one, two = run
    zero.beat(5, zero.inside(zero.recv(-1)))
    one.beat(5, one.inside(one.recv(0)))
    two.beat(5, two.inside(two.recv(0)))
    case = case_of(run, tmp_path)
    assert {node[0] for node in stuck(case.graph)} == {0, 1, 2}
    assert len(cycles(case.graph)) == 1


def test_a_message_crossed_with_a_collective(tmp_path: Path) -> None:
    run = Run(world=2)
    zero, one = run
    zero.beat(5, zero.inside(zero.send(1)))
    blocked(one, "barrier")
    (cycle,) = cycles(case_of(run, tmp_path).graph)
    assert {e.waiting.op for e in cycle} == {"send", "barrier"}


def test_the_creation_of_a_group_waits_for_who_has_not_asked(tmp_path: Path) -> None:
    run = Run(world=2)
    run.rank(0).group("1", [0, 1], phase="asked")
    blocked(run.rank(1), "barrier")
    case = case_of(run, tmp_path)
    assert edges(case) == {(0, 1), (1, 0)}


def test_without_a_file_a_rank_is_no_node(tmp_path: Path) -> None:
    run = Run(world=2)
    blocked(run.rank(0))
    run.omit(1)
    assert not edges(case_of(run, tmp_path))


def queued(seconds: float) -> Run:
    """Two groups entered in opposite order: each device is in what the other has yet to reach."""
    run = Run(world=2, backend="nccl", device="cuda")
    run.group("1", [0, 1])
    run.group("2", [0, 1])
    for rank, order in zip(run, (("1", "2"), ("2", "1")), strict=True):
        fronts = [rank.call("all_reduce", group) for group in order]
        rank.beat(seconds, rank.inside(fronts[0], what="device", thread="cuda"))
    return run


def test_calls_that_queue_behind_each_other_on_devices(tmp_path: Path) -> None:
    case = case_of(queued(60), tmp_path)
    assert edges(case) == {(0, 1), (1, 0)}
    (cycle,) = cycles(case.graph)
    assert all(edge.queued for edge in cycle)
    (found,) = judge(case)
    assert (found.kind, found.suspects) == ("deadlock", ())


def test_devices_that_have_only_just_begun_are_in_no_deadlock(tmp_path: Path) -> None:
    assert not judge(case_of(queued(2), tmp_path))


def test_the_same_order_on_devices_is_no_circle(tmp_path: Path) -> None:
    """One device is a call ahead of the other."""
    run = Run(world=2, backend="nccl", device="cuda")
    run.group("1", [0, 1])
    run.group("2", [0, 1])
    for rank, front in zip(run, (0, 1), strict=True):
        fronts = [rank.call("all_reduce", group) for group in ("1", "2")]
        rank.beat(60, rank.inside(fronts[front], what="device", thread="cuda"))
    assert not cycles(case_of(run, tmp_path).graph)


SAVES = ["/job/train.py:30 main", "/usr/lib/python3.11/concurrent/futures/_base.py:451 result",
         "/usr/lib/python3.11/threading.py:327 wait"]  # fmt: skip
WORKS = ["/job/train.py:30 main", "/job/train.py:44 load"]


@pytest.mark.parametrize(("stack", "circles"), [(SAVES, 1), (WORKS, 0)])
def test_a_main_thread_that_waits_for_another_thread(
    stack: list[str], circles: int, tmp_path: Path
) -> None:
    """Rank 0's main thread waits for its saver, which waits for rank 1, which waits for it."""
    run = Run(world=2)
    run.group("1", [0, 1])
    zero, one = run
    inside = zero.inside(zero.call("all_reduce", "1", thread="saver"), thread="saver")
    zero.wait(5)
    zero.stall(inside, stacks={"MainThread (17)": stack, "saver (18)": []})
    blocked(one)
    assert len(cycles(case_of(run, tmp_path).graph)) == circles

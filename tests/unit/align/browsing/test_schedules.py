"""Two runs of one program held against each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from collectrace.align.browsing.schedules import difference
from collectrace.errors import LogError
from tests.support.synthetic import Run

Body = Callable[[Run], None]


def written(folder: Path, body: Body, world: int = 4) -> Path:
    run = Run(world=world)
    body(run)
    run.finish()
    run.write(folder)
    return folder


def training(run: Run) -> None:
    for _ in range(3):
        run.all("all_reduce", shape=[8], role="ddp.backward.bucket", site="train.py:10")
    run.all("barrier", site="train.py:20")


def test_the_same_whatever_the_lines(tmp_path: Path) -> None:
    def moved(run: Run) -> None:
        for _ in range(3):
            run.all("all_reduce", shape=[2, 4], role="ddp.backward.bucket", site="main.py:99")
        run.all("barrier", site="main.py:100")

    diff = difference(written(tmp_path / "a", training), written(tmp_path / "b", moved))
    assert diff.is_same
    assert diff.compared == (0, 1, 2, 3)
    assert (diff.a.verdict, diff.b.verdict) == ("aligned", "aligned")
    assert {(c.role, c.op): (c.a, c.b) for c in diff.counts} == {
        ("ddp.backward.bucket", "all_reduce"): ((3, 3), (3, 3)),
        ("user", "barrier"): ((1, 1), (1, 1)),
    }


def test_the_first_other_call_and_the_ranks_that_have_it(tmp_path: Path) -> None:
    def changed(run: Run) -> None:
        for rank in run:
            rank.calls(2, "all_reduce", shape=[8], role="ddp.backward.bucket")
            if rank.rank == 2:
                rank.call("broadcast", shape=[1])
            rank.call("all_reduce", shape=[8], role="ddp.backward.bucket")
            rank.call("barrier")

    diff = difference(written(tmp_path / "a", training), written(tmp_path / "b", changed))
    (place,) = diff.schedule
    assert (place.ranks, place.position) == ((2,), 3)
    assert place.a is not None
    assert place.b is not None
    assert (place.a.op, place.b.op) == ("all_reduce", "broadcast")
    assert not diff.tensors
    assert not diff.ended
    first = diff.counts[0]
    assert (first.op, first.a, first.b) == ("broadcast", (0, 0), (0, 1))


def test_tensors_count_where_the_kinds_are_the_same(tmp_path: Path) -> None:
    def wider(run: Run) -> None:
        run.all("all_reduce", shape=[8], role="ddp.backward.bucket")
        run.all("all_reduce", shape=[9], role="ddp.backward.bucket")
        run.all("all_reduce", shape=[8], role="ddp.backward.bucket")
        run.all("barrier")

    diff = difference(written(tmp_path / "a", training), written(tmp_path / "b", wider))
    assert not diff.schedule
    (place,) = diff.tensors
    assert (place.ranks, place.position) == ((0, 1, 2, 3), 2)


def test_a_schedule_that_is_the_beginning_of_the_other(tmp_path: Path) -> None:
    def longer(run: Run) -> None:
        training(run)
        run.all("all_reduce", shape=[1])

    diff = difference(written(tmp_path / "a", training), written(tmp_path / "b", longer))
    (place,) = diff.ended
    assert (place.position, place.a) == (5, None)
    assert place.b is not None
    assert not diff.is_same


def test_sizes_do_not_count_between_jobs_of_two_sizes(tmp_path: Path) -> None:
    def sharded(run: Run) -> None:
        for _ in range(3):
            run.all("all_reduce", shape=[8 // run.world], role="ddp.backward.bucket")
        run.all("barrier")

    small = written(tmp_path / "a", sharded, world=2)
    large = written(tmp_path / "b", sharded, world=4)
    diff = difference(small, large)
    assert diff.is_same
    assert diff.compared == (0, 1)


def test_groups_without_a_name_are_told_by_their_order(tmp_path: Path) -> None:
    def grouped(first: int) -> Body:
        def body(run: Run) -> None:
            for n in (first, first + 1):
                run.group(str(n), range(run.world))
            run.all("all_reduce", str(first))
            run.all("broadcast", str(first + 1))

        return body

    a, b = written(tmp_path / "a", grouped(1)), written(tmp_path / "b", grouped(7))
    assert difference(a, b).is_same

    def swapped(run: Run) -> None:
        for n in (1, 2):
            run.group(str(n), range(run.world), description=f"g{n}")
        run.all("all_reduce", "2")
        run.all("broadcast", "1")

    assert difference(a, written(tmp_path / "c", swapped)).schedule


def test_which_group_is_used_again_counts(tmp_path: Path) -> None:
    def body(again: str) -> Body:
        def calls(run: Run) -> None:
            for name in ("1", "2"):
                run.group(name, range(run.world))
                run.all("all_reduce", name)
            run.all("all_reduce", again)

        return calls

    a, b = written(tmp_path / "a", body("1")), written(tmp_path / "b", body("2"))
    assert {place.position for place in difference(a, b).schedule} == {3}


def test_messages_to_another_peer_are_another(tmp_path: Path) -> None:
    def ring(step: int) -> Body:
        def body(run: Run) -> None:
            for rank in run:
                rank.send((rank.rank + step) % run.world)
            for rank in run:
                rank.recv((rank.rank - step) % run.world)

        return body

    a, b = written(tmp_path / "a", ring(1)), written(tmp_path / "b", ring(2))
    assert [place.position for place in difference(a, b).tensors] == [1] * 4
    assert difference(a, written(tmp_path / "c", ring(1))).is_same


@pytest.mark.parametrize("at", [0, 1, 498, 999])
def test_found_wherever_it_is(tmp_path: Path, at: int) -> None:
    def body(odd: int | None) -> Body:
        def calls(run: Run) -> None:
            for n in range(1000):
                run.all("broadcast" if n == odd else "all_reduce")

        return calls

    a, b = written(tmp_path / "a", body(None), 1), written(tmp_path / "b", body(at), 1)
    assert [place.position for place in difference(a, b).schedule] == [at + 1]


def test_a_log_that_lacks_calls_is_not_compared(tmp_path: Path) -> None:
    a = written(tmp_path / "a", training)
    run = Run(world=4)
    for rank in run:
        for n in range(3):
            rank.call("all_reduce", shape=[8], role="ddp.backward.bucket",
                      lost=rank.rank == 1 and n == 1)  # fmt: skip
        rank.call("barrier")
    run.finish()
    run.write(tmp_path / "b")
    diff = difference(a, tmp_path / "b")
    assert diff.is_same
    assert (diff.compared, diff.left_out) == ((0, 2, 3), (1,))


def test_no_rank_in_common(tmp_path: Path) -> None:
    for name, kept in ("a", 0), ("b", 1):
        run = Run(world=2)
        run.omit(1 - kept)
        run.all("barrier")
        run.finish()
        run.write(tmp_path / name)
    with pytest.raises(LogError, match="no rank has a file in both"):
        difference(tmp_path / "a", tmp_path / "b")

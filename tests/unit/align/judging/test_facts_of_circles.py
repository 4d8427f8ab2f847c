"""Who left what the ranks of a circle were to do together, and what only looks like it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.facts_of_circles import other_group_than_peers
from collectrace.records import Call
from tests.support.judging import blamed, case_of, judged
from tests.support.marks import Script
from tests.support.synthetic import Rank, Run


def stuck(*calls: tuple[Rank, Call]) -> None:
    for rank, call in calls:
        rank.stuck_in(call)


# -- rounds ------------------------------------------------------------------------------------

STEP = """\
for step in range(9):
    dist.send(x, after)  # GIVE
    dist.recv(y, before)  # TAKE
    if changed:
        dist.barrier()  # SAVE
    if not small:
        dist.all_reduce(x)  # SUM
dist.barrier()  # DONE
"""


def ring(folder: Path, ends: Sequence[str], *, world: int = 4, rounds: int = 4) -> Run:
    """Each sends on, receives, and sums up; in the end each is where ``ends`` says."""
    script, run = Script(folder, STEP), Run(world)

    def hand_on(rank: Rank) -> None:
        rank.send((rank.rank + 1) % world, **script.at(rank, "GIVE"))
        rank.recv((rank.rank - 1) % world, **script.at(rank, "TAKE"))

    for _ in range(rounds):
        for rank in run:
            hand_on(rank)
        run_all = [(rank, script.at(rank, "SUM")) for rank in run]
        for rank, place in run_all:
            rank.call("all_reduce", **place)
    for rank, end in zip(run, ends, strict=True):
        hand_on(rank)
        if end == "GIVE":
            call = rank.send((rank.rank + 1) % world, **script.at(rank, end))
        else:
            op = "all_reduce" if end == "SUM" else "barrier"
            call = rank.call(op, **script.at(rank, end))
        rank.stuck_in(call)
    return run


ROUND = {"left_repeated_round"}


def test_who_left_its_round_while_all_others_kept_theirs(tmp_path: Path) -> None:
    run = ring(tmp_path, ["SUM", "SUM", "GIVE", "SUM"])
    suspects, facts = blamed(run, tmp_path)
    assert suspects == (2,)
    assert facts & (ROUND | {"odd_in_round"})


def test_where_half_went_on_nobody_left(tmp_path: Path) -> None:
    run = ring(tmp_path, ["SUM", "GIVE", "GIVE", "SUM"])
    assert blamed(run, tmp_path)[0] == ()


PIECES = """\
def first():
    for batch in loader:
        for piece in batch:
            dist.send(piece, 1)  # PUSH
        for piece in batch:
            dist.recv(piece, 1)  # ANSWER
def middle():
    for batch in range(9):
        for _ in range({count}):
            dist.recv(piece, 0)  # TAKE
            dist.send(piece, 2)  # ON
        for _ in range({count}):
            dist.recv(piece, 2)  # BACK
            dist.send(piece, 0)  # RETURN
def last():
    for _ in range({count}):
        dist.recv(piece, 1)  # GET
    for _ in range({count}):
        dist.send(piece, 1)  # GIVE
"""


def pieces(folder: Path, count: str) -> Run:
    """A pipeline of three, whose first rank cuts its last batch into fewer pieces."""
    script, run = Script(folder, PIECES.format(count=count)), Run(3)
    zero, one, two = run
    for parts in (4, 4, 4, 3):
        for _ in range(parts):
            zero.send(1, **script.at(zero, "PUSH"))
            one.recv(0, **script.at(one, "TAKE"))
            one.send(2, **script.at(one, "ON"))
            two.recv(1, **script.at(two, "GET"))
        for _ in range(parts if parts == 4 else 0):
            two.send(1, **script.at(two, "GIVE"))
            one.recv(2, **script.at(one, "BACK"))
            one.send(0, **script.at(one, "RETURN"))
            zero.recv(1, **script.at(zero, "ANSWER"))
    stuck(
        (zero, zero.recv(1, **script.at(zero, "ANSWER"))),
        (one, one.recv(0, **script.at(one, "TAKE"))),
        (two, two.recv(1, **script.at(two, "GET"))),
    )
    return run


@pytest.mark.parametrize(("count", "suspects"), [("4", (0,)), ("pieces_of(batch)", ())])
def test_who_left_its_round_if_the_others_have_no_choice(
    count: str, suspects: tuple[int, ...], tmp_path: Path
) -> None:
    assert blamed(pieces(tmp_path, count), tmp_path)[0] == suspects


SERVE = """\
def serve():
    for step in range(9):
        dist.recv(x, 1)  # TAKE
        if {condition}:
            dist.gather(x)  # SAVE
        dist.send(y, 1)  # ANSWER
    dist.gather(x)  # BEHIND
def work():
    for step in range(9):
        dist.send(x, 0)  # PUSH
        dist.recv(y, 0)  # PULL
"""


def server(
    folder: Path, mark: str, *, condition: str = "queue.full()", told: bool = False, rounds: int = 4
) -> Run:
    """Rank 0 takes of each worker and answers it; in the end it calls something from a line."""
    script, run = Script(folder, SERVE.format(condition=condition)), Run(3)
    zero, *workers = run
    for n in range(rounds + 1):
        if told and n == rounds - 1:
            run.all("broadcast", site="plan.py:3", dtype="int64", shape=[4], root=1)
        for worker in workers:
            worker.send(0, **script.at(worker, "PUSH"))
            zero.recv(worker.rank, **script.at(zero, "TAKE"))
        if n == rounds:
            zero.stuck_in(zero.call("gather", **script.at(zero, mark)))
        for worker in workers:
            if n < rounds:
                zero.send(worker.rank, **script.at(zero, "ANSWER"))
            call = worker.recv(0, **script.at(worker, "PULL"))
            if n == rounds:
                worker.stuck_in(call)
    return run


def test_a_new_call_in_the_midst_of_a_round(tmp_path: Path) -> None:
    assert blamed(server(tmp_path, "SAVE"), tmp_path) == ((0,), ROUND)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda folder: server(folder, "BEHIND"), id="behind the loop"),
        pytest.param(lambda folder: server(folder, "SAVE", rounds=2), id="two rounds"),
        pytest.param(lambda folder: server(folder, "SAVE", told=True), id="told in numbers"),
    ],
)
def test_a_new_call_that_proves_nothing(make: Callable[[Path], Run], tmp_path: Path) -> None:
    assert blamed(make(tmp_path), tmp_path)[0] == ()


# -- against all others ------------------------------------------------------------------------

OPTIM = """\
for group in groups:
    dist.all_reduce(x, group=group)  # NORM
dist.barrier()  # OTHER
"""


def norms(folder: Path, first: Sequence[str]) -> Run:
    """Ranks come to one line, on a group each."""
    script, run = Script(folder, OPTIM), Run(len(first))
    for name in ("dense", "experts"):
        run.group(name, range(len(first)))
    for rank, group in zip(run, first, strict=True):
        rank.stuck_in(rank.call("all_reduce", group, **script.at(rank, "NORM")))
    return run


@pytest.mark.parametrize(
    ("first", "suspects"),
    [
        pytest.param(["dense", "dense", "experts"], (2,), id="alone"),
        pytest.param(["dense", "experts"], (), id="one against one"),
        pytest.param(["dense", "dense", "experts", "experts"], (), id="two against two"),
    ],
)
def test_who_alone_is_in_the_call_of_another_group(
    first: Sequence[str], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    run = norms(tmp_path, first)
    assert blamed(run, tmp_path)[0] == suspects
    circle = next(one for one in judged(run, tmp_path / "logs") if one.kind == "deadlock")
    case = case_of(run, tmp_path / "again")
    assert {rank for row in other_group_than_peers(case, circle) for rank in row.ranks} == {
        *suspects
    }


def pairs(folder: Path, first: Sequence[str], *, before: Sequence[str] = ()) -> Run:
    """Four ranks go through their groups in one line: one of all, and one of each pair.

    Args:
        folder: of the script.
        first: in which kind of group each waits.
        before: who had made a call in its pair before, by kind of group for each pair.

    """
    script, run = Script(folder, OPTIM), Run(4)
    run.group("all", range(4), description="data")
    for n in (0, 2):
        run.group(f"pair{n}", [n, n + 1], description="experts")
    for rank, kind in zip(run, first, strict=True):
        pair = f"pair{rank.rank // 2 * 2}"
        if before and before[rank.rank // 2]:
            rank.call("all_reduce", pair, **script.at(rank, "NORM"))
        group = "all" if kind == "data" else pair
        rank.stuck_in(rank.call("all_reduce", group, **script.at(rank, "NORM")))
    return run


@pytest.mark.parametrize(
    ("first", "before", "suspects"),
    [
        pytest.param(["data"] * 3 + ["experts"], (), (3,), id="alone"),
        pytest.param(["data", "experts", "data", "experts"], (), (), id="half of them"),
        pytest.param(
            ["data"] * 3 + ["experts"], ("once", ""), (2,), id="who did not begin with it"
        ),
    ],
)
def test_who_alone_takes_another_of_its_groups_first(
    first: Sequence[str], before: Sequence[str], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    assert blamed(pairs(tmp_path, first, before=before), tmp_path)[0] == suspects


SAMPLES = """\
def run(schedule):
    dist.recv(x, before)  # TAKE
    dist.send(x, after)  # GIVE
def evaluate():
    for batch in range(4):
        run(schedule)  # BATCH
    if {condition}:
        run(schedule)  # SAMPLES
    dist.barrier()  # MEETS
"""


def samples(folder: Path, condition: str, *, more: str = "", batches: int = 4) -> Run:
    """A pipeline of three; in the end the last stage runs it once more, alone."""
    script, run = Script(folder, SAMPLES.format(condition=condition) + more), Run(3)
    for _ in range(batches):
        for rank in run:
            if rank.rank:
                rank.recv(rank.rank - 1, **script.at(rank, "TAKE", "BATCH"))
            if rank.rank < 2:
                rank.send(rank.rank + 1, **script.at(rank, "GIVE", "BATCH"))
    zero, one, two = run
    stuck(
        *((rank, rank.call("barrier", **script.at(rank, "MEETS"))) for rank in (zero, one)),
        (two, two.recv(1, **script.at(two, "TAKE", "SAMPLES"))),
    )
    return run


def test_who_alone_is_where_its_rank_leads(tmp_path: Path) -> None:
    assert blamed(samples(tmp_path, "rank == 2"), tmp_path) == ((2,), {"led_by_its_rank"})


@pytest.mark.parametrize(
    ("condition", "more", "batches"),
    [
        pytest.param("samples_due()", "", 4, id="not by the rank"),
        pytest.param("rank > 0", "", 4, id="several may be let in"),
        pytest.param("rank == 2", "    if rank == 1:\n        pass\n", 4, id="another arm"),
        pytest.param("rank == 2", "", 2, id="no habit"),
    ],
)
def test_who_may_be_there_with_others(
    condition: str, more: str, batches: int, tmp_path: Path
) -> None:
    assert blamed(samples(tmp_path, condition, more=more, batches=batches), tmp_path)[0] == ()

"""Circles of messages and collectives: who left the round that all others kept to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from collectrace.align.judging.own_round import left_own_round
from collectrace.findings import Finding
from collectrace.records import Call, Stack
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import Rank, Run


def stuck(*calls: tuple[Rank, Call]) -> None:
    for rank, call in calls:
        rank.stuck_in(call)


def told(run: Run, folder: Path) -> Finding:
    return next(found for found in errors(aligned(run, folder)) if found.caused_by is None)


# -- calls of a round that one rank left out ------------------------------------------------------


def give(rank: Rank, size: int) -> Call:
    return rank.send((rank.rank + 1) % size, site="ring.py:8")


def take(rank: Rank, size: int) -> Call:
    return rank.recv((rank.rank - 1) % size, site="ring.py:9")


def loss(rank: Rank, thread: str | None = None) -> Call:
    return rank.call("all_reduce", site="train.py:30", thread=thread)


def ring(
    size: int = 4,
    rounds: int = 3,
    *,
    without: Sequence[int] = (3,),
    odd: Callable[[Run, int], object] | None = None,
    thread: str | None = None,
) -> Run:
    """Everybody gives its part to the right, and all come to the loss; in the end some do not."""
    run = Run(world=size)
    for n in range(rounds):
        for rank in run:
            give(rank, size)
            take(rank, size)
            loss(rank)
        if odd is not None:
            odd(run, n)
    for rank in run:
        n = rank.rank
        if n in without:
            call = loss(rank, thread)
        else:
            call = give(rank, size)
            if (n + 1) % size not in without:
                call = take(rank, size)
                call = loss(rank) if (n - 1) % size not in without else call
        stuck((rank, call))
    return run


def test_one_rank_left_out_what_the_others_have_begun(tmp_path: Path) -> None:
    found = told(ring(), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", (3,))
    assert (
        "Rank 3 called all_reduce at train.py:30 where it had called send at ring.py:8 in every "
        "round before, its 2nd all_reduce in a row; rank 0 went on with its round. So rank "
        "3 has left out, or put off, 2 calls that came first in each of the 3 equal rounds before, "
        "or has made one all_reduce more."
    ) in found.cause
    assert "Ranks 0-2, more than half of the group, kept to one round." in found.cause
    assert "Let rank 3 take part in send at ring.py:8 in every round, with zeros" in found.fix


def loses(run: Run, _: int) -> None:
    run.rank(1).call("all_reduce", lost=True)
    for n in (0, 2, 3):
        run.rank(n).call("all_reduce")


def has_no_round(run: Run, n: int) -> None:
    """Rank 1 takes from itself, in each round at another line."""
    run.rank(1).send(1, site=f"other.py:{n}")
    run.rank(1).recv(1, site="other.py:9")


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda: ring(size=2, without=[1]), id="one against one"),
        pytest.param(lambda: ring(without=[2, 3]), id="half of them"),
        pytest.param(lambda: ring(odd=loses), id="a call was lost"),
        pytest.param(lambda: ring(thread="loader"), id="another thread"),
    ],
)
def test_it_is_not_proven(run: Callable[[], Run], tmp_path: Path) -> None:
    found = told(run(), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert "kept to one round" not in found.cause


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda: ring(rounds=2), id="two rounds are no habit"),
        pytest.param(lambda: ring(odd=has_no_round), id="another kept to no round"),
    ],
)
def test_what_all_others_did_in_this_round_proves_it(
    run: Callable[[], Run], tmp_path: Path
) -> None:
    found = told(run(), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", (3,))
    assert found.cause.startswith("Rank 3 did not come to send at ring.py:8 in this round, and")
    assert "ranks 0-2 did. In each of the" in found.cause
    assert "kept to one round" not in found.cause


def orders(rounds: int = 4) -> Run:
    """Rank 0 gives the others their work of a round, and leaves that out in the end."""
    run = Run(world=4)
    for _ in range(rounds):
        for worker in (1, 2, 3):
            run.rank(0).send(worker, site="serve.py:5")
            run.rank(worker).recv(0, site="work.py:5")
            run.rank(worker).send(0, site="work.py:6")
            run.rank(0).recv(worker, site="serve.py:6")
        for rank in run:
            loss(rank)
    stuck((run.rank(0), loss(run.rank(0))))
    for worker in (1, 2, 3):
        stuck((run.rank(worker), run.rank(worker).recv(0, site="work.py:5")))
    return run


def test_who_waits_for_the_first_message_of_a_round_has_chosen_nothing(tmp_path: Path) -> None:
    found = told(orders(), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert "Rank 0 called all_reduce at train.py:30" in found.cause


@pytest.mark.parametrize(("come", "suspects"), [((0, 1, 2), (3,)), ((0, 1), ())])
def test_a_collective_left_out_in_which_most_wait(
    come: tuple[int, ...], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    """The others go on to their next round."""
    run = Run(world=4)
    for n in range(4):
        for rank in run:
            give(rank, 4)
            take(rank, 4)
            if n < 3:
                loss(rank)
    stuck(*((rank, loss(rank) if rank.rank in come else give(rank, 4)) for rank in run))
    found = told(run, tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", suspects)


# -- a new call before the one that the others wait for --------------------------------------------

SERVE = """\
def serve(queue):
    for tick in range(9):
        take(tick)
        if queue:
            save(tick)
        for peer in queue:
            answer(peer)
        if not queue:
            save(tick)
    save(tick)
"""
TAKE, SAVE, ANSWER, BEHIND, AFTER = 3, 5, 7, 9, 10


def served(folder: Path, line: int, rounds: int = 4, begin: int = 0) -> Finding:
    """Rank 0 takes and answers, and in the end comes to a barrier from another line.

    ``begin``: the line that rank 2 has come to once, at the beginning.
    """
    source = folder / "serve.py"
    source.write_text(SERVE)
    run = Run(world=3)
    stacks: dict[tuple[int, int], int] = {}

    def at(rank: Rank, line: int) -> dict[str, object]:
        key = (rank.rank, line)
        if key not in stacks:
            stacks[key] = len(stacks) + 1
            frames = [f"/job/comm.py:{line + 20} helper{line}", f"{source}:{line} serve"]
            rank.record(Stack(stack=stacks[key], frames=frames))
        return {"site": f"/job/comm.py:{line + 20}", "stack": stacks[key]}

    zero, *workers = run
    if begin:
        workers[1].send(0, **at(workers[1], begin))  # type: ignore[arg-type]
        zero.recv(2, site="/job/begin.py:1")
    for n in range(rounds + 1):
        for worker in workers:
            worker.send(0, site="/job/work.py:5")
            zero.recv(worker.rank, **at(zero, TAKE))  # type: ignore[arg-type]
        if n == rounds:
            stuck((zero, zero.call("barrier", **at(zero, line))))  # type: ignore[arg-type]
        for worker in workers:
            if n < rounds:
                zero.send(worker.rank, **at(zero, ANSWER))  # type: ignore[arg-type]
            call = worker.recv(0, site="/job/work.py:6")
            if n == rounds:
                stuck((worker, call))
    return told(run, folder / "logs")


def test_a_new_call_before_the_answer_that_all_wait_for(tmp_path: Path) -> None:
    found = served(tmp_path, SAVE)
    assert (found.kind, found.suspects) == ("deadlock", (0,))
    assert "where it had called send" in found.cause
    assert "The barrier of rank 0 stands under `if queue:` (serve.py:4)." in found.cause
    assert "Let rank 0 call send" in found.fix
    assert "decide together at serve.py:4" in found.fix


@pytest.mark.parametrize("line", [BEHIND, AFTER])
def test_behind_the_loop_of_answers_it_proves_nothing(line: int, tmp_path: Path) -> None:
    assert served(tmp_path, line).suspects == ()


def test_a_line_that_another_had_come_to_is_not_new(tmp_path: Path) -> None:
    assert served(tmp_path, SAVE, begin=SAVE).suspects == ()
    assert served(tmp_path, SAVE, begin=SAVE + 20).suspects == (0,)


def test_two_rounds_are_no_habit_to_leave(tmp_path: Path) -> None:
    assert served(tmp_path, SAVE, rounds=2).suspects == ()


# -- what is new for one rank, and the way of them all ---------------------------------------------


def test_a_line_of_ranks_that_is_closed_to_a_ring(tmp_path: Path) -> None:
    """Everybody sends before it receives: up to the last, which had none to send to."""
    run = Run(world=4)
    for _ in range(4):
        for rank in run:
            if rank.rank < 3:
                give(rank, 4)
            if rank.rank > 0:
                take(rank, 4)
        for rank in run:
            loss(rank)
    stuck(*((rank, give(rank, 4)) for rank in run))
    found = told(run, tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert (
        "In the rounds before rank 3 called no send to rank 0 there, but first recv at ring.py:9: "
        "so there was no circle, and the others got through one after the other."
    ) in found.cause
    assert "kept to one round" not in found.cause
    assert "batch_isend_irecv" in found.fix


@pytest.mark.parametrize(
    ("turns", "left"),
    [([0, 1], None), ([2, 0, 1], None), ([2, 0, 1, 2, 3], 1), ([7, 7, 0], 2)],
    ids=["as ever", "in no order", "before a whole round", "foreign"],
)
def test_calls_that_were_put_into_a_round(
    turns: Sequence[int], left: int | None, tmp_path: Path
) -> None:
    """Draws give a round that seems to repeat; what is foreign to it was put in."""
    run = Run(world=2)
    for line in [*range(4), *range(4), *range(4), *turns]:
        run.rank(0).call("all_reduce", site=f"draw.py:{line}")
    found = left_own_round(case_of(run, tmp_path), 0)
    assert (found.extra if found is not None else None) == left


# -- an answer that one rank left out --------------------------------------------------------------


def stages(*, asked: bool, rounds: int = 4) -> Run:
    """Rank 0 waits for an answer of rank 1, rank 1 for one of rank 2; in the end 2 leaves one out.

    Unless they ``asked``, what goes down, twice, comes after what goes up: nobody has earned an
    answer.
    """
    run = Run(world=3)
    for _ in range(rounds):
        for rank in run:
            down, up = rank.rank + 1, rank.rank - 1
            steps = [(up, "recv", 6), (down, "send", 7), (down, "recv", 8), (up, "send", 9)]
            twice = [(up, "recv", 10), (down, "send", 11)]
            for peer, op, line in steps if asked else [*steps[2:], *steps[:2], *twice]:
                if 0 <= peer < 3:
                    (rank.recv if op == "recv" else rank.send)(peer, site=f"stage.py:{line}")
    zero, one, two = run
    if asked:
        zero.send(1, site="stage.py:7")
        one.recv(0, site="stage.py:6")
        one.send(2, site="stage.py:7")
        two.recv(1, site="stage.py:6")
    waits = (zero.recv(1, site="stage.py:8"), one.recv(2, site="stage.py:8"))
    stuck((zero, waits[0]), (one, waits[1]), (two, two.recv(1, site="stage.py:6")))
    return run


def test_who_left_out_the_answer_to_what_it_had_got(tmp_path: Path) -> None:
    found = told(stages(asked=True), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", (2,))
    assert "Rank 2 called recv at stage.py:6 where it had called send at stage.py:9" in found.cause


def test_who_has_asked_for_nothing_may_wait_for_what_is_not_to_come(tmp_path: Path) -> None:
    assert told(stages(asked=False), tmp_path).suspects == ()


def test_two_rounds_of_answers_are_no_habit(tmp_path: Path) -> None:
    assert told(stages(asked=True, rounds=2), tmp_path).suspects == ()


# -- a collective that one rank left out, and in which all others wait -----------------------------


def summing(rounds: int = 2, *, plan: str = "", blocks: int = 1) -> Run:
    """Stages hand on and sum; in the end the third, past the sum, is at a receive of the next step.

    Args:
        rounds: that all came through.
        plan: an op by which all are told some numbers at the start.
        blocks: that the third receives in a row, at the end of each round.

    """
    run = Run(world=4)
    if plan:
        run.all(plan, site="plan.py:3", dtype="int64", shape=[4])
    for _ in range(rounds):
        for rank in run:
            hand_on(rank, blocks)
            rank.call("all_reduce", site="stage.py:9")
    for rank in run:
        hand_on(rank, blocks)
        if rank.rank == 2:
            stuck((rank, rank.recv(1, site="stage.py:5")))
        else:
            stuck((rank, rank.call("all_reduce", site="stage.py:9")))
    return run


def hand_on(rank: Rank, blocks: int) -> None:
    if rank.rank == 1:
        for _ in range(blocks):
            rank.send(2, site="stage.py:6")
    if rank.rank == 2:
        if blocks == 1:
            rank.recv(1, site="stage.py:5")
        rank.send(3, site="stage.py:6")
        for _ in range(blocks if blocks > 1 else 0):
            rank.recv(1, site="stage.py:5")
    if rank.rank == 3:
        rank.recv(2, site="stage.py:5")


def test_two_rounds_are_enough_where_all_others_wait_in_what_was_left_out(tmp_path: Path) -> None:
    found = told(summing(), tmp_path)
    assert (found.kind, found.suspects) == ("deadlock", (2,))
    assert "Ranks 0-1,3, more than half of the group, kept to one round." in found.cause


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(summing(1), id="one round is no habit"),
        pytest.param(summing(plan="broadcast"), id="it may have been told to go on"),
        pytest.param(summing(4, plan="scatter"), id="of itself alone, at whatever time"),
        pytest.param(summing(blocks=2), id="one more of several in a row, which may be due"),
    ],
)
def test_who_may_rightly_go_on_is_not_blamed(run: Run, tmp_path: Path) -> None:
    assert told(run, tmp_path).suspects == ()

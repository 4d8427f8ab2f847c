"""Messages counted by channel and line, and steps of a pipeline out of their order."""

from __future__ import annotations

from pathlib import Path

from collectrace.records import Call, Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run


def stuck(rank: Rank, call: Call) -> None:
    rank.beat(60, rank.inside(call))


def pipeline(rounds: int = 5) -> Run:
    """Activations go from rank 0 to rank 1, gradients back."""
    run = Run(world=2)
    for _ in range(rounds):
        run.rank(0).send(1, site="stage.py:15")
        run.rank(1).recv(0, site="stage.py:31")
        run.rank(1).send(0, site="stage.py:33")
        run.rank(0).recv(1, site="stage.py:17")
    return run


def test_messages_that_met_are_counted(tmp_path: Path) -> None:
    run = pipeline()
    run.all("barrier")
    run.finish()
    alignment = aligned(run, tmp_path)
    assert (alignment.evidence.agreed, alignment.evidence.messages) == (1, 10)


def test_sends_that_nobody_takes_are_told_by_line(tmp_path: Path) -> None:
    run = pipeline(20)
    for _ in range(4):
        run.rank(0).send(1, site="stage.py:21")
    run.finish()
    (found,) = errors(aligned(run, tmp_path))
    assert (
        "Rank 0 sent 24 (20 from stage.py:15, 4 from stage.py:21), rank 1 received 20 (from "
        "stage.py:31)."
    ) in found.cause


def test_a_circle_behind_a_step_too_many(tmp_path: Path) -> None:
    """Rank 0 ran four steps more, and both wait for each other behind them."""
    run = pipeline(20)
    zero, one = run
    for _ in range(4):
        zero.send(1, site="stage.py:21")
    stuck(zero, zero.recv(1, site="stage.py:17"))
    stuck(one, one.call("barrier"))
    (found, *_) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert "rank 0 sent rank 1 24 (20 from stage.py:15, 4 from stage.py:21)" in found.cause
    assert "Each is right by itself" not in found.cause
    assert "Turn one of them round" not in found.fix


def test_a_step_that_is_made_too_early(tmp_path: Path) -> None:
    run = pipeline()
    zero, one = run
    stuck(zero, zero.recv(1, site="stage.py:17"))
    stuck(one, one.recv(0, site="stage.py:31"))
    (found, *_) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert (
        "Rank 0 called recv at stage.py:17 where it had called send at stage.py:15 in every round "
        "before"
    ) in found.cause


def test_ranks_that_never_had_another_order_are_right_by_themselves(tmp_path: Path) -> None:
    run = Run(world=2)
    for rank in run:
        stuck(rank, rank.recv(1 - rank.rank))
    (found, *_) = errors(aligned(run, tmp_path))
    assert "Each is right by itself" in found.cause


def test_counts_are_told_where_each_side_has_one_line(tmp_path: Path) -> None:
    run = pipeline(4)
    stuck(run.rank(0), run.rank(0).recv(1, site="stage.py:17"))
    run.rank(1).exit()
    (found,) = errors(aligned(run, tmp_path))
    assert (
        "Rank 1 sent 4 (from stage.py:33), rank 0 asked for 5 (from stage.py:17). Rank 1 has "
        "finished."
    ) in found.cause
    assert "batch_isend_irecv" not in found.fix, "it would not make the counts equal"


def test_an_exception_on_a_stage_is_the_cause(tmp_path: Path) -> None:
    run = pipeline(4)
    stuck(run.rank(0), run.rank(0).recv(1, site="stage.py:17"))
    run.rank(1).exit("exception", error="ValueError", message="not finite", site="stage.py:9")
    (found,) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("p2p_unmatched", (1,))
    assert "ValueError: not finite at stage.py:9" in found.cause
    assert found.fix == "Fix what raised on rank 1: the message was still to come."


def chain(rounds: int) -> Run:
    """Three stages: activations go up through all, gradients come down."""
    run = Run(world=3)
    for _ in range(rounds):
        for rank in run:
            if rank.rank > 0:
                rank.recv(rank.rank - 1, site="stage.py:36")
            if rank.rank < 2:
                rank.send(rank.rank + 1, site="stage.py:40")
                rank.recv(rank.rank + 1, site="stage.py:49")
            if rank.rank > 0:
                rank.send(rank.rank - 1, site="stage.py:52")
    return run


def test_a_send_that_was_always_meant_for_its_peer_is_no_near_miss(tmp_path: Path) -> None:
    """The last stage ends a step early: the send to it was not meant for the first."""
    run = chain(4)
    zero, one, two = run
    zero.send(1, site="stage.py:40")
    one.recv(0, site="stage.py:36")
    stuck(zero, zero.recv(1, site="stage.py:49"))
    stuck(one, one.send(2, site="stage.py:40"))
    two.exit()
    first, second = errors(aligned(run, tmp_path))
    assert first.headline == "rank 1's send at stage.py:40 meets no recv of rank 2"
    assert "Rank 2 has finished" in first.cause
    assert second.caused_by == 0


def test_a_send_from_a_new_line_is_a_near_miss(tmp_path: Path) -> None:
    run = chain(4)
    zero, one, two = run
    stuck(zero, zero.recv(1, site="stage.py:49"))
    stuck(one, one.send(2, site="stage.py:77"))
    two.exit()
    (found,) = errors(aligned(run, tmp_path))
    assert "rank 1 sent it to rank 2, not to rank 0" in found.headline


def one_message_more(last: int) -> Run:
    """Three stages, two messages each way in a round; then the first sends a third one.

    ``last``: how many gradients the last stage has sent in that round; 0: it has sent none, and
    waits for a third activation.
    """
    run = Run(world=3)
    zero, one, two = run
    whole = [
        [(zero.send, 1, 40)] * 2 + [(zero.recv, 1, 49)] * 2,
        [(one.recv, 0, 36), (one.send, 2, 40)] * 2 + [(one.recv, 2, 49), (one.send, 0, 52)] * 2,
        [(two.recv, 1, 36)] * 2 + [(two.send, 1, 52)] * 2,
    ]
    ends = [
        [(zero.send, 1, 40)] * 3,
        whole[1][:6],
        whole[2][: 2 + last] if last else [(two.recv, 1, 36)] * 3,
    ]
    for rank, calls, end in zip(run, whole, ends, strict=True):
        made = [make(peer, site=f"stage.py:{line}") for make, peer, line in calls * 2 + end]
        stuck(rank, made[-1])
    return run


def test_two_stages_that_left_their_round_against_one(tmp_path: Path) -> None:
    """The last stage waits for a third one too: who is wrong is not told by the first's."""
    (found, *_) = errors(aligned(one_message_more(last=0), tmp_path))
    assert (found.kind, found.suspects) == ("deadlock", ())


def test_a_step_of_two_lines_behind_one_helper_is_counted_by_caller(tmp_path: Path) -> None:
    run = Run(world=2)
    zero, one = run
    for number, caller in ((1, "a.py:8 main"), (2, "a.py:21 evaluate")):
        zero.record(Stack(stack=number, frames=["comm.py:5 give", caller]))
    for n in range(24):
        zero.send(1, site="comm.py:5", stack=2 if n > 19 else 1)
        if n < 20:
            one.recv(0, site="b.py:3")
    run.finish()
    (found,) = errors(aligned(run, tmp_path))
    assert "Rank 0 sent 24 (20 from a.py:8, 4 from a.py:21)" in found.cause


def test_calls_that_no_round_before_had(tmp_path: Path) -> None:
    """Rank 0 evaluates once: its calls are named, and that it went on behind them."""
    run = pipeline()
    zero, one = run
    for _ in range(2):
        zero.send(1, site="stage.py:21")
    stuck(zero, zero.send(1, site="stage.py:15"))
    one.recv(0, site="stage.py:31")
    stuck(one, one.send(0, site="stage.py:33"))
    (found, *_) = errors(aligned(run, tmp_path))
    assert (found.kind, found.suspects) == ("deadlock", ())
    assert (
        "Rank 0 made 2 calls more than in the rounds before, from send at stage.py:21, and went "
        "on with its round behind"
    ) in found.cause
    assert "on every rank alike" in found.fix


def test_what_waits_behind_a_message_on_another_group_follows_from_it(tmp_path: Path) -> None:
    """A ring: rank 2 sends to rank 0 on the group that rank 0 does not listen on."""
    run = Run(world=3)
    run.group("1", range(3))
    run.group("2", range(3))
    outward, inward = ["1", "2", "1"], ["2", "1", "2"]
    for rank in run:
        n = rank.rank
        rank.send((n + 1) % 3, group=outward[n], site="ring.py:40", async_=True)
        call = rank.recv((n - 1) % 3, group=inward[n], site="ring.py:41", async_=True)
        if n == 1:
            rank.send(2, group=outward[n], site="ring.py:40", async_=True)
            call = rank.recv(0, group=inward[n], site="ring.py:41", async_=True)
        elif n == 2:
            call = next(c for c in rank.items if isinstance(c, Call) and c.op == "send")
        rank.beat(60, rank.inside(call, what="wait"))
    first, *others = errors(aligned(run, tmp_path))
    told = "rank 2 sent it in group 1, the receive waits in group 2"
    assert first.headline.endswith(told)
    assert first.fix == f"Pass the same group to the send and to its recv: {told}."
    assert others
    assert all(found.caused_by is not None for found in others)

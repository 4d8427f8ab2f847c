"""Which step, and which call of its round, a message is at which ranks hang."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collectrace.findings import Finding
from collectrace.records import STEP, Call, Unit
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run

ASK, ANSWER = 1, 2
"""Tags."""

ROUND = ("reduce", "ask", "answer")


def _do(rank: Rank, what: str, step: int | None) -> Call:
    """One call of rank 0, a server, or of rank 1, who asks it."""
    if what == "reduce":
        return rank.call("all_reduce", site="/job/train.py:5", iteration=step)
    tag = ASK if what == "ask" else ANSWER
    issue = rank.send if (rank.rank == 1) == (what == "ask") else rank.recv
    return issue(1 - rank.rank, tag=tag, site=f"/job/train.py:{10 * tag}", iteration=step)


def found(
    folder: Path,
    server: Sequence[str],
    worker: Sequence[str],
    *,
    rounds: int = 5,
    counted: bool = True,
) -> Finding:
    """Equal rounds, then what each rank does last; in a message it waits, else it finishes."""
    run = Run(2)
    for rank, then in zip(run, (server, worker), strict=True):
        rank.record(Unit(of=STEP))
        for step in range(1, rounds + 1):
            for what in ROUND:
                _do(rank, what, step if counted else None)
        for what in then:
            call = _do(rank, what, rounds + 1 if counted else None)
        if "ask" in then or "answer" in then:
            rank.beat(60, rank.inside(call))
        else:
            rank.exit()
    return errors(aligned(run, folder))[0]


CIRCLE = ("reduce", "ask"), ("reduce", "answer")
"""The worker waits in what is not the second call of its round."""


def test_a_circle_of_messages_tells_the_step_and_the_call(tmp_path: Path) -> None:
    told = found(tmp_path, *CIRCLE)
    assert told.kind == "deadlock"
    assert told.notes == (
        "Step 6; on rank 0 the 2nd of 3 calls in each round of the loop, after 5 equal rounds.",
    )


def test_without_steps_the_rounds_are_told_all_the_same(tmp_path: Path) -> None:
    assert found(tmp_path, *CIRCLE, counted=False).notes == (
        "On rank 0 the 2nd of 3 calls in each round of the loop, after 5 equal rounds.",
    )


def test_a_message_that_is_not_the_next_of_its_round_has_no_place_in_it(tmp_path: Path) -> None:
    told = found(tmp_path, (), ("ask",))
    assert told.kind == "p2p_unmatched"
    assert told.notes == ("Step 6.",)


def test_an_unmatched_message_has_its_place(tmp_path: Path) -> None:
    assert found(tmp_path, ("reduce",), ("reduce", "ask")).notes == (
        "Step 6; the 2nd of 3 calls in each round of the loop, after 5 equal rounds.",
    )


def test_of_many_rounds_it_is_said_that_there_were_more(tmp_path: Path) -> None:
    (told,) = found(tmp_path, *CIRCLE, rounds=200).notes
    assert told.startswith("Step 201; on rank 0 the 2nd of 3 calls")
    assert told.endswith("after more than 133 equal rounds.")


def test_what_was_not_repeated_has_no_place(tmp_path: Path) -> None:
    assert found(tmp_path, *CIRCLE, rounds=1, counted=False).notes == ()


def test_a_loop_of_one_message_has_no_place_to_tell(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        for _ in range(5):
            _do(rank, "ask", None)
    call = _do(run.rank(1), "ask", None)
    run.rank(1).beat(60, run.rank(1).inside(call))
    run.rank(0).exit()
    assert errors(aligned(run, tmp_path))[0].notes == ()

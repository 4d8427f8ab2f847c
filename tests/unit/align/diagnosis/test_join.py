"""What ``join()`` does not answer: other models and optimizers, second forwards, inner loops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from collectrace.align.diagnosis import join, mismatch
from collectrace.align.diagnosis.wording import Explainer, Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.judge import judge
from collectrace.records import Stack
from tests.support.judging import case_of
from tests.support.synthetic import Run

MODEL: Final = "DistributedDataParallel"
OPTIMIZER: Final = "ZeroRedundancyOptimizer"
NOTICE: Final[dict[str, Any]] = {"role": "ddp.forward.notify_join", "site": "/job/train.py:7"}
COUNT: Final[dict[str, Any]] = {"role": "join.count_nonjoined", "site": "/job/train.py:5"}
BUCKET: Final[dict[str, Any]] = {
    "role": "ddp.backward.bucket", "shape": [10], "site": "/job/train.py:8"
}  # fmt: skip
SHADOW: Final[dict[str, Any]] = {"role": "join.bucket", "shape": [10], "site": "/job/train.py:5"}
STEP: Final[dict[str, Any]] = {"role": "zero.step", "shape": [3], "site": "/job/train.py:9"}


def unanswered(
    folder: Path,
    given: Sequence[str],
    trains: Sequence[dict[str, Any]],
    shadows: Sequence[dict[str, Any]],
    explain: Explainer = join.unanswered,
) -> Reason | None:
    """Two inputs on three ranks; then rank 0 shadows, and the others have a third."""
    run = Run(3)
    for rank in run:
        rank.join("entered", group="0", joinables=list(given), rounds=[])
        for fields in (NOTICE, BUCKET) * 2:
            rank.call("all_reduce", **fields)
        if rank.rank == 0:
            rank.join("joined", group="0", joinables=list(given), rounds=[2])
        for fields in shadows if rank.rank == 0 else trains:
            call = rank.call("all_reduce", **fields)
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder)
    return explain(case, judge(case)[0])


def users_call(folder: Path, *frames: str) -> Reason:
    """Rank 0 is out of inputs; the others have a third, in which they call from these frames."""
    run = Run(3)
    for rank in run:
        rank.join("entered", group="0", joinables=[MODEL], rounds=[])
        rank.record(Stack(stack=1, frames=["/job/train.py:5 epoch", "/job/train.py:30 main"]))
        rank.record(Stack(stack=2, frames=list(frames)))
        for fields in (NOTICE, BUCKET) * 2:
            rank.call("all_reduce", **fields)
        if rank.rank == 0:
            rank.join("joined", group="0", joinables=[MODEL], rounds=[2])
            call = rank.call("all_reduce", stack=1, **COUNT)
        else:
            site = frames[0].partition(" ")[0]
            call = rank.call("all_reduce", stack=2, site=site, shape=[1])
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder)
    found = join.users_call(case, judge(case)[0])
    assert found is not None
    return found


def test_what_must_leave_the_block_is_the_line_that_stands_in_it(tmp_path: Path) -> None:
    helper = ("/job/log.py:4 Log.mean", "/job/log.py:9 Log.add")
    found = users_call(tmp_path, *helper, "/job/train.py:8 epoch", "/job/train.py:30 main")
    told = "all_reduce at log.py:4, reached from train.py:8,"
    assert f"The {told} on ranks 1-2 is the script's own, inside the join() at train.py:5, and" in (
        found.cause
    )
    assert f"Move the {told} out of the `with model.join():` block (train.py:5)." in found.fix


def test_a_line_in_the_block_itself_is_named_alone(tmp_path: Path) -> None:
    found = users_call(tmp_path, "/job/train.py:8 epoch", "/job/train.py:30 main")
    assert "Move the all_reduce at train.py:8 out of the `with model.join():` block." in found.fix


def test_an_optimizer_that_join_was_not_given(tmp_path: Path) -> None:
    found = unanswered(tmp_path, [MODEL], (NOTICE, BUCKET, STEP), (COUNT, SHADOW, COUNT))
    assert found is not None
    assert "Uneven inputs: rank 0 had 2 batches" in found.cause
    assert "at train.py:9 on ranks 1-2 is the optimizer's, which this join() was not given" in (
        found.cause
    )
    assert "`with Join([model, optimizer]):`" in found.fix


def test_an_optimizer_that_it_was_given(tmp_path: Path) -> None:
    given = [MODEL, OPTIMIZER]
    assert unanswered(tmp_path, given, (NOTICE, BUCKET, STEP), (COUNT, SHADOW, COUNT)) is None


def test_a_second_model_that_join_was_not_given(tmp_path: Path) -> None:
    other = BUCKET | {"model": 2, "shape": [6]}
    found = unanswered(tmp_path, [MODEL], (NOTICE, BUCKET, other), (COUNT, SHADOW, COUNT))
    assert found is not None
    assert "is of model 2, and this join() was given 1 model" in found.cause
    assert "`with Join([model, other]):`" in found.fix


def test_a_second_model_that_it_was_given(tmp_path: Path) -> None:
    other, given = BUCKET | {"model": 2, "shape": [6]}, [MODEL, MODEL]
    assert unanswered(tmp_path, given, (NOTICE, BUCKET, other), (COUNT, SHADOW, COUNT)) is None


FORWARD: Final = NOTICE | {"role": "ddp.forward.sync_check"}
CHECK: Final = COUNT | {"role": "join.sync_check"}


@pytest.mark.parametrize(
    ("trains", "told"),
    [
        ((NOTICE, FORWARD, FORWARD | {"model": 2}), True),
        ((NOTICE, FORWARD, BUCKET, FORWARD | {"model": 2}), False),
        ((NOTICE, FORWARD, FORWARD), False),
        ((FORWARD, FORWARD, FORWARD | {"model": 2}), False),
        ((NOTICE, FORWARD, BUCKET | {"model": 2, "shape": [9]}), False),
    ],
    ids=["two forwards", "a backward between", "one model", "no notice of it", "a backward"],
)
def test_forwards_of_two_models_before_the_first_backward(
    trains: Sequence[dict[str, Any]],
    told: bool,
    tmp_path: Path,
) -> None:
    shadows = (COUNT, CHECK, SHADOW, SHADOW | {"shape": [4]})[: len(trains)]
    found = unanswered(tmp_path, [MODEL] * 2, trains, shadows, join.answered_in_turn)
    assert (found is not None) is told
    if found is not None:
        assert "Ranks 1-2 ran the forward of model 2 at train.py:7 before that backward" in (
            found.cause
        )
        assert "behind the forward of model 1 its backward" in found.cause
        assert "backward of each model before the forward of the next" in found.fix


def test_a_shorter_loop_inside_join_is_not_to_be_put_into_one(tmp_path: Path) -> None:
    """The block is there already; rank 0 answers a bucket of another size."""
    found = unanswered(
        tmp_path, [MODEL], (NOTICE, BUCKET | {"shape": [9]}), (COUNT, SHADOW), in_words
    )
    assert found is not None
    assert "Uneven inputs" in found.cause
    assert "same number of batches" in found.fix
    assert "Or train inside" not in found.fix


def in_words(case: Case, candidate: Candidate) -> Reason:
    wording = mismatch.explain(case, candidate)
    return Reason(wording.cause, wording.fix)


def test_where_the_joinables_are_not_known_none_was_left_out(tmp_path: Path) -> None:
    other = BUCKET | {"model": 2, "shape": [6]}
    assert unanswered(tmp_path, [], (NOTICE, BUCKET, other), (COUNT, SHADOW, COUNT)) is None


def test_a_second_forward_before_the_backward(tmp_path: Path) -> None:
    found = unanswered(tmp_path, [MODEL], (NOTICE, NOTICE), (COUNT, SHADOW))
    assert found is not None
    assert "begins a second forward before the backward: two forwards for one input" in found.cause
    assert "Call the model once for each input" in found.fix


def test_a_forward_behind_a_backward_is_the_next_input(tmp_path: Path) -> None:
    assert unanswered(tmp_path, [MODEL], (NOTICE, BUCKET, NOTICE), (COUNT, SHADOW, SHADOW)) is None


def test_a_call_of_the_scripts_own_is_not_the_models(tmp_path: Path) -> None:
    own = {"site": "/job/train.py:9", "shape": [3]}
    assert unanswered(tmp_path, [MODEL], (NOTICE, BUCKET, own), (COUNT, SHADOW, COUNT)) is None


# -- the block around the loops --------------------------------------------------------------------

EPOCHS = """\
def train(loader):
    for batch in loader:
        model(batch).sum().backward()
with model.join():
    for epoch in range(2):
        train(loader)
        dist.all_reduce(samples)
"""


def around_loops(
    folder: Path, phases: Sequence[str], *, wrong: int = 0, role: str = "ddp.backward.bucket"
) -> Reason | None:
    """One rank of three has left the loop of an epoch; ``phases`` of join() till then."""
    script = folder / "train.py"
    script.write_text(EPOCHS)
    within: dict[str, Any] = {"role": role, "site": f"{script}:3", "stack": 1, "shape": [10]}
    run = Run(3)
    for rank in run:
        rank.record(Stack(stack=1, frames=[f"{script}:3 train", f"{script}:6 <module>"]))
        rank.record(Stack(stack=2, frames=[f"{script}:7 <module>"]))
        for phase in phases:
            rank.join(phase, group="0", joinables=[MODEL], rounds=[])
        for _ in range(3):
            rank.call("all_reduce", **within)
        if rank.rank == wrong:
            call = rank.call("all_reduce", site=f"{script}:7", stack=2)
        else:
            call = rank.call("all_reduce", **within)
        rank.beat(60, rank.inside(call))
    case = case_of(run, folder / "logs")
    return join.block_around_loops(case, judge(case)[0])


@pytest.mark.parametrize("phases", [["entered"], ["entered", "joined", "left", "entered"]])
def test_a_loop_that_ended_inside_the_block(phases: list[str], tmp_path: Path) -> None:
    found = around_loops(tmp_path, phases)
    assert found is not None
    assert "Rank 0 has left the loop `for batch in loader:` (train.py:2)" in found.cause
    assert "gone on to all_reduce at train.py:7; ranks 1-2 are in it" in found.cause
    assert "around each loop over the batches by itself" in found.fix


@pytest.mark.parametrize("phases", [[], ["entered", "joined", "left"], ["entered", "joined"]])
def test_outside_the_block_it_is_not_join_that_is_asked(phases: list[str], tmp_path: Path) -> None:
    assert around_loops(tmp_path, phases) is None


def test_a_loop_of_the_scripts_own_calls_would_not_be_answered(tmp_path: Path) -> None:
    assert around_loops(tmp_path, ["entered"], role="user") is None


# -- inside it on some ranks -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "first", "told"),
    [(1, 1, True), (None, 1, True), (2, 1, False), (1, 2, False)],
    ids=["one model", "its number is not told", "another model", "of two before"],
)
def test_inside_the_block_on_some_ranks(
    model: int | None, first: int, told: bool, tmp_path: Path
) -> None:
    run = Run(2)
    for rank in run:
        rank.call("broadcast", role="ddp.construct", model=1)
        rank.call("broadcast", role="ddp.construct", model=first)
        rank.join("entered", group="0", joinables=[MODEL], rounds=[])
        if rank.rank:
            rank.join("left", group="0", joinables=[MODEL], rounds=[])
            fields: dict[str, Any] = {"role": "ddp.forward.sync_buffers", "model": model}
            call = rank.call("broadcast", site="/job/train.py:7", **fields)
        else:
            call = rank.call("all_reduce", **NOTICE | {"model": 1})
        rank.beat(60, rank.inside(call))
    case = case_of(run, tmp_path)
    assert (join.on_some_ranks(case, judge(case)[0]) is not None) is told

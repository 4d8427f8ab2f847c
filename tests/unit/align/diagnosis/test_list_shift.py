"""Messages that fit again when one end is shifted, and those of which one has another size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

WEIGHTS = [[8, 4], [8], [2, 8], [2]]
MEAN = [4]

Shapes = Sequence[Sequence[int]]


def cause(folder: Path, sent: Shapes, awaited: Shapes, *, role: str = "user") -> str:
    run = Run(2)
    for shape in sent:
        run.rank(0).send(1, shape=list(shape), site="learn.py:5", role=role)
    for shape in awaited:
        run.rank(1).recv(0, shape=list(shape), site="act.py:7", role=role)
    found = next(one for one in errors(aligned(run, folder)) if one.kind == "p2p_mismatch")
    assert ("same list" in found.cause) == ("the same list of tensors" in found.fix)
    return found.cause if "same list" in found.cause else ""


def test_the_sender_has_one_more(tmp_path: Path) -> None:
    told = cause(tmp_path, [*WEIGHTS * 2, MEAN, *WEIGHTS[:3]], [*WEIGHTS * 2, *WEIGHTS[:3]])
    assert (
        "What rank 1 awaits in it and in the 2 messages behind it is what rank 0 sent 1 message "
        "later. So by then rank 0 sent 1 message more than rank 1 awaits, 1 of float32[4] at "
        "learn.py:5: the two do not go through the same list of tensors."
    ) in told


def test_the_receiver_has_one_more(tmp_path: Path) -> None:
    told = cause(tmp_path, [*WEIGHTS * 2, *WEIGHTS[:3]], [*WEIGHTS * 2, MEAN, *WEIGHTS[:3]])
    assert "What rank 0 sends in it and in the 2 messages behind it is what rank 1 asked" in told
    assert "rank 1 asked for 1 message more than rank 0 sends, 1 of float32[4] at act.py:7" in told


def test_the_receiver_ended_there(tmp_path: Path) -> None:
    """What it would have asked for next is told by its rounds."""
    told = cause(tmp_path, [*WEIGHTS * 3, MEAN, *WEIGHTS[:3]], [*WEIGHTS * 3, WEIGHTS[0]])
    assert "What rank 1 awaits in it is what rank 0 sent 1 message later, and what came" in told


def test_which_one_is_too_many_is_not_known(tmp_path: Path) -> None:
    told = cause(tmp_path, [[2], [2], [8, 4], [8], [3, 3]], [[2], [8, 4], [8], [3, 3]])
    assert "1 message more than rank 1 awaits: the two do not" in told


@pytest.mark.parametrize(
    ("sent", "awaited"),
    [
        pytest.param([*WEIGHTS, [4, 4], *WEIGHTS[1:]], WEIGHTS * 2, id="one of another size"),
        pytest.param(
            [*WEIGHTS * 2, [4, 4], [4], [1, 8], [1], *WEIGHTS * 2], WEIGHTS * 5,
            id="a round in other sizes",
        ),
        pytest.param([[n, 4] for n in range(2, 8)], [[n, 4] for n in range(3, 9)], id="it grows"),
        pytest.param([*WEIGHTS * 2, MEAN], [*WEIGHTS * 2, WEIGHTS[0]], id="nothing came later"),
        pytest.param([MEAN, [8, 4]], [[8, 4]], id="one message, and no round before"),
        pytest.param([[4], [2, 4]] * 4, [[2, 4], [4]] * 4, id="the two in the other order"),
        pytest.param([[4], *[[6]] * 5], [[6]] * 5, id="all of one size"),
    ],
)  # fmt: skip
def test_what_tells_of_no_other_list(sent: Shapes, awaited: Shapes, tmp_path: Path) -> None:
    assert not cause(tmp_path, sent, awaited)


def test_messages_of_a_framework_are_its_own(tmp_path: Path) -> None:
    sent, awaited = [*WEIGHTS * 2, MEAN, *WEIGHTS], WEIGHTS * 3
    assert not cause(tmp_path, sent, awaited, role="pipeline.forward")

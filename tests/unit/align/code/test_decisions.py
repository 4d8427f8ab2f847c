"""Every kind of deciding line in every shape of program: it is found, and hardly anything else."""

from __future__ import annotations

import contextlib
import io
from itertools import product
from typing import Final

import pytest

from collectrace.align.code.decide import Answer, Strength
from tests.support import decisions
from tests.unit.align.code import alone, standin

# The recordings of the same programs are judged by default, and their decisions with them.
pytestmark = pytest.mark.slow

PROGRAMS: Final = list(product(decisions.KINDS, decisions.SHAPES, (2, 3)))


def decided(kind: str, shape: str, world: int) -> tuple[Answer, set[int]]:
    """What decided between ranks 0 and 1 of a program, and the marked lines."""
    text = decisions.program(kind, shape, world)
    path = f"/decisions/{kind}_{shape}.py"
    with contextlib.redirect_stdout(io.StringIO()):
        runs = [alone.alone(path, text, rank, world) for rank in (0, 1)]
    found = standin.difference(runs)
    assert found is not None, "the ranks do not differ"
    return standin.answer(path, text, found[:2]), standin.marked(text)


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str, int], tuple[Answer, set[int]]]:
    return {program: decided(*program) for program in PROGRAMS}


Answers = dict[tuple[str, str, int], tuple[Answer, set[int]]]


def test_the_deciding_line_is_always_named(answers: Answers) -> None:
    missed = [
        program
        for program, (answer, marked) in answers.items()
        if not marked & {one.site.line for one in answer.decisions}
    ]
    assert len(answers) == 1098
    assert not missed


def test_few_other_lines_are_named(answers: Answers) -> None:
    named = [len(answer.decisions) for answer, _ in answers.values()]
    assert sum(named) / len(named) < 1.2
    assert named.count(1) / len(named) > 0.85


def test_nothing_is_called_the_only_decision_that_is_not_the_deciding_line(
    answers: Answers,
) -> None:
    for program, (answer, marked) in answers.items():
        for one in answer.decisions:
            if one.strength is Strength.ONLY:
                assert one.site.line in marked, program


def test_no_program_leaves_a_gap(answers: Answers) -> None:
    assert {gap for answer, _ in answers.values() for gap in answer.gaps} == set()

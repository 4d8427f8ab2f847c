"""What ``align --verbose`` shows of the statements that can have led to a finding."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from collectrace.findings import Alignment, DecisionSide, Way
from collectrace.report import tables, terminal, verbose
from tests.support import alignments


def told(alignment: Alignment) -> list[str]:
    out = io.StringIO()
    verbose.write(alignment, out)
    return out.getvalue().splitlines()


def test_each_decision_has_its_line_both_sides_and_how_sure_it_is() -> None:
    lines = told(alignments.with_decisions())
    first = lines.index("  decision in train.py, Trainer.step")
    assert " ".join(" ".join(lines[first:]).split()).startswith(
        "decision in train.py, Trainer.step "
        "40 if loss.isfinite(): ▲ rank 3: false; `loss` is nan (Tensor float32[]); "
        "`self.step` is 7 "
        "rank 0: true; `loss` is 1.0 (Tensor float32[]) "
        "decided, as recorded values confirm; depends on each rank's data "
        "read later, may have changed: `batch` "
        "decision in train.py, Trainer.train "
        "38 for batch in loader: ▲ rank 3: ends "
        "rank 3 usually: not known "
        "may have decided; depends on each rank's data and something that the source does not show"
    )


@pytest.mark.parametrize(
    ("did", "named", "says"),
    [
        ("next", {}, "goes on to the next statement"),
        ("calls", {"name": "evaluate"}, "calls evaluate()"),
        ("calls", {}, "calls a function"),
        ("handler", {"line": 7}, "caught at line 7"),
        ("no_case", {}, "no case matches"),
        (None, {}, "not known"),
    ],
)
def test_what_a_statement_did_is_in_words(did: Way | None, named: Any, says: str) -> None:
    shown = alignments.with_decisions()
    first = (shown.findings[0].decisions or ())[0]
    side = DecisionSide(rank=5, did=did, **named)
    root = replace(shown.findings[0], decisions=(replace(first, sides=(*first.sides, side)),))
    text = " ".join(" ".join(told(replace(shown, findings=(root,)))).split())
    assert f"rank 5: {says} decided, as" in text


def test_values_that_differ_are_told_beside_the_lines() -> None:
    out = io.StringIO()
    terminal.write(alignments.with_decisions(), out)
    assert "  values\n          rank 0  rank 3\n    loss  1.0     nan\n" in out.getvalue()
    assert "self.step" not in out.getvalue()


def test_a_name_that_holds_the_rank_is_not_told() -> None:
    shown = alignments.with_decisions()
    root = shown.findings[0]
    values = {0: {"rank": 0, "peer": 3}, 3: {"rank": 3, "peer": 0}}
    first = (root.decisions or ())[0]
    sides = tuple(replace(side, values=values[side.rank]) for side in first.sides)
    grid = tables.values(replace(root, decisions=(replace(first, sides=sides),)))
    assert grid is not None
    assert grid.rows == (("peer", "3", "0"),)


@pytest.mark.parametrize(
    ("one", "two", "shown"),
    [
        (0.4015761911869049, 28.95755958557129, ("0.401576", "28.9576")),
        (0.1234567891, 0.1234567892, ("0.1234567891", "0.1234567892")),
        (1.5, 2, ("1.5", "2")),
    ],
)
def test_long_numbers_are_rounded_if_they_still_differ(
    one: float, two: float, shown: tuple[str, str]
) -> None:
    alignment = alignments.with_decisions()
    first = (alignment.findings[0].decisions or ())[0]
    by_rank = {0: {"loss": one}, 3: {"loss": two}}
    sides = tuple(replace(side, values=by_rank[side.rank]) for side in first.sides)
    root = replace(alignment.findings[0], decisions=(replace(first, sides=sides),))
    grid = tables.values(root)
    assert grid is not None
    assert grid.rows == (("loss", *shown),)


def test_a_finding_without_decisions_has_no_heading() -> None:
    assert not any("decision in" in line for line in told(alignments.missing_call()))


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3"),
        ({"type": "float", "value": "nan"}, "nan"),
        ({"type": "list", "len": 4}, "a list of 4"),
        ({"type": "str", "len": 5, "hash": 17}, "a str of 5 characters, hash 17"),
        ({"type": "Tensor", "dtype": "int64", "shape": [2, 3]}, "Tensor int64[2, 3]"),
        ({"type": "Mode", "value": "TRAIN"}, "TRAIN"),
        ({"type": "Trainer"}, "a Trainer"),
        ({"type": "\x1b[2J"}, "a [2J"),
    ],
)
def test_a_value_in_words(recorded: object, words: str) -> None:
    assert tables.value(recorded) == words

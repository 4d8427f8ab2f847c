"""Places in sentences below an excerpt."""

from __future__ import annotations

import pytest

from collectrace.findings import Excerpt, Finding
from collectrace.report.nearby import Places

IF = "`if loss.isfinite():`"


def shown(*paths: str) -> Finding:
    excerpt = tuple(Excerpt(path=path, function="main", lines=()) for path in paths)
    return Finding(
        kind="op_mismatch", severity="error", headline="", cause="", fix="", excerpt=excerpt
    )


@pytest.mark.parametrize(
    ("paths", "text", "brief"),
    [
        (("a/train.py",), f"{IF} (train.py:12) was false.", f"{IF} (line 12) was false."),
        (("train.py",), "all_reduce (train.py:13)", "all_reduce (line 13)"),
        (("train.py",), "at train.py:3, called at model.py:4", "at line 3, called at model.py:4"),
        (("train.py",), "pretrain.py:3, my-train.py:4", "pretrain.py:3, my-train.py:4"),
        (("train.py",), "train.py: 3 calls", "train.py: 3 calls"),
        (("train.py", "model.py"), "at train.py:3", "at train.py:3"),
        (("a/train.py", "b/train.py"), "at train.py:3", "at train.py:3"),
        ((), "at train.py:3", "at train.py:3"),
    ],
)
def test_a_place_in_the_one_file_that_is_shown_is_a_line(
    paths: tuple[str, ...], text: str, brief: str
) -> None:
    assert Places(shown(*paths)).brief(text) == brief


def test_a_statement_is_quoted_once() -> None:
    places = Places(shown("train.py"))
    loop = "`for x in y:` (train.py:9)"
    both = f"{IF} (line 12) or `for x in y:` (line 9)"
    assert places.brief(f"{IF} (train.py:12) or {loop}") == both
    decide = "Decide before the `if` in line 12."
    assert places.brief(f"Decide before {IF} (train.py:12).") == decide
    assert places.brief(f"Give the loop {loop} a length.") == "Give the loop in line 9 a length."


def test_a_statement_of_another_place_is_quoted_again() -> None:
    places = Places(shown("train.py", "model.py"))
    assert places.brief(f"{IF} (train.py:12)") == f"{IF} (train.py:12)"
    assert places.brief(f"{IF} (model.py:12)") == f"{IF} (model.py:12)"
    assert places.brief(f"before {IF} (train.py:12)") == "before the `if` at train.py:12"

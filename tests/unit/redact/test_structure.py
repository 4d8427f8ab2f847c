"""The structure of a program: every statement in its line, and nothing of the user's."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from collectrace.redact import structure
from collectrace.redact.names import Names

ROOT: Final = Path(__file__).parents[3]
FILES: Final = sorted((ROOT / "tests" / "zoo").rglob("*.py"))[::12]


def statements(text: str) -> list[tuple[str, int]]:
    tree = ast.parse(text)
    return [(type(n).__name__, n.lineno) for n in ast.walk(tree) if isinstance(n, ast.stmt)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_statements_stay_in_their_lines(file: Path) -> None:
    text = file.read_text()
    found = structure.of(text, Names())
    assert found is not None
    assert statements(found) == statements(text)


PROGRAM: Final = '''\
"""About zqsecret.

Two lines."""
import zqsecret.models as zqm  # zqsecret
from os import (
    environ,
)

class Zqsecret:
    zq_field: "Zqsecret" = b"zqsecret"

    def zq_run(self, *zq_all, zq_one=f"zqsecret {environ['zqsecret']} {1 + 2}"):
        if environ["RANK"] == "0" and \\
                self.zq_field is not None:
            dist.all_reduce(zq_all[0], async_op=True)
        return """zqsecret
""" rf"zqsecret"
'''


def test_nothing_of_the_user_is_left() -> None:
    names = Names()
    found = structure.of(PROGRAM, names)
    assert found is not None
    assert "zq" not in found.lower()
    assert statements(found) == statements(PROGRAM)
    assert 'environ["RANK"] == "0"' in found
    assert "dist.all_reduce(" in found
    assert "async_op=True" in found
    assert "zqsecret" in names.map().values()


def test_what_is_no_python_has_none() -> None:
    assert structure.of("def f(:\n  'zq", Names()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("    for zq in zqs:", "    for name1 in name2:"), ("  if zq(", "  if name1"),
     ("return zq", "return name1"), ("'zq", " name1")],
)  # fmt: skip
def test_a_line_alone_has_one_as_far_as_it_goes(text: str, expected: str) -> None:
    assert structure.fragment(text, Names()) == expected

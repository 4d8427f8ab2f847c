"""tools/new_cause, in a copy of the folders that it writes to."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from collectrace.align.causes import catalogue, registry
from tests.zoo.case import read
from tools import new_cause

ROWS = "collectrace/align/causes/rows.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ROWS).parent.mkdir(parents=True)
    shutil.copy(new_cause.ROOT / ROWS, tmp_path / ROWS)
    return tmp_path


def test_it_writes_a_module_a_row_two_scripts_and_a_test(root: Path) -> None:
    code = new_cause.next_code("4")
    written = new_cause.create(root, "stale-counter", "4", "loops")
    module, wrong, right, test, table = written
    assert module.name == f"{code.lower()}_stale_counter.py"
    tree = ast.parse(module.read_text())
    assert {one.name for one in tree.body if isinstance(one, ast.FunctionDef)} == {"find", "words"}
    _, sections = catalogue.parts(ast.get_docstring(tree) or "")
    assert tuple(sections) == catalogue.SECTIONS
    assert (wrong.name, right.name) == ("stale_counter.py", "stale_counter_or_not.py")
    assert [one.parent.name for one in (wrong, right)] == ["loops", "loops"]
    assert code in test.read_text()
    codes = re.findall(r'^        "(CT\d+)", "', table.read_text(), re.MULTILINE)
    assert codes.count(code) == 1
    family = [one for one in registry.CAUSES if one.code[2] == "4"]
    assert code > max(one.code for one in family)
    in_use = [one.code for one in family if one.status != "retired"]
    assert codes[codes.index(code) - 1] == max(in_use)


def test_its_scripts_are_cases(root: Path) -> None:
    _, wrong, right, *_ = new_cause.create(root, "stale-counter", "1", "matching")
    assert read(wrong).expect == ("op_mismatch", "missing_call")
    assert read(wrong).has_twin
    assert read(right).expect == ()
    assert not read(right).has_twin


@pytest.mark.parametrize(
    ("name", "said"), [("absent-rank", "there is a cause"), ("Stale Counter", "is no name")]
)
def test_it_refuses_what_is_no_new_name(root: Path, name: str, said: str) -> None:
    before = (root / ROWS).read_text()
    with pytest.raises(ValueError, match=said):
        new_cause.create(root, name, "1", "matching")
    assert (root / ROWS).read_text() == before


def test_codes_of_what_is_not_explained_are_left_alone() -> None:
    assert new_cause.next_code("9") < "CT950"

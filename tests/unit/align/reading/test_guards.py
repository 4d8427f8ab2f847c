"""Guards on the rank before a line, and the same call for the other ranks elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.reading import guards
from tests.support.code import code_of


def program(folder: Path, *lines: str) -> str:
    """The path of a file with such lines."""
    file = folder / "train.py"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


@pytest.mark.parametrize(
    ("guard", "found"),
    [
        ("if rank != 0:", True),
        ("if not is_main_process():", True),
        ("if rank != 0 or not due(step):", True),
        ("if rank != 0 and not self.everywhere:", True),
        ("if rank != 0 and step % 10:", False),
        ("if not batches:", False),
        ("while rank != 0:", False),
    ],
)
def test_what_sends_past_by_the_rank(guard: str, *, found: bool, tmp_path: Path) -> None:
    file = program(tmp_path, "def save():", f"    {guard}", "        return", "    gather()")
    site = f"{file}:4"
    before = guards.before(code_of(file), site, code_of(file).at(site).ways, [])
    assert before == ([f"2 {guard}"] if found else [])
    assert guards.before(code_of(file), f"{file}:9", [f"2 return {guard}"], []) == []


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("if rank == 0:", True),
        ("if not dist.get_rank():", True),
        ("if is_main_process():", True),
        ("if rank != 0:", False),
        ("if rank:", False),
        ("if not batches:", False),
    ],
)
def test_the_same_for_the_others(condition: str, *, found: bool, tmp_path: Path) -> None:
    file = program(
        tmp_path, "if rank != 0:", "    wait()", condition, "    wait()", "def wait():", "    pass"
    )
    site, line = f"{file}:2", "1 if rank != 0:"
    assert guards.has_counterpart(code_of(file), site, {"wait"}, line, is_guard=False) is found
    assert not guards.has_counterpart(code_of(file), site, {"meet"}, line, is_guard=False)
    assert not guards.has_counterpart(code_of(file), site, set(), line, is_guard=False)
    assert not guards.has_counterpart(code_of(file), "/gone.py:2", {"wait"}, line, is_guard=False)


def test_a_guard_in_another_branch_leaves_a_line_to_all_ranks(tmp_path: Path) -> None:
    file = program(
        tmp_path,
        "def execute():",
        "    if delayed:",
        "        if rank == 0:",
        "            return gather()",
        "        return None",
        "    return gather()",
    )
    line = "3 if rank == 0:"
    assert not guards.has_counterpart(code_of(file), f"{file}:4", {"gather"}, line, is_guard=False)


@pytest.mark.parametrize("part", ["-" * 900 + "rank", "not " * 900 + "rank", "x" + ".y" * 900])
def test_a_test_that_is_too_deep_lets_through_nobody_knows_whom(part: str, tmp_path: Path) -> None:
    file = program(tmp_path, "if rank == 0:", "    gather(x)", "else:", "    gather(y)")
    line = f"1 if {part} == 0:"
    assert guards.has_counterpart(code_of(file), f"{file}:2", {"gather"}, line, is_guard=False)
    assert not guards.has_counterpart(code_of(file), f"{file}:2", {"barrier"}, line, is_guard=False)

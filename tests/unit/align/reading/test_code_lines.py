"""What the source of a script tells: ways out of loops, handlers, loops and conditions around."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from collectrace.align.reading import chains, code_lines, statements
from tests.support.code import code_of

SCRIPT = """\
def train(loader):
    for batch in loader:
        try:
            step(batch)
        except (ValueError, OSError):
            continue
        finally:
            close(batch)
        if done:
            break
    for batch in loader:
        step(batch)
        for part in batch:
            break
    while True:
        def helper():
            return 1
        for key in keys:
            work(key)
        if late:
            return
    try:
        try:
            save()
        except OSError:
            note()
        else:
            told()
    except Exception:
        raise
    try:
        flush()
    finally:
        close()
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def numbers(lines: Sequence[str]) -> list[int]:
    return [int(line.partition(" ")[0]) for line in lines]


@pytest.mark.parametrize(("loop", "way_out"), [(2, 10), (13, 14), (15, 21)])
def test_the_first_break_or_return_ends_a_loop(loop: int, way_out: int, script: str) -> None:
    assert code_lines.way_out(code_of(script), script, loop) == way_out


@pytest.mark.parametrize("loop", [11, 18])
def test_a_break_of_a_loop_inside_ends_that_alone(loop: int, script: str) -> None:
    assert code_lines.way_out(code_of(script), script, loop) is None


@pytest.mark.parametrize("line", [1, 3, 400])
def test_what_is_no_loop_has_no_way_out(line: int, script: str) -> None:
    assert code_lines.way_out(code_of(script), script, line) is None


def test_without_the_file_there_is_no_way_out() -> None:
    assert code_lines.way_out(code_of(), "/gone/train.py", 2) is None


def test_the_handlers_of_the_try_around_a_line(script: str) -> None:
    assert code_lines.handlers(code_of(script), f"{script}:4") == [
        "5 except (ValueError, OSError):"
    ]


def test_of_several_the_innermost_comes_first(script: str) -> None:
    assert numbers(code_lines.handlers(code_of(script), f"{script}:24")) == [25, 29]


@pytest.mark.parametrize("line", [6, 8, 12, 32])
def test_handlers_finally_and_what_stands_behind_are_in_no_body(line: int, script: str) -> None:
    assert code_lines.handlers(code_of(script), f"{script}:{line}") == []


@pytest.mark.parametrize("line", [26, 28])
def test_what_only_the_outer_try_would_catch(line: int, script: str) -> None:
    assert numbers(code_lines.handlers(code_of(script), f"{script}:{line}")) == [29]


@pytest.mark.parametrize("site", [None, "", "/gone/train.py:4", "train.py:x"])
def test_without_the_file_there_are_no_handlers(site: str | None) -> None:
    assert code_lines.handlers(code_of(), site) == []


def test_loops_around_a_line_outermost_first(script: str) -> None:
    assert numbers(statements.loops(code_of(script).at(f"{script}:14").statements)) == [11, 13]


def test_a_loop_around_the_function_is_not_around_its_lines(script: str) -> None:
    assert statements.loops(code_of(script).at(f"{script}:17").statements) == []


def test_a_loop_does_not_stand_around_its_own_first_line(script: str) -> None:
    assert statements.loops(code_of(script).at(f"{script}:2").statements) == []


def test_except_is_a_condition_and_try_is_none(script: str) -> None:
    assert numbers(statements.branches(code_of(script).at(f"{script}:6").statements)) == [5]
    assert statements.branches(code_of(script).at(f"{script}:4").statements) == []


def test_a_finally_stands_around_its_lines_and_its_try_does_not(script: str) -> None:
    inside = code_of(script).at(f"{script}:8").statements
    assert inside[-2:] == ["7         finally:", "8             close(batch)"]
    assert statements.branches(inside) == ["7         finally:"]
    assert numbers(code_of(script).at(f"{script}:4").statements) == [1, 2, 3, 4]


def test_an_escape_that_python_does_not_know_is_not_warned_of(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text('for name in names:\n    work(re.sub("\\d", "", name))\n')
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert code_of(script).at(f"{script}:2").statements
    assert warned == []


@pytest.mark.parametrize("number", ["", "²", "1x", "-1", "9" * 5000])
def test_a_damaged_number_of_a_line_is_none(number: str, script: str) -> None:
    assert statements.number_of(f"{number} if done:") == 0
    assert chains.split(f"{script}:{number}") == (script, 0)
    assert code_lines.is_fork(code_of(script), f"{script}:9", f"{number} if done:")
    line = f"12 else of line {number}: if rank == 0:"
    assert statements.goes_back(line, [f"{number} 3 rank = 1"]) is not None


@pytest.mark.parametrize(
    ("behind", "found"),
    [
        (["    return None"], False),
        (["    print(rank)", "    return None"], False),
        (["    return gather()"], True),
        (["    wait()", "    return None"], True),
        (["    rank = 1"], True),
        ([], False),
    ],
)
def test_who_is_not_let_in_has_another_way_where_there_is_something_to_do(
    behind: list[str], *, found: bool, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    lines = ["def save(rank):", "    if rank == 0:", "        return gather()", *behind]
    script.write_text("\n".join([*lines, "gather()", ""]))
    assert code_lines.is_fork(code_of(script), f"{script}:3", "2     if rank == 0:") is found


ARMS = """\
if kind:
    send(one)
else:
    send(two)
if kind:
    send(one)
elif other:
    send(two)
else:
    for part in parts:
        log(part)
    send(three)
if kind:
    send(one)
elif other:
    send(two)
if kind:
    send(one)
else:
    for part in parts:
        send(part)
if kind:
    send(one)
else:
    if other:
        send(two)
    else:
        send(three)
if kind: send(one)
else:
    send(two)
if kind: send(one)
elif other: send(two)
else: log(one)
if kind:
    if other:
        if third: send(one)
        else: send(two)
else:
    send(three)
if send(one): log(one)
else: send(two)
if kind:
    with guard(): log(one)
    send(one)
else:
    send(two)
"""


@pytest.mark.parametrize(
    ("line", "is_called"),
    [
        *((1, True), (5, True), (13, False), (17, False), (22, True), (2, False), (99, False)),
        *((29, True), (32, False), (35, False), (41, False), (43, True)),
    ],
)
def test_what_every_arm_of_a_condition_calls(line: int, is_called: bool, tmp_path: Path) -> None:
    script = tmp_path / "arms.py"
    script.write_text(ARMS)
    text = (ARMS.splitlines()[line - 1 : line] or [""])[0]
    head = f"{line} {text}"
    assert (
        code_lines.is_called_either_way(code_of(script), f"{script}:2", head, {"send"}) is is_called
    )
    assert not code_lines.is_called_either_way(code_of(script), f"{script}:2", head, {"recv"})
    assert not code_lines.is_called_either_way(
        code_of(script), f"{script}:2", f"{line} if changed:", {"send"}
    )


def test_many_branches_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    script = tmp_path / "arms.py"
    branches = "".join(f"elif kind == {n}:\n    send({n})\n" for n in range(400))
    script.write_text(f"if kind == -1:\n    send(0)\n{branches}else:\n    send(0)\n")
    assert code_lines.is_called_either_way(
        code_of(script), f"{script}:2", "1 if kind == -1:", {"send"}
    )

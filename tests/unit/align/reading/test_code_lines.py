"""What the source of a script tells: ways out of loops, handlers, loops and conditions around."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from collectrace.align.reading import code_lines

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


def numbers(lines: list[str]) -> list[int]:
    return [int(line.partition(" ")[0]) for line in lines]


@pytest.mark.parametrize(("loop", "way_out"), [(2, 10), (13, 14), (15, 21)])
def test_the_first_break_or_return_ends_a_loop(loop: int, way_out: int, script: str) -> None:
    assert code_lines.way_out(script, loop) == way_out


@pytest.mark.parametrize("loop", [11, 18])
def test_a_break_of_a_loop_inside_ends_that_alone(loop: int, script: str) -> None:
    assert code_lines.way_out(script, loop) is None


@pytest.mark.parametrize("line", [1, 3, 400])
def test_what_is_no_loop_has_no_way_out(line: int, script: str) -> None:
    assert code_lines.way_out(script, line) is None


def test_without_the_file_there_is_no_way_out() -> None:
    assert code_lines.way_out("/gone/train.py", 2) is None


def test_the_handlers_of_the_try_around_a_line(script: str) -> None:
    assert code_lines.handlers(f"{script}:4") == ["5 except (ValueError, OSError):"]


def test_of_several_the_innermost_comes_first(script: str) -> None:
    assert numbers(code_lines.handlers(f"{script}:24")) == [25, 29]


@pytest.mark.parametrize("line", [6, 8, 12, 32])
def test_handlers_finally_and_what_stands_behind_are_in_no_body(line: int, script: str) -> None:
    assert code_lines.handlers(f"{script}:{line}") == []


@pytest.mark.parametrize("line", [26, 28])
def test_what_only_the_outer_try_would_catch(line: int, script: str) -> None:
    assert numbers(code_lines.handlers(f"{script}:{line}")) == [29]


@pytest.mark.parametrize("site", [None, "", "/gone/train.py:4", "train.py:x"])
def test_without_the_file_there_are_no_handlers(site: str | None) -> None:
    assert code_lines.handlers(site) == []


def test_loops_around_a_line_outermost_first(script: str) -> None:
    assert numbers(code_lines.loops(code_lines.enclosing(f"{script}:14"))) == [11, 13]


def test_a_loop_around_the_function_is_not_around_its_lines(script: str) -> None:
    assert code_lines.loops(code_lines.enclosing(f"{script}:17")) == []


def test_a_loop_does_not_stand_around_its_own_first_line(script: str) -> None:
    assert code_lines.loops(code_lines.enclosing(f"{script}:2")) == []


def test_conditions_with_except_and_finally_as_they_were_recorded() -> None:
    recorded = [
        "2 for batch in loader:",
        "3     with session:",
        "4         try:",
        "6         finally:",
        "7             if last:",
        "8                 dist.barrier()",
    ]
    assert numbers(code_lines.branches(recorded)) == [6, 7]
    assert [code_lines.asks(line) for line in code_lines.branches(recorded)] == ["cleanup", ""]


def test_the_line_itself_is_no_condition_around_it() -> None:
    assert code_lines.branches(["2 if dist.get_rank() == 0:"]) == []


def test_except_is_a_condition_and_try_is_none(script: str) -> None:
    assert numbers(code_lines.branches(code_lines.enclosing(f"{script}:6"))) == [5]
    assert code_lines.branches(code_lines.enclosing(f"{script}:4")) == []


def test_a_finally_stands_around_its_lines_and_its_try_does_not(script: str) -> None:
    inside = code_lines.enclosing(f"{script}:8")
    assert inside[-2:] == ["7         finally:", "8             close(batch)"]
    assert code_lines.branches(inside) == ["7         finally:"]
    assert numbers(code_lines.enclosing(f"{script}:4")) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("12 if ok:  # rank 1 skips it", "if ok:"),
        ("12 if tag == '#rank':", "if tag == '#rank':"),
        ("12 if tag == 'it\\'s #1':  # rank", "if tag == 'it\\'s #1':"),
        ('12 x["#"] = 1', 'x["#"] = 1'),
        ("12 # rank", ""),
    ],
)
def test_a_comment_is_no_part_of_a_statement(line: str, text: str) -> None:
    assert code_lines.statement(line) == text


@pytest.mark.parametrize(
    "text",
    [
        "if rank == 0:",
        "if rank == 0:  # the others wait",
        "elif dist.get_rank() == 0 and step % 5 == 0:",
        "if args.local_rank in (-1, 0):",
        "if self.is_main_process:",
        "if rank is None or rank == 0:",
    ],
)
def test_a_condition_that_asks_who_one_is(text: str) -> None:
    assert code_lines.tells_ranks_apart(f"12 {text}")


@pytest.mark.parametrize(
    "text",
    [
        "if loss.isfinite():  # rank 1 skips it",
        "if args.local_rank != -1:",
        "if args.local_rank > -1 and args.sync:",
        "if rank is not None:",
        "if get_rank() >= 0:",
        "if int(env['RANK']) >= 0:",
        "if lora_rank == 8:",
        "for rank in ranks:",
    ],
)
def test_a_condition_that_every_rank_answers_alike(text: str) -> None:
    assert not code_lines.tells_ranks_apart(f"12 {text}")


def test_an_escape_that_python_does_not_know_is_not_warned_of(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text('for name in names:\n    work(re.sub("\\d", "", name))\n')
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert code_lines.enclosing(f"{script}:2")
    assert warned == []


@pytest.mark.parametrize("number", ["", "²", "1x", "-1", "9" * 5000])
def test_a_damaged_number_of_a_line_is_none(number: str, script: str) -> None:
    assert code_lines.number_of(f"{number} if done:") == 0
    assert code_lines.split(f"{script}:{number}") == (script, 0)
    assert code_lines.is_fork(f"{script}:9", f"{number} if done:")
    line = f"12 else of line {number}: if rank == 0:"
    assert code_lines.goes_back(line, [f"{number} 3 rank = 1"]) is not None

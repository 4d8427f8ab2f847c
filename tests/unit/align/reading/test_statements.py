"""What is asked of the statements around a line: conditions, and what they look at."""

from __future__ import annotations

import pytest

from collectrace.align.reading import statements


def test_conditions_with_except_and_finally_as_they_were_recorded() -> None:
    recorded = [
        "2 for batch in loader:",
        "3     with session:",
        "4         try:",
        "6         finally:",
        "7             if last:",
        "8                 dist.barrier()",
    ]
    found = statements.branches(recorded)
    assert [statements.number_of(line) for line in found] == [6, 7]
    assert [statements.asks(line) for line in found] == ["cleanup", ""]


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("3 for _ in range(2):", True),
        ("3 for step in range(1, STEPS):", True),
        ("3 for step in range(BUDGET):", False),
        ("3 while True:", True),
        ("3 for _ in range(count):", False),
        ("3 for _ in range(len(STEPS)):", False),
        ("3 for batch in loader:", False),
        ("3 while left:", False),
    ],
)
def test_loops_that_go_so_often_whatever_comes(line: str, fixed: bool) -> None:
    assert statements.is_of_fixed_length(line, {"STEPS"}) is fixed


def test_the_line_itself_is_no_condition_around_it() -> None:
    assert statements.branches(["2 if dist.get_rank() == 0:"]) == []


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
    assert statements.code_of(line) == text


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
    assert statements.tells_ranks_apart(f"12 {text}")


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
    assert not statements.tells_ranks_apart(f"12 {text}")

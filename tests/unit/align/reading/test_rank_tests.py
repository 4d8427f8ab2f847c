"""Conditions that ask for the rank: whether for that alone, and by which names."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.reading import code_lines, guards, rank_tests
from tests.support.code import code_of


@pytest.mark.parametrize(
    ("line", "alone"),
    [
        ("3 if rank == 0:", True),
        ("3 elif self.rank != MASTER:", True),
        ("3 if not is_main_process():", True),
        ("5 else of line 3: if dist.get_rank() == 0:", True),
        ("3 done = lead() if rank == 0 else work()", True),
        ("3 if rank in (0, 4) or local_rank % 8 == 0:", True),
        ("3 if rank != world_size - 1:", True),
        ("3 if rank == dist.get_world_size() - 1:", True),
        ("3 if rank == count - 1:", False),
        ("3 if rank < count:", False),
        ("3 if not main:", False),
        ("3 if owner(rank) == 0:", False),
        ("3 if rank == 0 and (:", False),
        ("3 if rank in guests:", False),
        ("3 if rank == 0 and ready:", False),
        ("3 done = work() if rank == 0 and ready else 0", False),
        ("3 done = work() if rank < count else 0", False),
        ("3 except ValueError:", False),
    ],
)
def test_conditions_that_have_one_outcome_on_a_rank(line: str, alone: bool) -> None:
    assert rank_tests.asks_alone(line) is alone


@pytest.mark.parametrize(
    ("line", "is_guard", "found"),
    [
        ("3 if rank == 0 and len(batches):", False, True),
        ("3 if rank == 0 or len(batches):", False, False),
        ("3 if rank == 0 or everywhere:", False, True),
        ("3 if rank != 0 and not len(batches):", True, False),
        ("3 if rank != 0 or not len(batches):", True, True),
        ("3 if rank != 0 and not self.everywhere:", True, True),
        ("3 if rank == 0 and (:", False, False),
    ],
)
def test_who_comes_through_by_the_rank(line: str, *, is_guard: bool, found: bool) -> None:
    assert rank_tests.lets_by_rank(line, is_guard=is_guard) is found


PROGRAM = """\
first = os.environ["RANK"] == "0"
class Run:
    def __init__(self):
        self.writer = dist.get_rank() == 0
        self.state, self.often = 0, 3
        self.best, self.lead = 0.0, self.rank == 0
        self.picked = table[rank]
    def step(self, n):
        main = self.rank == 0
        chief = main and n > 3
        twice = rank == 0
        twice = twice and n
        {condition}:
            pass
        for twice in pairs:
            self.often = n
class Other:
    writer_of = writer = False
def between():
    self.state = 1
"""


@pytest.mark.parametrize(
    ("condition", "spelled"),
    [
        ("if main", "if self.rank == 0"),
        ("if not main and n % 5 == 0", "if not self.rank == 0 and n % 5 == 0"),
        ("if chief", "if self.rank == 0 and n > 3"),
        ("if first", "if os.environ['RANK'] == '0'"),
        ("if self.lead", "if self.rank == 0"),
        ("if self.writer", None),
        ("if self.often", None),
        ("if self.picked", None),
        ("if twice", None),
        ("if n", None),
        ("if rank == 0", None),
        ("while main", None),
    ],
)
def test_the_rank_by_another_name(condition: str, spelled: str | None, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM.replace("{condition}", condition))
    site, line = f"{file}:14", f"13 {condition}:"
    code = code_of(file)
    found = rank_tests.spelled_out(line, code.at(site).given, code_lines.bindings(code, site))
    assert found == (f"13 {spelled}:" if spelled else line)


def test_a_guard_asks_by_another_name(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "def save():\n"
        "    main = rank == 0\n"
        "    if not main:\n"
        "        return\n"
        "    gather()\n"
        "def others():\n"
        "    helps = rank != 0\n"
        "    if helps:\n"
        "        gather()\n"
    )
    code, site = code_of(file), f"{file}:5"
    line = code.at(site)
    assert guards.before(code, site, line.ways, line.given) == ["3 if not main:"]
    assert list(guards.let_to(code, site)) == [(True, "0")]
    assert list(guards.let_to(code, f"{file}:9")) == [(False, "0")]


@pytest.mark.parametrize(
    ("line", "rank", "is_guard", "found"),
    [
        ("3 if self.main:", 1, False, True),
        ("3 if self.main:", 0, False, False),
        ("3 if not self.main:", 0, False, True),
        ("3 if self.main and n % 5 == 0:", 1, False, True),
        ("3 if self.main or ready:", 1, False, False),
        ("5 else of line 3: if self.main:", 0, False, True),
        ("5 else of line 3: if self.main:", 1, False, False),
        ("3 if rank != 0:", 1, True, True),
        ("3 if rank != 0:", 0, True, False),
        ("3 if dist.get_rank() < 2:", 2, False, True),
        ("3 if local_rank == 0:", 8, False, False),
        ("3 if rank in (0, 4):", 1, False, False),
        ("3 if is_main_process():", 1, False, False),
        ("3 while rank == 0:", 1, False, False),
    ],
)
def test_who_could_not_be_under_a_condition(
    line: str, rank: int, *, is_guard: bool, found: bool
) -> None:
    assigned = ["3 1 self.main = rank == 0", "4 2 self.main = rank == 1"]
    assert rank_tests.keeps_out(line, assigned, rank, is_guard=is_guard) is found


def test_what_is_set_by_its_name_is_given(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "class Job:\n"
        "    def __init__(self):\n"
        "        self.main = rank == 0\n"
        "        self.lead = rank == 0\n"
        "        setattr(self, 'main', name)\n"
    )
    found = code_lines.bindings(code_of(file), f"{file}:3")
    assert not found.is_given_once("self.main", 3)
    assert found.is_given_once("self.lead", 4)


# -- functions that answer for the rank ----------------------------------------------------------

FUNCTIONS = """\
def is_writer(): return dist.get_rank() == 0
def is_first(rank): return rank == 0
def is_busy():
    check()
    return dist.get_rank() == 0
@agreed
def wants(): return dist.get_rank() == 0
class Table(Callback):
    @staticmethod
    def writes(args): return args.process_index == args.world_size - 1
    def rank_of_adapter(self): return self.rank > 0
    def step(self):
        if CONDITION:
            share()
class Other:
    def is_other(self): return dist.get_rank() == 1
"""


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("is_writer()", "1 return dist.get_rank() == 0"),
        ("ready and not is_writer()", "1 return dist.get_rank() == 0"),
        ("self.writes(args)", "10 return args.process_index == args.world_size - 1"),
        # Not of the process, but of what it is asked about, or whose it is.
        ("is_first(owner)", ""),
        ("self.rank_of_adapter()", ""),
        # Of another object, whose class may have such a method as well.
        ("self.scaler.writes()", ""),
        ("table.is_writer()", ""),
        ("self.is_other()", ""),
        # It does more, or what decorates it may answer otherwise.
        ("is_busy()", ""),
        ("wants()", ""),
        ("unknown()", ""),
    ],
)
def test_a_function_that_answers_for_the_rank(condition: str, answer: str, tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(FUNCTIONS.replace("CONDITION", condition))
    number = 1 + FUNCTIONS.splitlines().index("        if CONDITION:")
    bindings = code_lines.bindings(code_of(train), f"{train}:{number}")
    line = f"{number} if {condition}:"
    assert rank_tests.answered_by(line, bindings) == answer
    assert (rank_tests.spelled_out(line, [], bindings) != line) == bool(answer)

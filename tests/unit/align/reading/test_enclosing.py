"""The statements around a line of a text, and where a text is not what ran."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Final

import pytest

from collectrace.align.reading import spans
from tests.support.code import code_of

PROGRAM: Final = """\
import torch.distributed as dist

class Trainer:
    @property
    @torch.no_grad()
    def step(self, batch):
        if dist.get_rank() == 0:
            for name in names:
                dist.broadcast(name)
        elif self.last:
            dist.all_reduce(
                batch,
            )
        else:
            while True:
                self.log(
                    dist.get_world_size(),
                    dist.barrier(),
                )
        try:
            with self.lock, \\
                    self.other:
                reduce(batch)
        except (ValueError,
                KeyError):
            reduce(1)
        except OSError:
            reduce(2)
        else:
            elsewhere = reduce(3)
        finally:
            # else: nothing
            reduce(4)
        for _ in range(3):
            pass
        else:
            reduce(5)
        match batch:
            case [one]:
                reduce(6)
            case {"two": 2}:
                reduce(7)
        if one: reduce(8)
        else: reduce(9)

        def inner():
            async def deep():
                async with self.lock:
                    async for x in y:
                        reduce(10)
        return inner

if __name__ == "__main__":
    main()
"""


def around(path: Path, *numbers: int) -> list[list[str]]:
    """What the file holds, without what is told of an ``else``: that is the affair of ``arms``."""
    text = path.read_text()
    enclosing, lines = spans.of(text).enclosing, spans.lines(text)
    return [[f"{n} {lines[n - 1].rstrip()}" for n in enclosing.heads(one)] for one in numbers]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def number(text: str) -> int:
    return next(n for n, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


def shown(path: Path, text: str) -> list[str]:
    """The enclosing lines, without their numbers and those of the class and method."""
    [lines] = around(path, number(text))
    told = PROGRAM.splitlines()
    for one in lines:
        head, _, rest = one.partition(" ")
        assert told[int(head) - 1] == rest, "as it stands there"
    stripped = [one.partition(" ")[2].strip() for one in lines]
    assert stripped[0] == "class Trainer:"
    assert stripped[1] == "def step(self, batch):"
    return stripped[2:]


@pytest.mark.parametrize(
    ("text", "heads"),
    [
        ("broadcast(name)", ["if dist.get_rank() == 0:", "for name in names:"]),
        ("all_reduce(", ["if dist.get_rank() == 0:", "elif self.last:"]),
        ("barrier()", ["if dist.get_rank() == 0:", "elif self.last:", "else:", "while True:",
                       "self.log("]),
        ("reduce(batch)", ["try:", "with self.lock, \\"]),
        ("reduce(1)", ["try:", "except (ValueError,"]),
        ("reduce(2)", ["try:", "except OSError:"]),
        ("reduce(3)", ["try:", "else:"]),
        ("reduce(4)", ["try:", "finally:"]),
        ("reduce(5)", ["for _ in range(3):", "else:"]),
        ("reduce(6)", ["match batch:", "case [one]:"]),
        ("reduce(7)", ["match batch:", 'case {"two": 2}:']),
        ("reduce(8)", []),
        ("reduce(9)", ["if one: reduce(8)"]),
        ("reduce(10)", ["def inner():", "async def deep():", "async with self.lock:",
                        "async for x in y:"]),
    ],
)  # fmt: skip
def test_the_statements_around_a_line(mine: Path, text: str, heads: list[str]) -> None:
    told = PROGRAM.splitlines()[number(text) - 1].strip()
    assert shown(mine, text) == [*heads, told]


def test_a_line_of_no_statement_but_its_own(mine: Path) -> None:
    assert around(mine, 1, number("main()")) == [
        ["1 import torch.distributed as dist"],
        [f'{number("__main__")} if __name__ == "__main__":', f"{number('main()')}     main()"],
    ]


def test_long_lines_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(f"if {'x' * 500}:\n    reduce({'y' * 500})\n")
    outer, inner = code_of(path).at(f"{path}:2").statements
    assert outer == "1 if " + "x" * 197
    assert inner == "2     reduce(" + "y" * 189


@pytest.mark.parametrize(
    "content", ["", "def f(:\n", "x = '\0'\n", "(" * 1000, "if x:\n  y\n zz\n"]
)
def test_of_what_is_not_python_a_line_is_known_at_most(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.py"
    path.write_text(content)
    for number, text in enumerate((*content.splitlines(), "beyond"), 1):
        known = code_of(path).at(f"{path}:{number}")
        assert list(known.statements) == ([f"{number} {text[:200]}"] if text != "beyond" else [])
        assert not known.ways
        assert not known.given


def test_where_a_function_begins() -> None:
    enclosing = spans.of(PROGRAM).enclosing
    method = number("@property")
    assert enclosing.defines("step", method)
    assert not enclosing.defines("step", method + 1)
    assert not enclosing.defines("stop", method)
    assert enclosing.defines("<lambda>", number("reduce(4)"))
    assert enclosing.defines("torch_dynamo_resume_in_step_at_5", 3)
    assert spans.of("def f(:\n").enclosing.defines("f", 1), "what cannot be parsed proves nothing"


def test_compilers_warnings_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text('if re.match("\\d", x):\n    reduce()\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert around(path, 2) == [['1 if re.match("\\d", x):', "2     reduce()"]]


def test_what_may_lead_past_a_line_is_told_where_something_does(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "def load(path):\n"
        "    first(path)\n"
        "    if not path.exists():  # nothing there\n"
        "        return None\n"
        "    reduce(path)\n"
    )
    code = code_of(path)
    assert [list(code.at(f"{path}:{n}").ways) for n in (2, 5)] == [
        [], ["3 return if not path.exists():  # nothing there"],
    ]  # fmt: skip


def test_the_assignments_behind_conditions_around_and_past_a_line(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "def save(limit):\n"
        "    late = now() > limit\n"
        "    if late:\n"
        "        return\n"
        "    first = rank() == 0\n"
        "    if first:\n"
        "        reduce(1)\n"
        "reduce(2)\n"
    )
    code = code_of(path)
    assert [list(code.at(f"{path}:{n}").given) for n in (7, 8)] == [
        ["6 5 first = rank() == 0", "3 2 late = now() > limit"], [],
    ]  # fmt: skip

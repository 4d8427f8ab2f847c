"""Source lines: which statements a line is inside of, and where there is no source to show."""

from __future__ import annotations

import linecache
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from collectrace import source_text
from collectrace.records import Source
from collectrace.tracer.record import source_files, sources
from collectrace.tracer.record.sites import UserLine
from collectrace.tracer.record.sources import Sources

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


def line(path: Path | str, number: int, name: str = "<module>", first: int = 1) -> UserLine:
    return UserLine(f"{path}:{number}", name, name, first)


def taken(asked: Sources) -> list[Source]:
    """The records of lines."""
    return [record for record in asked.take(60) if isinstance(record, Source)]


def around(path: Path | str, *numbers: int) -> list[list[str]]:
    asked = Sources()
    asked.ask([line(path, number) for number in numbers])
    found = {source.site: source.lines for source in taken(asked)}
    return [found.get(f"{path}:{number}", []) for number in numbers]


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
    [[outer, inner]] = around(path, 2)
    assert outer == "1 if " + "x" * 197
    assert inner == "2     reduce(" + "y" * 189


# -- where there is none ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["<stdin>", "<string>", "/nowhere/train.py"])
def test_no_file_no_source(name: str) -> None:
    assert around(name, 1) == [[]]


def test_a_cell_that_linecache_knows_has_source(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/tmp/ipykernel_7/99.py"
    text = "if rank == 0:\n    dist.barrier()\n"
    known = (len(text), None, text.splitlines(keepends=True), name)
    monkeypatch.setitem(linecache.cache, name, known)
    assert around(name, 2) == [["1 if rank == 0:", "2     dist.barrier()"]]
    monkeypatch.setitem(linecache.cache, "<stdin>", known)
    assert around("<stdin>", 2) == [[]]


@pytest.mark.parametrize(
    "content",
    [b"", b"def f(:\n", b"x = '\0'\n", b"# coding: utf-8\nx = '\xff'\n", b"(" * 1000,
     b"if x:\n  y\n zz\n"],
)  # fmt: skip
def test_what_is_not_python_has_no_source(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    assert around(path, 1, 2) == [[], []]


def test_a_large_file_is_not_read(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.write_text(PROGRAM + "#" * source_text.MOST_BYTES)
    assert around(mine, 1) == [[]]


@pytest.mark.timeout(20)
def test_nothing_but_files_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(pipe := tmp_path / "pipe.py")
    assert around(pipe, 1) == [[]]
    assert around("/dev/zero", 1) == [[]]
    # A cell may bear such a name.
    known = (5, None, ["if x:\n", "    reduce()\n"], str(pipe))
    monkeypatch.setitem(linecache.cache, str(pipe), known)
    assert around(pipe, 2) == [["1 if x:", "2     reduce()"]]


def test_linecache_is_not_asked_to_do_anything(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stat the file, and call the loader of the module that a name was noted for."""
    called: list[str] = []
    for name in ("getlines", "getline", "updatecache", "checkcache", "lazycache"):
        monkeypatch.setattr(linecache, name, lambda *_, name=name: called.append(name))
    monkeypatch.setitem(linecache.cache, str(mine), (lambda: called.append("loader"),))
    assert around(mine, number("__main__") + 1) == [
        [f'{number("__main__")} if __name__ == "__main__":', f"{number('main()')}     main()"]
    ]
    for odd in (None, (1, None, ["x\n", 3], "x"), (1, None, "text", "x"), (1,)):
        monkeypatch.setitem(linecache.cache, "<cell>", odd)
        assert around("<cell>", 1) == [[]]
    assert called == []


def test_a_file_that_is_gone_is_known_as_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(tmp_path / "gone.py")
    monkeypatch.setitem(linecache.cache, name, (9, 1.0, ["reduce()\n"], name))
    assert around(name, 1) == [["1 reduce()"]]


def test_a_file_that_was_edited_since_is_not_believed(mine: Path) -> None:
    asked = Sources()
    method = number("@property")
    asked.ask([
        line(mine, number("reduce(1)"), "step", method),
        line(mine, number("reduce(2)"), "step", method + 1),
        line(mine, number("reduce(3)"), "stop", method),
        line(mine, number("reduce(4)"), "<lambda>", number("reduce(4)")),
        line(mine, number("reduce(5)"), "torch_dynamo_resume_in_step_at_5", 3),
    ])  # fmt: skip
    found = [source.site for source in taken(asked)]
    assert found == [f"{mine}:{number(f'reduce({n})')}" for n in (1, 4, 5)]


def test_a_line_beyond_the_end_is_left_out(mine: Path) -> None:
    asked = Sources()
    asked.ask([line(mine, 10_000)])
    assert taken(asked) == []


# -- without notice --------------------------------------------------------------------------


def test_nothing_is_read_before_it_is_taken(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "read", None)
    Sources().ask([line(mine, 1)])


def test_each_file_is_parsed_once(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = source_files.read

    def counted(path: str) -> source_files.ReadFile | None:
        read.append(path)
        return real(path)

    monkeypatch.setattr(sources, "read", counted)
    asked = Sources()
    for numbers in ([1, 7], [8], [7, 9]):
        asked.ask([line(mine, number) for number in numbers])
        taken(asked)
    assert read == [str(mine)]
    assert [source.site for source in taken(asked)] == [], "each line once"


def test_compilers_warnings_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    text = r'''
import re
if re.match("\d\.\s", r"\d") and "\\d" != '\'\d' and f"{x!r}\d\N{EM DASH}":
    b"\d", """
\d""", "a\
b\c"
    reduce()
'''
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [lines] = around(path, 7)
    assert lines[0].startswith("3 if re.match(")
    assert lines[-1] == "7     reduce()"
    assert len(lines) == 2


def bounded(most: int, paths: Sequence[Path], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sources, "_MOST_FILES", most)
    asked = Sources()
    for path in paths:
        path.write_text("reduce()\n")
        asked.ask([line(path, 1)])
    return len(taken(asked))


def test_files_without_end_fill_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bounded(3, [tmp_path / f"{n}.py" for n in range(9)], monkeypatch) == 3
    monkeypatch.setattr(sources, "_MOST_SITES", 5)
    assert bounded(100, [tmp_path / f"{n}.py" for n in range(9)], monkeypatch) == 5


def test_what_may_lead_past_a_line_is_told_where_something_does(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "def load(path):\n"
        "    first(path)\n"
        "    if not path.exists():  # nothing there\n"
        "        return None\n"
        "    reduce(path)\n"
    )
    asked = Sources()
    asked.ask([line(path, number, "load") for number in (2, 5)])
    assert [source.ways for source in taken(asked)] == [
        None, ["3 return if not path.exists():  # nothing there"],
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
    asked = Sources()
    asked.ask([line(path, 7, "save"), line(path, 8)])
    assert [source.given for source in taken(asked)] == [
        ["6 5 first = rank() == 0", "3 2 late = now() > limit"], None,
    ]  # fmt: skip

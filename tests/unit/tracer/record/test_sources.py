"""Lines of the program, each by itself, and where there is none to show."""

from __future__ import annotations

import linecache
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from collectrace import source_text
from collectrace.config import LINES
from collectrace.records import Source
from collectrace.tracer.record import source_files, sources
from collectrace.tracer.record.sources import Sources

PROGRAM: Final = "import torch\n\nif first:\n    reduce()\n"


def line(path: Path | str, number: int) -> str:
    return f"{path}:{number}"


def taken(asked: Sources) -> list[Source]:
    """The records of lines."""
    return [record for record in asked.take(60) if isinstance(record, Source)]


def around(path: Path | str, *numbers: int) -> list[list[str]]:
    asked = Sources(LINES)
    asked.ask([line(path, number) for number in numbers])
    found = {source.site: source.lines for source in taken(asked)}
    return [found.get(f"{path}:{number}", []) for number in numbers]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


# -- where there is none ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["<stdin>", "<string>", "/nowhere/train.py"])
def test_no_file_no_source(name: str) -> None:
    assert around(name, 1) == [[]]


def test_a_frame_at_line_0_has_no_source(mine: Path) -> None:
    assert around(mine, 0, 1) == [[], ["1 import torch"]]
    asked = Sources()  # of a whole file, it is the first one that is read
    asked.ask([line(mine, 0)])
    assert taken(asked) == []


def test_a_cell_that_linecache_knows_has_source(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/tmp/ipykernel_7/99.py"
    text = "if rank == 0:\n    dist.barrier()\n"
    known = (len(text), None, text.splitlines(keepends=True), name)
    monkeypatch.setitem(linecache.cache, name, known)
    assert around(name, 2) == [["2     dist.barrier()"]]
    monkeypatch.setitem(linecache.cache, "<stdin>", known)
    assert around("<stdin>", 2) == [[]]


def test_what_is_no_text_has_no_source(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: utf-8\nx = '\xff'\n")
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
    assert around(pipe, 2) == [["2     reduce()"]]


def test_linecache_is_not_asked_to_do_anything(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stat the file, and call the loader of the module that a name was noted for."""
    called: list[str] = []
    for name in ("getlines", "getline", "updatecache", "checkcache", "lazycache"):
        monkeypatch.setattr(linecache, name, lambda *_, name=name: called.append(name))
    monkeypatch.setitem(linecache.cache, str(mine), (lambda: called.append("loader"),))
    assert around(mine, 4) == [["4     reduce()"]]
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


def test_a_line_beyond_the_end_is_left_out(mine: Path) -> None:
    asked = Sources(LINES)
    asked.ask([line(mine, 10_000)])
    assert taken(asked) == []


# -- without notice --------------------------------------------------------------------------


def test_nothing_is_read_before_it_is_taken(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "read", None)
    Sources().ask([line(mine, 1)])


def test_each_file_is_read_once(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = source_files.read

    def counted(path: str) -> source_files.ReadFile | None:
        read.append(path)
        return real(path)

    monkeypatch.setattr(sources, "read", counted)
    asked = Sources(LINES)
    for numbers in ([1, 2], [3], [2, 4]):
        asked.ask([line(mine, number) for number in numbers])
        taken(asked)
    assert read == [str(mine)]
    assert [source.site for source in taken(asked)] == [], "each line once"


def bounded(most: int, paths: Sequence[Path], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sources, "_MOST_FILES", most)
    asked = Sources(LINES)
    for path in paths:
        path.write_text("reduce()\n")
        asked.ask([line(path, 1)])
    return len(taken(asked))


def test_files_without_end_fill_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bounded(3, [tmp_path / f"{n}.py" for n in range(9)], monkeypatch) == 3
    monkeypatch.setattr(sources, "_MOST_SITES", 5)
    assert bounded(100, [tmp_path / f"{n}.py" for n in range(9)], monkeypatch) == 5

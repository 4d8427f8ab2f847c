"""Texts of the program: each is read once, and lies once in the run's folder."""

from __future__ import annotations

import hashlib
import linecache
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectrace import source_text
from collectrace.config import LINES
from collectrace.records import Source, SourceFile
from collectrace.tracer.record import source_files, sources
from collectrace.tracer.record.source_files import Texts, read
from collectrace.tracer.record.sources import Sources

TEXT = b"# train\r\nif first:\r\n    reduce()\r\n"
SHA = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(TEXT)
    return path


def line(path: Path | str, number: int) -> str:
    return f"{path}:{number}"


def written(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "sources").glob("*"))


# -- reading --------------------------------------------------------------------------------


def test_a_file_is_known_by_its_bytes(mine: Path) -> None:
    file = read(str(mine))
    assert file is not None
    assert (file.data, file.sha256) == (TEXT, SHA)
    assert file.text == TEXT.decode().replace("\r\n", "\n")


def test_a_cell_is_known_by_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    name, text = "/tmp/ipykernel_7/99.py", "x = 'é'\n"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, [text], name))
    file = read(name)
    assert file is not None
    assert (file.data, file.text) == (text.encode(), text)
    assert file.sha256 == hashlib.sha256(text.encode()).hexdigest()


# -- records --------------------------------------------------------------------------------


def test_each_file_has_one_record(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_bytes(b"def f(:\n")
    asked = Sources()
    asked.ask([line(mine, 3), line(mine, 2), line(tmp_path / "odd.py", 1), line("/nowhere.py", 1)])
    odd = hashlib.sha256(b"def f(:\n").hexdigest()
    assert list(asked.take(60)) == [
        SourceFile(path=str(mine), sha256=SHA, size=len(TEXT)),
        SourceFile(path=str(tmp_path / "odd.py"), sha256=odd, size=8),
    ]


def test_lines_alone_are_not_parsed(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_bytes(b"def f(:\n    reduce()\n")
    asked = Sources(LINES)
    asked.ask([line(mine, 3), line(tmp_path / "odd.py", 2), line(mine, 9)])
    found = list(asked.take(60))
    assert [record.lines for record in found if isinstance(record, Source)] == [
        ["3     reduce()"], ["2     reduce()"],
    ]  # fmt: skip
    assert [record.path for record in found if isinstance(record, SourceFile)] == [
        str(mine), str(tmp_path / "odd.py"),
    ]  # fmt: skip
    asked.texts.write(tmp_path, 1 << 62, at_once=True)
    assert not (tmp_path / "sources").exists()


def test_files_of_libraries_are_recorded_up_to_a_size(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_MOST_OF_LIBRARIES", 30)
    for name, size in ("small", 20), ("large", 11), ("smaller", 10):
        (tmp_path / f"{name}.py").write_bytes(b"#" * size)
    asked = Sources()
    asked.ask([line(mine, 3)])
    asked.ask_library([line(tmp_path / f"{name}.py", 1) for name in ("small", "large", "smaller")])
    found = [record for record in asked.take(60) if isinstance(record, SourceFile)]
    assert [Path(record.path).stem for record in found] == [
        mine.stem, "small", "large", "smaller"
    ]  # fmt: skip
    asked.texts.write(tmp_path, 1 << 62, at_once=True)
    assert len(written(tmp_path)) == 3


def test_lines_of_libraries_are_not_recorded_by_themselves(mine: Path) -> None:
    asked = Sources(LINES)
    asked.ask_library([line(mine, 3)])
    assert list(asked.take(60)) == []


def test_news_comes_with_each_new_line_and_never_twice(mine: Path) -> None:
    news: list[None] = []
    asked = Sources(LINES, news=lambda: news.append(None))
    asked.ask([line(mine, 3), line(mine, 2)])
    assert len(news) == 1
    asked.ask([line(mine, 3)])
    assert len(news) == 1
    asked.ask([line(mine, 1)])
    assert len(news) == 2


def test_what_takes_too_long_is_left_for_the_next_time(mine: Path) -> None:
    asked = Sources()
    asked.ask([line(mine, 3)])
    assert list(asked.take(0)) == []
    assert len(list(asked.take(60))) == 1


# -- writing --------------------------------------------------------------------------------


def texts(mine: Path, patience: int = 0) -> Texts:
    found = Texts(patience)
    file = read(str(mine))
    assert file is not None
    found.add(str(mine), file, now=100)
    return found


def test_a_rank_waits_for_another_to_write(mine: Path, tmp_path: Path) -> None:
    waits = texts(mine, patience=50)
    waits.write(tmp_path, 149, at_once=False)
    assert written(tmp_path) == []
    waits.write(tmp_path, 150, at_once=False)
    assert written(tmp_path) == [f"{SHA}.py"]


def test_what_is_there_is_not_written_again(mine: Path, tmp_path: Path) -> None:
    texts(mine).write(tmp_path, 100, at_once=True)
    path = tmp_path / "sources" / f"{SHA}.py"
    before = path.stat()
    texts(mine).write(tmp_path, 100, at_once=True)
    assert path.stat().st_ino == before.st_ino


def test_a_text_leaves_room_for_the_record(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = texts(mine, patience=50)
    with monkeypatch.context() as full:
        full.setattr(source_files, "RESERVE", 1 << 60)
        waits.write(tmp_path, 200, at_once=True)
        assert not (tmp_path / "sources").exists()
    waits.write(tmp_path, 250, at_once=False)
    assert written(tmp_path) == [f"{SHA}.py"]


def test_what_cannot_be_written_is_tried_again(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "sources").write_text("in the way")
    tries = texts(mine, patience=50)
    tries.write(tmp_path, 200, at_once=True)
    (tmp_path / "sources").unlink()
    tries.write(tmp_path, 210, at_once=False)
    assert written(tmp_path) == []
    tries.write(tmp_path, 250, at_once=False)
    assert written(tmp_path) == [f"{SHA}.py"]


def test_texts_beyond_what_is_held_are_read_again(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_files, "_MOST_HELD", len(TEXT))
    other, changed = tmp_path / "other.py", tmp_path / "changed.py"
    found = texts(mine)
    for path in (other, changed):
        path.write_text(f"# {path}\n")
        file = read(str(path))
        assert file is not None
        found.add(str(path), file, 100)
    changed.write_text("# another program\n")
    found.write(tmp_path, 100, at_once=True)
    there = hashlib.sha256(other.read_bytes()).hexdigest()
    assert written(tmp_path) == sorted([f"{SHA}.py", f"{there}.py"])


def test_files_without_end_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_MOST_FILES", 3)
    asked = Sources()
    for n in range(9):
        path = tmp_path / f"{n}.py"
        path.write_text(f"# {n}\n")
        asked.ask([line(path, 1)])
    assert sum(isinstance(record, SourceFile) for record in asked.take(60)) == 3
    asked.texts.write(tmp_path, 100, at_once=True)
    assert len(written(tmp_path)) == 3


KILLED = """
import os, sys
from io import FileIO
from pathlib import Path
from collectrace.tracer.record import source_files

class Killed(FileIO):
    def write(self, data):
        super().write(data[:300_000])
        os.kill(os.getpid(), 9)

source_files.open = Killed
texts = source_files.Texts(0)
file = source_files.read(sys.argv[1])
texts.add(sys.argv[1], file, 0)
texts.write(Path(sys.argv[2]), 0, at_once=True)
"""


def test_who_is_killed_while_it_writes_leaves_no_wrong_file(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"#" * source_text.MOST_BYTES)
    run = [sys.executable, "-c", KILLED, str(path), str(tmp_path)]
    killed = subprocess.run(run, check=False)
    assert killed.returncode == -signal.SIGKILL
    [part] = (tmp_path / "sources").iterdir()
    assert 0 < part.stat().st_size < source_text.MOST_BYTES
    assert part.name.startswith(".collectrace-")
    texts(path).write(tmp_path, time.monotonic_ns(), at_once=True)
    [whole] = (tmp_path / "sources").glob("*.py")
    assert hashlib.sha256(whole.read_bytes()).hexdigest() == whole.stem
    assert os.stat(part).st_size > 0  # noqa: PTH116 - it is another's, and stays

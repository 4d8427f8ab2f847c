"""Old runs are removed from a folder, and never what may still be wanted."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from collectrace.log_folder import LOOK, QUIET, TOLD, look_file
from collectrace.tracer.life import telling
from collectrace.tracer.life.run_folder import remove_old

OVER = b'{"kind":"header","t":1}\n{"kind":"exit","t":2,"reason":"finished"}\n'
RUNS = b'{"kind":"header","t":1}\n{"kind":"call","t":2,"seq":1}\n'


def run(log_dir: Path, day: int, *files: tuple[str, bytes]) -> Path:
    folder = log_dir / f"202601{day:02}-120000-00aa{day:02x}"
    folder.mkdir(parents=True)
    for name, data in files or (("rank00000.jsonl", OVER), ("rank00001.jsonl", OVER)):
        (folder / name).write_bytes(data)
    return folder


def names(log_dir: Path) -> list[int]:
    return sorted(int(p.name[6:8]) for p in log_dir.iterdir() if p.name.startswith("2026"))


def test_the_newest_stay(tmp_path: Path) -> None:
    folders = [run(tmp_path, day) for day in range(1, 8)]
    removed = remove_old(tmp_path, 3, folders[-1].name)
    assert removed == [folder.name for folder in folders[:4]]
    assert names(tmp_path) == [5, 6, 7]
    assert remove_old(tmp_path, 3, folders[-1].name) == []


def test_what_may_still_be_written_to_stays(tmp_path: Path) -> None:
    alive = run(tmp_path, 1, ("rank00000.jsonl", OVER), ("rank00001.jsonl", RUNS))
    segments = run(tmp_path, 2, ("rank00000.jsonl", OVER), ("rank00000.0002.jsonl", RUNS))
    torn = run(tmp_path, 3, ("rank00000.jsonl", OVER + b'{"kind":"al'))
    ended = run(tmp_path, 4, ("rank00000.jsonl", RUNS), ("rank00000.0010.jsonl", OVER),
                ("rank00000.0009.jsonl", RUNS), ("rank00000.ends.txt", b""))  # fmt: skip
    current = run(tmp_path, 9)
    assert remove_old(tmp_path, 1, current.name) == [ended.name]
    assert all(folder.is_dir() for folder in (alive, segments, torn, current))
    for file in alive.iterdir():  # killed, and long forgotten
        os.utime(file, (time.time() - 4 * 86_400,) * 2)
    assert remove_old(tmp_path, 1, current.name) == [alive.name]


def test_the_marks_of_looks_go_with_their_run(tmp_path: Path) -> None:
    looks = [(look_file(1, mark), b"") for mark in (LOOK, TOLD, QUIET)]
    looked = run(tmp_path, 1, ("rank00000.jsonl", OVER), *looks)
    current = run(tmp_path, 2)
    assert remove_old(tmp_path, 1, current.name) == [looked.name]


def test_nothing_of_anybody_elses_is_touched(tmp_path: Path) -> None:
    current = run(tmp_path, 9)
    noted = run(tmp_path, 1, ("rank00000.jsonl", OVER), ("notes.md", b"look at rank 3"))
    nested = run(tmp_path, 2)
    (nested / "rank00002.jsonl").mkdir()
    elsewhere = run(tmp_path / "away", 3)
    (tmp_path / elsewhere.name).symlink_to(elsewhere)
    for name in ("my-experiment", "20260104", "pending"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank00000.jsonl").write_bytes(OVER)
    before = sorted(tmp_path.rglob("*"))
    assert remove_old(tmp_path, 1, current.name) == []
    assert sorted(tmp_path.rglob("*")) == before
    assert noted.is_dir()


def with_sources(folder: Path, *names: str) -> Path:
    (folder / "sources").mkdir()
    for name in (f"{'0a' * 32}.py", f"{'1b' * 32}.py", ".collectrace-00ff.part", *names):
        (folder / "sources" / name).write_text("# train\n")
    return folder


def test_a_run_goes_with_its_sources(tmp_path: Path) -> None:
    whole = with_sources(run(tmp_path, 1))
    empty = run(tmp_path, 2)
    (empty / "sources").mkdir()
    current = with_sources(run(tmp_path, 9))
    assert remove_old(tmp_path, 1, current.name) == [whole.name, empty.name]
    assert names(tmp_path) == [9]


def test_sources_with_anything_else_among_them_stay(tmp_path: Path) -> None:
    current = run(tmp_path, 9)
    with_sources(run(tmp_path, 1), "train.py")
    with_sources(run(tmp_path, 2), f"{'0a' * 31}.py")
    with_sources(run(tmp_path, 3), "rank00000.jsonl")
    (with_sources(run(tmp_path, 4)) / "sources" / f"{'2c' * 32}.py").mkdir()
    linked = run(tmp_path, 5)
    (tmp_path / "mine").mkdir()
    (linked / "sources").symlink_to(tmp_path / "mine")
    (with_sources(run(tmp_path, 6)) / "sources" / f"{'2c' * 32}.py").symlink_to(tmp_path / "mine")
    other = run(tmp_path, 7)
    (other / "source").mkdir()
    with_sources(run(tmp_path, 8, ("rank00000.jsonl", RUNS)))
    before = sorted(tmp_path.rglob("*"))
    assert remove_old(tmp_path, 1, current.name) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_the_run_that_begins_is_never_removed(tmp_path: Path) -> None:
    """Its clock may be behind those of the machines that were here before."""
    current = run(tmp_path, 1)
    run(tmp_path, 2)
    assert remove_old(tmp_path, 1, current.name) == []


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_standard_error_that_is_not_there_is_no_matter(
    stream: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = (tmp_path / "err").open("w")
    closed.close()
    monkeypatch.setattr("sys.stderr", None if stream is None else closed)
    telling.announce(tmp_path)

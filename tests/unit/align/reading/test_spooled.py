"""What was not moved yet is read from the spool, and nothing else is."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final

import pytest

from collectrace.align.reading import spooled
from collectrace.align.reading.source import LocalBlob
from collectrace.records import FORMAT, Header

LINES: Final = b"header\n1\n2\n3\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "collectrace-spool-0" / "logs-1" / "2-3" / "run"
    folder.mkdir(parents=True)
    (folder / "rank00000.jsonl").write_bytes(LINES)
    return folder / "rank00000.jsonl"


def rest(path: Path, moved: bytes, host: str = "") -> list[bytes] | None:
    target = path.parents[4] / "moved.jsonl"
    target.write_bytes(moved)
    header = Header(format=FORMAT, host=host or platform.node(), pid=1, wall=0, spool=str(path))
    parts = spooled.rest([(0, LocalBlob("rank00000.jsonl", len(moved), target))], header)
    return None if parts is None else [blob.read(0, blob.size) for _, blob in parts]


def test_the_rest_is_read(path: Path) -> None:
    assert rest(path, LINES[:9]) == [LINES]
    assert rest(path, b"HEADER" + LINES[6:9]) == [LINES], "its inode differs"


def test_segments_of_which_nothing_was_moved(path: Path) -> None:
    path.write_bytes(b"")
    path.with_name("rank00000.0001.jsonl").write_bytes(b"4\n")
    assert rest(path, LINES) == [LINES, b"4\n"]


def test_what_is_no_rest_is_not_read(path: Path) -> None:
    assert rest(path, LINES) is None
    assert rest(path, b"header\n1\n9\n") is None
    assert rest(path, LINES[:9], host="elsewhere") is None
    assert rest(path.parents[4] / "rank00000.jsonl", LINES[:9]) is None
    path.rename(path.with_name("other"))
    path.symlink_to("other")
    assert rest(path, LINES[:9]) is None
    path.unlink()
    assert rest(path, LINES[:9]) is None

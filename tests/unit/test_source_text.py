"""Source files are read whatever their names are, and nothing but files is."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from collectrace import source_text


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(data := b"reduce()\r\n" * 100_000)
    (tmp_path / "link.py").symlink_to(path)
    assert source_text.read(str(path)) == source_text.read(str(tmp_path / "link.py")) == data
    path.write_bytes(b"")
    assert source_text.read(str(path)) == b""


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["device", "pipe", "link", "socket", "folder", "none", "odd"])
def test_what_is_no_file_is_not_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    match kind:
        case "device":
            path = Path("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/dev/zero")
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))
        case "folder":
            path.mkdir()
        case "odd":
            path = Path("a\0b\udc80")
    assert source_text.read(str(path)) is None


@pytest.mark.timeout(20)
def test_who_waits_to_write_into_a_pipe_goes_on_waiting(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    os.mkfifo(path)
    opened: list[int] = []
    writer = threading.Thread(target=lambda: opened.append(os.open(path, os.O_WRONLY)))
    writer.start()
    assert source_text.read(str(path)) is None
    # Only the reader that it waits for lets it go.
    assert opened == []
    reader = os.open(path, os.O_RDONLY)
    writer.join()
    for descriptor in (reader, *opened):
        os.close(descriptor)


def test_a_file_that_is_too_large_or_too_slow_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"x" * 1000)
    assert source_text.read(str(path), most=1000) == b"x" * 1000
    assert source_text.read(str(path), most=999) is None
    assert source_text.read(str(path), within=-1) is None
    # The kernel's own files claim to be empty, and can have no end.
    assert source_text.read("/proc/self/maps", most=100) is None


def test_a_name_that_becomes_a_pipe_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.py"
    os.mkfifo(path)
    there = Path(__file__).stat()
    monkeypatch.setattr(os, "stat", lambda _: there)
    assert source_text.read(str(path)) is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        (b"\xef\xbb\xbfa", "a"),
        ("# coding: latin-1\né".encode("latin-1"), "# coding: latin-1\né"),
        (b"\xff", None),
        (b"# coding: hex\nff", None),
        (b"# coding: nowhere\nff", None),
    ],
)
def test_the_text_of_a_file(data: bytes, text: str | None) -> None:
    assert source_text.decode(data) == text

"""What lies in a spool comes to lie in the log folder, byte for byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from collectrace.tracer.life.mover import INODE, Mover
from collectrace.tracer.record.writer import Writer

RUN: Final = "20260101-000000-abcdef"


class Place:
    """A spool and a log folder."""

    def __init__(self, at: Path) -> None:
        self.spool, self.logs = at / "spool", at / "logs"
        self.spool.mkdir()
        self.mover = Mover(self.spool, self.logs, 0o700)

    def moved(self, name: str) -> bytes:
        assert self.mover.step()
        return (self.logs / RUN / name).read_bytes()

    def write(self, name: str, data: bytes) -> Path:
        path = self.spool / RUN / name
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_only_what_is_new_is_added(place: Place) -> None:
    place.write("rank00000.jsonl", b"1\n")
    assert place.moved("rank00000.jsonl") == b"1\n"
    (place.logs / RUN / "rank00000.jsonl").write_bytes(b"x\n")
    place.write("rank00000.jsonl", b"2\n")
    assert place.moved("rank00000.jsonl") == b"x\n2\n"


def test_the_header_has_the_inode_of_the_moved_file(place: Place) -> None:
    rest = b',"spool":"s"}\n{"inode":%d}\n' % INODE
    place.write("rank00000.jsonl", b'{"inode":%d' % INODE + rest)
    data = place.moved("rank00000.jsonl")
    inode = (place.logs / RUN / "rank00000.jsonl").stat().st_ino
    assert data == b'{"inode":%-20d' % inode + rest


def test_segments_come_and_go_as_the_writer_has_them(place: Place, tmp_path: Path) -> None:
    def preamble(segment: int) -> bytes:
        return b"segment %d\n" % segment

    direct = tmp_path / "direct" / RUN
    writers = [
        Writer(folder / "rank00000.jsonl", 1, preamble) for folder in (direct, place.spool / RUN)
    ]
    for n in range(4000):
        for writer in writers:
            writer.segment_bytes = 1000
            writer.write(b"line %d %s\n" % (n, b"x" * 100))
        if n % 7 == 0:
            place.mover.step()
    assert place.mover.step()
    names = {path.name: path.read_bytes() for path in direct.iterdir()}
    assert len(names) > 1
    assert writers[0].rotated > 10
    assert {path.name: path.read_bytes() for path in (place.logs / RUN).iterdir()} == names
    sizes = [path.stat().st_size for path in sorted((place.spool / RUN).iterdir())]
    assert sizes.count(0) == len(sizes) - 1, "what is moved takes no room"


def test_a_provisional_file_moves_with_its_writer(place: Place) -> None:
    writer = Writer(place.spool / "pending" / "a.b-1-1.jsonl", 1 << 20, lambda _: b"head\n")
    writer.write(b"1\n")
    assert place.mover.step()
    assert (place.logs / "pending" / "a.b-1-1.jsonl").read_bytes() == b"head\n1\n"
    writer.move(place.spool / RUN / "rank00003.jsonl")
    assert place.moved("rank00003.jsonl") == b"head\n1\n"
    assert [path.name for path in place.logs.iterdir()] == [RUN]


def test_a_name_that_another_process_has_taken(place: Place) -> None:
    (place.logs / RUN).mkdir(parents=True)
    taken = place.logs / RUN / "rank00000.jsonl"
    taken.write_bytes(b"other\n")
    place.write("rank00000.jsonl", b"1\n")
    place.write("rank00000.ends.txt", b"end")
    place.write("rank00000.0001.jsonl", b"2\n")
    assert place.moved("rank00000+1.jsonl") == b"1\n"
    assert place.moved("rank00000+1.0001.jsonl") == b"2\n"
    assert place.moved("rank00000+1.ends.txt") == b"end"
    assert taken.read_bytes() == b"other\n"


def test_other_files_are_moved_whenever_they_change(place: Place) -> None:
    path = place.write("rank00000.flight.json", b"long text")
    text = place.write("0" * 64 + ".py", b"pass")
    assert place.moved(path.name) == b"long text"
    path.write_bytes(b"short")
    text.unlink()
    assert place.moved(path.name) == b"short"
    assert place.moved(text.name) == b"pass"
    stacks = place.write("rank00000.stacks.txt", b"")
    assert place.moved(stacks.name) == b""
    stacks.unlink()
    assert place.mover.step()
    assert not (place.logs / RUN / stacks.name).exists()


def test_who_cleans_the_spool_takes_nothing_from_the_log_folder(place: Place) -> None:
    for name in ("rank00000.jsonl", "rank00000.0001.jsonl", "rank00000.flight.json"):
        place.write(name, b"1\n")
    assert place.mover.step()
    for path in (place.spool / RUN).iterdir():
        path.unlink()
    place.mover.step()
    assert place.moved("rank00000.0001.jsonl") == b"1\n"
    place.write("rank00000.0001.jsonl", b"2\n")
    assert place.moved("rank00000.0001.jsonl") == b"1\n2\n"


def test_a_file_that_is_deleted_in_the_log_folder_is_begun_again(place: Place) -> None:
    place.write("rank00000.jsonl", b"1\n")
    assert place.mover.step()
    (place.logs / RUN / "rank00000.jsonl").unlink()
    place.write("rank00000.jsonl", b"2\n")
    assert place.moved("rank00000.jsonl") == b"1\n2\n"


def test_what_cannot_be_written_is_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("rank00000.jsonl", b"1\n")
    assert place.mover.step()
    place.write("rank00000.jsonl", b"22\n")
    write = os.write

    def fails(fd: int, data: bytes) -> int:
        write(fd, data[:1])
        raise OSError(5, "no")

    monkeypatch.setattr(os, "write", fails)
    assert not place.mover.step()
    monkeypatch.undo()
    assert place.moved("rank00000.jsonl") == b"1\n22\n"

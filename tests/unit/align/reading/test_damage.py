"""Folders and files that are not as the tracer left them."""

from __future__ import annotations

from pathlib import Path

from collectrace.align import align
from collectrace.align.reading.run_reader import read
from collectrace.records import Exit
from tests.support.synthetic import Run

HUGE = 6 << 20
"""Bytes of one line: many times what is read at once."""


def healthy(folder: Path) -> Path:
    run = Run(2)
    run.all("all_reduce")
    run.finish()
    return run.write(folder)


def test_a_huge_line_is_read_once_or_twice_and_costs_one_record(tmp_path: Path) -> None:
    path = healthy(tmp_path) / "rank00000.jsonl"
    *head, last, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*head, b"x" * HUGE, last, b""]))
    for small in (0, 1 << 30):
        log = read(tmp_path, small=small).logs[0]
        assert isinstance(log.exit, Exit)
        assert log.damaged == 1
        assert log.bytes_read < 5 * HUGE
    assert align(tmp_path).status == "aligned"


def test_a_link_to_itself_hides_nothing(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    (folder / "rank00002.jsonl").symlink_to("rank00002.jsonl")
    (folder / "round").symlink_to(folder.parent)
    assert align(tmp_path).status == "aligned"

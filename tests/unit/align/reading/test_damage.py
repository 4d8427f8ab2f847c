"""Folders and files that are not as the tracer left them."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align import align
from collectrace.align.reading.run_reader import read
from collectrace.records import Done, Exit, Group, encode
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


@pytest.mark.parametrize("seq", [-1, 0, 1 << 62])
def test_a_refused_call_with_a_number_that_no_call_has_costs_one_record(
    seq: int, tmp_path: Path
) -> None:
    path = healthy(tmp_path) / "rank00001.jsonl"
    refused = Done(t=1, group="0", device="cpu", seq=seq, failed=True, refused=True)
    path.write_bytes(path.read_bytes() + encode(refused))
    found = align(tmp_path)
    assert (found.status, found.evidence.damaged_lines) == ("aligned", 1)


def test_a_group_with_a_huge_number_is_found_at_once(tmp_path: Path) -> None:
    path = healthy(tmp_path) / "rank00001.jsonl"
    group = Group(t=1, phase="asked", group="x", ranks=[0, 1], ordinal=1 << 40, site="train.py:3")
    path.write_bytes(path.read_bytes() + encode(group))
    assert [one.kind for one in align(tmp_path).findings] == ["group_mismatch"]


def test_a_link_to_itself_hides_nothing(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    (folder / "rank00002.jsonl").symlink_to("rank00002.jsonl")
    (folder / "round").symlink_to(folder.parent)
    assert align(tmp_path).status == "aligned"


def test_a_line_that_equal_digests_disprove_makes_no_difference(tmp_path: Path) -> None:
    """The line before it is lost on every rank, so its own digest does not contradict it."""
    run = Run(3)
    for _ in range(3):
        run.all("all_reduce", device="cpu")
    run.finish()
    folder = run.write(tmp_path)
    for path in folder.glob("rank*.jsonl"):
        lines = path.read_bytes().split(b"\n")
        first, second, _ = [n for n, line in enumerate(lines) if b'"kind":"call"' in line]
        if path.name == "rank00001.jsonl":
            lines[second] = lines[second].replace(b'"SUM"', b'"MAX"')
        lines[first] = b"{"
        path.write_bytes(b"\n".join(lines))
    assert not [one for one in align(tmp_path).findings if one.severity == "error"]


def test_the_note_names_the_first_line_that_cannot_be_read(tmp_path: Path) -> None:
    path = healthy(tmp_path) / "rank00001.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:3], b'{"kind":"call",', *lines[3:-1], b"x", b""]))
    told = "Rank 1: 2 lines could not be read (run-1/rank00001.jsonl, line 4)."
    assert told in align(tmp_path).evidence.notes

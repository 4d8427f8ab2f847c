"""Checkpoints of a run: what they list, and that many channels do not fill the file with them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from collectrace.chain import CHECKPOINT_EVERY
from collectrace.records import Checkpoint, Group, decode
from collectrace.tracer.record.groups import GroupState
from collectrace.tracer.record.run_record import RunRecord
from collectrace.tracer.record.writer import Writer

LINE = b"x" * 199 + b"\n"


def record_of(folder: Path, max_bytes: int = 1 << 30) -> tuple[RunRecord, GroupState]:
    """A record with one group, and the head that a session gives a segment."""
    made: list[RunRecord] = []
    writer = Writer(
        folder / "rank00000.jsonl", max_bytes, lambda _: b"".join(made[0].head() if made else ())
    )
    record = RunRecord(writer, 20)
    made.append(record)
    state = GroupState(Group(phase="ready", group="0", backend="gloo", ranks=[0, 1]), 0)
    record.book.states[object()] = state
    return record, state


def issue(record: RunRecord, state: GroupState, tag: int) -> None:
    """Record a message of a tag, as ``Recorder`` does."""
    channel = state.channel("cpu", 0, 1, tag)
    channel.seq += 1
    record.writer.write(LINE)
    if record.writer.total >= record.writer.next_checkpoint:
        record.checkpoint()


def test_a_tag_for_each_message_fills_no_file(tmp_path: Path) -> None:
    record, state = record_of(tmp_path)
    for tag in range(3_000):
        issue(record, state, tag)
    assert record.writer.total < 1.5 * 3_000 * len(LINE)


def test_nor_where_the_file_rotates(tmp_path: Path) -> None:
    record, state = record_of(tmp_path, 8 * CHECKPOINT_EVERY)
    for tag in range(3_000):
        issue(record, state, tag)
    assert record.writer.rotated
    assert record.writer.total < 2 * 3_000 * len(LINE)


def test_few_channels_have_checkpoints_as_close_as_ever(tmp_path: Path) -> None:
    record, state = record_of(tmp_path)
    for n in range(2_000):
        issue(record, state, n % 50)
    lines = (tmp_path / "rank00000.jsonl").read_bytes().splitlines()
    at = [n for n, line in enumerate(lines) if b'"checkpoint"' in line]
    assert len(at) > 5
    assert max(b - a for a, b in pairwise(at)) * len(LINE) < 1.1 * CHECKPOINT_EVERY


def test_what_has_issued_nothing_stands_in_no_checkpoint(tmp_path: Path) -> None:
    """A reader takes a row without a call for damage."""
    record, state = record_of(tmp_path)
    state.channel("cpu", 0, 1, 7)
    state.stream("cpu")
    issue(record, state, 8)
    found = decode(record.checkpoint_line().rstrip(b"\n"))
    assert isinstance(found, Checkpoint)
    assert found.streams == []
    assert found.channels == [["0", "cpu", 0, 1, 8, 1]]

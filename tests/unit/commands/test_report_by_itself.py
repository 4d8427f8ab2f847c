"""What a look at the folder of a run prints, which marks it leaves, and what it keeps to itself."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectrace import align as align_package
from collectrace.commands import beside, report_by_itself
from collectrace.errors import NotThere
from collectrace.findings import Alignment, Side, State, proven_errors
from collectrace.log_folder import QUIET, TOLD, look_file
from tests.support.alignments import join_with_barrier


def look(
    folder: Path, number: int, found: Alignment | Exception, monkeypatch: pytest.MonkeyPatch
) -> str:
    """What is printed."""

    def align(_: Path) -> Alignment:
        if isinstance(found, Exception):
            raise found
        return found

    heard, screen = os.pipe()
    monkeypatch.setattr(beside, "be_modest", lambda: screen)
    monkeypatch.setattr(report_by_itself, "_live", lambda *_: None)
    monkeypatch.setattr(align_package, "align", align)
    arguments = [str(folder), str(number), "3", str(os.getppid()), "0", "60"]
    report_by_itself.main(arguments)
    os.close(screen)
    with os.fdopen(heard, "rb") as file:
        return file.read().decode()


def test_an_error_is_printed_once_whatever_numbers_its_words_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = join_with_barrier()
    before = time.time()
    said = look(tmp_path, 1, found, monkeypatch)
    lines = said.splitlines()
    assert all(line.startswith("[rank3]:") for line in lines)
    assert "error" in said
    assert lines[-1] == f"[rank3]: more: python -m collectrace align {tmp_path}"
    mark = tmp_path / look_file(1, TOLD)
    assert before - 1 < mark.stat().st_mtime <= time.time()
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    later = replace(found.findings[0], headline="now for 60 s")
    again = replace(found, findings=(later, *found.findings[1:]))
    assert look(tmp_path, 2, again, monkeypatch) == ""
    assert (tmp_path / look_file(2, TOLD)).exists()
    other = replace(later, seq=(later.seq or 0) + 1)
    assert "now for 60 s" in look(tmp_path, 3, replace(found, findings=(other,)), monkeypatch)


def test_what_is_no_error_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = join_with_barrier()
    warned = replace(
        found, findings=tuple(replace(one, severity="warning") for one in found.findings)
    )
    assert look(tmp_path, 1, warned, monkeypatch) == ""
    assert [file.name for file in tmp_path.iterdir()] == [look_file(1, QUIET)]


def test_files_that_cannot_be_read_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look(tmp_path, 1, NotThere("rotated"), monkeypatch) == ""
    assert (tmp_path / look_file(1, QUIET)).exists()


def test_a_full_disk_hides_no_verdict_and_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert "[rank3]: " in look(tmp_path, 1, join_with_barrier(), monkeypatch)
    assert (tmp_path / look_file(1, TOLD)).exists()


def absent(state: State, held: float, waiter: State = "blocked") -> Alignment:
    """One rank has not come to a call, and the other waits for it."""
    found = join_with_barrier()
    there, away = found.findings[0].sides[0], Side(ranks=(1,), call=None, state=state)
    there = replace(there, ranks=(0,), state=waiter)
    finding = replace(found.findings[0], kind="missing_call", sides=(there, away))
    ranks = tuple(replace(one, held=held if one.rank == 0 else 0.0) for one in found.ranks)
    return replace(found, findings=(finding,), ranks=ranks)


@pytest.mark.parametrize(
    ("state", "held", "expected"),
    [("busy", 59, []), ("busy", 61, [0]), ("running", 59, []), ("raised", 1, [0]),
     ("finished", 1, [0]), ("blocked", 1, [0]), ("silent", 1, [0])],
)  # fmt: skip
def test_work_that_may_be_slow_is_waited_for(
    state: State, held: float, expected: list[int]
) -> None:
    assert proven_errors(absent(state, held), patience=60) == expected


def test_work_that_outlasted_the_timeout_of_the_others_is_told_at_once() -> None:
    assert proven_errors(absent("busy", 1, waiter="raised"), patience=60) == [0]

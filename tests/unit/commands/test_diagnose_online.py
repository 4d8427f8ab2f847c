"""What a diagnosis leaves in the folder of a run, and how it says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from collectrace import exchange, report
from collectrace.commands import beside, diagnose_online
from collectrace.errors import NotNow
from collectrace.exchange import Announced, Keys
from collectrace.report import REPORTS, terminal
from collectrace.tracer.life.run_folder import remove_old
from tests.support.alignments import join_with_barrier
from tests.support.dict_store import DictStore

if TYPE_CHECKING:
    from collectrace.findings import Alignment

OVER = b'{"kind":"header","t":1}\n{"kind":"exit","t":2,"reason":"finished"}\n'


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_every_report_is_there_and_a_person_is_told_of_those_that_are_for_people(
    tmp_path: Path,
) -> None:
    written = diagnose_online._write(join_with_barrier(), tmp_path, 7)
    assert names(tmp_path) == {
        "verdict.0007.txt", "verdict.0007.json", "verdict.0007.html", "verdict.0007.markdown",
    }  # fmt: skip
    headline = join_with_barrier().findings[0].headline
    assert json.loads(written["json"].read_text())["findings"][0]["headline"] == headline
    assert "</html>" in written["html"].read_text()
    told = diagnose_online._head(join_with_barrier(), [0], written)
    assert told.splitlines()[-3:-1] == [
        f"the whole report: {tmp_path}/verdict.0007.txt",
        f"as a page, with pictures: {tmp_path}/verdict.0007.html",
    ]


def test_a_folder_with_an_odd_name_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "logs\x1b[2J\u202e"
    folder.mkdir()
    written = diagnose_online._write(join_with_barrier(), folder, 7)
    told = diagnose_online._head(join_with_barrier(), [0], written)
    assert f"the whole report: {tmp_path}/logs[2J/verdict.0007.txt\n" in told


def test_a_run_with_verdicts_is_removed_as_any_other(tmp_path: Path) -> None:
    old, current = (tmp_path / f"2026010{day}-120000-00aa00" for day in (1, 2))
    for folder in (old, current):
        folder.mkdir()
        (folder / "rank00000.jsonl").write_bytes(OVER)
    diagnose_online._write(join_with_barrier(), old, 1)
    (old / ".collectrace-0a1b2c3d.part").write_text("ended while it was written")
    assert remove_old(tmp_path, 1, current.name) == [old.name]


def test_without_jinja2_there_is_no_page_and_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda _: None)
    written = diagnose_online._write(join_with_barrier(), tmp_path, 1)
    assert written.keys() == {"txt", "json", "markdown"}
    assert "as a page" not in diagnose_online._head(join_with_barrier(), [0], written)


def test_a_report_that_fails_leaves_no_half_and_the_others_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: Any, out: TextIO) -> None:
        out.write("half")
        raise ZeroDivisionError

    monkeypatch.setattr(terminal, "write", breaks)
    written = diagnose_online._write(join_with_barrier(), tmp_path, 1)
    assert "txt" not in written
    assert len(written) == len([r for r in REPORTS if not r.is_short]) - 1
    assert names(tmp_path) == {file.name for file in written.values()}
    assert "the whole report" not in diagnose_online._head(join_with_barrier(), [0], written)


@pytest.mark.parametrize("breaks", ["_align", "_errors", "_head", "_verdict"])
def test_whatever_goes_wrong_inside_the_turn_ends(
    breaks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = DictStore()
    keys = Keys("run-1")
    assert exchange.open_turn(store, keys, "rank 0") is not None

    def wrong(*_: Any) -> None:
        raise LookupError("nowhere")

    kept = tmp_path / "traceback"
    monkeypatch.setenv("COLLECTRACE_TRACEBACK", str(kept))
    screen, heard = os.pipe()
    monkeypatch.setattr(beside, "be_modest", lambda: heard)
    monkeypatch.setattr(diagnose_online, "_align", lambda *_: join_with_barrier())
    monkeypatch.setattr(diagnose_online, "JobStore", lambda *_: store)
    monkeypatch.setattr(diagnose_online, breaks, wrong)
    run = exchange.encode(Announced("run-1", 2, 1.0)).decode()
    diagnose_online.main(["here", "1", run, "1", str(tmp_path), "[]"])
    os.close(heard)
    with os.fdopen(screen, "rb") as file:
        assert (b"while the job runs" in file.read()) is (breaks == "_verdict")
    assert "LookupError: nowhere" in kept.read_text()
    closed = exchange.turn_of(store.read(keys.turn))
    assert closed is not None
    assert not closed.is_open


def test_what_cannot_be_read_is_tried_again_and_leaves_nothing_at_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = DictStore()
    keys = Keys("run-1")
    turn = exchange.open_turn(store, keys, "rank 0")
    assert turn is not None
    for rank in range(3):
        for key in (keys.card, keys.ask, keys.answer):
            store.set(key(turn.number, rank), b"x")
    tried = []

    def fails(url: str, _: Announced) -> Alignment:
        tried.append(url)
        raise NotNow("a file went while it was read")

    monkeypatch.setattr(beside, "be_modest", lambda: 2)
    monkeypatch.setattr(diagnose_online, "_align", fails)
    monkeypatch.setattr(diagnose_online, "JobStore", lambda *_: store)
    run = exchange.encode(Announced("run-1", 3, 1.0)).decode()
    diagnose_online.main(["here", "1", run, "1", str(tmp_path), "[]"])
    assert tried == ["tcpstore://here:1/run-1?turn=1"] * 3
    assert list(store.keys) == [keys.turn]
    closed = exchange.turn_of(store.read(keys.turn))
    assert closed is not None
    assert not closed.is_open

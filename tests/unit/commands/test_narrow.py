"""A terminal that says it has no columns, or one, gets what any other gets."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from collectrace import cli
from tests.support import kind_examples
from tests.support.commands import Terminal, run

COMMANDS = (
    "align LOGS", "align LOGS --verbose", "align LOGS --markdown -", "align LOGS --brief",
    "align LOGS --follow", "runs LOGS", "show LOGS --rank 1", "diff LOGS LOGS", "doctor LOGS",
    "explain CT102", "docs causes",
)  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    kind_examples.KINDS["op_mismatch"]().write(folder)
    return folder


@pytest.mark.parametrize("command", ["docs causes", "explain CT102"])
def test_a_chapter_on_a_terminal_without_columns(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    screen = Terminal()
    assert cli.main(command.split(), screen, io.StringIO()) == 0
    assert "condition" in screen.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_columns_hide_nothing(command: str, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = command.replace("LOGS", str(logs)).split()
    monkeypatch.setenv("COLUMNS", "110")
    wide = run(*argv)
    assert len(wide[1]) > 100
    monkeypatch.setenv("COLUMNS", "0")
    status, told, problem = run(*argv)
    assert (status, problem) == (wide[0], wide[2])
    assert len(told.split()) >= 0.8 * len(wide[1].split())

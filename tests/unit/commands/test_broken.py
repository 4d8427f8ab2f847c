"""An error inside a command: one line on standard error, and an exit status of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from collectrace import cli
from collectrace.commands import COMMANDS
from collectrace.errors import LogError
from tests.support import kind_examples
from tests.support.commands import Closed, run


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    kind_examples.p2p_unmatched().write(tmp_path / "logs")
    return tmp_path / "logs"


def endless(*arguments: object) -> int:
    return endless(*arguments)


def raises(problem: BaseException) -> Callable[..., int]:
    def execute(*_: object) -> int:
        raise problem

    return execute


ARGUMENTS = {
    "run": ("x.py",), "align": ("logs",), "runs": ("logs",), "show": ("logs", "--rank", "0"),
    "diff": ("a", "b"), "gather": ("h:a", "-o", "x"), "import": ("dumps",), "doctor": (),
    "schema": (), "docs": (), "explain": ("CT102",), "redact": ("logs", "-o", "x"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("execute", "says"),
    [
        (raises(KeyError("key")), "internal error, KeyError: 'key' at collectrace/cli.py:"),
        (raises(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd")), "UnicodeDecodeError: 'utf-8'"),
        (raises(AssertionError()), "internal error, AssertionError at collectrace/cli.py:"),
        (raises(ValueError("\x1b[31m\nred" * 999)), "internal error, ValueError: [31m red"),
        (raises(SystemExit(1)), "internal error, SystemExit: 1 at collectrace/cli.py:"),
        (endless, "internal error, RecursionError: maximum recursion depth"),
        (raises(MemoryError()), "out of memory at collectrace/cli.py:"),
    ],
)
def test_an_internal_error_is_one_line_and_a_status_of_its_own(
    command: str, execute: Callable[..., int], says: str, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(COMMANDS[command], "execute", execute)
    kept = tmp_path / "traceback"
    monkeypatch.setenv("COLLECTRACE_TRACEBACK", str(kept))
    status, out, err = run(command, *ARGUMENTS[command])
    assert (status, out) == (4, "")
    assert err.startswith("collectrace: ")
    assert err.count("\n") == 1
    assert says in err
    assert err[:-1].isprintable()
    assert ("Please report this line" in err) is ("memory" not in err)
    assert "Traceback (most recent call last):" in kept.read_text()


def test_a_report_that_cannot_be_made_leaves_the_others(
    hung: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectrace.report.markdown.write", endless)
    file = tmp_path / "a.md"
    status, out, err = run("align", str(hung), "--json", "-", "--markdown", str(file))
    assert status == 4
    assert json.loads(out)["status"] == "hung"
    assert "RecursionError" in err
    assert not file.exists()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    status, out, err = run("align", str(hung), "--json", "-")
    assert (status, json.loads(out)["status"]) == (1, "hung")
    assert err.startswith("collectrace: GITHUB_STEP_SUMMARY: internal error, RecursionError")


def test_json_that_cannot_be_made_leaves_standard_output_empty(
    hung: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectrace.report.machine.as_dict", endless)
    status, out, err = run("align", str(hung), "--json", "-")
    assert (status, out, err.count("\n")) == (4, "", 1)


def test_a_line_that_nobody_can_read_changes_no_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for problem, status in (LogError("no"), 2), (KeyError("x"), 4), (KeyboardInterrupt(), 130):
        monkeypatch.setattr(COMMANDS["docs"], "execute", raises(problem))
        assert cli.main(["docs"], io.StringIO(), Closed()) == status


BROKEN = """
import runpy, sys
from collectrace.align.causes import ct403_other_argument as cause
from collectrace.align.judging import judge

def wrong(*_):
    raise LookupError("nowhere")

{breaks}
sys.argv = ["collectrace", "align", *sys.argv[1:]]
runpy.run_module("collectrace", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("breaks", "options", "status"),
    [
        ("judge.candidates = wrong", [], 4),
        ("judge.candidates = wrong", ["--json", "-"], 4),
        ("judge.candidates = wrong", ["--follow"], 4),
        ("cause.find = wrong", [], 1),
        ("cause.find = wrong", ["--follow"], 1),
        ("cause.find = wrong", ["--json", "-"], 1),
    ],
)
def test_a_real_process_that_goes_wrong_inside(
    breaks: str, options: list[str], status: int, tmp_path: Path
) -> None:
    kind_examples.dtype_mismatch().write(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", BROKEN.format(breaks=breaks), str(tmp_path), *options],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == status
    assert "Traceback" not in done.stdout + done.stderr
    if status == 4:
        assert done.stderr.startswith("collectrace: internal error, LookupError: nowhere at ")
        assert done.stderr.count("\n") == 1
    elif options == ["--json", "-"]:
        assert json.loads(done.stdout)["internal_errors"][0]["error"] == "LookupError"
    else:
        assert "Internal error in collectrace, LookupError at " in done.stdout

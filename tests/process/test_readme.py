"""The README's commands, run: its job hangs, and its report is the one that it shows."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support import installed
from tools import pictures

if TYPE_CHECKING:
    import pytest

README: Final = (pictures.ROOT / "README.md").read_text()

CONSOLES: Final = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMANDS: Final = [
    line.removeprefix("$ ").partition("  #")[0].strip()
    for console in CONSOLES
    for line in console.splitlines()
    if line.startswith("$ ")
]
JOBS: Final = [command for command in COMMANDS if "torchrun" in command]

NOT_RUN: Final = {
    "pip install torch numpy --index-url https://download.pytorch.org/whl/cpu": "needs the network",
    "pip install '.[html]'": "needs the network; tools/_env installs the package",
}

STATUS: Final = {"align": 1, "doctor": 0, "explain": 0, "docs": 0}
"""Exit status of each command of collectrace: the job of the README has diverged."""

_CHANGES: Final = (
    (re.compile(r" on \S+ · .*? UTC"), " on HOST · TIME"),
    (re.compile(r"(waits? here) \(.*?\)"), r"\1"),
)


def lasting(report: str) -> list[str]:
    """Return the words of a report, without what differs from run to run."""
    words = " ".join(report.split())
    for pattern, name in _CHANGES:
        words = pattern.sub(name, words)
    return words.split()


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a shell in which this package is installed."""
    clean = {n: v for n, v in os.environ.items() if not n.startswith("COLLECTRACE")}
    return clean | {
        "PATH": os.pathsep.join([
            str(installed.programs(folder / "bin")), str(Path(sys.executable).parent),
            os.environ["PATH"],
        ]),
        "PYTHONPATH": os.pathsep.join(
            [str(installed.metadata(folder / "installed")), str(pictures.ROOT)]
        ),
        "COLUMNS": "90", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        "PET_STANDALONE": "1",  # torchrun takes a free port
        "COLLECTRACE_STALL_AFTER": "2",
    }  # fmt: skip


def shell(command: str) -> list[str]:
    """Return a command of the README as a shell runs it, in the process that is started."""
    return ["bash", "-c", f"exec env {command}"]


def test_each_command_is_one_that_this_test_knows() -> None:
    others = [command for command in COMMANDS if command not in {*JOBS, *NOT_RUN}]
    assert len(JOBS) == 2
    assert {command.split()[0] for command in others} == {"collectrace"}
    assert {command.split()[1] for command in others} == STATUS.keys()


def test_the_commands_do_what_is_said_of_them(tmp_path: Path) -> None:
    script = pictures.example(README)
    train, variables = tmp_path / "train.py", environment(tmp_path)

    def run(command: str) -> str:
        done = subprocess.run(shell(command), cwd=tmp_path, env=variables,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == STATUS[command.split()[1]], done.stdout + done.stderr
        return done.stdout

    traced, unmodified = JOBS
    train.write_text(script)
    with pictures.hanging(shell(traced), tmp_path, variables):
        (shown,) = [console for console in CONSOLES if "error[CT102]" in console]
        command, _, report = shown.removeprefix("$ ").partition("\n")
        while "values" not in (printed := run(command)):  # a rank may stall a moment later
            pass
        assert lasting(printed) == lasting(report)
        for command in COMMANDS:
            if command.startswith("collectrace "):
                assert run(command)
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")

    drawn = pictures.draw(tmp_path)
    assert "false&#160;on&#160;rank&#160;1" in drawn
    assert not pictures.LOADED.findall(drawn)

    train.write_text("".join(
        line for line in script.splitlines(keepends=True) if "collectrace" not in line
    ))  # fmt: skip
    with pictures.hanging(shell(unmodified), tmp_path, variables):
        assert "rank 1 skipped all_reduce" in run("collectrace align logs/")


def test_the_test_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (test,) = [one for one in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
               if "def test_" in one]  # fmt: skip
    (tmp_path / "test_train.py").write_text(test)
    monkeypatch.syspath_prepend(tmp_path)
    module = vars(importlib.import_module("test_train"))
    try:
        (passes,) = (module[name] for name in module if name.startswith("test_"))
        passes(tmp_path=tmp_path / "logs")
    finally:
        del sys.modules["test_train"]

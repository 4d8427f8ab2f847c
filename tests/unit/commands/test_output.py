"""Where reports go: whole or not at all, whatever becomes of the disk, the folder or the reader."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest

from collectrace import file_modes
from collectrace.commands import output
from collectrace.errors import CollectraceError
from tests.support.synthetic import Run

ALIGN = f"{sys.executable} -m collectrace align logs"
FULL = "it cannot be written (No space left on device). Name a file instead."
LAST = "collectrace explain CT403 · more: --verbose, --html report.html, --json -"


def say(text: str) -> Callable[[TextIO], object]:
    return lambda out: out.write(text)


def says_half(out: TextIO) -> None:
    out.write("half")
    out.flush()
    raise KeyboardInterrupt


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the logs of a run that went wrong, and one for reports."""
    job = Run(world=2)
    for rank in job:
        rank.calls(40, "all_reduce", shape=[4], site="/job/train.py:10")
        rank.call("all_reduce", shape=[4 + rank.rank], site="/job/train.py:12")
    job.finish()
    job.write(tmp_path / "logs")
    (tmp_path / "reports").mkdir()
    return tmp_path


def bash(folder: Path, command: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, standard output, standard error; Python's own buffers as people have them."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=inherited | environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# A disk that is full


MOUNTS = (
    shutil.which("unshare") is not None
    and subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/tmp"],
        capture_output=True,
        check=False,
    ).returncode
    == 0
)
needs_mounts = pytest.mark.skipif(not MOUNTS, reason="needs a mount namespace of its own")


def mounted(options: str, command: str) -> str:
    """The command, with a file system of its own at ``reports``."""
    script = f"mount -t tmpfs -o {options} tmpfs reports && {{ {command}; }}"
    return f"unshare -rm bash -c '{script}'"


@needs_mounts
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_fills(folder: Path, unbuffered: str) -> None:
    command = f"{ALIGN} --json reports/a.json; echo status $?; ls -A reports"
    _, out, err = bash(folder, mounted("size=4k", command), PYTHONUNBUFFERED=unbuffered)
    assert err == f"collectrace: reports/a.json: {FULL.replace('a file instead', 'another file')}\n"
    assert out.endswith(f"{LAST}\nstatus 2\n")
    assert out.startswith("diverged · 2 ranks on node0 · ")


@needs_mounts
def test_what_was_there_before_a_disk_filled_stays(folder: Path) -> None:
    command = (
        f"echo before >reports/a.json; {ALIGN} --json reports/a.json; cat reports/*; ls -A reports"
    )
    _, out, _ = bash(folder, mounted("size=8k", command))
    assert out.endswith(f"{LAST}\nbefore\na.json\n")


@needs_mounts
def test_a_file_system_that_is_read_only(folder: Path) -> None:
    command = f"{ALIGN} --json reports/a.json; echo status $?"
    _, out, err = bash(folder, mounted("size=4k,ro", command))
    assert out == "status 2\n"
    assert err == (
        "collectrace: --json reports/a.json: reports is not a writable folder. Name another file.\n"
    )


def test_a_file_that_grows_beyond_what_is_allowed(folder: Path) -> None:
    (folder / "reports" / "a.json").write_text("before\n")
    status, out, err = bash(folder, f"ulimit -f 2; {ALIGN} --json reports/a.json")
    assert (status, err) == (
        2,
        "collectrace: reports/a.json: it cannot be written (File too large). Name another file.\n",
    )
    assert out.endswith(f"{LAST}\n")
    assert names(folder / "reports") == ["a.json"]
    assert (folder / "reports" / "a.json").read_text() == "before\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [ALIGN, f"{sys.executable} -m collectrace schema"])
def test_standard_output_on_a_full_disk(folder: Path, command: str, unbuffered: str) -> None:
    status, _, err = bash(folder, f"{command} >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (status, err) == (2, f"collectrace: standard output: {FULL}\n")


def test_one_report_that_fails_takes_no_other_with_it(folder: Path) -> None:
    status, _, err = bash(folder, f"{ALIGN} --json reports/a.json >/dev/full")
    assert (status, err) == (2, f"collectrace: standard output: {FULL}\n")
    assert json.loads((folder / "reports" / "a.json").read_bytes())["status"] == "diverged"


def test_standard_output_that_is_closed(folder: Path) -> None:
    assert bash(folder, f"{ALIGN} --json reports/a.json >&-") == (1, "", "Wrote reports/a.json.\n")
    assert json.loads((folder / "reports" / "a.json").read_bytes())["status"] == "diverged"


# A file that is whole or as it was


def test_a_file_is_replaced_and_keeps_who_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("before")
    file.chmod(0o640)
    output.write_to(str(file), io.StringIO(), say("after"))
    assert file.read_text() == "after"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("shared", [False, True])
def test_a_new_file_is_its_owners_unless_it_is_shared(
    tmp_path: Path, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_modes, "_shared", shared)
    (tmp_path / "other").touch()
    output.write_to(str(tmp_path / "a.json"), io.StringIO(), say("new"))
    usual = (tmp_path / "other").stat().st_mode & 0o777
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == (usual if shared else 0o600)


@pytest.mark.parametrize("before", [None, "before"])
def test_what_is_interrupted_leaves_nothing(tmp_path: Path, before: str | None) -> None:
    file = tmp_path / "a.json"
    if before is not None:
        file.write_text(before)
    with pytest.raises(KeyboardInterrupt):
        output.write_to(str(file), io.StringIO(), says_half)
    assert names(tmp_path) == ([] if before is None else ["a.json"])
    assert before is None or file.read_text() == before


def test_nothing_but_the_whole_file_is_ever_seen_under_its_name(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    seen = []

    def write(out: TextIO) -> None:
        out.write("whole")
        out.flush()
        seen.append(file.exists())

    output.write_to(str(file), io.StringIO(), write)
    assert seen == [False]
    assert file.read_text() == "whole"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "latest.json"
    link.symlink_to("real/a.json")
    for text in ("first", "second"):
        output.check("--json", str(link))
        output.write_to(str(link), io.StringIO(), say(text))
        assert link.is_symlink()
        assert (tmp_path / "real" / "a.json").read_text() == text
    assert names(tmp_path / "real") == ["a.json"]


def test_devices_and_pipes_are_written_to(folder: Path) -> None:
    status, out, err = bash(folder, f"{ALIGN} --json /dev/stderr 2> >(cat >&1)")
    assert (status, err) == (1, "")
    assert '"status": "diverged"' in out
    assert bash(folder, f"{ALIGN} --json >(head -c 1 >&2) >reports/a.txt")[::2] == (1, "{")


# Before the work


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "nowhere/a.json",
            (
                "--json nowhere/a.json: the folder nowhere does not exist. "
                "Create it, or name another file."
            ),
        ),
        ("file/a.json", "--json file/a.json: file is not a writable folder. Name another file."),
        ("there", "--json there: that is a folder. Name a file in it."),
        (
            "dangling",
            (
                "--json dangling: the folder {0}/nowhere does not exist. "
                "Create it, or name another file."
            ),
        ),
    ],
)
def test_what_cannot_be_written_is_said_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "there").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere/a.json")
    with pytest.raises(CollectraceError) as problem:
        output.check("--json", name)
    assert str(problem.value) == says.format(tmp_path.resolve())


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def access(path: Path, mode: int) -> bool:  # root may write anywhere
        return not (path == tmp_path and mode == os.W_OK)

    monkeypatch.setattr(os, "access", access)
    with pytest.raises(CollectraceError, match="not a writable folder"):
        output.check("--json", str(tmp_path / "a.json"))


def test_a_folder_that_goes_away_meanwhile(tmp_path: Path) -> None:
    name = str(tmp_path / "gone" / "a.json")
    with pytest.raises(CollectraceError) as problem:
        output.write_to(name, io.StringIO(), say("x"))
    assert (
        str(problem.value)
        == f"{name}: it cannot be written (No such file or directory). Name another file."
    )


@pytest.mark.parametrize("name", ["-", "a.json", "/dev/null", "/dev/stderr"])
def test_what_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    output.check("--json", name)


# Readers


class Leaves(io.StringIO):
    """A stream whose reader goes at once, or at the flush."""

    def __init__(self, *, at_once: bool) -> None:
        super().__init__()
        self._at_once = at_once

    def write(self, text: str) -> int:
        if self._at_once:
            raise BrokenPipeError
        return len(text)

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("at_once", [True, False])
def test_a_reader_that_has_seen_enough(*, at_once: bool) -> None:
    output.write_to("-", Leaves(at_once=at_once), say("more than enough"))


def test_other_mistakes_are_not_hidden() -> None:
    def write(out: TextIO) -> Any:
        raise ValueError("a mistake of the report's own")

    with pytest.raises(ValueError, match="own"):
        output.write_to("-", io.StringIO(), write)

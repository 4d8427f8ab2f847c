"""The verb: what it takes, what it refuses, and its exit status."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import commands
from tests.support.synthetic import Run

SAMPLES = Path(__file__).parents[1] / "ras" / "samples"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine is found: no RAS, no dumps in the home, nothing here."""
    monkeypatch.setenv("NCCL_RAS_ADDR", "127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


run = partial(commands.run, "doctor")


def answer(*arguments: str) -> tuple[int, dict[str, Any]]:
    status, out, err = run(*arguments, "--json", "-")
    assert err == ""
    return status, json.loads(out)


def source(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in found["sources"] if row["name"] == name)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nowhere", "nowhere: no such folder, file or process. Leave it out to see all."),
        ("4194305", "there is no process 4194305. Leave it out to see all."),  # above PID_MAX_LIMIT
        ("9" * 40, f"there is no process {'9' * 40}. Leave it out to see all."),
        (
            "notes.txt",
            "notes.txt is not a NCCL RAS report, neither text nor JSON. Give the output of ncclras",
        ),
        ("cut.ras.json", "cut.ras.json is cut short, or not JSON"),
        ("-1", "-1: no such folder, file or process. Leave it out to see all."),
    ],
)
def test_what_cannot_be_looked_at_is_said_in_one_line(where: str, said: str) -> None:
    Path("notes.txt").write_bytes(b"\x1b[2Jnotes\0\n")
    Path("cut.ras.json").write_bytes((SAMPLES / "dead.ras.json").read_bytes()[:900])
    status, out, err = run(where)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_an_empty_folder_has_nothing() -> None:
    status, found = answer(".")
    assert (status, found["can_learn"]) == (3, False)
    assert found["next_time"][0] == "export COLLECTRACE=1"


def test_rank_files_are_enough() -> None:
    job = Run(3)
    for rank in job:
        rank.call("all_reduce")
    job.write(Path("logs"))
    status, found = answer("logs")
    assert status == 0
    files = source(found, "rank files")
    assert files["says"][0].startswith("3 of 3 ranks, last written")
    assert files["command"] == "python -m collectrace align logs"
    assert found["next_time"] == []


def test_dumps_are_enough() -> None:
    for rank in range(2):
        Path(f"nccl_trace_rank_{rank}").write_bytes(b"\x80\x02")
    status, found = answer(".")
    assert status == 0
    assert source(found, "Flight Recorder")["command"] == (
        "python -m collectrace align nccl_trace_rank_0"
    )


def test_a_saved_report_alone() -> None:
    status, out, err = run(str(SAMPLES / "behind.ras.txt"))
    assert (status, err) == (0, "")
    assert "rank 5 (process\n" in out
    assert "next time" not in out


def test_the_latest_report_in_a_folder() -> None:
    for n, name in enumerate(("dead.ras.json", "behind.ras.txt", "stopped.ras.txt")):
        shutil.copy(SAMPLES / name, name)
        os.utime(name, (1000 - n, 1000 - n))
    _, found = answer(".")
    assert "dead to RAS" in source(found, "NCCL RAS")["says"][0]
    assert found["ras"]["dead"]["count"] == 1


def test_a_bad_report_does_not_hide_the_rest_of_its_folder() -> None:
    Path("job.ras.json").write_bytes((SAMPLES / "dead.ras.json").read_bytes()[:900])
    Path("nccl_trace_rank_0").write_bytes(b"dump")
    status, found = answer(".")
    assert status == 0
    assert source(found, "NCCL RAS")["says"] == ["job.ras.json is cut short, or not JSON"]


def test_the_answer_goes_to_a_file_beside_the_screen() -> None:
    status, out, _ = run(".", "--json", "found.json")
    assert status == 3
    assert "next time" in out
    assert json.loads(Path("found.json").read_text())["format"] == 1


def test_a_bad_address_of_ras_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_RAS_ADDR", "what ever")
    monkeypatch.setattr("collectrace.doctor.processes.PROC", Path("none"))
    monkeypatch.setattr("collectrace.doctor.processes.find.__defaults__", (None, Path("none")))
    _, found = answer()
    assert source(found, "NCCL RAS")["says"] == [
        "what ever cannot be asked: NCCL_RAS_ADDR 'what ever' is not HOST:PORT"
    ]
    assert found["headline"] == "this machine does not show its processes: there is no /proc"

"""runs, show, diff and gather: what is on the screen, in JSON, and said of bad input."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from collectrace import cli
from tests.support.commands import Closed, run
from tests.support.synthetic import Run

HOSTILE = "evil\x1b[2J\u202e|`<b>.py"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two runs; the newer diverges, and holds what a terminal must not be shown."""
    for name, later, odd in ("run-1", 0, "all_reduce"), ("run-2", 9, "barrier"):
        job = Run(world=2, name=name, start=(1_760_000_000 + later) * 10**9, argv=[HOSTILE])
        job.group("tp", [0, 1], description=f"tp{HOSTILE}")
        job.all("all_reduce", "tp", site=f"{HOSTILE}:5", shape=[2, 3])
        job.all("all_reduce")
        job.rank(0).call("all_reduce", site=f"/a/{HOSTILE}:7")
        job.rank(1).call(odd, site=f"/a/{HOSTILE}:8")
        job.finish()
        job.write(tmp_path / "logs")
    return tmp_path / "logs"


def test_runs(logs: Path) -> None:
    status, out, err = run("runs", str(logs))
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("run-2  diverged  2025-10-09 08:53:29 UTC, ")
    assert lines[0].endswith("2 ranks")
    assert any(line.startswith("run-1  aligned  2025-10-09 08:53:20 UTC") for line in lines)


def test_runs_for_programs(logs: Path) -> None:
    status, out, _ = run("runs", str(logs), "--json", "-")
    rows = json.loads(out)
    assert status == 0
    assert [(row["run"], row["verdict"]) for row in rows] == [
        ("run-2", "diverged"), ("run-1", "aligned"),
    ]  # fmt: skip


def test_show(logs: Path) -> None:
    status, out, err = run("show", str(logs), "--rank", "1")
    assert (status, err) == (0, "")
    assert out.startswith("rank 1 of 2 ranks on node0, pid 1001; run run-2, 2025-10-09 UTC\n")
    marked = [line for line in out.splitlines() if line.lstrip().startswith("cause >")]
    assert len(marked) == 1
    assert "barrier" in marked[0]
    assert out.rstrip().endswith("then finished")


def test_show_for_programs_and_people_at_once(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "show.json"
    status, out, _ = run("show", str(logs), "--rank", "0", "--run", "run-1", "--json", str(file))
    assert status == 0
    assert "float32[2, 3]" in out
    told = json.loads(file.read_text())
    assert told["run"] == "run-1"
    assert [row["call"]["seq"] for row in told["calls"]] == [1, 1, 2]


def test_diff(logs: Path) -> None:
    status, out, err = run("diff", str(logs / "run-1"), str(logs / "run-2"))
    assert (status, err) == (1, "")
    assert "another call\n  rank 1, call 3 of the rank\n" in out
    assert "other >" in out
    assert run("diff", str(logs / "run-1"), str(logs / "run-1"))[0] == 0


def test_gather_says_what_is_missing(logs: Path, tmp_path: Path) -> None:
    (logs / "run-2" / "rank00001.jsonl").unlink()
    status, out, err = run(
        "gather", "--via", "env X={host}", f"a:{logs}", "b:/nowhere", "-o", str(tmp_path / "all")
    )
    assert (status, err) == (1, "")
    first, second, *rest = out.splitlines()
    assert first.startswith("a: 3 files, ")
    assert second.startswith("b: nothing: ")
    assert rest == [
        "run run-2: 1 of 2 ranks", "missing: rank 1", "not reached: b",
        f"python -m collectrace align {tmp_path / 'all'}",
    ]  # fmt: skip


def test_nothing_gathered(tmp_path: Path) -> None:
    status, out, err = run("gather", "/nowhere", "-o", str(tmp_path / "all"))
    assert status == 2
    assert out.startswith("/nowhere: nothing: ")
    assert err == "collectrace: nothing was gathered. Check the host, the folder and --via.\n"


COMMANDS = ("runs", "{}"), ("show", "{}", "--rank", "1"), ("diff", "{}/run-1", "{}/run-2")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_narrow_screen(
    command: tuple[str, ...], logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(logs)
    status, out, err = run(*(part.format(".") for part in command))
    assert status < 2
    assert err == ""
    assert max(map(len, out.splitlines())) <= 72  # a site is never broken


@pytest.mark.parametrize("options", [(), ("--json", "-")])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_reader_that_leaves(
    command: tuple[str, ...], options: tuple[str, ...], logs: Path
) -> None:
    err = io.StringIO()
    argv = [part.format(logs) for part in command]
    assert cli.main([*argv, *options], Closed(), err) < 2
    assert err.getvalue() == ""


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("runs", "nowhere"), "nowhere: no such folder"),
        (("runs", "{}", "--json", "/nowhere/x"), "the folder /nowhere does not exist"),
        (("show", "{}"), "--rank"),
        (("show", "{}", "--rank", "-1"), "--rank"),
        (("show", "{}", "--rank", "x"), "'x' is not a number from 0 up"),
        (("show", "{}", "--rank", "7"), "rank 7 has no file"),
        (("show", "{}", "--rank", "0", "--last", "0"), "'0' is not a number from 1 up"),
        (("show", "{}", "--rank", "0", "--around", "99"), "Its last one is 2."),
        (("show", "{}", "--rank", "0", "--run", "nope"), "no single run 'nope'"),
        (("diff", "{}"), "RUN_B"),
        (("diff", "{}", "nowhere"), "nowhere: no such folder"),
        (("gather", "a:/x"), "-o"),
        (("gather", "a:/x", "-o", "{}/run-1/rank00000.jsonl"), "that is a file"),
        (("gather", "a:", "-o", "x"), "Give HOST:FOLDER"),
        (("gather", "a:/x", "a:/y", "-o", "x"), "two folders of a"),
        (("gather", "--via", "smoke", "a:/x", "-o", "x"), "--via smoke"),
    ],
)
def test_bad_input_is_one_line(argv: tuple[str, ...], says: str, logs: Path) -> None:
    status, out, err = run(*(part.format(logs) for part in argv))
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1

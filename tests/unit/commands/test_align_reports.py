"""Reports of align that go elsewhere than to the screen or one file."""

from __future__ import annotations

import gc
import io
import json
import os
from pathlib import Path

import pytest

from collectrace import cli
from collectrace.commands import metrics, output
from collectrace.errors import CollectraceError
from tests.support import alignments
from tests.support.commands import run
from tests.support.synthetic import Run


@pytest.fixture
def logs(tmp_path: Path) -> str:
    job = Run(world=2)
    job.all("all_reduce")
    job.rank(0).call("all_reduce")
    job.rank(1).call("barrier")
    job.finish()
    job.write(tmp_path / "logs")
    return str(tmp_path / "logs")


def test_brief_stands_in_place_of_the_report(logs: str) -> None:
    status, out, err = run("align", logs, "--brief")
    assert (status, err) == (1, "")
    assert out.startswith("collectrace: diverged (exit status 1), 2 ranks")
    assert len(out.splitlines()) <= 10
    assert run("align", "--brief", logs)[1] == out


def test_brief_and_another_on_standard_output(logs: str) -> None:
    status, _, err = run("align", logs, "--brief", "--json", "-")
    assert (status, err) == (
        2,
        (
            "collectrace: --brief and --json both write to standard output. "
            "Name another file for --json.\n"
        ),
    )


def test_brief_beside_files(logs: str, tmp_path: Path) -> None:
    status, out, _ = run("align", logs, "--brief", "--markdown", str(tmp_path / "r.md"))
    assert status == 1
    assert out.startswith("collectrace: diverged")
    assert (tmp_path / "r.md").read_text().startswith("### collectrace: diverged")


def test_files_that_were_written_are_named(logs: str, tmp_path: Path) -> None:
    page, data = str(tmp_path / "r.html"), str(tmp_path / "r.json")
    terminal, child = os.openpty()
    with os.fdopen(child, "w", encoding="utf-8") as err:
        assert cli.main(("align", logs, "--html", page, "--json", data), io.StringIO(), err) == 1
        assert cli.main(("align", logs, "--json", "-"), io.StringIO(), err) == 1
        os.set_blocking(terminal, False)
        said = os.read(terminal, 4096).decode()
    os.close(terminal)
    assert said.endswith(f"Wrote {data} and {page}.\r\n")
    assert said.count("Wrote") == 1
    assert run("align", logs, "--html", page)[2] == f"Wrote {page}.\n"


def test_a_step_summary_is_added_to(
    logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    run("align", logs)
    assert page.read_text() == "before\n"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    status, out, err = run("align", logs)
    assert (status, err) == (1, "")
    assert "\nerror[CT" in out
    assert page.read_text().startswith("before\n### collectrace: diverged\n")
    run("align", logs, "--json", "-")
    assert page.read_text().count("### collectrace") == 2


def test_a_step_summary_that_cannot_be_written(
    logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    status, _, err = run("align", logs)
    assert status == 1
    assert err == f"collectrace: GITHUB_STEP_SUMMARY {tmp_path} was not written: Is a directory\n"


def test_a_step_summary_that_is_a_pipe_without_reader(
    logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pipe))
    status, _, err = run("align", logs)
    assert status == 1
    assert err == f"collectrace: GITHUB_STEP_SUMMARY {pipe} was not written: nobody reads from it\n"


@pytest.mark.parametrize("name", ["x.tar.gz", "x.json", "rank00000.jsonl"])
def test_a_pipe_is_no_log(name: str, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / name)
    status, out, err = run("align", str(pipe))
    assert (status, out) == (2, "")
    assert err == (
        f"collectrace: {pipe} is a pipe or a device. Give the log folder, or a file of it.\n"
    )


def test_metrics_of_a_job_that_is_followed(logs: str, tmp_path: Path) -> None:
    file = tmp_path / "job.prom"
    status, _, err = run("align", logs, "--follow", "--prometheus", str(file))
    assert (status, err) == (1, "")
    told = file.read_text()
    assert 'collectrace_verdict{run="run-1",verdict="diverged"} 1\n' in told
    labels = 'group="0",of="the default group",device="cpu"'
    assert f'collectrace_last_seq{{run="run-1",rank="1",{labels}}} 2\n' in told
    assert f'collectrace_agreed_seq{{run="run-1",{labels}}} 1\n' in told
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--prometheus", "x.prom"), "--prometheus needs --follow"),
        (("--follow", "--prometheus", "-"), "Name a file"),
        (("--follow", "--prometheus", "/nowhere/x"), "the folder /nowhere does not exist"),
        (("--markdown", "/nowhere/x"), "the folder /nowhere does not exist"),
    ],
)
def test_bad_usage(logs: str, argv: tuple[str, ...], says: str) -> None:
    status, out, err = run("align", logs, *argv)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_metrics_that_cannot_be_written_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise CollectraceError("job.prom: No space left on device")

    monkeypatch.setattr(output, "write_to", full)
    err = io.StringIO()
    writer = metrics.Metrics("job.prom", err)
    for _ in range(3):
        writer.write(alignments.all_agree(), [])
    assert err.getvalue() == "collectrace: --prometheus: job.prom: No space left on device\n"


def test_json_is_not_changed_by_what_notebooks_get(logs: str) -> None:
    told = json.loads(run("align", logs, "--json", "-")[1])
    assert list(told)[:3] == ["format", "status", "run"]


@pytest.mark.parametrize("where", ["logs", "none"])
def test_garbage_is_collected_as_before_once_the_logs_are_read(
    where: str, logs: str, tmp_path: Path
) -> None:
    before = gc.get_threshold()
    assert cli.main(["align", str(tmp_path / where)], io.StringIO(), io.StringIO()) > 0
    assert gc.get_threshold() == before
    assert logs

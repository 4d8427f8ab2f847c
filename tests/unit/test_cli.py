"""The commands: exit status, what goes to which stream, and bad input in one line."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import collectrace.align
from collectrace import cli
from collectrace.commands import COMMANDS
from collectrace.commands.docs import SECTIONS
from collectrace.errors import LogError
from collectrace.findings import Alignment, Finding
from collectrace.report import REPORTS, Report
from tests.support import alignments
from tests.support.commands import Closed, Terminal, run
from tests.support.synthetic import Run


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The aligner answers, or raises, what it is told to; the options it got come back."""

    def says(given: Alignment | BaseException) -> dict[str, Any]:
        got: dict[str, Any] = {}

        def align(path: str, **options: Any) -> Alignment:
            got.update(options, path=path)
            if isinstance(given, BaseException):
                raise given
            return given

        monkeypatch.setattr(collectrace.align, "align", align, raising=False)
        return got

    return says


@pytest.mark.parametrize(
    ("sample", "status"),
    [
        (alignments.all_agree, 0),
        (alignments.join_with_barrier, 1),
        (alignments.missing_call, 1),
        (alignments.not_enough, 3),
    ],
)
def test_the_exit_status_is_the_verdict(
    answer: Callable[..., dict[str, Any]], sample: Callable[[], Alignment], status: int
) -> None:
    answer(sample())
    ended, out, err = run("align", "logs")
    assert ended == status
    assert out.startswith(f"{sample().outcome} · ")
    assert run("align", "logs", "--verbose")[1].endswith(f"Exit status {status}.\n")
    assert err == ""


def test_warnings_count_where_it_is_asked_for(
    answer: Callable[..., dict[str, Any]],
) -> None:
    warned = replace(
        alignments.all_agree(),
        findings=(Finding(kind="straggler", severity="warning", headline="h", cause="c", fix="f"),),
    )
    noted = replace(warned, findings=(replace(warned.findings[0], severity="info"),))
    for alignment, status in (warned, 1), (noted, 0), (alignments.not_enough(), 3):
        answer(alignment)
        ended, out, _ = run("align", "logs", "--strict")
        assert ended == status
        assert f"Exit status {status}.\n" in out
        assert ("Warnings count." in out) == (alignment is warned)
    answer(warned)
    assert run("align", "logs")[0] == 0
    assert json.loads(run("align", "logs", "--strict", "--json", "-")[1])["strict"] is True


def test_options_reach_the_aligner(answer: Callable[..., dict[str, Any]]) -> None:
    got = answer(alignments.all_agree())
    run("align", "logs", "--run", "r", "--full", "--group", "tp", "--context", "0")
    assert got == {
        "path": "logs", "run": "r", "full": True, "group": "tp", "context": 0, "progress": None,
        "executor": None,
    }  # fmt: skip


def test_json_to_standard_output_is_one_object_and_nothing_else(
    answer: Callable[..., dict[str, Any]],
) -> None:
    answer(alignments.join_with_barrier())
    status, out, err = run("align", "logs", "--json", "-")
    assert (status, err) == (1, "")
    assert json.loads(out)["status"] == "diverged"


def test_json_to_a_file_leaves_the_report_on_the_screen(
    answer: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    answer(alignments.join_with_barrier())
    status, out, _ = run("align", "logs", "--json", str(tmp_path / "a.json"))
    assert status == 1
    assert "error: rank 1's all_reduce" in out
    assert json.loads((tmp_path / "a.json").read_bytes())["findings"][0]["seq"] == 29


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (LogError("logs: no rank files\nin here"), "collectrace: logs: no rank files in here\n"),
        (
            PermissionError(13, "Permission denied", "logs"),
            "collectrace: logs: Permission denied. Check its permissions, or name another place.\n",
        ),
        (OSError("odd"), "collectrace: odd\n"),
    ],
)
def test_bad_input_is_one_line(
    answer: Callable[..., dict[str, Any]], problem: Exception, line: str
) -> None:
    answer(problem)
    assert run("align", "logs") == (2, "", line)


def test_ctrl_c(answer: Callable[..., dict[str, Any]]) -> None:
    answer(KeyboardInterrupt())
    assert run("align", "logs") == (130, "", "interrupted\n")


CTRL_C_AT_AN_IMPORT = """
import os, runpy, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

class CtrlC:
    def find_spec(self, name, *_):
        if name == "argparse":
            os.kill(os.getpid(), signal.SIGINT)

sys.modules.pop("argparse", None)
sys.meta_path.insert(0, CtrlC())
sys.argv = ["collectrace", "--help"]
runpy.run_module(sys.argv[0] + %r, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", ["", ".align"])
def test_ctrl_c_at_once(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C_AT_AN_IMPORT % module],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("nonsense",), "no command 'nonsense'. python -m collectrace --help"),
        (("algin", "logs"), "no command 'algin'. Did you mean align?"),
        (("align", "a", "b"), "too many arguments: b. python -m collectrace align --help"),
        (("align", "rank00000.jsonl"), "rank00000.jsonl: no such file. Give its folder, ."),
        (
            ("align", "--brief", "--verbose"),
            "--verbose and --brief both write to standard output. Leave one out.",
        ),
        (
            ("align", "--html", "nodir/x/r.html"),
            "--html nodir/x/r.html: the folder nodir/x does not exist. Create it, or",
        ),
        (("explain", "uneven"), "no cause 'uneven'. Did you mean CT204 (uneven-inputs)?"),
        (("docs", "crahses"), "the name 'crahses', and none contains it. Did you mean crashes?"),
        (("docs", ""), "no chapter has the name '', and none contains it. collectrace docs"),
        (("import", "nowhere"), "nowhere: no such file or folder. Give a folder of Flight"),
        (("import", __file__), "test_cli.py is not a dump. Give a folder of Flight Recorder dumps"),
        (("align", "logs", "--contxt=3"), "no option --contxt=3. Did you mean --context?"),
        (("align", "--brif"), "no option --brif. Did you mean --brief?"),
        (("--versoin",), "no option --versoin. Did you mean --version?"),
        (("align", ""), "align: PATH: it is empty, as an unset variable is. Name a folder"),
        (("diff", "logs", ""), "diff: RUN_B: it is empty, "),
        (("align",), "logs: no such folder. Name the folder that collectrace wrote to"),
        (("runs",), "logs: no such folder. Name the folder that collectrace wrote to"),
        (("align", "logs", "--store", "here:1"), "--store"),
        (("align", "--store", "nowhere"), "Give HOST:PORT"),
        (("align", "--store", "nowhere", "--follow"), "Give HOST:PORT"),
        (
            ("align", "--store", "x:1", "--perfetto", "x.json"),
            "--perfetto cannot read from --store",
        ),
        (("align", "logs", "--context", "-1"), "'-1' is not a number from 0 up"),
        (("align", "logs", "--context", "x"), "'x' is not a number from 0 up"),
        (("align", "logs", "--nonsense"), "--nonsense"),
        (("align", "logs", "--js", "x"), "--js"),
        (("run",), "SCRIPT is missing. python"),
        (("run", "--heartbeat", "soon", "x.py"), "soon"),
        (("run", "nowhere.py"), "nowhere.py: no such script"),
        (("run", "-m", "no_such_module"), "no module named no_such_module"),
        (("run", "-m", ".relative"), "no module named .relative"),
        (("run", "--max-bytes", "1X", "x.py"), "1X"),
        (("--local_rank=0", "run", "nowhere.py"), "nowhere.py: no such script"),
        (("--local_rank=x", "run", __file__), "--local_rank=x"),
        (("align", "logs", "--json"), "--json needs a file, or - for standard output. "),
        (("align", "logs", "--perfetto"), "--perfetto needs a file. "),
        (("align", "logs", "--jobs"), "--jobs needs a value (N). "),
        (("align", "s3://bucket/logs"), "cannot read s3://bucket/logs: Install s3fs"),
        (("align", "--store", "127.0.0.1:1"), "Connection refused. Give MASTER_ADDR:MASTER_PORT"),
        (("redact", ".", "-o", "x", "--map", "no/x"), "--map no/x: the folder no does not exist. "),
        (("run", "--heartbeat", "0", __file__), "'0' is not a number of seconds above 0"),
        (("schema", "--nonsense"), "--nonsense"),
    ],
)
def test_bad_usage_is_one_line(
    argv: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # which holds no logs/
    status, out, err = run(*argv)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert err.endswith("\n")


@pytest.mark.parametrize("argv", [(), *((name,) for name in COMMANDS)])
def test_help(argv: tuple[str, ...]) -> None:
    status, out, err = run(*argv, "--help")
    assert (status, err) == (0, "")
    assert out.startswith("usage: python -m collectrace")
    assert max(map(len, out.splitlines())) <= 100


def test_without_a_command_it_prints_the_help() -> None:
    assert run() == run("help") == run("--help")
    assert run("help", "align") == run("align", "--help")


@pytest.mark.parametrize("variable", [None, "elsewhere"])
def test_without_a_path_the_log_folder_of_the_tracer_is_read(
    variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Run(world=1)
    job.all("all_reduce")
    job.finish()
    job.write(tmp_path / (variable or "logs"))
    monkeypatch.chdir(tmp_path)
    if variable is not None:
        monkeypatch.setenv("COLLECTRACE_LOG_DIR", variable)
    for command in (("align", "--json", "-"), ("runs",), ("show", "--rank", "0")):
        status, out, err = run(*command)
        assert (status, err) == (0, ""), command
        assert out


@pytest.mark.parametrize("option", [[], ["--json-schema"]])
def test_schema(option: list[str]) -> None:
    status, out, err = run("schema", *option)
    assert (status, err) == (0, "")
    assert "sequence number" in out


@pytest.mark.parametrize("options", [(), ("--json", "-")])
def test_a_reader_that_leaves_early_changes_no_verdict(
    answer: Callable[..., dict[str, Any]], options: tuple[str, ...]
) -> None:
    answer(alignments.missing_call())
    err = io.StringIO()
    assert cli.main(["align", "logs", *options], Closed(), err) == 1
    assert err.getvalue() == ""


def test_a_real_pipe_that_is_closed() -> None:
    command = f"{sys.executable} -m collectrace schema --json-schema | head -c 1; echo $PIPESTATUS"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "{0\n"
    assert done.stderr == ""


def test_version() -> None:
    assert run("--version") == (0, f"collectrace {collectrace.__version__}\n", "")


def test_two_reports_cannot_go_to_one_place(
    answer: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(alignments.all_agree())
    more = Report(module="machine", what="the same once more", option="again")
    monkeypatch.setattr("collectrace.commands.align.REPORTS", (*REPORTS, more))
    assert run("align", "logs", "--json", "-", "--again", "-") == (
        2,
        "",
        (
            "collectrace: --json and --again both write to standard output. "
            "Name another file for --again.\n"
        ),
    )
    status, out, _ = run("align", "logs", "--again", "-")
    assert (status, json.loads(out)["status"]) == (0, "aligned")


INSTALLED = "import sys\nfrom collectrace.cli import script\nsys.exit(script())\n"


@pytest.mark.slow
def test_the_installed_program(tmp_path: Path) -> None:
    """As an installer writes it. Only ``run`` uses modules of the working directory."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "collectrace"
    program.write_text(INSTALLED)
    (tmp_path / "mine.py").write_text("import sys; print('mine', sys.argv[1:], sys.path[0])\n")

    def called(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, program, *arguments], cwd=tmp_path, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    assert called("--version") == (0, f"collectrace {collectrace.__version__}\n")
    assert called("align", "--help")[1].startswith("usage: collectrace align [-h]")
    status, said = called("show")
    assert status == 2
    assert said.endswith("--rank is missing. collectrace show --help lists the arguments.\n")
    (tmp_path / "grp.py").write_text("raise SystemExit('not the one of Python')\n")
    assert "nowhere: no such folder" in called("align", "nowhere")[1]
    (tmp_path / "grp.py").unlink()
    for target in (["-m", "mine"], ["mine.py"]):
        assert called("run", *target, "1") == (0, f"mine ['1'] {tmp_path}\n")


def test_the_short_form_is_the_same_command() -> None:
    long, short = (
        subprocess.run(
            [sys.executable, "-m", *module, "--help"],
            capture_output=True, text=True, timeout=300, check=True,
        )
        for module in (["collectrace", "align"], ["collectrace.align"])
    )  # fmt: skip
    assert long.stdout == short.stdout != ""


def test_progress_is_shown_only_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    from collectrace.report import progress

    monkeypatch.setenv("TERM", "xterm")
    for patience, shown in ((60.0, False), (0.0, True)):
        monkeypatch.setattr(progress, "_PATIENCE", patience)
        stream = Terminal()
        with progress.ProgressBar(stream) as tell:
            tell(1, 2)
            tell(2, 2)
        assert ("reading logs" in stream.getvalue()) is shown


def test_real_logs_from_end_to_end(tmp_path: Path) -> None:
    job = Run(world=2)
    for rank in job:
        rank.calls(3, "all_reduce", shape=[4])
    job.finish()
    job.write(tmp_path)
    status, out, err = run("align", str(tmp_path))
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "aligned: 3 collectives on 2 ranks agree. Exit status 0."


def _unusable(tmp_path: Path, name: str) -> Path:
    """A path of which nothing can be made, in one of the ways people hand one over."""
    path = tmp_path / name
    if name == "empty":
        path.mkdir()
    elif name == "pictures":
        path.mkdir()
        (path / "rank00000.jsonl").write_bytes(b"\x89PNG\r\n" * 99)
    elif name == "file.txt":
        path.write_text("not a rank file\n")
    return path


@pytest.mark.parametrize("name", ["nowhere", "empty", "pictures", "file.txt"])
def test_unusable_input_on_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _unusable(tmp_path, name)
    status, out, err = run("align", name)
    assert (status, out) == (2, "")
    golden = Path(__file__).parent.parent / "golden" / f"unusable_{Path(name).stem}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(err)
    assert err == golden.read_text()
    assert err.count("\n") == 1


def test_the_documentation_is_listed_and_shown() -> None:
    status, out, err = run("docs")
    assert (status, err) == (0, "")
    listed = [line for line in out.splitlines() if line and not line.startswith("collectrace")]
    assert listed == [
        line
        for title, chapters in SECTIONS.items()
        for line in (title, *(f"    {name:10}  {about}" for name, about in chapters.items()))
    ]
    status, out, err = run("docs", "report")
    assert (status, err) == (0, "")
    assert out == (Path(collectrace.__file__).parent / "docs" / "report.md").read_text()
    assert run("docs", "hang") == run("docs", "hangs")
    both = "\n".join(run("docs", one)[1] for one in ("hangs", "crashes"))
    assert run("docs", "hangs", "crashes") == (0, both, "")


def test_words_are_found_in_sequence_or_else_below_one_heading() -> None:
    found = [line.split()[0] for line in run("docs", "nccl", "timeout")[1].splitlines()[2:]]
    assert "crashes" in found
    assert run("docs", "out", "of", "memory")[0] == 0
    status, _, err = run("docs", "nccl", "unheardof")
    assert (status, err.count("\n")) == (2, 1)


def test_a_chapter_on_a_terminal_is_laid_out() -> None:
    out = Terminal()
    assert cli.main(["docs", "report"], out, io.StringIO()) == 0
    assert "How to read a report" in out.getvalue()
    assert "| word |" not in out.getvalue()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "xyzzy",
            (
                "no chapter has the name 'xyzzy', and none contains it. "
                "collectrace docs lists the chapters."
            ),
        ),
        ("ct102", "ct102 is a cause. collectrace explain CT102 shows it."),
    ],
)
def test_there_is_no_such_chapter(word: str, said: str) -> None:
    assert run("docs", word) == (2, "", f"collectrace: {said}\n")


def test_a_word_is_found_under_its_headings() -> None:
    status, out, _ = run("docs", "TimeOut")
    assert status == 0
    assert "    crashes     My job crashed with a timeout\n" in out
    assert "                The automatic verdict\n" in out
    assert "privacy" not in out


@pytest.mark.parametrize(
    ("sought", "heading"),
    [
        (("disable",), "Options of the recorder"),
        (("compile",), "What is not recorded"),
        (("automatic", "verdict"), "The automatic verdict"),
        (("out", "of", "memory"), "The job is traced"),
    ],
)
def test_words_are_found_that_are_like_a_chapter(sought: Sequence[str], heading: str) -> None:
    status, out, _ = run("docs", *sought)
    assert status == 0
    assert f"  {heading}\n" in out


def test_neither_the_middle_of_a_word_nor_a_comment_of_a_script_is_found() -> None:
    assert run("docs", "oom")[0] == 2
    assert "SBATCH" not in run("docs", "slurm")[1]


def test_a_chapter_is_shown_whatever_its_case_and_without_comments() -> None:
    assert run("docs", "Findings") == run("docs", "findings")
    assert "<!--" not in run("docs", "findings")[1]

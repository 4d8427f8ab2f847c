"""No text of a log, of a file's name or of an argument does anything to a terminal or a page."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from collectrace import cli, commands
from collectrace.records import KINDS, Activity, Call, Record, Source
from collectrace.report.layout import Page
from collectrace.report.live import LiveView
from tests.support import flight_cases, hostile_text, kind_examples
from tests.support.synthetic import Run

SAMPLES: Final = (
    "swapped_role_mismatch", "split_mismatch", "group_mismatch", "creation_missing_call",
    "p2p_unmatched", "deadlock", "raised", "config_skew",
    *(
        pytest.param(kind, marks=pytest.mark.slow)
        for kind in (
            "role_mismatch", "dtype_mismatch", "p2p_mismatch", "stall", "unwaited_work",
            "early_termination", "evidence_gap",
        )
    ),
)  # fmt: skip
"""Of every kind of finding one, of few ranks."""

RAS: Final = Path(__file__).parents[1] / "ras" / "samples"

MARK: Final = "\u200b"
"""What the Markdown report puts into words that would be links: of no width, and ours."""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine is found; no colour unless it is asked for."""
    monkeypatch.setenv("NCCL_RAS_ADDR", "127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    for name in ("XDG_CACHE_HOME", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


class Shell:
    """Runs commands, and looks at all that they write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *argv: str, styled: bool = False) -> str:
        """What a command wrote on standard output, which is as harmless as the rest."""
        out, err = io.StringIO(), io.StringIO()
        status = cli.main(argv, out, err)
        assert status != 4, err.getvalue()
        assert not hostile_text.seen(out.getvalue(), styled=styled), (argv, out.getvalue()[:2000])
        assert not hostile_text.seen(err.getvalue()), (argv, err.getvalue())
        # What only the last look before the terminal found.
        assert "\ufffd" not in out.getvalue(), (argv, out.getvalue()[:2000])
        return out.getvalue()

    def file(self, name: str, *argv: str) -> str:
        """What a command wrote into a file."""
        path = self.folder / name
        self.run(*argv, str(path))
        return path.read_text() if path.exists() else ""

    def align(self, where: str) -> None:
        """Every report and option of ``align``."""
        self.run("align", where)
        self.run("align", where, "--context", "50", "--full", "--strict")
        self.run("align", where, "--group", "nope")
        self.run("align", where, "--run", "nope")
        self.run("align", where, "--brief")
        json.loads(self.run("align", where, "--json", "-") or "0")
        harmless_markdown(self.file("report.md", "align", where, "--markdown"))
        harmless_page(self.file("report.html", "align", where, "--html"))
        json.loads(self.file("timeline.json", "align", where, "--perfetto") or "0")
        summary = self.folder / "summary.md"
        if summary.exists():
            harmless_markdown(summary.read_text())
            summary.unlink()

    def kinds(self, where: str) -> list[str]:
        """The kinds of the findings: hostile text is still text."""
        answer = json.loads(self.run("align", where, "--json", "-"))
        return [finding["kind"] for finding in answer["findings"]]

    def follow(self, where: str) -> None:
        """As ``--follow`` has it, which ends where all logs do."""
        metrics = self.folder / "metrics.prom"
        self.run("align", where, "--follow", "--interval", "0.01", "--prometheus", str(metrics))
        assert not hostile_text.seen(metrics.read_text())

    def look_around(self, where: str) -> None:
        """The commands beside ``align``."""
        self.run("runs", where)
        json.loads(self.run("runs", where, "--json", "-") or "0")
        for rank in "0", "1", "99":
            self.run("show", where, "--rank", rank)
        self.run("show", where, "--rank", "0", "--group", "nope")
        self.run("show", where, "--rank", "0", "--around", "1")
        json.loads(self.run("show", where, "--rank", "0", "--json", "-") or "0")
        self.run("diff", where, where)
        self.run("diff", where, str(self.folder / "usual"))
        json.loads(self.run("diff", str(self.folder / "usual"), where, "--json", "-") or "0")
        self.run("doctor", where)
        json.loads(self.run("doctor", where, "--json", "-") or "0")
        self.run("gather", where, "-o", str(self.folder / "gathered"))
        self.run("import", where, "-o", str(self.folder / "imported"))
        shutil.rmtree(self.folder / "imported", ignore_errors=True)
        shutil.rmtree(self.folder / "gathered", ignore_errors=True)


def harmless_markdown(text: str) -> None:
    assert not hostile_text.seen(text.replace(MARK, "")), text


def harmless_page(page: str) -> None:
    if page:
        assert not hostile_text.seen(page)
        assert not hostile_text.seen(html.unescape(page))
        data = page.partition('type="application/json" id="data">')[2].partition("</script>")[0]
        assert not [text for text in strings(json.loads(data)) if hostile_text.seen(text)]


def strings(value: Any) -> list[str]:
    """Every string in a JSON value."""
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return [one for item in inside for one in strings(item)]
    return [value] if isinstance(value, str) else []


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    kind_examples.config_skew().write(tmp_path / "usual")
    return Shell(tmp_path)


def with_code(run: Run) -> Run:
    """What is recorded of the lines that calls were made from."""
    for rank in run:
        sites = {one.site for one in rank.items if isinstance(one, Call | Activity) and one.site}
        for site in sites:
            line = site.rpartition(":")[2]
            ways, given = [f"{line} return if late:"], [f"3 {line} late = loss > 1"]
            lines = ["1 def train():", "3 if late:", f"{line} reduce(loss)"]
            rank.items.insert(0, Source(t=1, site=site, lines=lines, ways=ways, given=given))
    return run


def poisoned(run: Run, is_meant: Callable[[type, str], bool], text: str = hostile_text.TEXT) -> Run:
    known: set[int] = set()
    for rank in run:
        for record in (rank.header, *rank.items):
            if isinstance(record, Record):
                hostile_text.poison(record, is_meant, text, known)
            if isinstance(record, Call):
                # It is numbered anew: its digests are those of the text.
                record.digest = record.program = record.pairs = None
    return run


def written(run: Run, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    return str(run.write(folder).parent)


@pytest.mark.parametrize("sample", SAMPLES)
def test_text_everywhere(sample: str, shell: Shell, tmp_path: Path) -> None:
    usual = written(with_code(kind_examples.KINDS[sample]()), tmp_path / "logs")
    kinds = shell.kinds(usual)
    shutil.rmtree(usual)
    run = with_code(kind_examples.KINDS[sample]())
    where = written(
        poisoned(run, lambda _, name: not hostile_text.is_telling(name)), tmp_path / "logs"
    )
    assert shell.kinds(where) == kinds
    shell.align(where)
    shell.look_around(where)
    shell.follow(where)


def test_ops_and_phases_that_nobody_knows(shell: Shell, tmp_path: Path) -> None:
    for sample in "dtype_mismatch", "p2p_unmatched", "deadlock":
        run = poisoned(kind_examples.KINDS[sample](), lambda *_: True)
        where = written(run, tmp_path / sample)
        shell.align(where)
        shell.look_around(where)


@pytest.mark.parametrize("kind", [*KINDS.values(), Activity])
def test_text_in_one_kind_of_record(kind: type, shell: Shell, tmp_path: Path) -> None:
    run = kind_examples.KINDS["creation_missing_call"]()
    for record in hostile_text.one_of_each():
        if record.kind not in ("header", "exit", "checkpoint"):
            run.rank(0).items.insert(-1, record)
    poisoned(run, lambda cls, _: cls is kind)
    where = written(run, tmp_path / "logs")
    shell.run("align", where)
    shell.run("align", where, "--group", "nope")
    harmless_markdown(shell.file("report.md", "align", where, "--markdown"))
    harmless_page(shell.file("report.html", "align", where, "--html"))
    shell.run("show", where, "--rank", "0")


def test_colours_are_ours_alone(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-16color")
    run = poisoned(kind_examples.deadlock(), lambda _, name: not hostile_text.is_telling(name))
    where = written(run, tmp_path / "logs")
    assert "\x1b[" in shell.run("align", where, styled=True)
    for argv in (
        ("runs", where), ("show", where, "--rank", "0"), ("diff", where, where), ("doctor", where),
    ):  # fmt: skip
        shell.run(*argv, styled=True)


def test_a_text_without_an_end(shell: Shell, tmp_path: Path) -> None:
    run = poisoned(
        kind_examples.dtype_mismatch(),
        lambda _, name: not hostile_text.is_telling(name),
        "x" * 20_000,
    )
    where = written(run, tmp_path / "logs")
    for argv in (
        ("align", where), ("align", where, "--group", "nope"), ("align", where, "--markdown", "-"),
        ("align", where, "--brief"), ("runs", where), ("show", where, "--rank", "0"),
        ("show", where, "--rank", "0", "--group", "nope"), ("diff", where, where),
    ):  # fmt: skip
        assert len(shell.run(*argv)) < 150_000, argv


MARKUP: Final = (
    "</details><b>x</b> **b** [x](http://y) ![z](w) <!--", "```\n\n# h\n| a | b |\n|---|---|\n",
    "`<b>` $`x`$ &lt; `` \\",
)  # fmt: skip
OWN_BLOCKS: Final = {
    "heading", "paragraph", "inline", "fence", "bullet_list", "list_item", "html_block",
}  # fmt: skip
OWN_HTML: Final = ("<details><summary>all that is known</summary>", "</details>")


@pytest.mark.parametrize("markup", MARKUP)
@pytest.mark.parametrize("sample", ["p2p_unmatched", "raised"])
def test_markup_is_text_in_the_markdown_report(
    sample: str, markup: str, shell: Shell, tmp_path: Path
) -> None:
    run = with_code(kind_examples.KINDS[sample]())
    where = written(poisoned(run, lambda *_: True, markup), tmp_path / "logs")
    page = shell.file("report.md", "align", where, "--markdown")
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        assert token.type.removesuffix("_open").removesuffix("_close") in OWN_BLOCKS, token
        assert token.type != "html_block" or token.content.strip() in OWN_HTML
        inside = {child.type.partition("_")[0] for child in token.children or ()}
        assert inside <= {"text", "code", "softbreak", "strong"}, token.content


def odd_names(folder: Path) -> str:
    """A log whose folders and files have names such as a terminal should not be shown."""
    name = (hostile_text.TEXT + hostile_text.SURROGATE).replace("\x00", "").replace("/", "")
    below = folder / f"logs{name}"
    for n, sample in enumerate(("stall", "deadlock")):
        run = kind_examples.KINDS[sample]()
        run.name = f"run-{n}{name}"[:60]
        for rank in run:
            rank.header.run = run.name.encode(errors="replace").decode()
            rank.header.wall += n
        run.write(below)
        first = below / run.name / "rank00000.jsonl"
        shutil.copy(first, first.with_name(f"rank00000{name[:40]}.jsonl"))
        (first.parent / f"notes{name[:40]}.jsonl").write_bytes(b'{"kind":"\\ud800"}\n\x1b[2J\n')
    return str(below)


def test_names_of_folders_and_files(shell: Shell, tmp_path: Path) -> None:
    where = odd_names(tmp_path)
    runs = sorted(Path(where).iterdir())
    for path in (where, str(runs[0]), str(runs[0] / "rank00000.jsonl"), f"{where}/nowhere"):
        shell.align(path)
        shell.look_around(path)
    shell.follow(where)
    (tmp_path / "logs.tar.gz").write_bytes(b"")
    for name in "none", "cut.tar.gz", "cut.jsonl.gz":
        odd = Path(where) / f"{name}\x1b[2J\udc80"
        odd.write_bytes(b"\x1f\x8b\x00")
        shell.run("align", str(odd))
        shell.run("doctor", str(odd))


ODD: Final = (hostile_text.TEXT + hostile_text.SURROGATE).replace("\x00", "")


@pytest.mark.parametrize(
    "argv",
    [
        (ODD,), ("align", ODD), ("align", "usual", ODD), ("align", "usual", f"--{ODD}"),
        ("align", "usual", "--context", ODD), ("align", "usual", "--interval", ODD, "--follow"),
        ("align", "usual", "--group", ODD), ("align", "usual", "--run", ODD),
        ("align", "usual", "--html", f"{ODD}/a"), ("align", "usual", "--json", f"{ODD}/a"),
        ("align", "usual", "--markdown", ODD, "--json", ODD),
        ("align", "usual", "--perfetto", f"{ODD}/a"), ("align", "--store", ODD),
        ("align", "usual", "--follow", "--prometheus", f"{ODD}/a"),
        ("align", "--store", f"{ODD}:1"), ("align", f"s3{ODD}://x"), ("align", f"{ODD}://x"),
        ("runs", ODD), ("show", ODD, "--rank", "0"), ("show", "usual", "--rank", ODD),
        ("show", "usual", "--rank", "0", "--group", ODD), ("diff", "usual", ODD),
        ("gather", ODD, "-o", ODD), ("gather", f"{ODD}:x", "-o", "to", "--via", f"false {ODD}"),
        ("gather", f"host:{ODD}", "-o", "to", "--via", "env HOST={host}"),
        ("gather", "usual", "usual", "-o", "to"), ("gather", "usual", "-o", f"to{ODD[:40]}"),
        ("import", ODD), ("import", "usual", "--run", ODD), ("doctor", ODD), ("docs", ODD),
        ("schema", ODD), ("run", ODD), ("run", "-m", ODD), ("run", "--heartbeat", ODD, "x.py"),
    ],
)  # fmt: skip
def test_arguments(argv: Sequence[str], shell: Shell) -> None:
    shell.run(*argv)


def test_variables(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / f"{ODD}/nowhere.md"))
    shell.run("align", "usual")


@pytest.mark.parametrize("case", ["healthy", "never_enqueued", "coalesced_differs"])
def test_dumps_of_other_tools(case: str, shell: Shell, tmp_path: Path) -> None:
    job = getattr(flight_cases, case)()
    folder = job.write(tmp_path / f"dumps{ODD[:30]}", form="json")
    for file in folder.iterdir():
        dump = hostile_text.in_json(
            json.loads(file.read_text()), hostile_text.TEXT + hostile_text.SURROGATE
        )
        for entry in dump["entries"]:
            for known in "state", "profiling_name":
                entry[known] = entry[known].removeprefix(hostile_text.TEXT + hostile_text.SURROGATE)
        file.write_text(json.dumps(dump))
    shell.align(str(folder))
    shell.look_around(str(folder))


@pytest.mark.parametrize("sample", sorted(file.name for file in RAS.iterdir()))
def test_reports_of_ras(sample: str, shell: Shell, tmp_path: Path) -> None:
    text = (RAS / sample).read_text()
    odd = tmp_path / sample
    if sample.endswith(".json"):
        odd.write_text(json.dumps(hostile_text.in_json(json.loads(text), hostile_text.TEXT)))
    else:
        lines = text.split("\n")
        odd.write_text("\n".join(f"{line}{hostile_text.TEXT}" for line in lines), newline="")
    shell.run("doctor", str(odd))
    shell.run("doctor", str(tmp_path))
    json.loads(shell.run("doctor", str(odd), "--json", "-") or "0")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stream_of_few_characters(encoding: str, shell: Shell, tmp_path: Path) -> None:
    run = poisoned(
        kind_examples.deadlock(),
        lambda _, name: not hostile_text.is_telling(name),
        "caf\u00e9 \u6f22",
    )
    where = written(run, tmp_path / "logs")
    for argv in (
        ("align", where), ("align", where, "--markdown", "-"), ("align", where, "--brief"),
        ("align", where, "--follow"), ("runs", where), ("show", where, "--rank", "0"),
        ("diff", where, where), ("gather", where, "-o", "caf\u00e9"), ("doctor", where),
        ("docs", "decides"),
    ):  # fmt: skip
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding=encoding)
        assert cli.main(argv, stream, io.StringIO()) in (0, 1, 3), argv
        stream.flush()
        assert raw.getvalue(), argv


def test_what_was_not_made_safe_shows_that_it_was_not(tmp_path: Path) -> None:
    out = io.StringIO()
    page = Page(Console(file=out, width=80))
    page.line("a\x1b[2Jb\u202e")
    with LiveView(out, "x\x1b[2J") as view:
        view._print("c\x9b2J")
    first, second = out.getvalue().splitlines()
    assert first == "a\ufffd[2Jb\ufffd"
    assert second.endswith("c\ufffd2J")


def test_there_is_one_way_to_standard_error() -> None:
    files = [Path(cli.__file__), *Path(commands.__file__).parent.glob("*.py")]
    told = [one.name for one in files if re.search(r"file=\S*std|stderr\.write", one.read_text())]
    assert sorted(told) == ["gather.py", "output.py"]  # gather tells as it goes


def test_the_rest(shell: Shell) -> None:
    shell.run("docs")
    shell.run("docs", "report")
    shell.run("schema")
    shell.run("schema", "--findings", "--json-schema")

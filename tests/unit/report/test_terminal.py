"""The terminal report: the exact screen, and what hostile logs can do to it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from collectrace.findings import (
    KINDS,
    Alignment,
    Excerpt,
    Finding,
    Job,
    RankState,
    Table,
    TableRow,
)
from collectrace.records import Call
from collectrace.report import terminal, text, verbose
from collectrace.report.layout import share
from collectrace.report.terminal import render
from collectrace.words import ranks
from tests.support import alignments, kind_examples
from tests.support.judging import aligned
from tests.support.synthetic import Run

GOLDEN = Path(__file__).parents[2] / "golden"


def screen(alignment: Alignment, width: int = 80) -> str:
    out = io.StringIO()
    render(alignment, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def whole(alignment: Alignment) -> str:
    """What ``--verbose`` shows."""
    out = io.StringIO()
    verbose.write(alignment, out)
    return out.getvalue()


@pytest.mark.parametrize(
    "sample",
    [
        alignments.join_with_barrier,
        alignments.all_agree,
        alignments.agreed_from_different_lines,
        alignments.missing_call,
        alignments.not_enough,
        alignments.nested_consequences,
        alignments.explained,
    ],
)
def test_screen(sample: Callable[[], Alignment]) -> None:
    compare(screen(sample()), sample.__name__)


Answers = dict[str, Alignment]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """From rank files, one run for each kind of finding."""
    return {
        name: aligned(make(), tmp_path_factory.mktemp(name))
        for name, make in kind_examples.KINDS.items()
    }


@pytest.mark.parametrize("kind", kind_examples.KINDS)
def test_every_kind_on_the_screen(
    kind: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GOLDEN.parents[1])  # sites below the working directory are told relative
    compare(screen(answers[kind]), f"kind_{kind}")


def test_every_kind_has_its_screen(answers: Answers) -> None:
    for kind in KINDS:
        found = [one.findings for name, one in answers.items() if name.endswith(kind)]
        assert kind in {finding.kind for findings in found for finding in findings}


def compare(seen: str, name: str) -> None:
    """Hold a screen against its golden file.

    ``UPDATE_GOLDEN=1 pytest tests/unit/report`` writes what is seen instead; read
    ``git diff tests/golden`` before it is committed.
    """
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(seen)
    assert seen == file.read_text()
    assert max(map(len, seen.splitlines())) <= 80


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_ends_in_a_space(width: int) -> None:
    for line in screen(alignments.join_with_barrier(), width).splitlines():
        assert line == line.rstrip()


@pytest.mark.parametrize("kind", kind_examples.KINDS)
def test_a_narrow_page_is_kept_by_every_kind(kind: str, answers: Answers) -> None:
    seen = screen(answers[kind], 60).splitlines()
    assert [line for line in seen if len(line) > 60] == []


def test_only_places_are_longer_than_the_page() -> None:
    for line in screen(alignments.missing_call(), 60).splitlines():
        assert len(line) <= 60 or "loop.py" in line


def test_a_pipe_gets_no_escapes_and_a_terminal_gets_colour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    plain, coloured = io.StringIO(), io.StringIO()
    render(alignments.join_with_barrier(), Console(file=plain, width=80))
    render(
        alignments.join_with_barrier(),
        Console(file=coloured, width=80, force_terminal=True, color_system="standard"),
    )
    assert "\x1b" not in plain.getvalue()
    assert "\x1b[" in coloured.getvalue()
    assert "\nerror: rank 1's all_reduce" in plain.getvalue()


def test_an_ascii_stream_takes_every_report() -> None:
    finding = alignments.join_with_barrier().findings[0]
    odd = replace(
        alignments.all_agree(),
        findings=(replace(finding, headline="café → 漢字"),),
        job=Job(hosts=("café",)),
    )
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    render(odd, Console(file=stream, width=80, color_system=None))
    stream.flush()
    assert raw.getvalue().startswith(b"aligned | 2 ranks on caf?\n")
    assert b"\nerror: caf? ? ??\n" in raw.getvalue()
    assert b"   < rank 1: call 29" in raw.getvalue()


def test_markup_in_a_log_is_text() -> None:
    finding = replace(alignments.join_with_barrier().findings[0], headline="[bold red]x[/]")
    assert "[bold red]x[/]" in screen(replace(alignments.all_agree(), findings=(finding,)))


def test_ranks_without_a_log_are_told_where_no_finding_does() -> None:
    seen = screen(replace(alignments.not_enough(), findings=()))
    assert "ranks 2-3 left no log." in " ".join(seen.split())


def test_a_single_row_that_differs_is_no_table_of_what_met_what() -> None:
    finding = alignments.join_with_barrier().findings[0]
    assert finding.table is not None
    for rows, is_there in ((finding.table.rows, True), (finding.table.rows[:5], False)):
        told = replace(finding, table=replace(finding.table, rows=rows))
        seen = screen(replace(alignments.all_agree(), findings=(told,)))
        assert ("what met what" in seen) is is_there


def test_a_name_without_end_does_not_fill_the_screen() -> None:
    finding = replace(alignments.join_with_barrier().findings[0], headline="x" * 1_000_000)
    assert len(screen(replace(alignments.all_agree(), findings=(finding,)))) < 10_000


@pytest.mark.parametrize(
    ("suspects", "left_out", "last"), [((3,), "ranks 2,4-11", 3), ((9,), "ranks 2-8,10-11", 9)]
)
def test_a_shorter_table_says_what_it_leaves_out_and_keeps_the_suspect(
    suspects: tuple[int, ...], left_out: str, last: int
) -> None:
    finding = alignments.missing_call().findings[0]
    calls = [alignments.call(5, shape=[n]) for n in range(12)]
    table = Table(
        columns=tuple((n,) for n in range(12)),
        rows=(TableRow(seq=5, cells=tuple(calls), mark="root"),),
    )
    told = replace(finding, table=table, suspects=suspects)
    seen = whole(replace(alignments.missing_call(), findings=(told,)))
    assert f"not shown: {left_out}" in seen
    assert [n for n in range(12) if f"float32[{n}]" in seen] == [0, 1, last]


def test_columns_with_long_names_fold(tmp_path: Path) -> None:
    """A site is never cut."""
    run = Run(3)
    for rank in run:
        site = f"/job/long_module.py:{40 + rank.rank}"
        kind_examples.waits(rank, shape=[rank.rank + 1], site=site)
    table = whole(aligned(run, tmp_path)).partition("  calls side by side (lines of ")[2]
    table = table.partition("\n\n")[0]
    assert [f"(line {n})" in table for n in (40, 41, 42)] == [True] * 3
    assert max(map(len, table.splitlines())) <= 80


def test_the_first_consequence_is_told_and_the_others_counted() -> None:
    root = alignments.join_with_barrier().findings[0]
    effects = [
        replace(root, headline=f"effect {n}", cause=f"why {n}.", caused_by=0) for n in range(6)
    ]
    alignment = replace(alignments.join_with_barrier(), findings=(root, *effects))
    seen = screen(alignment)
    assert "then  effect 0 (and 5 more: --verbose)" in seen
    assert "why 0." not in seen
    assert [f"why {n}." in whole(alignment) for n in range(6)] == [True] * 6


def test_a_consequence_is_told_without_an_excerpt_and_keeps_its_files() -> None:
    shown = (Excerpt(path="train.py", function="main", lines=()),)
    root = replace(
        alignments.join_with_barrier().findings[0], cause="Root at train.py:43.", excerpt=shown
    )
    effect = replace(root, headline="effect", cause="Effect at train.py:43.", caused_by=0)
    told = whole(replace(alignments.join_with_barrier(), findings=(root, effect)))
    assert "Root at line 43." in told
    assert "Effect at train.py:43." in told


def test_rows_that_were_left_out_are_a_gap() -> None:
    finding = alignments.missing_call().findings[0]
    rows = tuple(TableRow(seq=n, cells=(alignments.call(n),) * 2) for n in (1, 2, 40))
    table = Table(columns=((0,), (1,)), rows=rows)
    seen = whole(replace(alignments.missing_call(), findings=(replace(finding, table=table),)))
    lines = seen.splitlines()
    below = lines[next(n for n, line in enumerate(lines) if line.split()[:1] == ["call"]) + 1 :]
    told = [line.split()[0] for line in below[: below.index("")]]
    shown = [one for one in told if one.isdigit() or one == ".."]
    assert shown == ["1", "2", "..", "40"]


def test_a_finding_whose_cause_is_not_there_is_told_by_itself() -> None:
    lonely = replace(alignments.join_with_barrier().findings[0], caused_by=7)
    assert lonely.headline[:40] in screen(replace(alignments.missing_call(), findings=(lonely,)))


def test_the_fourth_error_is_told_by_its_headline() -> None:
    one: Finding = alignments.join_with_barrier().findings[0]
    several = tuple(replace(one, headline=f"headline {n}") for n in range(5))
    seen = screen(replace(alignments.join_with_barrier(), findings=several))
    assert seen.count("\n  fix   ") == 3
    assert "\nerror: headline 3\nerror: headline 4\n" in seen
    assert "5 errors on 2 ranks. Start with the first: others may go with it.\n" in seen


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "ranks "),
        ([3], "rank 3"),
        ([5, 0, 1, 2], "ranks 0-2,5"),
        ([1, 1], "rank 1"),
        (range(0, 64, 8), "ranks 0,8,..,56"),
    ],
)
def test_ranks(members: list[int], words: str) -> None:
    assert ranks(members) == words


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (alignments.call(1), "all_reduce float32[1] SUM"),
        (alignments.call(1, "barrier"), "barrier"),
        (
            alignments.call(1, "broadcast", dtype="int64", shape=[], root=3),
            "broadcast int64[] root 3",
        ),
        (
            alignments.call(1, "send", dtype="int8", shape=[2, 3], peer=1),
            "send int8[2, 3] to rank 1",
        ),
        (
            alignments.call(1, "recv", dtype="int8", shape=[2], peer=-1, tag=9),
            "recv int8[2] from any rank, tag 9",
        ),
        (
            alignments.call(1, "all_gather", dtype="int8", shape=[2], out_shape=[[2]] * 8),
            "all_gather int8[2] -> 8 x [2]",
        ),
        (
            alignments.call(1, "all_gather", dtype="int8", shape=[2], out_shape=[[1], [2]]),
            "all_gather int8[2] -> [1] [2]",
        ),
        (
            alignments.call(
                1, "all_to_all_single", dtype="int8", shape=[3], splits=[[1, 2], [0, 3]]
            ),
            "all_to_all_single int8[3] sends [1, 2], expects [0, 3]",
        ),
        (alignments.call(1, "broadcast", void=True), "broadcast (could not be described)"),
    ],
)
def test_call(call: Call, words: str) -> None:
    assert text.call(call) == words


def test_wide_columns_give_way_first() -> None:
    words = [8, 8, 8]
    assert share([10, 60, 50], words, 100) == [10, 45, 45]
    assert share([10, 20], words[:2], 100) == [10, 20]
    assert share([100, 100, 100], words, 10) == [10, 10, 10]


def test_no_column_is_narrower_than_its_longest_word() -> None:
    assert share([60, 60], [8, 40], 60) == [20, 40]


def test_ranks_that_say_the_same_are_told_together() -> None:
    base = alignments.missing_call()
    blocked = alignments.call(6650)
    behind = alignments.call(6649)
    ranks = tuple(
        RankState(
            rank=r,
            state="blocked",
            ended="alive",
            last_call=behind if r in (3, 9) else blocked,
            detail=f"for {60 + r}.5 s",
        )
        for r in range(32)
    )
    seen = [" ".join(line.split()) for line in whole(replace(base, ranks=ranks)).splitlines()]
    at = seen.index("ranks")
    assert seen[at + 1].startswith(
        "0-2,4-8,10-31 blocked, still alive for 60.5 s (rank 0; the others"
    )
    assert sum("likewise)" in line for line in seen) == 2
    assert sum(line.endswith("call 6650") for line in seen) == 1


def test_ranks_at_other_lines_or_calls_are_told_apart() -> None:
    places = ("t.py:15 (call 3 of group 1)", "t.py:12 (call 3 of group 1)",
              "t.py:15 (call 3 of group 2)", "t.py:15 (call 4 of group 1)")  # fmt: skip
    ranks = tuple(
        RankState(rank=r, state="blocked", ended="alive", detail=f"for {r} s in all_reduce at {at}")
        for r, at in enumerate(places)
    )
    seen = whole(replace(alignments.missing_call(), ranks=ranks))
    assert "likewise" not in seen


def test_no_end_of_states_fills_the_whole() -> None:
    ranks = tuple(
        RankState(rank=r, state="raised", ended="exit", last_call=alignments.call(r + 1))
        for r in range(500)
    )
    seen = whole(replace(alignments.missing_call(), ranks=ranks))
    assert "ranks 8-499: in --json" in seen
    assert len(seen.splitlines()) < 60


# What a person asks first


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_first_lines_say_what_was_run_where_when_and_how_it_ended(width: int) -> None:
    head, _, rest = screen(alignments.missing_call(), width).partition("\n\n")
    assert " ".join(head.split()) == (
        "crashed · train.py --lr 0.1 --data '/data/web text' · 8 ranks on 2 hosts (node1, node2) "
        "· 42 min so far, last line 2026-01-16 10:12:05 UTC "
        "attempt 2 · attempt 1 ended: rank 5 raised ValueError (--run 20260115-070000-0002)"
    )
    assert rest.startswith("error: ranks 3,6 never came to all_reduce")
    assert max(map(len, head.splitlines())) <= width


@pytest.mark.parametrize("columns", ["0", "1", "x"])
def test_a_terminal_without_columns_gets_the_report(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = io.StringIO()
    terminal.write(alignments.missing_call(), out)
    assert "error: ranks 3,6 never" in " ".join(out.getvalue().split())


def test_only_who_ended_by_itself_makes_a_crash_of_a_hang() -> None:
    crash = alignments.missing_call()
    assert (crash.status, crash.outcome) == ("hung", "crashed")
    alive = tuple(replace(rank, state="busy") for rank in crash.ranks)
    assert replace(crash, ranks=alive).outcome == "hung"
    one = tuple(replace(r, state="busy") if r.rank == 3 else r for r in crash.ranks)
    assert replace(crash, ranks=one).outcome == "hung"
    assert alignments.join_with_barrier().outcome == "diverged"
    assert alignments.all_agree().outcome == "aligned"


def test_other_runs_are_told_beside_the_runs_name_and_cast_no_doubt() -> None:
    seen = screen(alignments.missing_call())
    assert "note: " not in seen
    assert "run 20260116-093000-f00d; 2 other runs in this folder (--run):\n" in seen


def test_a_call_that_a_rank_is_blocked_in_is_told_once() -> None:
    base = alignments.missing_call()
    detail = "in all_reduce at loop.py:88 for 61 s (call 4711 of the default group)"
    seen = whole(replace(base, ranks=(replace(base.ranks[0], detail=detail),)))
    assert "last call" not in seen
    other = replace(base.ranks[0], detail=detail.replace("4711", "9"))
    assert "last call: all_reduce at loop.py:88, call 4711\n" in whole(
        replace(base, ranks=(other,))
    )

"""Lines that parted in a framework's calls: the user's lines, what stands around them, batches."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from collectrace.align import align
from collectrace.findings import Alignment, Finding, Side
from collectrace.records import Call, Stack
from collectrace.report import markdown, page, terminal, verbose
from tests.support.judging import errors
from tests.support.synthetic import Rank, Run

SCRIPT = """\
def forward(x):
    return net(x)
def evaluate():
    for x in held_out:
        forward(x)
for n, x in enumerate(loader):
    forward(x)
    net.sum().backward()
    if n == 3 and rank == 0:
        evaluate()
barrier()
"""
TRAINS, BACKWARD, EVALUATES, ALSO = (2, 7), (8,), (2, 5, 10), (2, 11)
"""Lines from the call outwards."""


def _go(rank: Rank, script: Path, lines: Sequence[int]) -> None:
    functions = {2: "forward", 5: "evaluate"}
    frames = [f"{script}:{n} {functions.get(n, '<module>')}" for n in lines]
    rank.record(Stack(stack=sum(lines), frames=frames))
    for part in ("0", "1") if lines != BACKWARD else ("1", "0"):
        op = "reduce_scatter_single" if lines == BACKWARD else "all_gather_single"
        role = "fsdp.reduce_scatter" if lines == BACKWARD else "fsdp.unshard"
        rank.call(
            op, role=role, part=part, site=f"{script}:{lines[0]}", stack=sum(lines), shape=[9]
        )


def run_of(folder: Path, script: str = SCRIPT, *, steps: int = 4) -> tuple[Run, Path]:
    """Three ranks after equal steps of a training."""
    path = folder / "train.py"
    path.write_text(script)
    run = Run(3)
    for rank in run:
        for _ in range(steps):
            _go(rank, path, TRAINS)
            _go(rank, path, BACKWARD)
    return run, path


def aligned(run: Run, folder: Path) -> Alignment:
    for rank in run:
        call = next(item for item in reversed(rank.items) if isinstance(item, Call))
        rank.beat(60, rank.inside(call))
    return align(run.write(folder / "logs"))


def evaluated(folder: Path, *, steps: int = 4, between: int = 0) -> Alignment:
    """Rank 0 evaluates alone, and all go on training."""
    run, path = run_of(folder, steps=steps)
    for rank in run:
        if rank.rank == 0:
            _go(rank, path, EVALUATES)
        for _ in range(between):
            _go(rank, path, TRAINS)
            _go(rank, path, ALSO)
        _go(rank, path, TRAINS)
        _go(rank, path, BACKWARD)
    return aligned(run, folder)


def first(alignment: Alignment) -> Finding:
    return errors(alignment)[0]


def screen(alignment: Alignment) -> str:
    out = io.StringIO()
    terminal.render(alignment, Console(file=out, width=110))
    return out.getvalue()


def test_the_cause_names_both_lines_and_the_condition(tmp_path: Path) -> None:
    found = first(evaluated(tmp_path))
    assert (
        "From call 17 on rank 0 issued FSDP unshard of 0 and FSDP unshard of 1 at train.py:2 in "
        "forward(), reached from train.py:10, 2 calls that ranks 1-2, at train.py:7, never made"
    ) in found.cause
    assert "Only rank 0 was under `if n == 3 and rank == 0:` (train.py:9)" in found.cause


def test_the_fix_begins_with_the_statement_and_its_condition(tmp_path: Path) -> None:
    found = first(evaluated(tmp_path))
    assert found.fix.startswith(
        "Take `evaluate()` (train.py:10) out of `if n == 3 and rank == 0:` (train.py:9): "
    )
    assert "Run this forward on every rank" in found.fix
    assert "look above" not in found.fix


def test_where_no_condition_is_known_the_line_to_look_above_is_the_callers(tmp_path: Path) -> None:
    run, path = run_of(tmp_path, SCRIPT.replace("    if n == 3 and rank == 0:\n    ", "    #\n"))
    for rank in run:
        if rank.rank == 0:
            _go(rank, path, EVALUATES)
        _go(rank, path, TRAINS)
        _go(rank, path, BACKWARD)
    found = first(aligned(run, tmp_path))
    assert "look above train.py:2, reached from train.py:10," in found.fix
    assert found.fix.startswith("Run this forward on every rank")


def test_the_lines_where_they_parted_are_in_the_finding(tmp_path: Path) -> None:
    found = first(evaluated(tmp_path))
    assert found.parted is not None
    by_rank = {side.ranks: side for side in found.parted}
    told = {ranks: _lines(side) for ranks, side in by_rank.items()}
    assert told == {(0,): (17, "2", "10"), (1, 2): (17, "2", "7")}
    around = {line.site.rpartition(":")[2]: line.enclosing for line in found.sources}
    assert around["10"] is not None
    assert any("if n == 3 and rank == 0:" in line for line in around["10"])


def _lines(side: Side) -> tuple[int, str, str]:
    assert side.call is not None
    line, caller = ((site or "").rpartition(":")[2] for site in (side.call.site, side.site))
    return side.call.seq, line, caller


def whole(alignment: Alignment) -> str:
    out = io.StringIO()
    verbose.write(alignment, out)
    return out.getvalue()


def test_every_report_shows_where_they_parted(tmp_path: Path) -> None:
    alignment = evaluated(tmp_path)
    lines = [" ".join(line.split()) for line in screen(alignment).splitlines()]
    assert "9 if n == 3 and rank == 0: may have decided" in lines
    at = next(n for n, line in enumerate(lines) if line.startswith("10 evaluate()"))
    arrow = "\N{BLACK LEFT-POINTING TRIANGLE}"
    assert lines[at].endswith(f"{arrow} only rank 0")
    assert any(f"{arrow} every rank: call 17, FSDP unshard of 0" in line for line in lines[at:])
    written, html = io.StringIO(), io.StringIO()
    markdown.write(alignment, written)
    page.write(alignment, html)
    for told in written.getvalue(), html.getvalue():
        assert "if n == 3 and rank == 0:" in told
        assert "every rank: call 17, FSDP unshard of 0" in told


# -- the row in the table ----------------------------------------------------------------------


def test_the_row_where_they_parted_is_marked_and_names_lines(tmp_path: Path) -> None:
    alignment = evaluated(tmp_path)
    table = first(alignment).table
    assert table is not None
    assert [(row.seq, row.mark) for row in table.rows if row.mark][:2] == [
        (17, "parted"), (19, "root"),
    ]  # fmt: skip
    row = next(line for line in whole(alignment).splitlines() if "apart >" in line)
    assert "FSDP unshard :5" in row
    assert "FSDP unshard :7" in row


def test_modules_are_named_where_they_differ(tmp_path: Path) -> None:
    shown = whole(evaluated(tmp_path))
    before = next(line for line in shown.splitlines() if line.split()[:1] == ["13"])
    assert before.split()[1:] == ["all_gather_single", "FSDP", "unshard", "FSDP", "unshard"]


def test_a_far_row_is_shown_behind_a_gap(tmp_path: Path) -> None:
    alignment = evaluated(tmp_path, between=11)
    table = first(alignment).table
    assert table is not None
    marks = {row.mark: row.seq for row in table.rows if row.mark}
    assert marks["root"] - marks["parted"] > 40
    shown = [row.seq for row in table.rows]
    assert [marks["parted"] + n in shown for n in range(-3, 4)] == [
        False, True, True, True, True, True, False,
    ]  # fmt: skip
    assert ".." in [line.strip() for line in whole(alignment).splitlines()]


# -- batches -----------------------------------------------------------------------------------

VALIDATES = SCRIPT.replace(
    "    if n == 3 and rank == 0:\n        evaluate()", "    #\n    evaluate()"
)
"""Every rank evaluates in each step."""


def validated(
    folder: Path,
    *,
    loads: bool = True,
    ended: bool = True,
    steps: int = 3,
    lines: Sequence[int] = EVALUATES,
) -> Finding:
    """Each step ends in an evaluation of three batches, at some lines; rank 0's last has two."""
    path = folder / "train.py"
    path.write_text(VALIDATES)
    run = Run(3)
    for rank in run:
        for step in range(steps):
            _go(rank, path, TRAINS)
            _go(rank, path, BACKWARD)
            batches = 2 if (rank.rank, step) == (0, steps - 1) else 3
            for batch in range(1, batches + 1):
                if loads:
                    site = f"{path}:4" if batch == 1 else None
                    rank.batch(batch, loader=step, site=site)
                _go(rank, path, lines)
            if loads and ended:
                rank.batch(batches, loader=step, end=True, site=f"{path}:4")
        _go(rank, path, TRAINS[-1:])
        _go(rank, path, BACKWARD)
    return first(aligned(run, folder))


def test_a_shorter_loader_outranks_what_fsdp_asks_for(tmp_path: Path) -> None:
    found = validated(tmp_path)
    assert found.cause.startswith(
        "Uneven inputs: in the loop `for x in held_out:` (train.py:4) rank 0 had 2 batches and "
        "ranks 1-2 got to their 3rd."
    )
    assert "drop_last=True" in found.fix
    assert "`for x in held_out:` (train.py:4)" in found.fix
    assert "times zero" not in found.fix


def test_without_a_loader_the_loop_alone_is_told(tmp_path: Path) -> None:
    found = validated(tmp_path, loads=False)
    assert "the loop ended earlier on rank 0" in found.cause
    assert "batch" not in found.cause
    assert "drop_last" not in found.fix
    assert "times zero" not in found.fix


def test_a_loader_that_had_not_ended_proves_nothing(tmp_path: Path) -> None:
    found = validated(tmp_path, ended=False)
    assert "Uneven inputs" not in found.cause
    assert "the loop ended earlier on rank 0" in found.cause


def test_a_round_that_no_rank_is_in_any_more_is_not_told(tmp_path: Path) -> None:
    found = validated(tmp_path, steps=1, lines=(5, 10))
    assert not any("calls in each round" in note for note in found.notes)

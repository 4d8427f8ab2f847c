"""The lines of the program that findings of recorded runs show."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import pytest
from rich.console import Console

from collectrace.findings import Alignment, Finding
from collectrace.log_folder import SOURCES
from collectrace.report import terminal
from tests.zoo import corpus

ENTRIES: Final = corpus.index()


def aligned(name: str, folder: Path, *, text: bool = True) -> Alignment:
    """The answer for a recorded run; ``text``: with the text of the program."""
    entry = ENTRIES[name]
    logs = corpus.unpack(entry.files(), folder)
    if not text:
        for file in logs.rglob(f"{SOURCES}/*.py"):
            file.unlink()
    return corpus.align(logs, entry.living)


def shown(finding: Finding) -> list[str]:
    """Function, line and notes of every line of an excerpt."""
    return [
        f"{part.function}:{line.line} {line.what}: {' | '.join(line.notes)}"
        for part in finding.excerpt or ()
        for line in part.lines
    ]


EXCERPTS: Final = {
    "loops/left_through_a_helper": [
        "<module>:26 decision: line 20 depends on this",
        "<module>:27 call: ranks 0-1: in this call",
        "<module>:28 call: rank 2: in this call",
        "count:20 decision: `page` = 7 on ranks 0-1 | ends on rank 2",
        "count:21 call: ",
        "meet:23 call: rank 2 waited (6.2 s): call 8, barrier",
        "total:13 call: ranks 0-1 waited (6.2 s): call 8, all_reduce float32[1] SUM",
    ],
    "stopped/exception": [
        "<module>:17 loop: iteration 3 on every rank (`step` = 2)",
        "<module>:18 decision: false on ranks 0,2 | true on rank 1",
        "<module>:19 place: rank 1 raised here: ValueError: batch 2 has no labels",
        "<module>:20 call: ranks 0,2: call 3, all_reduce float32[1] SUM",
    ],
    "groups/not_created_by_all": [
        "<module>:17 decision: true on ranks 0-1",
        "<module>:18 call: ranks 0-1: new_group([0, 1])",
        "<module>:19 call: rank 2: new_group([0, 1, 2])",
    ],
    "groups/overlap_given_up_by_one": [
        "Scheduler.loop:53 loop: ",
        *(f"Scheduler.loop:{line} between: " for line in range(54, 58)),
        "Scheduler.loop:58 decision: false on ranks 0-1,3 | true on rank 2",
        "Scheduler.loop:59 call: rank 2: in this call",
        "Scheduler.loop:60 call: ranks 0-1,3: in this call",
        (
            "Scheduler.settle:50 call: rank 2 waits here (17 s): call 11 of group 1, all_reduce "
            "float32[1] SUM"
        ),
        "Scheduler.run:42 loop: iteration 1 on ranks 0-1,3",
        "Scheduler.run:43 between: ",
        (
            "Scheduler.run:44 call: ranks 0-1,3 wait here (17 s): call 11 of group 2, "
            "all_to_all_single float32[4, 16] -> [4, 16] sends [16, 16, 16, 16], expects "
            "[16, 16, 16, 16]"
        ),
        "Scheduler.__init__:29 decision: line 58 depends on this",
    ],
    "loops/while_not_converged": [
        "<module>:18 decision: line 19 depends on this",
        "<module>:19 decision: false on ranks 0,2 | true on rank 1",
        "<module>:20 between: ",
        "<module>:21 call: rank 1: call 5, all_reduce float32[4] SUM",
        "<module>:22 call: ranks 0,2: call 5, broadcast float32[4] root 0",
    ],
}


@pytest.mark.parametrize("name", EXCERPTS)
def test_the_lines_that_matter_are_shown(name: str, tmp_path: Path) -> None:
    assert shown(aligned(name, tmp_path).findings[0]) == EXCERPTS[name]


def test_the_number_of_an_iteration_stands_at_the_loop_that_set_the_variable(
    tmp_path: Path,
) -> None:
    """Both loops of the script call their variable ``_``: the inner one sets it last."""
    noted = shown(aligned("loops/steps_by_own_length", tmp_path).findings[0])
    assert [line.partition(" ")[0] for line in noted if "iteration" in line] == ["<module>:27"]


def test_lines_have_the_recorded_text_below_the_least_indented(tmp_path: Path) -> None:
    [part] = aligned("stopped/exception", tmp_path).findings[0].excerpt or ()
    assert [line.text for line in part.lines] == [
        "for step in range(5):",
        "    if (rank, step) == (1, 2) and not TWIN:",
        '        raise ValueError("batch 2 has no labels")  # BUG',
        "    dist.all_reduce(torch.ones(1))",
    ]


@pytest.mark.parametrize("name", EXCERPTS)
def test_without_the_text_no_place_is_lost(name: str, tmp_path: Path) -> None:
    whole = aligned(name, tmp_path / "whole").findings[0]
    bare = aligned(name, tmp_path / "bare", text=False).findings[0]
    calls = {
        (part.path.rpartition("/")[2], line.line)
        for part in whole.excerpt or ()
        for line in part.lines
        if line.what != "decision" and line.notes and line.what != "loop"
    }
    found = {
        (part.path.rpartition("/")[2], line.line)
        for part in bare.excerpt or ()
        for line in part.lines
    }
    assert calls <= found
    assert all(line.text == "" for part in bare.excerpt or () for line in part.lines)


def test_the_screen_shows_them_in_thirty_lines(tmp_path: Path) -> None:
    out = io.StringIO()
    alignment = aligned("loops/left_through_a_helper", tmp_path)
    terminal.render(alignment, Console(file=out, width=100, color_system=None))
    below = out.getvalue().partition("\n\n")[2]  # the path of the script may be long
    assert len(below.splitlines()) <= 28
    assert "   20   for page in pages:       `page` = 7 on ranks 0-1" in out.getvalue()


def test_the_line_of_a_busy_rank_has_its_text(tmp_path: Path) -> None:
    """Stacks of a stall name a method without its class."""
    found = aligned("stopped/slow_loader", tmp_path).findings[0]
    [here] = [line for part in found.excerpt or () for line in part.lines if line.line == 28]
    assert here.text.strip() == "time.sleep(60)  # SLOW"
    assert here.notes[0].startswith("rank 1: here")


def test_each_rank_is_shown_at_its_own_line_of_one_call(tmp_path: Path) -> None:
    finding = aligned("matching/restart_read_by_its_owners", tmp_path).findings[0]
    lines = [line for line in shown(finding) if "scatter" in line]
    assert [line.partition(": rank ")[2][:1] for line in lines] == ["0", "1"]


def test_what_a_busy_rank_waits_for_stands_beside_its_stack(tmp_path: Path) -> None:
    out = io.StringIO()
    alignment = aligned("stopped/busy_while_others_follow", tmp_path)
    [stack] = alignment.findings[0].stacks or ()
    assert stack.waits_for is not None
    terminal.render(alignment, Console(file=out, width=160))
    told = out.getvalue().partition("stack of rank 0 (23 s)\n")[2].splitlines()
    assert told[0].strip() == "waits for"
    assert told[1].split("wait", 1)[1].strip() == stack.waits_for


def test_a_message_that_was_skipped_is_marked_where_it_was_made_before(tmp_path: Path) -> None:
    found = aligned("p2p/rest_kept_in_the_worker", tmp_path).findings[0]
    assert "Worker.push:33 call: rank 3 skipped this" in shown(found)


def test_lines_that_are_lost_do_not_move_the_difference(tmp_path: Path) -> None:
    name = "ddp/should_stop_on_one_rank"
    whole = aligned(name, tmp_path / "whole").findings[0]
    logs = corpus.unpack(ENTRIES[name].files(), tmp_path / "torn")
    [file] = logs.rglob("rank00001.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    calls = [n for n, line in enumerate(lines) if line.startswith(b'{"kind":"call"')]
    for n in calls[len(calls) // 2 : len(calls) // 2 + 2]:
        lines[n] = b"\0" * len(lines[n])
    file.write_bytes(b"".join(lines))
    torn = corpus.align(logs, ENTRIES[name].living).findings[0]
    assert (torn.code, torn.seq, torn.parted) == (whole.code, whole.seq, whole.parted)


def test_a_test_of_the_rank_that_may_not_have_decided_has_no_outcome(tmp_path: Path) -> None:
    # Rank 2 is compared with itself: its rank was the same each time, and so was the outcome.
    found = aligned("p2p/overflow_on_one_stage", tmp_path).findings[0]
    [here] = [line for part in found.excerpt or () for line in part.lines if line.line == 45]
    assert list(here.notes) == ["depends on the rank"]

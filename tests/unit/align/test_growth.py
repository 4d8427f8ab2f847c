"""The work to read a log grows as the log does, whatever there is much of in it.

Work is counted in lines of Python that run, so that no other process can change it. From n to 2n
and from 2n to 4n the second step costs twice the first if the work is linear, and four times if
it is a square.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from collectrace.align.alignment import align, compared
from collectrace.align.browsing.run_list import list_runs
from collectrace.align.judging.judge import MOST_OF_A_KIND
from collectrace.align.ranks.standing import Waiting
from collectrace.align.ranks.waitgraph import Edge, WaitGraph, stuck
from collectrace.align.reading.rows import Rows
from collectrace.align.reading.run_reader import MOST_MISSING, read
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.chain import CHECKPOINT_EVERY
from collectrace.report import REPORTS
from tests.support.growing import GROWING
from tests.support.synthetic import SECOND, Run

_LINEAR: Final = 2.3
"""Of the second step to the first: 2 with something for a logarithm; of a square 4."""

_SMALL: Final = {
    "gaps": 60,
    "groups": 50,
    "groups_asked_by_one": 40,
    "members_of_groups": 40,
    "messages_crossed": 40,
    "ring": 40,
    "ranks_that_differ": 25,
}
"""Cases that run each time, with n; those that needed a cure."""


def _lines(work: Callable[[], object]) -> int:
    """Return how many lines of Python run."""
    count = 0

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _growth(make: Callable[[Path, int], None], work: Callable[[Path], object], tmp: Path,
            n: int) -> float:  # fmt: skip
    counts: list[int] = []
    for size in (n, n, 2 * n, 4 * n):  # the first time modules are imported
        folder = tmp / f"{len(counts)}"
        make(folder, size)
        counts.append(_lines(lambda folder=folder: work(folder)))  # type: ignore[misc]
    _, one, two, four = counts
    return (four - two) / max(two - one, 1)


def _reported(folder: Path) -> None:
    alignment = align(folder)
    assert not alignment.internal_errors
    for report in REPORTS:
        if report.option != "html":
            report.write(alignment, io.StringIO())


@pytest.mark.parametrize("name", _SMALL)
def test_reading_and_reporting_grow_as_the_log(name: str, tmp_path: Path) -> None:
    growth = _growth(GROWING[name].write, _reported, tmp_path, _SMALL[name])
    assert growth < _LINEAR


def test_messages_that_never_meet_are_compared_in_linear_time(tmp_path: Path) -> None:
    make = GROWING["sends_to_other_tags"].write
    assert _growth(make, lambda folder: compared(read(folder)), tmp_path, 120) < _LINEAR


def test_threads_in_a_line_are_released_in_linear_time(tmp_path: Path) -> None:
    def work(folder: Path) -> None:
        length = int(folder.read_text())
        w = Waiting(0, "T", "call", 0, "0", "barrier")
        edges = {(0, f"T{n}"): (Edge(w, (0, f"T{n + 1}"), 1),) for n in range(length)}
        assert not stuck(WaitGraph(edges))

    growth = _growth(_write_number, work, tmp_path, 50)
    assert growth < _LINEAR


def test_all_ranks_share_one_list_of_the_members_of_a_group(tmp_path: Path) -> None:
    GROWING["ranks"].write(tmp_path, 5)
    logs = read(tmp_path).logs.values()
    assert len({id(group.ranks) for log in logs for group in log.groups}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GROWING))
def test_every_dimension_grows_as_the_log(name: str, tmp_path: Path) -> None:
    growth = _growth(GROWING[name].write, _reported, tmp_path, 200)
    assert growth < _LINEAR


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GROWING))
def test_the_page_of_every_dimension_grows_as_the_log(name: str, tmp_path: Path) -> None:
    (page,) = (report for report in REPORTS if report.option == "html")
    growth = _growth(
        GROWING[name].write, lambda f: page.write(align(f), io.StringIO()), tmp_path, 100
    )
    assert growth < _LINEAR


def _write_number(path: Path, n: int) -> None:
    path.write_text(str(n))


def _write_runs(folder: Path, n: int) -> None:
    for i in range(n):
        run = Run(1, f"run-{i:05d}", texts=False, start=1_760_000_000 * SECOND + i * 10 * SECOND)
        run.all("barrier")
        run.finish()
        run.write(folder)


def test_a_list_of_runs_grows_as_the_folder(tmp_path: Path) -> None:
    assert _growth(_write_runs, lambda folder: list(list_runs(folder)), tmp_path, 15) < _LINEAR


def test_of_a_kind_fifty_findings_are_explained_and_the_others_counted(tmp_path: Path) -> None:
    GROWING["sends"].write(tmp_path, MOST_OF_A_KIND + 7)
    alignment = align(tmp_path)
    assert (alignment.status, len(alignment.findings)) == ("hung", MOST_OF_A_KIND)
    (note,) = (note for note in alignment.evidence.notes if "are left out" in note)
    assert note.startswith("7 more findings of the kind p2p_unmatched are left out")


def test_a_message_that_a_rank_waits_for_is_explained_before_all_others(tmp_path: Path) -> None:
    run = GROWING["sends"].make(3 * MOST_OF_A_KIND)
    for rank in run:
        rank.items.pop()  # its end
    run.rank(0).exit()
    awaited = run.rank(1).recv(0, tag=10**6, site="train.py:77")
    run.rank(1).stuck_in(awaited)
    run.write(tmp_path)
    found = [side.call for f in align(tmp_path).findings for side in f.sides if side.call]
    assert any(call.site == "train.py:77" for call in found)


def test_remarks_of_a_kind_are_bounded_and_leave_the_verdict(tmp_path: Path) -> None:
    GROWING["unwaited_lines"].write(tmp_path, MOST_OF_A_KIND + 3)
    alignment = align(tmp_path)
    assert (alignment.status, len(alignment.findings)) == ("aligned", MOST_OF_A_KIND)
    assert any(
        note.startswith("3 more findings of the kind unwaited") for note in
        alignment.evidence.notes
    )  # fmt: skip


def test_a_world_of_a_million_lists_ten_thousand_missing_ranks(tmp_path: Path) -> None:
    GROWING["missing"].write(tmp_path, 10**6)
    alignment = align(tmp_path)
    assert alignment.world_size == 10**6
    assert len(alignment.ranks) == MOST_MISSING + 2
    assert len(alignment.evidence.missing_ranks) == MOST_MISSING
    assert "989,998 further ranks left no file; they are not listed" in alignment.evidence.notes


def test_checkpoints_of_many_channels_take_a_third_of_the_file(tmp_path: Path) -> None:
    folder = GROWING["tags"].make(8000).write(tmp_path)
    lines = (folder / "rank00000.jsonl").read_bytes().splitlines()
    taken = sum(len(line) for line in lines if line.startswith(b'{"kind":"checkpoint"'))
    assert sum(map(len, lines)) > 4 * CHECKPOINT_EVERY
    assert taken < sum(map(len, lines)) / 3


def _with_a_name(folder: Path, length: int) -> float:
    """Return the processor's seconds for a difference in a dtype with so long a name."""
    run = Run(2)
    run.rank(0).call("all_reduce", dtype="float32")
    run.rank(1).call("all_reduce", dtype="x" * length)
    run.write(folder)
    began = time.process_time()
    assert align(folder).findings
    return time.process_time() - began


def test_a_long_name_is_read_in_linear_time(tmp_path: Path) -> None:
    short, long = (
        min(_with_a_name(tmp_path / f"{n}.{k}", n) for k in range(3)) for n in (10_000, 80_000)
    )
    assert long < 20 * short  # 64 times as much if each letter is followed to the end


def _rows(seqs: range) -> float:
    """Return the processor's seconds that it takes to take rows in an order, and settle them."""
    began = time.process_time()
    rows = Rows(Vocabulary())
    for seq in seqs:
        assert rows.add(seq, seq, seq, 0, 0, 0)
    rows.settle()
    assert [*rows.seq] == sorted(seqs) == [*rows.t]
    return time.process_time() - began


def test_rows_in_reversed_order_cost_what_rows_in_order_do() -> None:
    # A square costs a hundred times as much: what moves is memory, not lines of Python. The best of
    # some tries counts, as other programs take the caches meanwhile.
    falling = min(_rows(range(40_000, 0, -1)) for _ in range(3))
    assert falling < 10 * max(_rows(range(1, 40_001)) for _ in range(3))


def test_rows_that_come_late_are_found_refused_and_disproved() -> None:
    rows = Rows(Vocabulary())
    for seq in (5, 3, 4, 1):
        assert rows.add(seq, seq, 10 * seq, 0, 0, 0)
    assert not rows.add(3, 3, 30, 0, 0, 0)  # there already
    assert rows.add(2, 2, 20, 0, 0, 0)
    assert not rows.add(2, 2, 20, 7, 0, 0)  # contradicts it
    assert rows.refuse(4, 100) == 40
    rows.settle()
    assert [*rows.seq] == [1, 3, 5]
    assert [*rows.offset] == [10, 30, 50]

"""The overview of made-up runs: bands, channels, waits, stacks, times, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.alignment import align, compared
from collectrace.align.judging.case import build as case_of_comparison
from collectrace.align.overview import build
from collectrace.align.overview.repeats import unpack
from collectrace.align.reading import run_reader
from collectrace.overview import Overview, Stream
from tests.support import kind_examples
from tests.support.judging import case_of
from tests.support.synthetic import Run
from tools.make_logs import Difference, make


def overview(run: Run, folder: Path) -> Overview:
    return build(case_of(run, folder))


def sites(found: Overview, stream: Stream, band: int) -> list[str | None]:
    """The lines of a band's calls, in order."""
    known = unpack(stream.bands[0].codes) if band else []
    numbers = unpack(stream.bands[band].codes, known)
    return [found.forms[n - 1].site if n else None for n in numbers]


def test_equal_ranks_are_one_band_and_the_odd_one_another(tmp_path: Path) -> None:
    run = Run(5)
    for rank in run:
        for n in range(40):
            rank.call("all_reduce", shape=[4], site=f"/t.py:{n % 3}")
        rank.call("barrier" if rank.rank == 3 else "all_reduce", site="/t.py:9")
    run.finish()
    found = overview(run, tmp_path)
    (stream,) = found.streams
    assert [band.ranks for band in stream.bands] == [(0, 1, 2, 4), (3,)]
    assert stream.agreed == 40
    expected = [f"/t.py:{n % 3}" for n in range(40)] + ["/t.py:9"]
    assert sites(found, stream, 0) == sites(found, stream, 1) == expected
    assert len(stream.bands[0].codes) < 12
    assert len(stream.bands[1].codes) < 6
    assert {form.op for form in found.forms} == {"all_reduce", "barrier"}
    assert all(form.digest is None and form.seq == 0 for form in found.forms)


def test_ranks_that_stopped_earlier_are_a_band_of_their_own(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        rank.calls(10 if rank.rank == 1 else 12, "all_reduce", site="/t.py:1")
    run.finish()
    (stream,) = overview(run, tmp_path).streams
    assert {band.ranks: band.last for band in stream.bands} == {(0, 2): 12, (1,): 10}


def test_sisters_that_did_the_same_are_one_stream(tmp_path: Path) -> None:
    run = Run(4)
    for rank in run:
        for name, members in (("1", [0, 1]), ("2", [2, 3])):
            rank.group(name, members, description="tp")
        name = "1" if rank.rank < 2 else "2"
        rank.calls(6, "all_reduce", name, site="/t.py:1")
    run.finish()
    found = overview(run, tmp_path)
    (stream,) = [s for s in found.streams if s.description == "tp"]
    assert stream.alike == ("2",)
    assert stream.ranks == stream.bands[0].ranks == (0, 1, 2, 3)


def test_a_log_with_a_hole_says_that_it_was_not_read(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        for n in range(20):
            rank.call("all_reduce", site="/t.py:1", lost=rank.rank == 1 and 5 <= n < 8)
    run.finish()
    found = overview(run, tmp_path)
    (stream,) = found.streams
    holes = [n for band in range(len(stream.bands)) for n in sites(found, stream, band)].count(None)
    assert holes == 3


def test_messages_are_streams_of_a_sender_and_a_receiver(tmp_path: Path) -> None:
    run = Run(2)
    for _ in range(4):
        run.rank(0).send(1)
    for _ in range(3):
        run.rank(1).recv(0)
    run.finish()
    found = overview(run, tmp_path)
    (stream,) = [s for s in found.streams if s.channel is not None]
    assert stream.channel == (0, 1, 0)
    assert [(band.ranks, band.last) for band in stream.bands] == [((0,), 4), ((1,), 3)]
    (channel,) = found.channels
    assert (channel.sent, channel.received) == (4, 3)


def test_a_message_from_one_line_has_the_peer_and_tag_of_its_channel(tmp_path: Path) -> None:
    run = Run(3)
    for tag in (1, 2):
        for rank in (run.rank(0), run.rank(1)):
            rank.send(rank.rank + 1, tag=tag, site="/t.py:5")
        for rank in (run.rank(1), run.rank(2)):
            rank.recv(rank.rank - 1, tag=tag, site="/t.py:7")
    run.finish()
    found = overview(run, tmp_path)
    told = {}
    for stream in found.streams:
        known: list[int] = []
        for band in stream.bands:
            known = unpack(band.codes, known)
            [number] = {*known}
            form = found.forms[number - 1]
            told[stream.channel, band.ranks] = form.op, form.peer, form.tag
    assert told == {
        ((rank, rank + 1, tag), (end,)): (op, rank + 1 if end == rank else rank, tag)
        for rank in (0, 1)
        for tag in (1, 2)
        for end, op in ((rank, "send"), (rank + 1, "recv"))
    }


def test_large_logs_are_drawn_from_one_rank_of_each_kind(tmp_path: Path) -> None:
    folder = make(tmp_path, 16, 3000, Difference(5, 2000, "extra"))
    evidence = run_reader.read(folder, small=0, page=4096)
    assert not any(log.scanned for log in evidence.logs.values())
    found = build(case_of_comparison(compared(evidence)))
    whole = build(case_of_comparison(compared(run_reader.read(folder, full=True))))
    assert [s.bands for s in found.streams] == [s.bands for s in whole.streams]
    assert found.forms == whole.forms
    assert "were read whole" in found.left_out[0]
    assert whole.left_out == ()


def test_the_call_that_opens_a_circle_frees_everybody(tmp_path: Path) -> None:
    waits = overview(kind_examples.KINDS["deadlock"](), tmp_path).waits
    assert waits.freeing is not None
    assert waits.freeing.frees == waits.freeing.waiting
    assert sum(edge.circular for edge in waits.edges) >= 2


def test_a_call_that_opens_no_circle_frees_only_who_waits_outside(tmp_path: Path) -> None:
    """Rank 0 waits for rank 1, which is in a circle with rank 2: sending to rank 0 opens none."""
    run = Run(3)
    run.rank(0).beat(30, run.rank(0).inside(run.rank(0).recv(1)))
    run.rank(1).beat(30, run.rank(1).inside(run.rank(1).recv(2)))
    run.rank(2).beat(30, run.rank(2).inside(run.rank(2).recv(1)))
    waits = overview(run, tmp_path).waits
    assert waits.freeing is not None
    assert (waits.freeing.rank, waits.freeing.peer, waits.freeing.op) == (2, 1, "send")
    assert waits.freeing.frees == 3


def test_who_all_wait_for_is_an_end_that_waits_for_nobody(tmp_path: Path) -> None:
    waits = overview(kind_examples.KINDS["missing_call"](), tmp_path).waits
    ends = [n for n, node in enumerate(waits.nodes) if not node.op]
    assert {edge.target for edge in waits.edges} == set(ends)
    assert not any(edge.circular for edge in waits.edges)


def test_stacks_are_merged_and_the_tracer_is_not_in_them(tmp_path: Path) -> None:
    run = Run(3)
    for rank in run:
        rank.call("all_reduce", site="/t.py:1")
        inner = "/t.py:7 save" if rank.rank == 2 else "/t.py:3 step"
        frames = ["/t.py:1 main", "/x/collectrace/tracer/tap/guard.py:9 __call__", inner]
        rank.stall(stacks={f"MainThread ({rank.rank}77)": frames})
    (root,) = overview(run, tmp_path).stacks
    assert (root.name, root.ranks) == ("MainThread", (0, 1, 2))
    (main,) = root.inner
    assert [(frame.name, frame.ranks) for frame in main.inner] == [
        ("/t.py:3 step", (0, 1)),
        ("/t.py:7 save", (2,)),
    ]


def test_the_straggler_is_the_latest(tmp_path: Path) -> None:
    found = overview(kind_examples.KINDS["straggler"](), tmp_path)
    first = found.lateness[0]
    assert first.totals[0][0] == 2
    assert len(first.marks) == len(first.course[0][1]) > 10
    late = dict(first.course)
    assert sum(late[2]) > 5 * sum(late[0])


@pytest.mark.parametrize(
    ("name", "values", "own"),
    [
        ("variable NCCL_DEBUG", {0: "INFO"}, True),
        ("variable NCCL_ALGO", {0: "Ring", 1: "Tree"}, False),
    ],
)
def test_settings_that_differ_come_first(
    name: str, values: dict[int, str], own: bool, tmp_path: Path
) -> None:
    run = Run(2)
    for rank in run:
        variable = name.split()[1]
        known: dict[str, Any] = {variable: values[rank.rank]} if rank.rank in values else {}
        rank.header.env = known
        rank.call("barrier")
    run.finish()
    settings = overview(run, tmp_path).settings
    found = next(s for s in settings if s.name == name)
    assert found.own == own
    assert len(found.values) == 2
    assert own or settings[0] is found


def test_an_alignment_makes_it_on_demand_and_programs_do_not_see_it(tmp_path: Path) -> None:
    run = Run(2)
    run.all("barrier")
    run.finish()
    run.write(tmp_path)
    alignment = align(tmp_path)
    assert alignment.overview is not None
    assert alignment.overview().streams[0].agreed == 1
    assert alignment == align(tmp_path)

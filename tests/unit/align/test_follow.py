"""A job that runs: what a later look reads, what it says, and when there is no more to see."""

from __future__ import annotations

import io
import os
import platform
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from collectrace.align.alignment import align, compared, judged
from collectrace.align.follow import Follower
from collectrace.align.reading import run_reader
from collectrace.align.reading.evidence import RankLog
from collectrace.align.reading.run_reader import RunReader
from collectrace.errors import LogError
from collectrace.findings import Alignment, RankState
from collectrace.records import Call, Exit
from collectrace.report import live
from tests.support import alignments, commands
from tests.support.commands import Terminal
from tests.support.synthetic import Run

# -- reading on ------------------------------------------------------------------------------


def told(reader_: RunReader) -> Alignment:
    evidence = reader_.read()
    return judged(compared(evidence))


def long_run(*, segment: int | None = None, keep: int | None = None) -> Run:
    """Two groups, messages, an all_to_all, other records; one rank parts ways near the end."""
    run = Run(3, segment=segment, keep=keep, checkpoint=2000)
    run.group("1", [0, 2], description="pair")
    for n in range(60):
        run.all("all_reduce", shape=[4])
        run.all("barrier", "1")
        for rank in run:
            rank.batch(n)
        run.rank(0).send(1)
        run.rank(1).recv(0)
        if n % 10 == 0:
            run.all("all_to_all_single", splits=[[1, 1, 1], [1, 1, 1]])
            for rank in run:
                rank.alive()
    run.rank(0).call("broadcast", root=0, site="other.py:7")
    for rank in run.ranks[1:]:
        rank.call("all_reduce")
    for rank in run:
        last = rank.items[-1]
        assert isinstance(last, Call)
        rank.alive(rank.inside(last))
    return run


def grow(source: Path, target: Path, shares: Iterator[list[float]]) -> Iterator[None]:
    """Write the files of a run piece by piece, each rank's as far as its share says."""
    stems = sorted({path.name.partition(".")[0] for path in source.iterdir()})
    for row in shares:
        for stem, share in zip(stems, row, strict=True):
            segments = sorted(source.glob(f"{stem}*"), key=lambda p: (len(p.name), p.name))
            left = round(share * sum(path.stat().st_size for path in segments))
            for path in segments:
                data = path.read_bytes()
                if left > 0:
                    (target / path.name).write_bytes(data[:left])
                left -= len(data)
        yield


def but_for_unread_messages(alignment: Alignment) -> Alignment:
    """An answer without the note on them: who followed a run has read what a fresh look counts."""
    found = alignment.evidence
    notes = tuple(note for note in found.notes if "counted, but not read" not in note)
    return replace(alignment, evidence=replace(found, notes=notes))


@pytest.mark.parametrize("small", [0, 1 << 30], ids=["by digest", "by scan"])
@pytest.mark.parametrize("segment", [None, 7000], ids=["one file", "segments"])
def test_a_later_look_sees_what_a_fresh_one_sees(
    tmp_path: Path, small: int, segment: int | None
) -> None:
    source = long_run(segment=segment).write(tmp_path / "whole")
    target = tmp_path / "live" / source.name
    target.mkdir(parents=True)
    chance = random.Random(7)
    steps = 25
    shares = (
        [min(1.0, (n + chance.random()) / steps) if n < steps else 1.0 for _ in range(3)]
        for n in range(1, steps + 1)
    )
    following = RunReader(tmp_path / "live", small=small)
    for _ in grow(source, target, shares):
        fresh = told(RunReader(tmp_path / "live", small=small))
        assert but_for_unread_messages(told(following)) == but_for_unread_messages(fresh)
    assert fresh.findings[0].kind == "op_mismatch"


def test_only_what_was_written_since_is_read(tmp_path: Path) -> None:
    run = Run(2)
    for small in (1 << 30, 0):
        following = RunReader(tmp_path, small=small)
        calls(run, 800)
        run.write(tmp_path)
        before = read(following)
        for _ in range(3):
            size = sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl"))
            calls(run, 400)
            run.write(tmp_path)
            added = sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl")) - size
            now = read(following)
            # Headers are looked at again, and so are last lines.
            assert added <= now - before < added + 48 * 1024 < size
            before = now
        assert read(following) == before


def read(following: RunReader) -> int:
    """Bytes that were read so far."""
    return sum(log.bytes_read for log in following.read().logs.values())


def calls(run: Run, count: int) -> None:
    for _ in range(count):
        run.all("all_reduce")


def test_a_log_whose_middle_went_is_read_anew(tmp_path: Path) -> None:
    run = long_run(segment=3000)
    run.write(tmp_path)
    following = RunReader(tmp_path, small=0)
    following.read()
    for old in tmp_path.rglob("*.0001.jsonl"):
        old.unlink()
    assert told(following) == told(RunReader(tmp_path, small=0))
    assert all(log.rotated for log in following.read().logs.values())


def test_what_is_kept_of_a_long_job_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_reader, "_MOST_KEPT", 1000)
    run = Run(2)
    following = RunReader(tmp_path, small=0)
    for _ in range(6):
        calls(run, 800)
        run.write(tmp_path)
        evidence = following.read()
    assert compared(evidence).agreed == {("0", "cpu"): 4800}
    assert sum(len(log.rows(next(iter(log.last_seq)))[0]) for log in evidence.logs.values()) < 2800


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_groups_may_turn_out_to_be_others_than_they_seemed(tmp_path: Path, small: int) -> None:
    run = Run(4)
    for members in ([0, 1], [2, 3]):
        run.group("1", members, asked_by=members)
    run.all("all_reduce", "1")
    for rank in run:
        rank.alive(rank.inside(rank.call("barrier", "1")))
    for late in (2, 3):
        run.omit(late)
    run.write(tmp_path)
    following = RunReader(tmp_path, small=small)
    assert names(following) == {"0", "1"}
    for rank in run:
        rank.omitted = False
    run.write(tmp_path)
    assert told(following) == told(RunReader(tmp_path, small=small))
    assert names(following) == {"0", "1 [0-1]", "1 [2-3]"}


def names(following: RunReader) -> set[str]:
    """Of all groups, in whatever speaks of one."""
    logs = following.read().logs.values()
    asked = {group.group for log in logs for group in log.groups}
    lived = {a.group for log in logs if log.alive is not None for a in log.alive.in_}
    called = {key.group for log in logs for key in log.last_seq}
    assert lived == called == asked - {"0"}
    return asked


def test_last_lines_written_between_reading_and_asking_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(2)
    run.all("all_reduce")
    run.write(tmp_path)

    def gone(log: RankLog) -> bool:
        if log.rank == 0 and not isinstance(run.rank(0).items[-1], Exit):
            run.rank(0).exit()
            run.write(tmp_path)
        return log.rank != 0

    monkeypatch.setattr(run_reader, "still_exists", gone)
    evidence = RunReader(tmp_path).read()
    assert evidence.logs[0].exit is not None
    assert [evidence.still_exists(evidence.logs[rank]) for rank in (0, 1)] == [False, True]


# -- following -------------------------------------------------------------------------------


def mine(world: int = 2, **fields: object) -> Run:
    """A run whose ranks are this very process, which lives."""
    return Run(world, host=platform.node(), pid=os.getpid(), start=time.time_ns(), **fields)  # type: ignore[arg-type]


def following(path: Path) -> tuple[Follower, Iterator[Alignment | None]]:
    follower = Follower(path, interval=0.01)
    return follower, follower.looks(Event())


def states(alignment: Alignment | None) -> list[str]:
    assert alignment is not None
    return [rank.state for rank in alignment.ranks]


def test_from_nothing_to_a_finding_while_everybody_lives(tmp_path: Path) -> None:
    follower, looks = following(tmp_path / "logs")
    assert next(looks) is None
    (tmp_path / "logs").mkdir()
    assert next(looks) is None
    run = mine(3)
    run.omit(2)
    for rank in run.ranks[:2]:
        rank.beat(10)
    run.write(tmp_path / "logs")
    late = next(looks)
    assert states(late) == ["busy", "busy", "missing"]
    run.rank(2).omitted = False
    run.all("all_reduce")
    for rank in run:
        rank.alive()
    run.write(tmp_path / "logs")
    assert states(next(looks)) == ["busy", "busy", "busy"]
    run.rank(0).call("broadcast")
    for rank in run.ranks[1:]:
        rank.call("all_reduce")
    run.write(tmp_path / "logs")
    found = next(looks)
    assert states(found) == ["blocked"] * 3
    assert next(looks, "the end") == "the end"
    report = follower.report()
    assert report is not None
    assert report.findings[0].kind == "op_mismatch"
    assert {rank.ended for rank in report.ranks} == {"alive"}


def test_a_rank_may_be_busy_for_eight_times_the_limit_of_a_stall(tmp_path: Path) -> None:
    run = mine(2)
    run.all("all_reduce")
    call = run.rank(0).call("all_reduce")
    _, looks = following(tmp_path)
    for seconds, is_last in ((70, False), (400, False), (30, True)):
        run.rank(0).beat(seconds, run.rank(0).inside(call))
        run.rank(1).beat(seconds)
        run.write(tmp_path)
        found = next(looks)
        assert found is not None
        assert found.exit_status == 1
        assert states(found) == ["blocked", "busy"]
        if is_last:
            assert next(looks, "the end") == "the end"


def test_a_healthy_job_ends_aligned_when_every_log_is_final(tmp_path: Path) -> None:
    run = mine()
    follower, looks = following(tmp_path)
    for n in range(4):
        run.all("all_reduce")
        if n == 3:
            run.rank(0).exit()
        run.write(tmp_path)
        found = next(looks)
        assert found is not None
        assert found.findings == ()
    run.rank(1).exit()
    run.write(tmp_path)
    assert next(looks) is not None
    assert next(looks, "the end") == "the end"
    report = follower.report()
    assert report is not None
    assert report.exit_status == 0


def test_a_tracer_that_was_switched_off_and_on_again_is_not_the_end(tmp_path: Path) -> None:
    run = mine()
    for rank in run:
        rank.exit("disabled")
    run.all("all_reduce")
    run.write(tmp_path)
    _, looks = following(tmp_path)
    assert next(looks) is not None
    assert next(looks) is not None


def test_a_rank_that_has_not_started_yet_keeps_it_going(tmp_path: Path) -> None:
    run = mine(heartbeat=0.2)
    run.omit(1)
    run.rank(0).exit()
    run.write(tmp_path)
    _, looks = following(tmp_path)
    assert next(looks) is not None
    assert next(looks) is not None
    until = time.monotonic() + 30
    while next(looks, None) is not None:  # for three heartbeats
        assert time.monotonic() < until


def test_ranks_of_another_host_live_as_long_as_their_files_grow(tmp_path: Path) -> None:
    # Their clock is far off, which says nothing about them.
    run = Run(2, heartbeat=0.3)
    follower, looks = following(tmp_path)
    run.write(tmp_path)
    next(looks)
    run.all("all_reduce")
    run.write(tmp_path)
    found = next(looks)
    assert found is not None
    assert {rank.ended for rank in found.ranks} == {"alive"}
    until = time.monotonic() + 30
    while next(looks, None) is not None:
        assert time.monotonic() < until
    report = follower.report()
    assert report is not None
    assert report.status == "unknown"


def test_the_newest_run_is_followed(tmp_path: Path) -> None:
    old = mine(name="old")
    old.all("all_reduce")
    old.write(tmp_path)
    _, looks = following(tmp_path)
    first = next(looks)
    new = mine(name="new")
    new.all("all_reduce")
    new.write(tmp_path)
    second = next(looks)
    assert first is not None
    assert second is not None
    assert (first.run, second.run) == ("old", "new")


def test_what_can_never_be_followed_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(LogError, match="neither a rank file"):
        next(following(file)[1])


def test_the_report_holds_what_a_fresh_reading_finds(tmp_path: Path) -> None:
    long_run().write(tmp_path)
    follower, looks = following(tmp_path)
    assert len(list(looks)) == 1
    assert follower.report() == align(tmp_path)


# -- the picture -----------------------------------------------------------------------------


def rank(n: int, state: str, detail: str = "", held: float | None = None) -> RankState:
    return RankState(
        rank=n, state=state, ended="alive", last_call=alignments.call(28 + n // 7), detail=detail,  # type: ignore[arg-type]
        held=held,
    )  # fmt: skip


def hanging(seconds: float) -> Alignment:
    where = "in all_reduce 29 at train.py:43 for"
    held = [seconds + n / 10 for n in range(7)]
    ranks = [rank(n, "blocked", f"{where} {s:.1f} s", s) for n, s in enumerate(held)]
    busy = rank(7, "busy", f"in next(DataLoader) for {seconds} s", seconds)
    return Alignment(status="unknown", run="r", world_size=8, ranks=(*ranks, busy))


def test_ranks_that_do_the_same_are_told_together() -> None:
    blocked, busy = live.rows(hanging(12).ranks, moving=2)
    assert blocked[:3] == ("ranks 0-6", "blocked", " in all_reduce 29 at train.py:43 for 12.6 s")
    assert busy[:2] == ("rank 7", "busy")
    assert "in next(DataLoader)" in busy.words
    assert "29" in busy.words
    [moving] = live.rows(hanging(0.1).ranks, moving=2)
    assert moving[:2] == ("ranks 0-7", "running")


def test_lines_are_written_only_when_something_changes() -> None:
    out = io.StringIO()
    with live.LiveView(out, "logs/") as view:
        for _ in range(3):
            view.show(None)
        for seconds in (0.1, 0.5, 12, 13, 14):
            view.show(hanging(seconds))
    told = [line.partition("] ")[2] for line in out.getvalue().splitlines()]
    assert told == [
        "waiting for logs in logs/",
        "run r, 8 ranks",
        *(f"{row.ranks} {row.state}{row.words}" for row in live.rows(hanging(0.1).ranks, 10)),
        *(f"{row.ranks} {row.state}{row.words}" for row in live.rows(hanging(12).ranks, 10)),
    ]


def test_a_terminal_is_drawn_on_in_place_and_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    with live.LiveView(out, "logs/") as view:
        view.show(None)
        view.show(hanging(3))
    drawn = out.getvalue()
    assert "waiting for logs in logs/" in drawn
    assert "ranks 0-6" in drawn
    assert drawn.count("\x1b[2K") >= 3  # every line of the last picture is taken away


# -- the command -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--interval", "1"), "--interval needs --follow"),
        (("--follow", "--group", "tp"), "--follow watches all groups"),
        (("--follow", "--interval", "0"), "not a number of seconds"),
        (("--follow", "--interval", "soon"), "not a number of seconds"),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    status, out, err = commands.run("align", str(tmp_path), *options)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_with_json_standard_output_gets_one_object(tmp_path: Path) -> None:
    long_run().write(tmp_path)
    status, out, err = commands.run("align", str(tmp_path), "--follow", "--json", "-")
    assert status == 1
    assert out.startswith("{\n")
    assert "run run-1, 3 ranks" in err


def test_ranks_that_are_killed_together_are_gone_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of many threads takes a moment to be gone; its peer did not die before it."""
    run = Run(2)
    run.all("all_reduce")
    run.write(tmp_path)
    left = {1}

    def exists(log: RankLog) -> bool:
        return log.rank in left

    monkeypatch.setattr(run_reader, "still_exists", exists)
    monkeypatch.setattr(time, "sleep", lambda _: left.clear())
    evidence = RunReader(tmp_path).read()
    assert [evidence.still_exists(evidence.logs[rank]) for rank in (0, 1)] == [False, False]
    left.add(1)
    monkeypatch.setattr(time, "sleep", lambda _: None)  # that one lives on
    evidence = RunReader(tmp_path).read()
    assert [evidence.still_exists(evidence.logs[rank]) for rank in (0, 1)] == [False, True]

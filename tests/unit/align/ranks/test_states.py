"""What each rank was doing when its evidence ends, and how it ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collectrace import dumps
from collectrace.align.alignment import align, compared
from collectrace.align.judging.case import build
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading import run_reader
from collectrace.align.reading.evidence import RankLog
from collectrace.records import Activity
from collectrace.report import ending
from tests.support.judging import LATER, case_of
from tests.support.synthetic import Rank, Run

LOST = "Connection closed by peer [127.0.0.1]:1185"


def _ended_by_sigterm(folder: Path, rank: int, *frames: str) -> None:
    """Write the stack of a rank's main thread, innermost frame first, as faulthandler does."""
    lines = ["Current thread 0x00007f (most recent call first):", *(f"  File {f}" for f in frames)]
    (folder / f"rank{rank:05}.ends.txt").write_text("".join(f"{line}\n" for line in lines))


def states(run: Run, folder: Path) -> list[str]:
    return [s.state for s in case_of(run, folder).standings.values()]


def first(run: Run, folder: Path) -> Standing:
    return case_of(run, folder).standings[0]


@pytest.fixture
def run() -> Run:
    run = Run(world=2)
    run.all("all_reduce")
    return run


def test_finished(run: Run, tmp_path: Path) -> None:
    run.finish()
    standing = first(run, tmp_path)
    assert (standing.state, standing.ended, standing.final) == ("finished", "exit", True)


def test_an_exit_status_other_than_zero_is_no_good_end(run: Run, tmp_path: Path) -> None:
    run.rank(0).exit(code=3)
    standing = first(run, tmp_path)
    assert (standing.state, detail.detail(standing)) == ("raised", "sys.exit(3)")


def test_raised(run: Run, tmp_path: Path) -> None:
    run.rank(0).exit("exception", error="ValueError", message="loss is nan", site="/a/train.py:9")
    standing = first(run, tmp_path)
    assert (standing.state, standing.ended, standing.by_peers) == ("raised", "exit", False)
    assert detail.detail(standing) == "ValueError: loss is nan at train.py:9"
    assert standing.final


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("RuntimeError", LOST),
        ("RuntimeError", "Timed out waiting 3000ms for recv operation to complete"),
        ("RuntimeError", "Read error [127.0.0.1]:27037: Connection reset by peer"),
        ("DistBackendError", "NCCL communicator was aborted on rank 0"),
        ("DistStoreError", "wait timeout after 7000ms, keys: /default_pg/0"),
    ],
)
def test_an_exception_about_others_is_no_end_of_its_own(
    run: Run, error: str, message: str, tmp_path: Path
) -> None:
    call = run.rank(0).call("all_reduce")
    run.rank(0).exit("exception", error=error, message=message)
    standing = first(run, tmp_path)
    assert (standing.state, standing.by_peers, standing.final) == ("raised", True, False)
    assert [w.seq for w in standing.waiting] == [call.seq]


def test_the_call_that_raised_is_what_it_raised_in(run: Run, tmp_path: Path) -> None:
    rank = run.rank(0)
    call = rank.call("all_reduce")
    rank.done(call.seq, failed=True, error="ValueError: no")
    rank.exit("exception", error="ValueError", message="no")
    standing = first(run, tmp_path)
    assert [w.seq for w in standing.waiting] == [2]
    assert not standing.by_peers


def test_blocked_by_its_last_sign_of_life(run: Run, tmp_path: Path) -> None:
    rank = run.rank(0)
    call = rank.call("all_reduce", site="train.py:7")
    rank.beat(10, rank.inside(call))
    standing = first(run, tmp_path)
    assert standing.state == "blocked"
    assert standing.waiting[0].observed
    assert (
        detail.detail(standing)
        == "in all_reduce at train.py:7 for 10 s (call 2 of the default group)"
    )


def test_blocked_though_it_was_killed_later(run: Run, tmp_path: Path) -> None:
    zero, one = run
    zero.beat(5, zero.inside(zero.call("all_reduce")))
    one.beat(60)
    assert states(run, tmp_path) == ["blocked", "busy"]


def test_a_launchers_signal_changes_no_state(run: Run, tmp_path: Path) -> None:
    zero, one = run
    call = zero.call("all_reduce")
    zero.beat(10, zero.inside(call))
    zero.exit("signal", zero.inside(call), code=15)
    one.beat(10)
    one.exit("signal", code=15)
    found = case_of(run, tmp_path).standings
    assert [s.state for s in found.values()] == ["blocked", "busy"]
    assert [s.ended for s in found.values()] == ["signal", "signal"]


def test_ctrl_c_is_a_signal(run: Run, tmp_path: Path) -> None:
    rank = run.rank(0)
    call = rank.call("all_reduce")
    rank.exit("exception", rank.inside(call), error="KeyboardInterrupt")
    standing = first(run, tmp_path)
    assert (standing.state, standing.ended) == ("blocked", "signal")


def test_before_the_first_heartbeat_the_last_call_tells(run: Run, tmp_path: Path) -> None:
    zero, one = run
    zero.call("all_reduce")
    one.call("all_reduce", async_=True)
    assert states(run, tmp_path) == ["blocked", "running"]
    assert not first(run, tmp_path).waiting[0].observed


def test_a_call_known_to_be_complete_blocks_nobody(run: Run, tmp_path: Path) -> None:
    zero, one = run
    zero.done(zero.call("all_reduce").seq)
    one.done(one.call("all_reduce").seq - 1)
    assert states(run, tmp_path) == ["running", "blocked"]


def test_backward_waits_for_its_buckets(run: Run, tmp_path: Path) -> None:
    zero, one = run
    for rank, role in ((zero, "ddp.backward.bucket"), (one, "user")):
        call = rank.call("all_reduce", role=role, async_=True)
        inside = replace(rank.inside(call, "backward"), group=None, device=None, seq=None)
        inside.since = call.t - 1
        rank.beat(5, inside)
    assert states(run, tmp_path) == ["blocked", "busy"]


def test_a_thread_that_waits_beside_a_working_one(run: Run, tmp_path: Path) -> None:
    rank = run.rank(0)
    saving = rank.call("all_gather", thread="saver")
    rank.beat(5, rank.inside(saving, thread="saver"))
    rank.call("all_reduce", async_=True)
    standing = first(run, tmp_path)
    assert [(w.thread, w.seq) for w in standing.waiting] == [("saver", 2)]


def test_a_device_that_does_not_come_back(tmp_path: Path) -> None:
    run = Run(world=2, backend="nccl", device="cuda")
    zero, one = run
    stuck = zero.call("all_reduce")
    one.call("all_reduce")
    zero.call("all_reduce", async_=True)  # the host runs ahead
    zero.beat(30, zero.inside(stuck, what="device", thread="cuda"))
    one.beat(30)
    one.done(1)
    found = case_of(run, tmp_path).standings
    assert [s.state for s in found.values()] == ["blocked", "busy"]
    assert [(w.what, w.thread, w.seq) for w in found[0].waiting] == [("device", "MainThread", 1)]


def test_a_device_synchronise_waits_for_what_the_device_is_in(tmp_path: Path) -> None:
    run = Run(world=1, backend="nccl", device="cuda")
    zero = run.rank(0)
    stuck = zero.call("all_reduce")
    zero.call("broadcast")
    syncing = Activity(thread="MainThread", what="sync", since=zero.now)
    zero.beat(30, syncing, zero.inside(stuck, what="device", thread="cuda"))
    (waiting,) = first(run, tmp_path).waiting
    assert (waiting.what, waiting.seq) == ("sync", 1)


def test_a_call_on_a_device_returns_at_once(tmp_path: Path) -> None:
    """A job killed right after it is not blocked in it, as far as anybody knows."""
    run = Run(world=1, backend="nccl", device="cuda")
    run.rank(0).call("all_reduce")
    assert first(run, tmp_path).state == "running"


def test_busy_after_its_last_call(run: Run, tmp_path: Path) -> None:
    run.rank(0).beat(10)
    standing = first(run, tmp_path)
    assert standing.state == "busy"
    assert detail.detail(standing) == "in no collective 10 s after its last call"


def test_died_without_a_word(run: Run, tmp_path: Path) -> None:
    """In the files that the tracer wrote, and not in copies of them."""
    run.rank(1).beat(20)
    for rank in run:
        file = tmp_path / "run-1" / f"rank{rank.rank:05}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.touch()
        rank.header.inode = file.stat().st_ino
    assert states(run, tmp_path)[0] == "died"


def test_a_file_that_ends_early_may_be_a_copy(run: Run, tmp_path: Path) -> None:
    run.rank(1).beat(20)
    standing = first(run, tmp_path)
    assert (standing.state, standing.ended, standing.may_be_copy) == ("silent", "unknown", True)
    assert not standing.final


def test_slow_is_not_dead(run: Run, tmp_path: Path) -> None:
    run.rank(1).beat(15)
    assert states(run, tmp_path)[0] != "died"


def test_a_lost_connection_tells_who_died(tmp_path: Path) -> None:
    run = Run(world=3)
    run.all("all_reduce")
    zero, one, _ = run
    for rank in (zero, one):
        rank.call("all_reduce")
    zero.wait(1)
    zero.exit("exception", error="RuntimeError", message=LOST)
    # Rank 1 waits where rank 0 did, and went down with the job; rank 2 had not come.
    assert states(run, tmp_path) == ["raised", "blocked", "died"]


def test_a_sign_of_life_from_a_row_that_is_over_says_nothing(tmp_path: Path) -> None:
    """A heartbeat fell into the barrier, which the peer has come through; then the rank left."""
    run = Run(world=2)
    zero, one = run
    zero.call("barrier")
    one.alive(one.inside(one.call("barrier")))
    zero.call("all_reduce")
    zero.wait(1)
    zero.exit("exception", error="RuntimeError", message=LOST)
    assert states(run, tmp_path) == ["raised", "died"]


def test_who_left_in_plain_sight_did_not_die(tmp_path: Path) -> None:
    run = Run(world=3)
    run.all("all_reduce")
    zero, one, _ = run
    one.exit()
    zero.call("all_reduce")
    zero.wait(1)
    zero.exit("exception", error="RuntimeError", message=LOST)
    assert states(run, tmp_path)[2] != "died"


def test_silent_exists_and_does_nothing(run: Run, tmp_path: Path) -> None:
    run.rank(1).beat(60)
    run.write(tmp_path)

    def exists(_: RankLog) -> bool:
        return True

    evidence = replace(run_reader.read(tmp_path), still_exists=exists)
    found = build(compared(evidence), now=LATER).standings
    assert [s.state for s in found.values()] == ["silent", "busy"]
    assert [s.ended for s in found.values()] == ["alive", "alive"]


def test_missing(run: Run, tmp_path: Path) -> None:
    run.omit(1)
    found = case_of(run, tmp_path).standings[1]
    assert (found.state, found.ended) == ("missing", "gone")


def test_stuck_in_init(tmp_path: Path) -> None:
    run = Run(world=2)
    for rank in run:
        rank.stuck_in_init()
    standing = first(run, tmp_path)
    assert (standing.state, standing.waiting[0].what) == ("blocked", "group")


def test_tracing_that_was_switched_off_ends_nothing(run: Run, tmp_path: Path) -> None:
    run.rank(0).exit("disabled")
    standing = first(run, tmp_path)
    assert standing.disabled
    assert not standing.final


def test_alive_while_its_lines_are_fresh(run: Run, tmp_path: Path) -> None:
    run.write(tmp_path)
    evidence = run_reader.read(tmp_path)
    ends = build(compared(evidence), now=LATER).standings.values()
    now = max(standing.end for standing in ends) + 1_000_000_000
    evidence = replace(evidence, still_exists=lambda _: None)
    assert build(compared(evidence), now=now).standings[0].ended == "alive"
    assert build(compared(evidence), now=LATER).standings[0].ended == "gone"


def test_a_rank_of_whom_nothing_but_a_header_is_left(tmp_path: Path) -> None:
    run = Run(world=2, default_group=False)
    rank: Rank = run.rank(0)
    assert not rank.items
    assert states(run, tmp_path) == ["busy", "busy"]


def test_several_are_gone_and_one_was_sent_away(tmp_path: Path) -> None:
    """Rank 2 died; the launcher ended rank 1, which was computing, with SIGTERM."""
    run = Run(world=3)
    run.all("all_reduce")
    zero, one, two = run
    for rank in (one, two):
        rank.done(1)
        rank.alive()
    zero.call("all_reduce")
    zero.wait(1)
    zero.exit("exception", error="RuntimeError", message=LOST)
    folder = run.write(tmp_path)
    _ended_by_sigterm(folder, 1, '"/job/t.py", line 3 in main')
    found = build(compared(run_reader.read(tmp_path)), now=LATER).standings
    assert [s.state for s in found.values()] == ["raised", "busy", "died"]


def test_a_rank_that_left_nothing_where_sigterm_ended_all_others_died(tmp_path: Path) -> None:
    run = Run(world=3)
    run.all("all_reduce", site="/job/t.py:9", device="cpu")
    folder = run.write(tmp_path)
    for rank in range(2):
        _ended_by_sigterm(folder, rank, '"/job/t.py", line 3 in main')
    found = build(compared(run_reader.read(tmp_path)), now=LATER).standings
    assert [s.state for s in found.values()] == ["busy", "busy", "died"]
    assert found[2].left_nothing
    answer = align(tmp_path)
    assert answer.status == "unknown"
    assert "rank 2 died, and no call shows why" in str(ending.verdict(answer))


@pytest.mark.parametrize(("line", "state"), [(9, "blocked"), (12, "running")])
def test_a_stack_at_sigterm_tells_whether_the_last_call_is_over(
    tmp_path: Path, line: int, state: str
) -> None:
    run = Run()
    run.all("all_reduce", site="/job/t.py:9", device="cpu")
    folder = run.write(tmp_path)
    for rank in range(2):
        _ended_by_sigterm(
            folder, rank,
            '"/job/model.py", line 3 in forward',
            '"/lib/collectrace/tracer/patches/ddp.py", line 36 in wrapper',
            f'"/job/t.py", line {line} in main',
        )  # fmt: skip
    found = build(compared(run_reader.read(tmp_path)), now=LATER).standings
    assert [s.state for s in found.values()] == [state, state]


def test_a_wait_that_sigterm_ended_is_that_of_the_log(tmp_path: Path) -> None:
    run = Run()
    run.all("all_reduce")
    zero, one = run
    sent = zero.send(1, site="/job/t.py:11")
    zero.beat(60, zero.inside(sent, "wait"))
    one.call("barrier")
    one.beat(60, one.inside(one.items[-1]))  # type: ignore[arg-type]
    folder = run.write(tmp_path)
    _ended_by_sigterm(
        folder, 0,
        '"/lib/collectrace/tracer/patches/waits.py", line 34 in wrapper',
        '"/job/t.py", line 12 in <module>',
    )  # fmt: skip
    [finding, *_] = align(tmp_path).findings
    assert finding.kind == "deadlock"
    assert "child process" not in finding.headline


def test_relative_paths_of_a_dump_are_those_of_the_rank_file(tmp_path: Path) -> None:
    run = Run(cwd="/job")
    run.all("all_reduce")
    folder = run.write(tmp_path)
    _ended_by_sigterm(
        folder, 1,
        '"lib/t.py", line 3 in step', '"/job/main.py", line 7 in main',
        '"<string>", line 1 in <module>',
    )  # fmt: skip
    dump = run_reader.read(tmp_path).logs[1].stack_dumps.end
    assert dump is not None
    assert dumps.of_main(dump.stacks) == [
        "<string>:1 <module>", "/job/main.py:7 main", "/job/lib/t.py:3 step"
    ]  # fmt: skip


def test_a_lost_connection_to_a_rank_without_a_file_kills_nobody_else(tmp_path: Path) -> None:
    run = Run(world=3)
    run.all("all_reduce")
    zero, one, two = run
    zero.call("all_reduce")
    zero.wait(1)
    zero.exit("exception", error="RuntimeError", message=LOST)
    one.done(1)
    one.alive()
    run.omit(two.rank)
    assert states(run, tmp_path) == ["raised", "busy", "missing"]


def test_a_rank_that_the_job_does_not_have_has_left_nothing(tmp_path: Path) -> None:
    """A damaged log may name any rank as a member of a group."""
    known = case_of(Run(2), tmp_path).standings
    assert (known[10**18].rank, known[10**18].state) == (10**18, "missing")
    assert list(known) == [0, 1]

"""What is left of a rank that stops: stacks, a line on stderr, torch's own record."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist

from collectrace import dumps
from collectrace.log_folder import SOURCES
from collectrace.records import Exit, Stall
from tests.support.real_ranks import Ran, Ranks

# The runner's heartbeat is 0.3 s and its stall_after 2 s.
LONG = 4.0


def _beside(ran: Ran, name: str) -> Path:
    return next(iter(ran.logs.glob("2*/rank00000.jsonl"))).with_name(name)


def _late_in_a_loop() -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        until = time.monotonic() + 3  # less than two stalls
        while time.monotonic() < until:
            pass
    dist.all_reduce(torch.ones(1))


def test_a_stall_is_recorded_on_both_sides_and_told_once_to_a_person(ranks: Ranks) -> None:
    ran = ranks.run(_late_in_a_loop)
    waiting, busy = (
        next(one for one in ran.log(rank).of(Stall) if all(a.what != "group" for a in one.in_))
        for rank in range(2)
    )  # on a busy machine the ranks may have stalled when they met
    assert [(a.what, a.op, a.seq) for a in waiting.in_] == [("call", "all_reduce", 2)]
    assert busy.in_ == []
    assert any("_late_in_a_loop" in frame for stack in busy.stacks.values() for frame in stack)
    told = [line for line in ran.output(0).splitlines() if line.startswith("collectrace:")]
    assert len(told) == 1
    assert "rank 0 has been in all_reduce (call 2 of the default group)" in told[0]
    assert "test_hangs.py:" in told[0]
    assert "python -m collectrace align" in told[0]
    assert "collectrace:" not in ran.output(1)


def test_a_stall_is_recorded_before_the_group_gives_up(ranks: Ranks) -> None:
    env = {"COLLECTRACE_STALL_AFTER": "600", "COLLECTRACE_HEARTBEAT": "5"}
    failed = frozenset({1})
    ran = ranks.run(_late_for_the_timeout, timeout=6, env=env, exits=(failed, failed))
    busy = ran.log(1).of(Stall)[0]
    assert busy.pending >= 3e9
    assert any("_late_for_the_timeout" in one for stack in busy.stacks.values() for one in stack)


def _late_for_the_timeout() -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(8)
    dist.all_reduce(torch.ones(1))


def _creates_alone() -> None:
    if dist.get_rank() == 1:
        time.sleep(LONG)
    dist.new_group([0, 1])


def test_a_stall_in_the_creation_of_a_group_names_it_and_its_line(ranks: Ranks) -> None:
    ran = ranks.run(_creates_alone)
    told, *_ = (s for s in ran.output(0).splitlines() if s.startswith("collectrace:"))
    assert "rank 0 has been in new_group (group 1) at " in told
    assert "test_hangs.py:" in told
    (doing,) = ran.log(0).of(Stall)[0].in_
    assert (doing.what, doing.op, doing.group) == ("group", "new_group", "1")


def _hangs_on() -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(1.5 * LONG)
    dist.all_reduce(torch.ones(1))


def test_a_stall_is_told_again_at_growing_intervals(ranks: Ranks) -> None:
    env = {
        "COLLECTRACE_STALL_AFTER": "1",
        "COLLECTRACE_REPORT": "0",
    }  # whoever is told asks no more
    ran = ranks.run(_hangs_on, env=env)
    stalls = ran.log(0).of(Stall)
    # After 1, 2 and 4 of 6 seconds; if the first came late, the next one does not come at once.
    assert 2 <= len(stalls) <= 3
    assert all(later.pending >= 1.5 * earlier.pending for earlier, later in pairwise(stalls))
    assert stalls[0].pending >= 1e9
    assert all(one.pending >= 2e9 * n for n, one in enumerate(stalls))
    told = [line for line in ran.output(0).splitlines() if line.startswith("collectrace:")]
    assert len(told) == len(stalls)
    for line, stall in zip(told, stalls, strict=True):
        assert f"for {stall.pending / 1e9:.0f} s" in line
        assert str(ran.log(0).path.parent) in line
    for stall in stalls:
        [main] = [frames for name, frames in stall.stacks.items() if name.startswith("MainThread")]
        assert any(frame.endswith(" _hangs_on") for frame in main)


def test_torchs_own_flight_recorder_goes_beside_the_log(ranks: Ranks) -> None:
    ran = ranks.run(_late_in_a_loop, env={"TORCH_FR_BUFFER_SIZE": "100"})
    entries = json.loads(_beside(ran, "rank00000.flight.json").read_text())["entries"]
    assert any("all_reduce" in entry["profiling_name"] for entry in entries)


def _holds_the_gil(folder: str) -> None:
    with Path(folder, f"users{dist.get_rank()}.txt").open("w") as mine:
        faulthandler.dump_traceback_later(LONG - 1, file=mine)
        if dist.get_rank() == 1:
            ctypes.PyDLL(None).usleep(int(LONG * 1e6))
        dist.barrier()
        faulthandler.cancel_dump_traceback_later()


def _dies_holding_the_gil() -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        ctypes.PyDLL(None).usleep(int(LONG * 20e6))
    time.sleep(LONG)
    os._exit(0)


def test_a_gil_held_to_the_end_leaves_its_stacks_beside_the_log(ranks: Ranks) -> None:
    ran = ranks.run(_dies_holding_the_gil, limit=10, exits=(0, None))
    dump = dumps.parse(_beside(ran, "rank00001.stacks.txt").read_text())
    assert dump is not None
    assert dump.fatal is None
    assert dump.stacks["MainThread"][-1].endswith(" _dies_holding_the_gil")


def test_a_held_gil_leaves_stacks_and_the_users_own_timer_alone(
    ranks: Ranks, tmp_path: Path
) -> None:
    ran = ranks.run(_holds_the_gil, 2, str(tmp_path))
    # When the GIL was free again, what the signal handler had written moved to the rank file.
    [held] = [stall for stall in ran.log(1).of(Stall) if "MainThread" in stall.stacks]
    assert held.stacks["MainThread"][-1].endswith(" _holds_the_gil")
    assert held.pending > 2e9
    assert not list(ran.logs.rglob("*.txt"))
    assert "_holds_the_gil" in (tmp_path / "users1.txt").read_text()


def _dies(signum: int) -> None:
    faulthandler.disable()
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signum)
        time.sleep(LONG)
    time.sleep(LONG / 4)
    os._exit(0)


def test_sigterm_ends_the_process_as_ever_and_leaves_its_stacks(ranks: Ranks) -> None:
    ran = ranks.run(_dies, 2, int(signal.SIGTERM), exits=(0, -signal.SIGTERM))
    text = _beside(ran, "rank00001.ends.txt").read_text()
    assert "in _dies" in text
    assert "Fatal" not in text


def test_an_abort_leaves_its_stacks_and_says_that_it_was_fatal(ranks: Ranks) -> None:
    ran = ranks.run(_aborts, exits=(0, -signal.SIGABRT))
    text = _beside(ran, "rank00001.ends.txt").read_text()
    dump = dumps.parse(text)
    assert dump is not None
    assert dump.fatal == "Aborted"
    assert dump.stacks["MainThread"][-1].endswith(" _aborts")


def _aborts() -> None:
    if dist.get_rank() == 1:
        os.abort()
    time.sleep(LONG / 4)
    os._exit(0)


def _handles_sigterm(before: bool) -> None:
    import collectrace

    seen: list[int] = []
    if before:
        collectrace.disable()
        signal.signal(signal.SIGTERM, lambda signum, _: seen.append(signum))
        collectrace.enable()
    else:
        signal.signal(signal.SIGTERM, lambda signum, _: seen.append(signum))
    os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [signal.SIGTERM]


def test_the_users_own_handler_of_sigterm_runs(ranks: Ranks) -> None:
    ranks.run(_handles_sigterm, 2, False)
    ran = ranks.run(_handles_sigterm, 2, True)
    assert [end.reason for log in ran.files for end in log.of(Exit)].count("finished") == 2


def _handles_it_later(file: str) -> None:
    import collectrace

    seen: list[int] = []

    def is_handled() -> bool:
        seen.clear()
        os.kill(os.getpid(), signal.SIGTERM)
        return seen == [signal.SIGTERM] and faulthandler.is_enabled()

    faulthandler.disable()
    collectrace.disable()
    collectrace.enable()
    signal.signal(signal.SIGTERM, lambda signum, _: seen.append(signum))
    with Path(file).open("w") as mine:
        faulthandler.enable(mine)
        child = os.fork()
        if child == 0:
            os._exit(0 if is_handled() else 1)
        assert os.waitpid(child, 0)[1] == 0
        collectrace.disable()
        assert is_handled()
        faulthandler.disable()
        faulthandler.register(signal.SIGTERM, mine)
        collectrace.enable()
        os.kill(os.getpid(), signal.SIGTERM)
        collectrace.disable()
        os.kill(os.getpid(), signal.SIGTERM)
    assert Path(file).read_text().count("_handles_it_later") == 2


def test_handlers_that_came_later_outlive_ours(ranks: Ranks, tmp_path: Path) -> None:
    ranks.run(_handles_it_later, 1, str(tmp_path / "stacks"))


def _terminates_a_child() -> None:
    child = os.fork()
    if child == 0:
        time.sleep(LONG)
        os._exit(0)
    time.sleep(0.2)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM


def test_a_forked_childs_end_is_none_of_its_parents(ranks: Ranks) -> None:
    ran = ranks.run(_terminates_a_child)
    assert not list(ran.logs.rglob("*.txt"))


def _well() -> None:
    dist.barrier()
    print("done", file=sys.stderr)


def test_a_run_that_ends_well_leaves_nothing_but_rank_files(ranks: Ranks) -> None:
    ran = ranks.run(_well)
    files = (path for path in ran.logs.rglob("*") if path.is_file())
    assert {path.name for path in files if path.parent.name != SOURCES} == {
        "rank00000.jsonl",
        "rank00001.jsonl",
    }

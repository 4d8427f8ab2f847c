"""The screens, as a person sees them at 80 columns."""

from __future__ import annotations

import io
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectrace import ras
from collectrace.commands.doctor_page import write
from collectrace.doctor import checkup, jobs, tools
from collectrace.doctor.checkup import examine
from collectrace.doctor.flight import Dumps
from collectrace.doctor.known import Checkup, Ras, Row, RunFiles, Surroundings, age
from collectrace.doctor.processes import Found, Process
from tests.support import ras_server

SAMPLES = Path(__file__).parents[1] / "ras" / "samples"
ROOT = Path(__file__).parents[3]
NOW = 1_700_000_600.0
REFUSED = Ras("localhost:28028", problem="refuses the connection: nobody listens there")
RUN = "/data/logs/20260101-000000-aaaaaa"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(jobs, "own_users", lambda: frozenset({"me"}))
    monkeypatch.setattr(
        tools, "ptrace", lambda one: None if one.is_readable else "it is another user's"
    )


def process(rank: int, **fields: Any) -> Process:
    environment = {
        "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
        "MASTER_PORT": "29500", **fields.pop("environment", {}),
    }  # fmt: skip
    known: dict[str, Any] = {
        "pid": 4711 + rank, "parent": 4710, "user": "me", "state": "S", "started": NOW - 300,
        "arguments": ("python", "-u", "train.py"), "is_readable": True, "has_torch": True,
        "environment": environment, "folder": Path("/data"), "torch_version": "2.13.0",
        "has_gpu": True,
    }  # fmt: skip
    return Process(**known | fields)


def job(**fields: Any) -> Found:
    return Found(tuple(process(rank, **dict(fields)) for rank in range(2)))


def traced(**fields: Any) -> Found:
    return Found(
        tuple(
            process(rank, rank_files=(Path(RUN) / f"rank0000{rank}.jsonl",), **fields)
            for rank in range(2)
        )
    )


def known(found: Found, **fields: Any) -> Surroundings:
    return Surroundings(found=found, now=NOW, **{"ras": (REFUSED,)} | fields)


def screen(of: Checkup) -> str:
    out = io.StringIO()
    write(of, out)
    return out.getvalue()


def row(of: Checkup, name: str) -> Row:
    return next(row for row in of.rows if row.name == name)


def test_a_job_that_records_itself() -> None:
    runs = (RunFiles(RUN, "20260101-000000-aaaaaa", (0, 1), 2, NOW - 3),)
    answer = examine(known(traced(), runs=runs, py_spy="/usr/bin/py-spy"))
    assert answer.is_worth_it
    assert (
        screen(answer)
        == """\
2 ranks of train.py, pids 4711-4712, for 300 s, torch 2.13.0

rank files       2 of 2 ranks, written 3.0 s ago: which collective, rank and
                 line, and why
                 $ python -m collectrace align /data/logs/20260101-000000-aaaaaa
stacks           py-spy shows where each process is, and stops it for a moment
                 $ for p in 4711 4712; do py-spy dump --pid $p; done
Flight Recorder  no dumps: without NCCL, torch writes none by itself
NCCL RAS         these processes have not loaded NCCL

next time        nothing more to set
"""
    )


def test_an_nccl_job_that_was_not_prepared() -> None:
    report = ras.read((SAMPLES / "behind.ras.json").read_bytes())
    answer = examine(
        known(
            job(nccl="2.27.3"),
            ras=(Ras("localhost:28028", report, report),),
            looked_into=("/data/logs",),
        )
    )
    assert answer.is_worth_it
    assert (
        screen(answer)
        == """\
2 ranks of train.py, pids 4711-4712, for 300 s, torch 2.13.0

NCCL RAS         Communicator 27a079b828ff1a75 (8 ranks): rank 5 (process
                 1598389 on 172.16.64.212) has launched 1 AllReduce fewer than
                 ranks 0-4,6-7 (6,649 against 6,650); the same a second later.
                 $ echo verbose status | nc localhost 28028 | tee job.ras.txt
rank files       none: this job does not record itself (looked into /data/logs)
Flight Recorder  no dumps yet: it records, and writes when a collective times
                 out
stacks           py-spy shows where each process is, and stops it for a moment;
                 it is not installed
                 $ pip install py-spy; for p in 4711 4712; do py-spy dump --pid $p; done

next time        export COLLECTRACE=1
                 export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
                 export TORCH_FR_DUMP_TEMP_FILE=$PWD/nccl_trace_rank_
"""
    )


def test_nothing_runs_and_nothing_lies_there() -> None:
    answer = examine(known(Found(()), looked_into=("/data/logs",)))
    assert not answer.is_worth_it
    assert (
        screen(answer)
        == """\
no training process of this user runs on this machine

rank files       none (looked into /data/logs)
Flight Recorder  no dumps where torch writes them
NCCL RAS         localhost:28028 refuses the connection: nobody listens there

next time        export COLLECTRACE=1
                 export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
                 export TORCH_NCCL_DEBUG_INFO_TEMP_FILE=$PWD/nccl_trace_rank_
"""
    )


def test_the_torch_that_is_installed_decides_the_names_if_nothing_runs() -> None:
    answer = examine(known(Found(()), torch_version="2.13.0"))
    assert "export TORCH_FR_BUFFER_SIZE=2000" in screen(answer)


def test_another_users_job() -> None:
    hidden = (replace(process(0), is_readable=False, user="eve", environment={}),)
    answer = examine(known(Found((), hidden), pid=4711, py_spy="/usr/bin/py-spy"))
    assert answer.headline == ("process 4711 is eve's: permission denied. Run doctor as eve.")
    assert row(answer, "stacks").command == "sudo py-spy dump --pid 4711"
    assert not answer.is_worth_it


def test_other_users_processes_are_no_job_of_anybody() -> None:
    hidden = (replace(process(0), is_readable=False, user="root", environment={}),)
    answer = examine(known(Found((), hidden), py_spy="/usr/bin/py-spy"))
    assert answer.headline == (
        "no training process of this user runs on this machine; permission denied to look into 1 "
        "python process of root"
    )
    assert [one.name for one in answer.rows] == ["rank files", "Flight Recorder", "NCCL RAS"]


def test_ras_is_asked_again_where_ranks_differ() -> None:
    behind, healthy = ras_server.ras("behind.ras.json"), ras_server.ras("healthy.ras.json")
    with ras_server.serving(behind, healthy) as where:
        asked = checkup.ask_ras(where, again_after=0.0)
    assert asked.report is not None
    assert asked.report.has_remark
    assert asked.later is not None
    assert not asked.later.has_remark
    with ras_server.serving(healthy) as where:
        assert checkup.ask_ras(where).later is None


def test_the_first_look_is_kept_where_there_is_no_second() -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.recv(100)

    with ras_server.serving(ras_server.ras("behind.ras.json"), hang_up) as where:
        asked = checkup.ask_ras(where, again_after=0.0)
    assert asked.report is not None
    assert (asked.later, asked.problem) == (None, "")


def test_ras_of_a_job_that_is_not_this_one() -> None:
    report = ras.read((SAMPLES / "dead.ras.json").read_bytes())
    answer = examine(known(job(), ras=(Ras("localhost:28028", report),)))
    told = row(answer, "NCCL RAS")
    assert not told.is_ready
    assert told.says[0] == (
        "localhost:28028 answers for another job on this machine: these processes use no NCCL."
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.25, "0.2 s"), (300, "300 s"), (4000, "67 min"), (20_000, "6 h"), (864_000, "10 days")],
)
def test_ages(seconds: float, said: str) -> None:
    assert age(known(Found(())), NOW - seconds) == said


def test_a_stopped_rank_and_a_missing_one() -> None:
    stopped = Found((process(1, state="T"),))
    answer = examine(known(stopped))
    assert answer.headline.startswith("1 of 2 ranks of train.py, pid 4712,")
    assert answer.notes == (
        "rank 1 (pid 4712) was stopped by a signal; kill -CONT 4712 lets it go on",
        "local rank 0 does not run here: ended, or not yet started",
    )


def test_dumps_of_this_job_and_of_an_earlier_one() -> None:
    lie = Dumps("/tmp/nccl_trace_rank_", (0, 1), NOW - 10)
    fresh = row(examine(known(job(nccl="2.27.3"), dumps=(lie,))), "Flight Recorder")
    assert fresh.is_ready
    assert fresh.command == "python -m collectrace align /tmp/nccl_trace_rank_0"
    old = row(
        examine(known(job(nccl="2.27.3"), dumps=(replace(lie, newest=NOW - 1000),))),
        "Flight Recorder",
    )
    assert not old.is_ready
    assert old.says == (
        "dumps of ranks 0-1, /tmp/nccl_trace_rank_N, written 17 min ago: before this job began",
    )


def test_rank_files_of_an_earlier_job_are_not_this_ones() -> None:
    runs = (RunFiles("/data/logs", "x", (0, 1), 2, NOW - 1000),)
    files = row(examine(known(job(), runs=runs)), "rank files")
    assert (files.is_ready, files.command) == (False, None)
    assert files.says == ("none of this job; those in /data/logs are of an earlier one",)


def test_a_switch_without_a_recorder() -> None:
    answer = examine(known(job(environment={"COLLECTRACE": "1"})))
    assert row(answer, "rank files").says[0].startswith("none so far, though COLLECTRACE is set:")
    assert "export COLLECTRACE=1" not in answer.next_time


def test_only_some_record_themselves() -> None:
    found = Found((traced().processes[0], process(1)))
    runs = (RunFiles(RUN, "x", (0,), 2, NOW - 1),)
    says = row(examine(known(found, runs=runs)), "rank files").says[0]
    assert says.startswith("1 of 2 ranks (1 of 2 processes here record themselves), written 1.0 s")


def test_the_jobs_python_must_have_it_installed(tmp_path: Path) -> None:
    found = job(torch=tmp_path / "torch", arguments=("/env/bin/python", "t.py"))
    install, switch = examine(known(found)).next_time
    assert install == f"/env/bin/python -m pip install {ROOT}"
    assert switch == "export COLLECTRACE=1"
    told = tmp_path / "collectrace-0.1.dist-info"
    told.mkdir()
    (told / "entry_points.txt").write_text("[console_scripts]\ncollectrace = ...\n")
    assert len(examine(known(found)).next_time) == 2  # too old for the switch
    (told / "entry_points.txt").write_text("[torch.backends]\ncollectrace = ...\n")
    assert examine(known(found)).next_time == ("export COLLECTRACE=1",)


@pytest.mark.parametrize(
    ("nccl", "environment", "says"),
    [
        ("2.21.5", {}, "NCCL 2.21.5 has none: it came with 2.24"),
        ("2.27.3", {"NCCL_RAS_ENABLE": "0"}, "switched off in this job: NCCL_RAS_ENABLE=0"),
        ("", {"has_gpu": False}, "these processes use no GPU, and so no NCCL"),
        ("", {}, "localhost:28028 refuses the connection: nobody listens there"),
    ],
)
def test_why_ras_does_not_answer(nccl: str, environment: dict[str, Any], says: str) -> None:
    fields = {"has_gpu": environment.pop("has_gpu", True), "environment": environment}
    answer = examine(known(job(nccl=nccl, **fields)))
    assert row(answer, "NCCL RAS").says == (says,)


def test_torchs_debug_server() -> None:
    stacks = row(examine(known(job(), has_debug_server=True)), "stacks")
    assert stacks.is_ready
    assert stacks.command == "curl -s http://localhost:25999/stacks"


def test_a_healthy_answer_is_no_alarm() -> None:
    report = ras.read((SAMPLES / "healthy.ras.txt").read_bytes())
    answer = checkup.of_report(Ras("job.ras.txt", report))
    assert (
        screen(answer)
        == """\
job.ras.txt: a report of NCCL 2.30.7 RAS of 2 nodes

NCCL RAS         3 communicators, 8 processes: in each all ranks have launched
                 equally much, and every rank answers.
                 It does not show the order of the calls, their lines and the
                 culprit; it does not count messages and all-to-alls.
"""
    )


def test_what_a_job_calls_itself_cannot_write_on_the_terminal() -> None:
    found = job(arguments=("python", "\x1b[2Jtrain.py"))
    assert "\x1b" not in screen(examine(known(found)))


@pytest.mark.parametrize(
    ("capable", "readable", "scope", "why"),
    [
        (False, True, None, None),
        (False, True, "0", None),
        (False, True, "1", "kernel.yama.ptrace_scope is 1: root may"),
        (False, True, "3", "kernel.yama.ptrace_scope is 3: none may"),
        (False, False, "0", "it is another user's"),
        (True, False, "1", None),
    ],
)
def test_whether_a_debugger_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capable: bool, readable: bool,
    scope: str | None, why: str | None,
) -> None:  # fmt: skip
    monkeypatch.undo()
    (tmp_path / "self").mkdir()
    bits = 1 << 19 if capable else 0
    (tmp_path / "self" / "status").write_text(f"Name:\tx\nCapEff:\t{bits:016x}\n")
    if scope is not None:
        (tmp_path / "sys/kernel/yama").mkdir(parents=True)
        (tmp_path / "sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
    assert tools.ptrace(replace(process(0), is_readable=readable), tmp_path) == why


def test_a_listener_is_seen_without_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert tools.listens(port)
    assert not tools.listens(port)


def test_a_connection_is_no_listener(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    line = "   0: 0100007F:6587 0100007F:1234 {} 00000000:00000000 00:00000000 0 0 0\n"
    for state, is_listening in (("01", False), ("0A", True)):
        (tmp_path / "net" / "tcp").write_text("  sl  local_address ...\n" + line.format(state))
        assert tools.listens(0x6587, tmp_path) is is_listening

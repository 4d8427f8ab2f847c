"""Folders of dumps: whole, damaged, of several versions and attempts, and turned into files."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import fsspec
import pytest

from collectrace.align import align
from collectrace.findings import Alignment, Finding
from collectrace.foreign import flight_progress
from collectrace.foreign.flight_dump import GroupStatus
from collectrace.foreign.flight_rows import Row
from collectrace.records import Call, decode
from collectrace.report import terminal
from tests.support.commands import run
from tests.support.flight_cases import (
    healthy,
    healthy_asked_while_a_call_completed,
    never_completed,
    never_enqueued,
    rank_zero_is_wrong,
)
from tests.support.flight_rings import MS, Job


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n", b"<!DOCTYPE html><html>502</html>", b"\x80\x02X\xff\xff\xff", b"", b"{", b"[]",
        b'{"entries": "text", "version": "2.10"}', b'{"entries": [1]}', b'{"entries": [{}]}',
        b'{"pg_config": 3, "entries": []}', b'{"entries": {"a": [1]}}', b"\x80\x02]q\x00.",
        pickle.dumps({"entries": [os.getcwd], "version": "2.10"}),
        pickle.dumps({"entries": [{"profiling_name": 3}], "version": "2.10"}, 2),
        pickle.dumps(healthy().ring(0).dump(), 2)[:-3000],
    ],
)  # fmt: skip
def test_what_is_no_dump_gets_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(content)
    status, out, err = run("align", str(tmp_path))
    assert status == 2
    assert not out
    assert err.count("\n") == 1
    assert "nccl_trace_rank_0" in err


def test_one_damaged_dump_costs_one_rank(tmp_path: Path) -> None:
    folder = rank_zero_is_wrong().write(tmp_path / "d")
    (folder / "nccl_trace_rank_3").write_text("No space left on device")
    found = align(folder)
    assert found.evidence.missing_ranks == (3,)
    assert any("nccl_trace_rank_3" in note for note in found.evidence.notes)


@pytest.mark.parametrize(
    "name",
    ["nccl_trace_rank_{}", "comm_lib_trace_rank_{}", "fr_dump_{}", "rank{}.pickle", "dump-{}.pkl"],
)
def test_any_name_with_a_rank_will_do(name: str, tmp_path: Path) -> None:
    folder = never_enqueued().write(tmp_path / "d")
    for path in list(folder.iterdir()):
        path.rename(folder / name.format(path.name.rpartition("_")[2]))
    assert align(folder).findings[0].suspects == (2,)


def test_one_dump_stands_for_those_beside_it(tmp_path: Path) -> None:
    folder = never_enqueued().write(tmp_path / "d")
    assert align(folder / "nccl_trace_rank_1").findings[0].suspects == (2,)


@pytest.mark.parametrize("name", ["d.tar.gz", "d.tar"])
def test_an_archive_of_dumps(name: str, tmp_path: Path) -> None:
    folder = never_enqueued().write(tmp_path / "d")
    with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as out:
        out.add(folder, arcname="d")
    sent, whole = align(tmp_path / name), align(folder)
    assert (sent.findings, sent.run) == (whole.findings, "d")
    assert sent.findings[0].suspects == (2,)


def test_dumps_in_a_store(tmp_path: Path) -> None:
    folder = rank_zero_is_wrong().write(tmp_path / "d")
    store = fsspec.filesystem("memory")
    for file in folder.iterdir():
        store.pipe_file(f"/bucket/job/{file.name}", file.read_bytes())
    try:
        assert align("memory://bucket/job").findings[0].suspects == (0,)
    finally:
        store.rm("/bucket", recursive=True)


def test_import_writes_what_align_reads(tmp_path: Path) -> None:
    folder = never_enqueued().write(tmp_path / "dumps")
    status, out, _ = run("import", str(folder), "-o", str(tmp_path / "logs"))
    assert status == 0
    assert "4 ranks" in out
    kept, direct = align(tmp_path / "logs"), align(folder)
    assert kept.findings == direct.findings
    assert kept.run == direct.run == "dumps"
    again = run("import", str(folder), "-o", str(tmp_path / "logs"))
    assert again[0] == 2
    status, _, err = run("import", str(tmp_path / "logs"))
    assert status == 2
    assert err.count("\n") == 1


def test_numbers_and_digests_are_the_rings_own(tmp_path: Path) -> None:
    job = Job(2)
    job.all("all_reduce", [4], count=30)
    job.ring(1).forget(10)
    folder = job.write(tmp_path / "dumps")
    run("import", str(folder), "-o", str(tmp_path / "logs"))
    calls: dict[int, dict[int, Call]] = {}
    for rank in (0, 1):
        lines = [
            line
            for path in sorted((tmp_path / "logs" / "dumps").glob(f"rank{rank:05d}*"))
            for line in path.read_bytes().splitlines()
        ]
        found = [record for line in lines if isinstance(record := decode(line), Call)]
        calls[rank] = {call.seq: call for call in found}
    assert sorted(calls[0]) == list(range(1, 31))
    assert sorted(calls[1]) == list(range(21, 31))
    assert calls[0][30].site == "/job/train.py:10"


@pytest.mark.parametrize("small", [False, True])
def test_rings_that_wrapped_are_compared_where_both_have_calls(tmp_path: Path, small: bool) -> None:
    from collectrace.align.alignment import compared
    from collectrace.align.reading.run_reader import read

    job = Job(3)
    for n in range(400):
        for ring in job:
            ring.call("all_reduce", [5 if n == 390 and ring.rank == 1 else 4])
    for ring in job:
        ring.forget(100 + 50 * ring.rank)
    folder = job.write(tmp_path / "dumps")
    found = compared(read(folder, small=(64 << 20) if small else 0))
    assert [(d.seq, d.attribute) for d in found.divergences] == [(391, "count")]


def test_rings_that_wrapped_are_aligned_over_what_they_have_in_common(tmp_path: Path) -> None:
    job = Job(2)
    job.all("all_reduce", [4], count=200)
    for ring in job:
        ring.forget(100 + 50 * ring.rank)
    found = align(job.write(tmp_path))
    assert (found.status, found.evidence.agreed) == ("aligned", 100)
    assert (
        "Of the default group only calls 101 to 200 were compared: the rings hold no others in "
        "common."
    ) in found.evidence.notes


def old(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry as torch 2.3 wrote it: format 1.4."""
    kept = ("frames", "record_id", "pg_id", "op_id", "profiling_name", "time_created_ns", "state",
            "input_sizes", "output_sizes", "time_discovered_started_ns",
            "time_discovered_completed_ns", "retired")  # fmt: skip
    return {"seq_id": entry["collective_seq_id"], **{name: entry[name] for name in kept}}


def test_dumps_of_format_1(tmp_path: Path) -> None:
    job = never_enqueued()
    for ring in job:
        dump = {"entries": [old(e) for e in ring.entries], "version": "1.4",
                "pg_config": {0: [0, 1, 2, 3]}}  # fmt: skip
        path = tmp_path / f"nccl_trace_rank_{ring.rank}"
        path.write_bytes(pickle.dumps(dump, 2))
        os.utime(path, ns=(job.now + 60_000 * MS, job.now + 60_000 * MS))
    found = align(tmp_path)
    assert found.findings[0].kind == "missing_call"
    assert found.findings[0].suspects == (2,)
    assert any("format 1.4" in note for note in found.evidence.notes)


def test_the_members_of_a_group_without_a_description_are_those_in_the_dump(
    tmp_path: Path,
) -> None:
    job = Job(2)
    job.all("all_reduce", [4], count=5)
    folder = job.write(tmp_path, form="json")
    dump = json.loads((folder / "nccl_trace_rank_1").read_bytes())
    dump["pg_config"]["0"]["desc"] = 0
    for rank in (1, 9):  # there is one more file than the job had ranks
        (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps(dump))
    assert [f for f in align(folder).findings if f.severity == "error"] == []


def test_numbers_may_be_text(tmp_path: Path) -> None:
    job = rank_zero_is_wrong()
    for ring in job:
        for entry in ring.entries:
            entry["collective_seq_id"] = str(entry["collective_seq_id"])
            entry["output_dtypes"] = "float32"
    assert align(job.write(tmp_path / "d")).findings[0].suspects == (0,)


def test_a_dump_of_an_earlier_attempt_is_a_run_of_its_own(tmp_path: Path) -> None:
    before = Job(4)
    before.all("all_reduce", [4], count=30)
    after = healthy()
    for ring in after:
        for entry in ring.entries:
            for name in ("time_created_ns", "time_discovered_started_ns",
                         "time_discovered_completed_ns"):  # fmt: skip
                entry[name] += 3_600_000 * MS
    after.now += 3_600_000 * MS
    before.write(tmp_path / "d")
    after.write(tmp_path / "d", without=(3,))
    found = align(tmp_path / "d")
    assert found.evidence.missing_ranks == (3,)
    assert not [f for f in found.findings if f.severity == "error"]
    assert any("earlier attempt" in note for note in found.evidence.notes)


COPIED = 1e7
"""Seconds after the last call at which a file was written that is a copy."""


def errors(alignment: Alignment) -> list[Finding]:
    return [f for f in alignment.findings if f.severity == "error"]


@pytest.mark.parametrize("form", ["torch", "python", "json"])
def test_a_dump_without_a_time_is_taken_for_that_of_a_hang(form: str, tmp_path: Path) -> None:
    job = never_enqueued()
    job.waited = COPIED
    found = align(job.write(tmp_path / "d", form=form))
    first = errors(found)[0]
    assert (first.kind, first.suspects) == ("missing_call", (2,))
    assert "taken for those of a hang" in first.cause
    assert any("taken for the dump of a hang" in note for note in found.evidence.notes)
    # For how long is not known, so nothing says it.
    told = io.StringIO()
    terminal.write(found, told)
    assert "0 ms" not in told.getvalue()


def test_a_stall_in_dumps_without_a_time_is_one(tmp_path: Path) -> None:
    job = never_completed()
    job.waited = COPIED
    (found,) = errors(align(job.write(tmp_path / "d")))
    assert (found.kind, found.suspects) == ("stall", ())


def test_a_call_that_has_completed_elsewhere_is_no_hang(tmp_path: Path) -> None:
    job = healthy_asked_while_a_call_completed()
    job.waited = COPIED
    assert not errors(align(job.write(tmp_path / "stall")))
    # Dumped one after the other, while the job ran: rank 2 first.
    job = never_enqueued()
    job.ring(0).entries[-1] |= {
        "state": "completed", "retired": True,
        "time_discovered_completed_ns": job.now + 1000,
    }  # fmt: skip
    job.waited = COPIED
    assert not errors(align(job.write(tmp_path / "absent")))


@pytest.mark.parametrize("form", ["torch", "json"])
@pytest.mark.parametrize(("seconds", "is_hang"), [(1, False), (600, True)])
@pytest.mark.parametrize("unnoticed", ["completed", "started"])
def test_what_the_watchdog_had_not_noticed_dates_a_dump(
    unnoticed: str, seconds: int, is_hang: bool, form: str, tmp_path: Path
) -> None:
    job = never_enqueued()
    made = job.now + seconds * 1_000_000_000
    for ring in job:
        last = ring.entries[-1]
        if last["state"] == "completed":
            continue
        if unnoticed == "started":
            last["time_discovered_started_ns"] = made
        else:
            ring.entries[-2] |= {"retired": False, "time_discovered_completed_ns": made}
    job.watched = unnoticed != "started"
    folder = job.write(tmp_path / "d", form=form)
    for file in folder.iterdir():
        os.utime(file, ns=(0, 0))
    found = align(folder)
    assert bool(errors(found)) == is_hang
    assert not any("taken for" in note for note in found.evidence.notes if "0-1" in note)


def test_a_call_that_gloo_counts_before_it_retires_it_is_over(tmp_path: Path) -> None:
    job = Job(3, backend="gloo")
    job.all("all_reduce", [4], count=19)
    for ring in job:
        for entry in ring.entries:
            entry |= {"state": "scheduled", "time_discovered_completed_ns": None, "retired": True}
        if ring.rank != 1:
            ring.call("all_reduce", [4], state="scheduled")
    job.ring(0).entries[17]["retired"] = False
    job.waited, job.completed = COPIED, 19
    (found,) = errors(align(job.write(tmp_path / "d")))
    assert (found.kind, found.seq, found.suspects) == ("missing_call", 20, (1,))


def test_the_missing_dump_of_nccl2_is_normal(tmp_path: Path) -> None:
    job = Job(4, backend="nccl2")
    job.all("all_reduce", [4], count=19)
    for ring in job:
        if ring.rank != 1:
            ring.call("all_reduce", [4], state="started")
    for name, waited in (("dated", 620.0), ("copied", COPIED)):
        job.waited = waited
        found = align(job.write(tmp_path / name, without=(1,)))
        assert not errors(found)
        (gap,) = (f for f in found.findings if f.kind == "evidence_gap")
        assert (gap.headline, gap.suspects) == ("rank 1: left no dump", ())
        assert "this is normal" in gap.fix
        assert "enable()" not in gap.fix + gap.cause


def test_the_missing_dump_of_others_may_be_elsewhere(tmp_path: Path) -> None:
    found = align(never_enqueued().write(tmp_path / "d", without=(2,)))
    (gap,) = (f for f in found.findings if f.kind == "evidence_gap")
    assert "normal" not in gap.fix
    assert "Collect the dumps" in gap.fix


def test_the_report_says_whose_dumps_it_read(tmp_path: Path) -> None:
    status, out, _ = run("align", str(never_enqueued().write(tmp_path / "d")))
    assert status == 1
    assert "PyTorch Flight Recorder" in out
    assert "reduce ops" in out
    assert "started" in out
    assert "killed before" not in out


def test_json_says_whose_dumps_it_read(tmp_path: Path) -> None:
    folder = str(healthy().write(tmp_path / "d"))
    _, out, _ = run("align", folder, "--json", "-")
    assert json.loads(out)["evidence"]["imported"] == ["PyTorch Flight Recorder"]


def test_stacks_beside_a_dump_say_where_an_idle_rank_was(tmp_path: Path) -> None:
    folder = never_enqueued().write(tmp_path / "d")
    for rank in range(4):
        (folder / f"stacks_rank_{rank}.txt").write_text(
            "Current thread 0x00007f0c5c9fd740 (most recent call first):\n"
            f'  File "/job/data.py", line {20 + rank} in load\n'
            '  File "/job/train.py", line 40 in <module>\n'
        )
    found = align(folder)
    assert "data.py:22" in found.findings[0].headline + found.findings[0].cause
    assert [rank.state for rank in found.ranks] == ["blocked", "blocked", "busy", "blocked"]


def test_a_ring_without_calls_says_nothing_of_backends(tmp_path: Path) -> None:
    job = healthy()
    job.ring(0).entries.clear()
    found = align(job.write(tmp_path / "d"))
    assert not [f for f in found.findings if f.kind == "config_skew"]
    assert found.findings[0].kind == "missing_call"


SIDE_BY_SIDE = """
import os, sys
from collectrace import cli
from collectrace.foreign import convert

class Pool(convert.ProcessPoolExecutor):
    def __init__(self, workers, **options):
        print("workers", workers, flush=True)
        super().__init__(workers, **options)

convert.ProcessPoolExecutor = Pool
os.cpu_count = lambda: int(sys.argv[1])
if "killed" in sys.argv:
    convert._read = lambda *_: os._exit(9)
sys.exit(cli.main(["align", sys.argv[2], "--json", "-"], sys.stdout, sys.stderr))
"""


def side_by_side(cpus: int, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """In a process without threads, which this one is not."""
    return subprocess.run(
        [sys.executable, "-c", SIDE_BY_SIDE, str(cpus), str(folder), *more],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_many_ranks_are_read_side_by_side_with_the_same_result(tmp_path: Path) -> None:
    job = Job(40)
    job.all("all_reduce", [4], count=50)
    for ring in job:
        ring.call("broadcast" if ring.rank == 17 else "all_reduce", [4], state="started")
    dumps = job.write(tmp_path / "dumps")
    one, two = side_by_side(1, dumps), side_by_side(2, dumps)
    assert (one.returncode, one.stderr) == (two.returncode, two.stderr) == (1, "")
    assert two.stdout == "workers 2\n" + one.stdout
    assert json.loads(one.stdout)["findings"][0]["suspects"] == [17]


def test_a_process_that_is_killed_while_it_reads_is_told(tmp_path: Path) -> None:
    job = Job(40)
    job.all("all_reduce", [4], count=5)
    ran = side_by_side(2, job.write(tmp_path / "dumps"), "killed")
    assert ran.returncode == 2
    assert ran.stderr == (
        "collectrace: a process that read dumps was killed. Free some memory, or give fewer.\n"
    )


@pytest.mark.parametrize(("enqueued", "counts"), [(3, True), (9, False)])
def test_a_status_that_counts_messages_says_nothing_of_collectives(
    enqueued: int, counts: bool
) -> None:
    rows = [Row({"pg_id": 0}, seq, None, None, None) for seq in (1, 2, 3)]
    status = {"0": GroupStatus(enqueued, -1, enqueued - 1)}
    assert bool(flight_progress.counting_collectives(rows, status)) is counts

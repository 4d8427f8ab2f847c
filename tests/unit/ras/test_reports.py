"""Reports of RAS, as NVIDIA's own code printed them.

The samples came from ``src/ras/client_support.cc`` of NCCL 2.26.2, 2.28.7 and 2.30.7, compiled as
it is and asked over its socket, for jobs that were made up: 8 ranks on 2 hosts, a communicator of
all and one per host. What 2.24 printed otherwise is written here by its source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectrace import ras
from collectrace.ras.report import ANY, Communicator, Level, NotReadable, Place, Report
from collectrace.ras.verdict import verdict

SAMPLES = Path(__file__).parent / "samples"
BOTH = ("healthy", "behind", "several", "stopped", "dead", "failed", "leaving")
ALL = "27a079b828ff1a75"


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def read(name: str) -> Report:
    return ras.read(sample(name))


def remarks(report: Report) -> dict[str, Communicator]:
    return {one.name: one for one in report.communicators if one.has_remark}


def counts(level: Level | None) -> object:
    return None if level is None else (level.count, type(level))


@pytest.mark.parametrize("name", BOTH)
def test_text_and_json_of_one_job_say_the_same(name: str) -> None:
    text, json = read(f"{name}.ras.txt"), read(f"{name}.ras.json")
    assert (text.version, json.version) == ("2.30.7", "2.30.7")
    assert text.communicators_in_all == json.communicators_in_all == 3
    assert text.marked == json.marked
    assert (text.dead, text.silent, text.timeouts) == (json.dead, json.silent, json.timeouts)
    theirs, ours = remarks(text), remarks(json)
    assert theirs.keys() == ours.keys()
    for key, one in theirs.items():
        other = ours[key]
        assert one.size == other.size
        assert counts(one.silent) == counts(other.silent)
        pairs: list[tuple[Sequence[Level], Sequence[Level]]] = [
            (one.statuses, other.statuses),
            (one.failures, other.failures),
        ]
        for a, b in zip(one.differences, other.differences, strict=True):
            pairs.append((a.levels, b.levels))
        for mine, its in pairs:
            # The text names outliers only; whom it names, JSON names, too.
            named = [level if level.members else None for level in mine]
            assert [replace(level, members=[]) for level in mine] == [
                replace(level, members=[]) for level in its
            ]
            for level, full in zip(named, its, strict=True):
                assert level is None or level.members == full.members


def test_who_is_behind_by_how_much() -> None:
    (one,) = remarks(read("behind.ras.json")).values()
    (difference,) = one.differences
    assert (one.name, one.size, difference.op) == (ALL, 8, "AllReduce")
    ahead, behind = difference.levels
    assert (ahead.operations, ahead.count) == (6650, 7)
    assert (behind.operations, [m.rank for m in behind.members]) == (6649, [5])
    assert behind.members[0].place == Place("172.16.64.212", 1598389, "1")


def test_the_job_is_summed_up() -> None:
    report = read("healthy.ras.txt")
    assert (report.nodes, report.processes, report.gpus) == (2, 8, 8)
    assert not report.has_remark
    assert report.is_whole


def test_counts_are_kept_where_ranks_agree() -> None:
    whole, *_ = read("healthy.ras.json").communicators
    assert whole.counts == {
        "Broadcast": 12, "Reduce": 0, "AllGather": 3, "ReduceScatter": 0, "AllReduce": 6650,
    }  # fmt: skip


WHOLE = f"Communicator {ALL} (8 ranks):"
LOST = "Process 1598389 on 172.16.64.212 (GPU 1; rank 5 of 8)"
VERDICTS = {
    "healthy.ras.txt": "3 communicators, 8 processes: in each all ranks have launched equally "
    "much, and every rank answers.",
    "behind.ras.txt": f"{WHOLE} rank 5 (process 1598389 on 172.16.64.212) has launched 1 AllReduce "
    "fewer than the 7 others (6,649 against 6,650).",
    "several-2.26.ras.txt": f"{WHOLE} ranks 6-7 have launched 3 AllGather fewer than the 6 others "
    "(0 against 3); AllReduce: 6 ranks launched 6,650, rank 5 (process 1598389 on 172.16.64.212) "
    "6,649 and rank 2 (process 483074 on 172.16.64.210) 6,640.",
    "stopped.ras.json": f"{LOST} is not answering RAS.",
    "dead-brief.ras.txt": f"{LOST} is dead to RAS: not reached for a minute.\n"
    f"{WHOLE} 3 ranks have launched 1 AllReduce fewer than the 4 others (6,650 against 6,651).",
    "failed.ras.txt": f"{WHOLE} ranks 0-2 reported Remote process error.",
    "leaving.ras.txt": f"{WHOLE} 4 ranks are running, ranks 5-7 are no member of it now and rank 4 "
    "(process 1598388 on 172.16.64.212) is finalizing.",
}


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict(name: str) -> None:
    assert "\n".join(verdict(read(name))) == VERDICTS[name]


def test_counts_that_moved_are_told_from_those_that_stand() -> None:
    first = read("behind.ras.json")
    assert verdict(first, first)[0].endswith("(6,649 against 6,650); the same a second later.")
    moved = ras.read(sample("behind.ras.json").replace(b"6650", b"6660").replace(b"6649", b"6659"))
    assert verdict(first, moved)[0].endswith("(6,659 against 6,660); a second later they moved.")


def test_a_rank_that_caught_up_is_no_longer_told_of() -> None:
    assert verdict(read("behind.ras.json"), read("healthy.ras.json"))[0].startswith(
        "3 communicators:"
    )


BEFORE_2_26 = f"""\
NCCL version 2.24.3 compiled with CUDA 12.4
CUDA runtime version 12040, driver version 12040

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE,MISMATCH

Errors
======

#0-0 ({ALL}) INCOMPLETE
  Missing communicator data from 2 ranks
  The missing ranks: 21,22

Warnings
========

#0-0 ({ALL}) MISMATCH
  Communicator ranks have different status
  28 ranks have status RUNNING
  4 ranks have status UNKNOWN
  The unknown ranks: 1,2,3,4
  Communicator ranks have different collective operation counts
  27 ranks have launched up to operation 6650
  Rank 0 has launched up to operation 6649 -- GPU 0 managed by process 7 on node 10.0.0.1

"""


def test_what_nccl_before_2_26_printed() -> None:
    report = ras.read(BEFORE_2_26.encode())
    (one,) = report.communicators
    assert report.version == "2.24.3"
    assert one.silent is not None
    assert [member.rank for member in one.silent.members] == [21, 22]
    assert [(s.status, s.count, len(s.members)) for s in one.statuses] == [
        ("RUNNING", 28, 0),
        ("UNKNOWN", 4, 4),
    ]
    (difference,) = one.differences
    assert difference.op == ANY
    assert "".join(verdict(report)) == (
        f"Communicator {ALL} (32 ranks): rank 0 (process 7 on 10.0.0.1) has launched 1 collective "
        "fewer than the 27 others (6,649 against 6,650); nothing came from ranks 21-22."
    )


def test_an_excerpt_is_read_and_called_cut_short() -> None:
    whole = sample("dead.ras.txt")
    report = ras.read(whole[: whole.index(b"Warnings")])
    assert not report.is_whole
    assert verdict(report)[-1] == "The report is cut short: there may be more."


def test_marks_without_a_reason_are_no_good_news() -> None:
    table, _, _ = sample("behind.ras.txt").partition(b"\nErrors\n====")
    assert verdict(ras.read(table))[0] == (
        "1 communicator marked by RAS as not in order; the report does not say why."
    )


@pytest.mark.parametrize("name", ["several.ras.txt", "dead.ras.txt", "leaving.ras.txt"])
def test_text_cut_anywhere_is_read_or_refused(name: str) -> None:
    data = sample(name)
    for end in range(0, len(data), 3):
        with contextlib.suppress(NotReadable):
            assert verdict(ras.read(data[:end]))


def test_json_cut_anywhere_is_refused() -> None:
    data = sample("dead.ras.json")
    for end in range(0, len(data) - 2, 37):
        with pytest.raises(NotReadable, match=r"^(is|ends) .{5,100}$"):
            ras.read(data[:end])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"size": 8', b'"size": []'),
        (b'"rank": 0', b'"rank": {}'),
        (b'"hash": "0x27a079b828ff1a75"', b'"hash": "\\u001b[2J"'),
        (b'"collective_counts"', b'"counts"'),
        (b'"AllReduce": 6650', b'"AllReduce": "many"'),
        (b'"missing_ranks": [', b'"missing_ranks": [1,'),
        (b'"init_state": 0', b'"init_state": 1e999'),
        (b'"communicators": [', b'"communicators": 7, "x": ['),
    ],
)
def test_json_of_another_shape_is_refused_in_one_line(old: bytes, new: bytes) -> None:
    data = sample("behind.ras.json").replace(old, new, 1)
    assert data != sample("behind.ras.json")
    with pytest.raises(NotReadable, match=r"^is .{10,160}$"):
        ras.read(data)


@given(st.lists(st.sampled_from(sample("dead.ras.txt").split(b"\n")) | st.binary(max_size=60)))
def test_lines_in_any_order_are_read_or_refused(lines: list[bytes]) -> None:
    begin = b"NCCL version 2.30.7 compiled with CUDA 12.9\nCommunicators... (0.1s)\n"
    assert verdict(ras.read(begin + b"\n".join(lines)))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"NCCL INFO ...", b"\0" * 5000, b"V|1|base_timestamp=1"]
)
def test_what_is_no_report_is_refused(data: bytes) -> None:
    assert not ras.is_one(data[: ras.HEAD])
    with pytest.raises(NotReadable, match="not a NCCL RAS report"):
        ras.read(data)

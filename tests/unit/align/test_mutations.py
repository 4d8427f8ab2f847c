"""Harmed logs, read in both ways; lines that are lost, and what proves or denies what they held.

``tools/fuzz.py`` harms many more, and asks whether the answers are right.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from collectrace.align.alignment import compared, judged
from collectrace.align.reading.run_reader import read
from collectrace.align.reading.source import Folder, open_folder
from collectrace.align.reading.unasked import LeftBlob
from collectrace.chain import Step
from collectrace.findings import Alignment
from collectrace.records import Call
from tests.support import flight_cases
from tests.support.mutations import (
    Files,
    Mutation,
    Sample,
    aligned,
    different,
    everywhere,
    healthy,
    mutated,
    training,
)
from tests.support.synthetic import Rank, Run

STRIDE: Final = 164
"""One of so many mutations is tried; each sample begins at another."""

SAMPLES: Final = [*healthy(), *different()]
SKIMMED: Final[dict[str, Any]] = {"small": 0, "page": 256}


def some(sample: Sample) -> Iterator[tuple[Mutation, dict[str, bytes]]]:
    """Some of the ways to harm a sample, and what is the same on all ranks."""
    start = SAMPLES.index(sample) % STRIDE
    for n, (_, mutation, files) in enumerate(mutated(sample)):
        if n % STRIDE == start:
            yield mutation, files
    for _, mutation, files in everywhere(sample):
        yield mutation, files


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_both_ways_of_reading_give_one_answer(sample: Sample) -> None:
    for mutation, files in some(sample):
        whole, skimmed = (verdict(files, **how) for how in ({"full": True}, SKIMMED))
        assert whole == skimmed, (mutation.what, mutation.at)


def verdict(files: Files, **how: Any) -> tuple[str, list[tuple[Any, ...]]]:
    blobs = [LeftBlob(name, data) for name, data in sorted(files.items())]
    found = judged(compared(read(Folder("logs", "run-1", list(blobs), None), **how)), brief=True)
    errors = [f for f in found.findings if f.severity == "error"]
    return found.status, [(f.kind, f.seq, f.suspects) for f in errors]


# -- a difference in one line that is lost ---------------------------------------------------------


def one_reduced_with_max(at: int = 5) -> dict[str, bytes]:
    def maximum(rank: Rank) -> None:
        rank.call("all_reduce", shape=[64], role="ddp.backward.bucket", reduce_op="MAX")

    return Sample("", training({at: maximum})).files()


Change = Callable[[list[bytes], int], None]


def change(files: dict[str, bytes], seq: int, how: Change, rank: int = 1) -> Alignment:
    """What is said when the line of a call of one rank is changed."""
    name = f"rank{rank:05d}.jsonl"
    lines = files[name].splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"kind":"call"' in line
              and b'"seq":%d,' % seq in line)  # fmt: skip
    how(lines, at)
    return aligned({**files, name: b"".join(lines)})


def delete(lines: list[bytes], at: int) -> None:
    del lines[at]


def zero(lines: list[bytes], at: int) -> None:
    lines[at] = bytes(len(lines[at]) - 1) + b"\n"


def damage(lines: list[bytes], at: int) -> None:
    lines[at] = lines[at].replace(b'"op":', b'"op:')


def make_equal(lines: list[bytes], at: int) -> None:
    lines[at] = lines[at].replace(b"MAX", b"SUM")


@pytest.mark.parametrize("how", [delete, zero, damage, make_equal])
def test_digests_prove_a_difference_whose_line_is_lost(how: Change) -> None:
    found = change(one_reduced_with_max(), 5, how)
    assert (found.status, found.exit_status) == ("diverged", 1)
    (error,) = [f for f in found.findings if f.severity == "error"]
    assert (error.kind, error.code, error.seq) == ("lost_mismatch", "CT902", 5)
    assert error.suspects == ()
    assert [side.ranks for side in error.sides] == [(0, 2)]


def test_a_difference_in_one_of_several_lost_lines_names_them_all() -> None:
    found = change(
        one_reduced_with_max(), 4, lambda lines, at: lines.__delitem__(slice(at, at + 3))
    )
    assert "calls 4 to 6 of the default group" in found.findings[0].headline
    assert found.findings[0].sides == ()


def test_what_digests_over_lost_lines_deny_is_not_claimed() -> None:
    def extra(rank: Rank) -> None:
        rank.call("barrier", site="eval.py:3")
        rank.call("broadcast", shape=[4], site="train.py:12")

    files = Sample("", training({11: extra})).files()
    found = change(files, 3, lambda lines, at: lines.__delitem__(slice(at, at + 18)))
    finding = found.findings[0]
    assert (finding.kind, finding.seq, finding.suspects) == ("op_mismatch", 19, ())
    assert "agree up to" not in finding.cause
    assert "The first difference that the logs show is at call 19" in finding.cause


def test_a_rank_without_a_file_is_known_by_the_groups_if_no_header_can_be_read() -> None:
    files = Sample("", training()).files()
    head = files["rank00000.jsonl"].index(b"\n")
    found = aligned({"rank00000.jsonl": files["rank00000.jsonl"][head:], "rank00001.jsonl": b""})
    assert (found.status, found.world_size) == ("unknown", 3)
    assert found.evidence.missing_ranks == (1, 2)


@pytest.mark.parametrize("lost", [b"[^\n]*", b"[^\n]*\n"])
def test_a_rank_whose_records_of_a_group_are_lost_has_asked_for_it(lost: bytes) -> None:
    """Either a line that cannot be read may be the record, or the calls show that there was one."""
    files = {
        name: re.sub(rb'\{"kind":"group"[^\n]*"ready"[^\n]*\n', b"", data)
        for name, data in Sample("", training()).files().items()
    }
    data = files["rank00000.jsonl"]
    files["rank00000.jsonl"] = re.sub(rb'\{"kind":"group"' + lost, b"", data)
    assert [f.kind for f in aligned(files).findings if f.severity == "error"] == []


def test_who_numbers_its_groups_with_a_gap_has_lost_the_record_of_one() -> None:
    run = Run(3)
    run.group("1", [0, 1])
    run.group("2", [0, 1, 2])
    run.all("all_reduce", "2")
    run.finish()
    files = Sample("", run).files()
    name = "rank00002.jsonl"
    files[name] = re.sub(rb'\{"kind":"group"[^\n]*"group":"1"[^\n]*\n', b"", files[name])
    found = aligned(files)
    assert (found.status, found.findings) == ("unknown", ())
    assert found.evidence.notes == ("Rank 2: a line that says which group the rank made is lost.",)


def test_no_call_is_waited_in_by_all_ranks_of_a_group_whose_members_are_lost() -> None:
    run = Run(2)
    for rank in run.ranks:
        rank.stuck_in(rank.call("all_reduce"))
    files = Sample("", run).files()
    assert [f.code for f in aligned(files).findings] == ["CT309"]
    files["rank00001.jsonl"] = b""
    name = "rank00000.jsonl"
    files[name] = re.sub(rb'\{"kind":"(group|header)"[^\n]*\n', b"", files[name])
    found = aligned(files)
    assert (found.status, found.findings) == ("unknown", ())


def test_who_lost_a_line_is_named_though_a_false_one_took_its_place() -> None:
    files = one_reduced_with_max(13)
    name = "rank00001.jsonl"
    torn = rb'("seq":13,[^\n]*"digest":\d{6})[^\n]*\n[^\n]*"seq":14,[^\n]*\n'
    files[name], n = re.subn(torn, rb"\1}\n", files[name])
    found = judged(compared(read(Folder("logs", "run-1", [
        LeftBlob(name, data) for name, data in sorted(files.items())
    ], None), **SKIMMED)))  # fmt: skip
    assert n == 1
    assert [f.headline for f in found.findings if f.severity == "error"] == [
        "the ranks differ in calls 13 to 14 of the default group, which rank 1 lost"
    ]


# -- what digests do not prove ---------------------------------------------------------------------


def test_an_unknown_role_may_be_all_that_differs_in_a_lost_line() -> None:
    run = training({5: lambda rank: rank.call("all_reduce", shape=[64], role="unknown")})
    found = change(Sample("", run).files(), 5, delete)
    assert (found.status, found.exit_status) == ("unknown", 3)
    assert any("has lost call 5 of the default group. No digest" in n for n in found.evidence.notes)


@pytest.mark.parametrize(("failures", "status"), [((0, 1), "unknown"), ((1, 1), "diverged")])
def test_a_count_of_failures_that_moves_across_a_gap_may_be_all_that_differs(
    failures: tuple[int, int], status: str
) -> None:
    run = training({13: lambda rank: rank.call("all_reduce", shape=[1])}, checkpoint=600)
    files = Sample("", run).files()
    name, n = "rank00001.jsonl", 0
    lines = files[name].splitlines(keepends=True)
    for at, line in enumerate(lines):
        n = int(found[1]) if (found := re.search(rb'"call",.*"seq":(\d+)', line)) else n
        lines[at] = line.replace(b'"failures":0', b'"failures":%d' % failures[n >= 13])
    assert change({**files, name: b"".join(lines)}, 13, delete).status == status


# -- what is lost and proven all the same ----------------------------------------------------------


def test_equal_digests_behind_a_gap_prove_that_nothing_differs_in_it() -> None:
    files = Sample("", training()).files()
    found = change(files, 4, lambda lines, at: lines.__delitem__(slice(at, at + 6)), rank=2)
    assert (found.status, found.findings, found.evidence.agreed) == ("aligned", (), 24)
    assert found.evidence.notes == (
        (
            "Rank 2: the log has lost calls 4 to 9 of the default group. Equal digests prove that "
            "the ranks agree there."
        ),
    )


def test_ranks_that_lost_other_lines_are_compared_around_both() -> None:
    run = training()
    files = Sample("", run).files()
    for rank, first in ((0, 5), (1, 7), (2, 6)):
        name = f"rank{rank:05d}.jsonl"
        for seq in range(first, first + 3):
            files[name] = re.sub(
                rb'\n\{"kind":"call",[^\n]*"seq":%d,[^\n]*' % seq, b"", files[name]
            )
    assert aligned(files).status == "aligned"


def test_the_same_line_twice_is_no_contradiction() -> None:
    found = change(Sample("", training()).files(), 5, lambda lines, at: lines.insert(at, lines[at]))
    assert found.status == "aligned"


@pytest.mark.parametrize("is_first", [True, False], ids=["of a new form", "of a known form"])
def test_a_message_with_the_digest_of_a_collective_is_a_damaged_line(is_first: bool) -> None:
    run = Run(2)
    for _ in range(3):
        run.rank(0).send(1)
        run.rank(1).recv(0)
        run.all("all_reduce")
    run.finish()
    files = Sample("", run).files()
    name = "rank00001.jsonl"
    lines = files[name].splitlines(keepends=True)
    at = [n for n, line in enumerate(lines) if b'"op":"recv"' in line][0 if is_first else 1]
    lines[at] = lines[at].replace(b"}", b',"digest":7,"program":7}')
    found = aligned({**files, name: b"".join(lines)})
    assert (found.status, found.evidence.damaged_lines) == ("unknown", 1)


def test_a_call_with_sizes_of_one_direction_only_is_a_damaged_line() -> None:
    run = Run(2)
    run.all("all_to_all_single", splits=[[1, 1], [1, 1]])
    run.finish()
    files = Sample("", run).files()
    name = "rank00001.jsonl"
    files[name] = files[name].replace(b'"splits":[[1,1],[1,1]]', b'"splits":[[1,1]]')
    assert aligned(files).evidence.damaged_lines == 1


def test_two_calls_that_bear_one_number_do_not_count() -> None:
    def renumber(lines: list[bytes], at: int) -> None:
        lines[at] = lines[at].replace(b'"seq":5,', b'"seq":6,')

    found = change(one_reduced_with_max(), 5, renumber)
    assert found.findings[0].kind == "lost_mismatch"
    found = change(Sample("", training()).files(), 5, renumber)
    assert found.status == "aligned"
    assert "Rank 1: the lines of 1 call contradict the digests, and do not count." in (
        found.evidence.notes
    )


# -- ends ------------------------------------------------------------------------------------------


def test_a_call_that_the_last_line_counts_and_no_line_tells_is_no_missing_call() -> None:
    found = change(Sample("", training()).files(), 24, delete)
    assert (found.status, found.findings) == ("unknown", ())
    assert found.evidence.notes == (
        "Rank 1: the last line counts 24 calls, but by their numbers there are 23.",
    )


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_process_that_was_killed_is_no_gap_but_a_torn_line_is(is_torn: bool) -> None:
    run = training(end=False)
    for rank in run:
        if rank.rank != 1:
            rank.stuck_in(rank.call("all_reduce"))
    files = Sample("", run).files()
    end = -40 if is_torn else files["rank00001.jsonl"].rindex(b"\n", 0, -1) + 1
    found = aligned({**files, "rank00001.jsonl": files["rank00001.jsonl"][:end]})
    told = [(one.kind, one.suspects) for one in found.findings[:1]]
    assert told == ([("evidence_gap", ())] if is_torn else [("missing_call", (1,))])


def test_a_line_that_cannot_be_read_at_the_end_of_a_killed_process_may_be_its_last_call() -> None:
    run = training(end=False)
    for rank in run:
        rank.call("all_reduce")
        if rank.rank != 1:
            rank.beat(60, rank.inside(rank.items[-1]))  # type: ignore[arg-type]
    found = change(Sample("", run).files(), 25, zero)
    assert found.status == "unknown"
    unread, lost = found.evidence.notes
    assert unread.startswith("Rank 1: 1 line could not be read (rank00001.jsonl, line ")
    assert "Rank 1: lines at the end are lost. They may hold call 25 of the default group" in lost


@pytest.mark.parametrize("how", ["done", "alive"])
def test_who_completed_a_call_or_is_in_one_has_made_it_though_its_line_is_lost(how: str) -> None:
    run = training(end=False)
    for rank in run:
        call = rank.call("all_reduce")
        if how == "done":
            rank.done(call.seq)
            rank.beat(60)
        else:
            rank.stuck_in(call)
    found = change(Sample("", run).files(), 25, delete)
    assert [one.kind for one in found.findings if one.severity == "error"] == []
    assert (
        "Rank 1: lines at the end are lost. They may hold call 25 of the default group"
        in (found.evidence.notes[0])
    )


def test_whose_last_line_is_of_an_unknown_kind_may_have_ended_well() -> None:
    run = Run(2)
    run.rank(1).recv(0)
    run.finish()
    files = Sample("", run).files()
    name = "rank00000.jsonl"
    found = aligned({**files, name: files[name].replace(b'"kind":"exit"', b'"kind":"end"')})
    assert found.status == "unknown"
    assert (
        "Rank 0: the file ends within a line, or in one of an unknown kind"
        in (found.evidence.notes[0])
    )


def test_a_log_that_ends_before_a_call_from_which_others_returned_is_not_whole() -> None:
    run = training(end=False)
    for rank in run:
        if rank.rank != 1:
            rank.stuck_in(rank.call("all_reduce"))
    files = Sample("", run).files()
    at = files["rank00002.jsonl"].rindex(b"\n", 0, files["rank00002.jsonl"].index(b'"seq":9,')) + 1
    found = aligned({**files, "rank00002.jsonl": files["rank00002.jsonl"][:at]})
    assert {rank for finding in found.findings for rank in finding.suspects} <= {1}
    assert any(
        note == "Rank 2: the log ends before call 24 of the default group. Rank 0 returned from "
        "it, so lines are lost."
        for note in found.evidence.notes
    )


def test_a_log_that_ends_before_a_call_that_completed_elsewhere_is_not_whole() -> None:
    """A device's calls return at once; that one has completed shows that every rank came to it."""
    run = Run(3, backend="nccl", device="cuda")
    for rank in run:
        rank.calls(6, "all_reduce", shape=[4])
        rank.done(5)
        if rank.rank == 2:
            rank.beat(60)
        else:
            rank.stuck_in(rank.call("all_reduce", shape=[4]))
    files = Sample("", run).files()
    data = files["rank00002.jsonl"]
    cut = {**files, "rank00002.jsonl": data[: data.index(b'{"kind":"call"')]}
    found = aligned(cut)
    assert (found.status, [f.kind for f in found.findings]) == ("unknown", ["evidence_gap"])
    assert found.evidence.notes == (
        (
            "Rank 2: the log ends before call 5 of the default group. Rank 0 returned from it, so "
            "lines are lost."
        ),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"kind":"call"', b'"kind":"call2"'), (b'"seq":', b'"number":'), (b'"op":', b'"of":')],
)
def test_calls_of_a_newer_format_leave_it_open(old: bytes, new: bytes) -> None:
    files = Sample("", training()).files()
    found = aligned({name: data.replace(old, new) for name, data in files.items()})
    assert (found.status, found.exit_status) == ("unknown", 3)
    *unread, counted = found.evidence.notes
    told = r"Ranks 0-2: \d+ lines could not be read \(rank00000\.jsonl, line \d+\)\."
    assert all(re.fullmatch(told, one) for one in unread)
    assert counted == "Ranks 0-2: the last line counts 24 calls, but by their numbers there are 0."


def test_the_first_call_of_a_ring_is_held_against_its_digest() -> None:
    case = next(case for case in flight_cases.CASES if case.name == "healthy: wrapped")
    with tempfile.TemporaryDirectory() as name:
        folder = case.build().write(Path(name) / "logs", form="json")
        files = {blob.name: blob.read(0, blob.size) for blob in open_folder(folder).files}
    for name, data in files.items():
        first = data.find(b'"shape":[4]')
        files[name] = data[:first] + data[first:].replace(b'"shape":[4]', b'"shape":[9]', 1)
    blobs = [LeftBlob(name, data) for name, data in sorted(files.items())]
    found = judged(compared(read(Folder("logs", "run-1", list(blobs), None))))
    assert [one.kind for one in found.findings if one.severity == "error"] == []


def test_digests_of_another_version_are_taken_as_its_lines_tell_them() -> None:
    """A tracer that hashes a signature otherwise does so in all of its lines."""
    run = Run(3)
    for rank in run:
        own = rank._chain._step

        def other(call: Call, own: Callable[[Call], Step] = own) -> Step:
            found = own(call)
            return found._replace(program=7 * found.program) if call.op == "broadcast" else found

        rank._chain._step = other  # type: ignore[method-assign]
        for n in range(4):
            rank.call("all_reduce")
            rank.call("broadcast", root=1 if rank.rank == 1 and n > 1 else 0)
        rank.exit()
    found = aligned(Sample("", run).files())
    assert [(f.kind, f.seq, f.suspects) for f in found.findings] == [("root_mismatch", 6, (1,))]


def test_a_call_with_a_digest_of_another_version_is_not_invalid_by_itself() -> None:
    run = Run(3)
    for rank in run:
        rank.calls(3, "all_gather_single", shape=[4], out_shape=[12])
    run.finish()
    files = Sample("", run).files()
    found = aligned({k: data.replace(b'"shape":[4]', b'"shape":[12]') for k, data in files.items()})
    assert found.status == "aligned"


def test_what_was_not_read_is_told_in_one_note() -> None:
    files = Sample("", training()).files()
    folder = Folder("logs", "run-1", [LeftBlob(n, data) for n, data in files.items()], None)
    found = judged(compared(read(folder, **SKIMMED)))
    assert found.status == "aligned"
    assert found.evidence.notes == (
        (
            "The logs were read in part. Equal digests prove that the ranks agree on the calls in "
            "between; --full reads every line."
        ),
    )

"""Files of ranks that were not read whole: left behind, or told from another rank's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from collectrace import exchange
from collectrace.align import align
from collectrace.align.reading import through_store, unasked
from collectrace.align.reading.source import Folder, LocalBlob
from collectrace.findings import Alignment
from collectrace.log_folder import Blob
from collectrace.tracer.online.own_files import OwnFiles
from tools.make_logs import RUN, Difference, make

MOST = 160 << 10
"""Bytes that a rank of a large job leaves."""


def verdict(alignment: Alignment) -> list[tuple[object, ...]]:
    return [(f.kind, f.code, f.seq, f.suspects, f.caused_by) for f in alignment.findings]


def folder(blobs: list[Blob]) -> Folder:
    return Folder("here", RUN, blobs, None, is_fixed=True, is_far=True)


def left(run: Path, rank: int, most: int = MOST) -> list[unasked.LeftBlob]:
    value = OwnFiles(run / f"rank{rank:05d}.jsonl").left(RUN, most)
    assert len(value) < exchange.LARGEST_LEFT
    return unasked.left_blobs(RUN, rank, value)


def local(run: Path, rank: int) -> Iterator[LocalBlob]:
    for file in sorted(run.glob(f"rank{rank:05d}*.jsonl")):
        yield LocalBlob(f"{RUN}/{file.name}", file.stat().st_size, file)


@pytest.mark.parametrize("calls", [50, 5000])
@pytest.mark.parametrize("kind", ["count", "missing"])
def test_ends_that_were_left_tell_what_the_whole_tells(
    tmp_path: Path, calls: int, kind: str
) -> None:
    run = make(tmp_path, 4, calls, Difference.parse(f"2:{calls - 9}:{kind}"), finish=False)
    whole = align(run)
    blobs: list[Blob] = [blob for rank in (0, 1, 2) for blob in local(run, rank)]
    gone = left(run, 3)
    assert len(gone) == (1 if calls == 50 else 2)
    found = align(folder([*blobs, *gone]))
    assert verdict(found) == verdict(whole)
    assert found.findings[0].suspects == (2,)


def test_ends_of_a_record_in_segments(tmp_path: Path) -> None:
    run = make(tmp_path, 2, 9000, finish=False)
    short = run / "rank00001.jsonl"
    short.write_bytes(b"".join(short.read_bytes().splitlines(keepends=True)[:-5]))
    whole = align(run)
    for rank in range(2):
        file = run / f"rank{rank:05d}.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        head = lines[0]
        third = len(lines) // 3
        for n, part in enumerate((lines[:third], lines[third : 2 * third], lines[2 * third :])):
            data = b"".join(part if n == 0 else [head, *part])
            (run / f"rank{rank:05d}{f'.{n:04d}' if n else ''}.jsonl").write_bytes(data)
    blobs = [*left(run, 0), *left(run, 1)]
    assert len(blobs) == 4
    found = align(folder(list[Blob](blobs)))
    assert verdict(found) == verdict(whole)
    last = [rank.last_call and rank.last_call.seq for rank in found.ranks]
    assert last == [rank.last_call and rank.last_call.seq for rank in whole.ranks]
    assert last[0] == 9000
    assert last[0] != last[1]


def test_what_was_left_is_as_it_was(tmp_path: Path) -> None:
    run = make(tmp_path, 1, 9000, finish=False)
    head, tail = left(run, 0)
    file = (run / "rank00000.jsonl").read_bytes()
    assert (head.name, tail.name) == (f"{RUN}/rank00000.jsonl", f"{RUN}/rank00000.0002.jsonl")
    assert file.startswith(head.data)
    assert file.endswith(tail.data)
    assert head.data.endswith(b"\n")
    assert tail.data.startswith(b'{"kind":"checkpoint"')
    assert len(head.data) > 40_000
    assert len(tail.data) > 40_000


def test_nothing_is_taken_of_another_run_or_another_rank(tmp_path: Path) -> None:
    run = make(tmp_path, 2, 20, finish=False)
    value = OwnFiles(run / "rank00000.jsonl").left(RUN, MOST)
    assert unasked.left_blobs(RUN, 0, value)
    assert not unasked.left_blobs("20200101-000000-abcdef", 0, value)
    assert not unasked.left_blobs(RUN, 1, value)
    outside = exchange.Left(RUN, ("../../rank00000.jsonl",), (3,), (0,), (0,), (3,))
    assert not unasked.left_blobs(RUN, 0, exchange.pack_left(outside, [b"abc"]))


@pytest.mark.parametrize("rank", [9, 10, 12345])
def test_a_record_told_from_that_of_another_rank(tmp_path: Path, rank: int) -> None:
    run = make(tmp_path, 8, 300, finish=False)
    [blob] = local(run, 7)
    [alike] = unasked.alike_blobs(rank, [blob], RUN)
    head, _, rest = (run / "rank00007.jsonl").read_bytes().partition(b"\n")
    whole = alike.read(0, alike.size)
    begins, _, after = whole.partition(b"\n")
    was, header = orjson.loads(head), orjson.loads(begins)
    assert (alike.name, len(whole)) == (f"{RUN}/rank{rank:05d}.jsonl", alike.size)
    assert after == rest
    assert header["rank"] == rank
    assert {**was, "rank": rank}.items() >= header.items()
    assert "host" not in header
    assert "pid" not in header
    for start, stop in ((0, 10), (50, 900), (len(whole) - 9, len(whole) + 9)):
        assert alike.read(start, stop) == whole[start:stop]
    assert all(alike.read(n, n + 7) == whole[n : n + 7] for n in range(len(begins) + 9))


def test_who_is_asked() -> None:
    here, there = bytes(exchange.CARD), b"1" * exchange.CARD
    few = dict.fromkeys(range(32), here)
    assert through_store._representatives(few) == ([*range(32)], {})
    many = dict.fromkeys(range(100), here) | {50: there, 60: b"no digest"}
    asked, alike = through_store._representatives(many)
    assert asked == [0, 1, 2, 50, 60, 99]
    assert alike.keys() == many.keys() - {*asked}
    assert {*alike.values()} == {0}


def test_many_ranks_that_stand_alike_are_told_as_if_all_were_read(tmp_path: Path) -> None:
    run = make(tmp_path, 40, 400, Difference(17, 201, "reduce_op"), finish=False)
    read = [blob for rank in (0, 1, 2, 17, 39) for blob in local(run, rank)]
    [first] = local(run, 0)
    others = [
        blob
        for rank in range(40)
        if rank not in (0, 1, 2, 17, 39)
        for blob in unasked.alike_blobs(rank, [first], RUN)
    ]
    found = align(folder([*read, *others]))
    assert verdict(found) == verdict(align(run))
    assert found.world_size == 40
    assert found.evidence.missing_ranks == ()

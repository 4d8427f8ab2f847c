"""Files that ranks are asked for: how often, and what becomes of those that go meanwhile."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from collectrace.align import align
from collectrace.align.follow import Follower
from collectrace.align.reading import through_store
from collectrace.align.reading.asked_files import StoreBlob
from collectrace.align.reading.source import Folder, open_folder
from collectrace.align.reading.through_store import Memory
from collectrace.errors import LogError, NotNow
from tests.support.synthetic import Run

REACH = 64 << 10


class Asked:
    """The ranks of a job, without a store: the bytes of their files, by rank and file."""

    def __init__(self, **files: bytes) -> None:
        self.files = {int(name.removeprefix("rank")): data for name, data in files.items()}
        self.asks: list[tuple[int, int, int, int]] = []

    def ask(self, asks: Sequence[tuple[int, int, int, int]]) -> list[bytes | None]:
        self.asks += asks
        return [self._answer(rank, start, stop) for rank, _, start, stop in asks]

    def _answer(self, rank: int, start: int, stop: int) -> bytes | None:
        data = self.files.get(rank)
        return None if data is None else data[start:stop]

    def blob(self, rank: int, size: int) -> StoreBlob:
        ranks: Any = self
        return StoreBlob(f"run/rank{rank:05}.jsonl", size, rank, 0, ranks, REACH)


def test_looks_that_follow_each_other_are_few_asks() -> None:
    data = bytes(range(256)) * 4096
    asked = Asked(rank0=data)
    blob = asked.blob(0, len(data))
    page = 4096
    read = [blob.read(start, start + page) for start in range(0, len(data), page)]
    assert b"".join(read) == data
    assert len(asked.asks) <= len(data) // REACH + 1


def test_looks_that_halve_a_file_ask_for_what_they_need() -> None:
    data = bytes(1 << 20)
    asked = Asked(rank0=data)
    blob = asked.blob(0, len(data))
    for shift in range(1, 5):
        blob.read(len(data) >> shift, (len(data) >> shift) + 4096)
    assert sum(stop - start for _, _, start, stop in asked.asks) == 4 * 4096


def test_what_was_read_is_not_asked_for_again_when_the_file_has_grown() -> None:
    before, after = b"a" * 50_000, b"a" * 50_000 + b"b" * 2_000
    asked = Asked(rank0=before)
    earlier = asked.blob(0, len(before))
    ranks: Any = asked
    assert through_store._read_ends(ranks, [earlier]) == [earlier]
    asked.files[0], asked.asks = after, []
    later = asked.blob(0, len(after))
    later.remember(earlier)
    through_store._read_ends(ranks, [later])
    assert later.read(0, len(after)) == after
    assert sum(stop - start for _, _, start, stop in asked.asks) == 2_000
    replaced = asked.blob(0, 10)
    replaced.remember(earlier)
    assert replaced.parts == {}


def test_a_segment_that_has_gone_is_no_silence() -> None:
    asked = Asked(rank0=b"here\n", rank1=b"")
    blobs = [asked.blob(0, 5), asked.blob(1, 5), asked.blob(2, 5)]
    ranks: Any = asked
    assert through_store._read_ends(ranks, blobs) == blobs[:1]
    with pytest.raises(NotNow, match="while it was read"):
        blobs[1].read(0, 5)
    with pytest.raises(NotNow, match="rank 2 has stopped answering"):
        blobs[2].read(0, 5)


def a_dead_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def live(folder: Path) -> Folder:
    found = open_folder(folder)
    return Folder(found.label, found.name, found.files, None, is_fixed=True, is_far=True)


def waits_for_rank_1(folder: Path) -> None:
    """Rank 0 is in a call that rank 1, whose process has ended since, had not come to."""
    run = Run(2, host=platform.node(), pid=a_dead_process())
    run.all("all_reduce")
    rank = run.rank(0)
    rank.call("barrier")
    run.write(folder)


def test_a_rank_that_has_answered_is_not_dead_because_it_ended_since(tmp_path: Path) -> None:
    waits_for_rank_1(tmp_path)
    assert {rank.ended for rank in align(tmp_path).ranks} == {"gone"}
    assert {rank.ended for rank in align(live(tmp_path)).ranks} == {"alive"}


class Waits(Event):
    """Takes down how long is waited, and waits for nothing."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._most = most

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) == self._most:
            self.set()
        return self.is_set()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[LogError]:
    """A job at ``tcpstore://here:1``; its looks fail with what is put into the list, in turn."""
    waits_for_rank_1(tmp_path)
    failures: list[LogError] = []

    @contextmanager
    def opened(_: str, memory: Memory) -> Iterator[Folder]:
        if failures:
            raise failures.pop(0)
        memory.heartbeat = 7.0
        yield live(tmp_path)

    monkeypatch.setattr(through_store, "opened", opened)
    return failures


def test_ranks_are_not_asked_more_often_than_their_hearts_beat(job: list[LogError]) -> None:
    stop = Waits(3)
    follower = Follower("tcpstore://here:1", interval=0.1)
    for _ in follower.looks(stop):
        job[:] = [NotNow("somebody else asks")]
    assert len(stop.seconds) == 3
    assert all(seconds >= 7.0 for seconds in stop.seconds)
    assert follower.gone is None
    assert follower.report() is not None


def test_a_job_that_was_never_seen_is_an_error_and_one_that_has_gone_is_none(
    job: list[LogError],
) -> None:
    job.append(LogError("cannot connect"))
    follower = Follower("tcpstore://here:1")
    with pytest.raises(LogError, match="cannot connect"):
        list(follower.looks(Waits(3)))
    follower = Follower("tcpstore://here:1")
    stop = Waits(9)
    for seen in follower.looks(stop):
        assert seen is not None
        job.append(LogError("cannot connect"))
    assert len(stop.seconds) == 1
    assert follower.gone == "cannot connect"
    assert follower.report() is not None


def test_the_last_look_at_a_job_that_is_over_asks_for_all_there_is(
    tmp_path: Path, job: list[LogError]
) -> None:
    shutil.rmtree(tmp_path)
    run = Run(2)
    run.all("all_reduce")
    run.finish()
    run.write(tmp_path)
    follower = Follower("tcpstore://here:1")
    for seen in follower.looks(Waits(9)):
        assert seen is not None
        job.append(LogError("cannot connect"))
    report = follower.report()
    assert (follower.gone, report and report.status) == (None, "aligned")

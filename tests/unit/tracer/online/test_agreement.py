"""Comparing through one key of the store: who differs is found, whoever comes first or is ahead."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch._C._distributed_c10d import TCPStore

from collectrace import records
from collectrace.exchange import Keys
from collectrace.job_store import JobStore
from collectrace.records import Call, Group
from collectrace.signature import extend
from collectrace.tracer.online.agreement import Agreement, Digests
from collectrace.tracer.online.own_files import OwnFiles
from collectrace.tracer.record.groups import GroupState

KEYS = iter(range(10**6))


@pytest.fixture(scope="module")
def store() -> Iterator[JobStore]:
    theirs = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ours = JobStore("127.0.0.1", theirs.port, 20.0)
    yield ours
    ours.close()


class Rank:
    """A rank that issues calls, each a number on which the ranks agree or not."""

    def __init__(self, run: int) -> None:
        self.group = GroupState(Group(phase="ready", group="0", ranks=[0, 1, 2], backend="gloo"), 0)
        self.stream = self.group.stream("cpu")
        self.past: list[Digests] = [(self.stream.digest, self.stream.program)]
        self.agreement = Agreement(f"run-{run}", self.own)

    def own(self, group: str, device: str, seq: int) -> Digests | None:
        assert (group, device) == ("0", "cpu")
        return self.past[seq]

    def call(self, *steps: int) -> None:
        for step in steps:
            self.stream.digest = extend(self.stream.digest, step)
            self.stream.program = extend(self.stream.program, step + 1)
            self.stream.seq += 1
            self.past.append((self.stream.digest, self.stream.program))

    def look(self, store: JobStore) -> bool:
        return self.agreement.look(store, [self.group])


def test_equal_ranks_agree_however_they_come(store: JobStore) -> None:
    for seed in range(20):
        chance, run = random.Random(seed), next(KEYS)
        ranks = [Rank(run) for _ in range(3)]
        for _ in range(100):
            rank = chance.choice(ranks)
            rank.call(*range(len(rank.past), len(rank.past) + chance.randrange(5)))
            assert not chance.choice(ranks).look(store)


def test_a_difference_is_found_by_the_second_look_at_the_latest(store: JobStore) -> None:
    for seed in range(20):
        chance, run = random.Random(seed), next(KEYS)
        ranks = [Rank(run) for _ in range(3)]
        odd = chance.choice(ranks)
        for rank in ranks:
            rank.call(1, 2, 3 if rank is odd else 4, 5, *([6] * chance.randrange(4)))
        found = False
        for _ in range(2):
            for rank in chance.sample(ranks, 3):
                found |= rank.look(store)
            for rank in ranks:
                rank.call(6, 6, 6, 6)
        assert found


def test_ranks_that_stop_where_they_part_are_found(store: JobStore) -> None:
    for seed in range(20):
        chance, run = random.Random(seed), next(KEYS)
        ranks = [Rank(run) for _ in range(5)]
        for step in range(10):
            for rank in ranks:
                rank.call(step)
            for rank in chance.sample(ranks, chance.randrange(6)):
                assert not rank.look(store)
        odd = chance.choice(ranks)
        for rank in ranks:
            rank.call(99 if rank is odd else 98)
        # None of them moves any more.
        assert any(rank.look(store) for _ in range(2) for rank in chance.sample(ranks, 5))


def test_it_is_told_once_and_then_compared_no_more(store: JobStore) -> None:
    run = next(KEYS)
    one, other = Rank(run), Rank(run)
    one.call(1)
    other.call(2)
    assert [one.look(store), other.look(store)] == [False, True]
    before = store.requests
    other.call(3)
    assert not other.look(store)
    assert store.requests == before


def test_a_rank_that_stands_still_asks_nothing(store: JobStore) -> None:
    rank = Rank(next(KEYS))
    rank.call(1)
    rank.look(store)
    before = store.requests
    assert not rank.look(store)
    assert store.requests == before


def test_a_damaged_value_is_no_difference(store: JobStore) -> None:
    run = next(KEYS)
    rank, other = Rank(run), Rank(run)
    rank.call(1)
    rank.look(store)
    (name,) = rank.agreement._known
    store.set(Keys.position(name), b"9 damaged")
    other.call(1)
    assert not other.look(store)
    rank.call(2)
    assert not rank.look(store)


def test_groups_that_are_gone_are_compared_a_last_time(store: JobStore) -> None:
    run = next(KEYS)
    one, other = Rank(run), Rank(run)
    one.call(1)
    other.call(1)
    assert not one.look(store)
    assert not other.look(store)
    one.call(2, 3)
    other.call(2, 4)
    assert not one.agreement.look(store, [])
    assert other.agreement.look(store, [])


def test_keys_of_groups_that_are_gone_are_removed_but_for_the_latest(store: JobStore) -> None:
    rank = Rank(next(KEYS))
    rank.call(1)
    rank.look(store)
    (first,) = rank.agreement._known
    for n in range(64):
        record = Group(phase="ready", group=f"gone-{n}", ranks=[0, 1], backend="gloo")
        rank.group = GroupState(record, 0)
        rank.group.stream("cpu").seq = 1
        rank.look(store)
    assert store.read(Keys.position(first)) is not None
    rank.call(2)
    rank.group.stream("cpu").seq = 2
    rank.agreement.look(store, [])
    assert len(rank.agreement._known) == 64
    assert store.read(Keys.position(first)) is None


def test_the_past_is_found_in_the_rank_file(tmp_path: Path) -> None:
    lines, past = [], {}
    for seq in range(1, 5001):
        for group, device in (("0", "cpu"), ("1", "cpu"), ("0", "cuda")):
            if group == "1" and seq % 40:
                continue
            digests = seq * 7 + len(group + device), seq
            past[group, device, seq] = digests
            call = Call(
                t=seq, seq=seq, group=group, device=device, op="all_reduce", digest=digests[0],
                program=digests[1], site="/home/me/train.py:12",
            )  # fmt: skip
            lines.append(records.encode(call))
        if seq % 100 == 0:
            streams = [["0", "cpu", seq, 1, 1, None], ["1", "cpu", seq, 1, 1, None]]
            lines.append(records.encode(records.Checkpoint(t=seq, streams=streams)))
    half = len(lines) // 2
    path = tmp_path / "rank00003.jsonl"
    path.write_bytes(b"".join(lines[:half]))
    (tmp_path / "rank00003.0001.jsonl").write_bytes(b"".join(lines[half:]) + b'{"kind":"call","t"')
    (tmp_path / "rank00030.jsonl").write_bytes(b"".join(lines).replace(b'"digest":', b'"digest":9'))
    files = OwnFiles(path)
    for at in random.Random(0).sample(sorted(past), 50):
        assert files.digests(*at) == past[at]
    assert files.digests("0", "cpu", 5001) is None
    assert files.digests("2", "cpu", 1) is None
    assert [name for name, _ in files.list()] == ["rank00003.0001.jsonl", "rank00003.jsonl"]

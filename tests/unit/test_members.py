"""Members of groups: as ranges in a line, one object for equal ones, and quick to ask."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import orjson
import pytest

from collectrace.align.alignment import compared, judged
from collectrace.align.reading import run_reader
from collectrace.align.reading.rank_log import RankLog
from collectrace.errors import DamagedRecord
from collectrace.members import MOST, Members, of_ranges, ranges
from collectrace.records import LISTED, Group, decode, encode
from tools.make_logs import Difference, make


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([], []),
        ([5], [(5, 5, 1)]),
        (list(range(4096)), [(0, 4095, 1)]),
        (list(range(3, 512, 8)), [(3, 507, 8)]),
        ([3, 2, 1, 0], [(3, 0, -1)]),
        ([0, 1, 2, 8, 9, 10], [(0, 2, 1), (8, 10, 1)]),
        ([4, 4, 4], [(4, 4, 1), (4, 4, 1), (4, 4, 1)]),
    ],
)
def test_ranges(ranks: list[int], expected: list[tuple[int, int, int]]) -> None:
    assert ranges(ranks) == expected
    assert of_ranges(tuple(expected)) == tuple(ranks)


def test_any_order_comes_back() -> None:
    chance = random.Random(7)
    for _ in range(300):
        ranks = [chance.randrange(12) for _ in range(chance.randrange(40))]
        assert of_ranges(tuple(ranges(ranks))) == tuple(ranks)


def test_members_answer_as_a_tuple_does() -> None:
    ranks = (7, 3, 9, 3)
    members = Members(ranks)
    assert (members, hash(members), members.index(3)) == (ranks, hash(ranks), 1)
    assert 9 in members
    assert 8 not in members
    assert members.unique == (7, 3, 9)
    assert members.index(3, 2) == 3
    with pytest.raises(ValueError, match="tuple"):
        members.index(8)
    assert pickle.loads(pickle.dumps(members)) == members


def group(ranks: list[int]) -> Group:
    return Group(t=1, phase="ready", group="0", backend="gloo", ranks=ranks)


@pytest.mark.parametrize("size", [2, LISTED, LISTED + 1, 16_384])
def test_the_record_of_a_group_comes_back(size: int) -> None:
    ranks = list(range(size))
    line = encode(group(ranks))
    read = decode(line)
    assert isinstance(read, Group)
    assert list(read.ranks) == ranks
    assert len(line) < 300
    assert ("ranges" in orjson.loads(line)) == (size > LISTED)
    assert encode(read) == line


def test_members_without_a_pattern_are_listed() -> None:
    ranks = random.Random(7).sample(range(1000), 100)
    line = orjson.loads(encode(group(ranks)))
    assert (line["ranks"], "ranges" in line) == (ranks, False)


@pytest.mark.parametrize(
    "told",
    [[[0, MOST, 1]], [[0, 1 << 62, 1]], [[0, 5, 0]], [[0, 5]], [[0, "5", 1]], [5], [[0, [5], 1]]],
)
def test_what_is_no_range_is_damage(told: object) -> None:
    line = {"kind": "group", "t": 1, "phase": "ready", "group": "0", "ranks": [], "ranges": told}
    with pytest.raises(DamagedRecord):
        decode(orjson.dumps(line))


@pytest.mark.parametrize("ranks", [LISTED, LISTED + 8])
def test_all_ranks_share_the_members_of_a_group(ranks: int, tmp_path: Path) -> None:
    evidence = run_reader.read(make(tmp_path, ranks, 20))
    held = {id(one.ranks) for log in evidence.logs.values() for one in log.groups}
    assert len(held) == 1
    assert evidence.groups["0"].ranks == tuple(range(ranks))


def test_ranks_that_did_the_same_are_judged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a rank whose digests agree with another's few calls are looked up."""
    folder = make(tmp_path, 40, 1000, Difference(13, 750, "missing"))
    decoded: list[int] = []
    usual = RankLog._decoded

    def counted(log: RankLog, *where: object) -> object:
        decoded.append(log.rank)
        return usual(log, *where)  # type: ignore[arg-type]

    monkeypatch.setattr(RankLog, "_decoded", counted)
    evidence = run_reader.read(folder, small=0)
    assert not any(log.scanned for log in evidence.logs.values())
    found = judged(compared(evidence)).findings[0]
    assert (found.seq, found.suspects) == (750, (13,))
    assert decoded.count(20) < 60

"""Stragglers: who keeps the others waiting, found where it is so and nowhere else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from collectrace.align.alignment import align, compared
from collectrace.align.judging.case import build
from collectrace.align.observations import delays
from collectrace.align.observations.delays import StreamDelays
from collectrace.align.reading import run_reader
from collectrace.findings import Finding
from tests.support.cluster import Cluster
from tests.support.judging import LATER
from tests.support.synthetic import SECOND

MS = SECOND // 1000


def measured(cluster: Cluster, folder: Path, *, small: int = run_reader.SMALL) -> StreamDelays:
    cluster.finish()
    cluster.run.write(folder)
    evidence = run_reader.read(folder, small=small)
    (found,) = delays.of_streams(build(compared(evidence), now=LATER))
    return found


def straggler(cluster: Cluster, folder: Path) -> Finding | None:
    cluster.finish()
    cluster.run.write(folder)
    alignment = align(folder)
    assert alignment.status == "aligned"
    found = [finding for finding in alignment.findings if finding.kind == "straggler"]
    assert all(finding.severity == "info" for finding in found)
    return found[0] if found else None


def train(
    cluster: Cluster, steps: int, late: dict[int, float] | None = None, **fields: object
) -> None:
    """Every rank is late by chance, up to 1 ms; some by more."""
    chance = random.Random(5)
    for _ in range(steps):
        by = {
            r: chance.random() / 1000 + (late or {}).get(r, 0.0) for r in range(cluster.run.world)
        }
        cluster.step(by, **fields)  # type: ignore[arg-type]


def test_a_straggler_on_another_host_is_found_by_clocks_that_are_apart(tmp_path: Path) -> None:
    cluster = Cluster(2, 2, apart=5.0)
    train(cluster, 20)
    train(cluster, 200, {3: 0.02})
    found = straggler(cluster, tmp_path)
    assert found is not None
    assert found.suspects == (3,)
    assert "rank 3 is a straggler" in found.headline
    assert "219 collectives" in found.headline
    assert any("2 hosts" in note for note in found.notes)


def test_how_much_it_costs_is_what_the_others_waited(tmp_path: Path) -> None:
    cluster = Cluster(1, 4)
    train(cluster, 100, {1: 0.02}, site="train.py:12")
    found = measured(cluster, tmp_path)
    assert found.slowest.rank == 1
    assert found.rows == 99
    assert found.slowest.last == 99
    assert found.slowest.total == pytest.approx(99 * 20 * MS, rel=0.05)
    assert found.slowest.sites.most_common(1)[0][0] == "train.py:12"
    assert found.span == pytest.approx(cluster.now * SECOND, rel=0.05)


@pytest.mark.parametrize("world", [2, 3, 8])
def test_chance_makes_no_straggler(tmp_path: Path, world: int) -> None:
    cluster = Cluster(1, world)
    train(cluster, 1000)
    assert straggler(cluster, tmp_path) is None


def test_ranks_that_take_turns_are_no_stragglers(tmp_path: Path) -> None:
    cluster = Cluster(1, 2)
    for n in range(200):
        cluster.step({n % 2: 0.02})
    assert straggler(cluster, tmp_path) is None


def test_once_very_late_is_no_straggler(tmp_path: Path) -> None:
    # A checkpoint, an evaluation.
    cluster = Cluster(1, 2)
    train(cluster, 100)
    cluster.step({0: 30.0})
    train(cluster, 100)
    assert straggler(cluster, tmp_path) is None


def test_every_tenth_time_is_a_habit(tmp_path: Path) -> None:
    cluster = Cluster(1, 2)
    for _ in range(20):
        train(cluster, 9)
        cluster.step({0: 0.2})
    found = straggler(cluster, tmp_path)
    assert found is not None
    assert found.suspects == (0,)
    assert "198.7 ms late" in found.headline


def test_a_host_that_is_always_late_may_be_a_clock_that_is_wrong(tmp_path: Path) -> None:
    cluster = Cluster(2, 1)
    train(cluster, 200, {1: 0.02})
    assert straggler(cluster, tmp_path) is None


def test_the_start_is_nobodys_delay(tmp_path: Path) -> None:
    cluster = Cluster(1, 2)
    cluster.step({1: 20.0})
    train(cluster, 50)
    assert measured(cluster, tmp_path).slowest.total < SECOND


def test_delays_below_what_the_clocks_can_tell_are_not_told(tmp_path: Path) -> None:
    # No two calls follow each other at once, so nothing says how the clocks stand to within 20 ms.
    cluster = Cluster(2, 2)
    train(cluster, 200, {3: 0.02}, every=0.05)
    found = measured(cluster, tmp_path)
    assert found.slowest.rank == 3
    assert found.excess > SECOND
    assert straggler(cluster, tmp_path) is None


def test_hosts_whose_clocks_nothing_ties_have_no_straggler(tmp_path: Path) -> None:
    cluster = Cluster(2, 1, apart=1.0)
    train(cluster, 100, {1: 0.02}, op="broadcast")
    assert straggler(cluster, tmp_path) is None


def test_a_rank_that_stays_late_on_asynchronous_rows_was_late_once(tmp_path: Path) -> None:
    cluster = Cluster(1, 3)
    cluster.step()
    cluster.step({2: 0.5}, async_=True, site="train.py:11")
    for _ in range(60):
        cluster.step(async_=True, site="train.py:11")
    found = measured(cluster, tmp_path)
    assert found.slowest.rank == 2
    assert found.slowest.last == 61
    assert found.slowest.sizes == [pytest.approx(SECOND // 2)]


def test_a_rank_that_falls_behind_again_and_again_on_asynchronous_rows(tmp_path: Path) -> None:
    cluster = Cluster(1, 3)
    train(cluster, 100, {2: 0.02}, async_=True)
    found = straggler(cluster, tmp_path)
    assert found is not None
    assert found.suspects == (2,)
    assert "2.0 s" in found.headline


def test_rows_that_one_log_has_lost_are_stepped_over(tmp_path: Path) -> None:
    cluster = Cluster(1, 2, segment=9000, keep=2)
    for n in range(900):
        cluster.step({1: 0.02})
        for _ in range(n % 4):
            cluster.run.rank(0).batch(n)
    found = measured(cluster, tmp_path)
    assert 10 < found.rows < 500
    assert found.slowest.rank == 1
    assert found.slowest.total == pytest.approx(found.rows * 20 * MS, rel=0.01)
    assert found.span == pytest.approx(found.rows * 21.2 * MS, rel=0.02)


def test_of_logs_read_in_part_only_what_was_read_is_counted(tmp_path: Path) -> None:
    cluster = Cluster(1, 2)
    train(cluster, 2000, {1: 0.02})
    found = measured(cluster, tmp_path, small=0)
    assert 10 < found.rows < 1000
    assert found.slowest.last == found.rows
    assert found.slowest.total == pytest.approx(found.rows * 20 * MS, rel=0.05)


def test_long_streams_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "_MOST_TIMES", 400)
    cluster = Cluster(1, 2)
    train(cluster, 2000, {1: 0.02})
    found = straggler(cluster, tmp_path)
    assert found is not None
    assert "(of 2000 looked at)" in found.headline


def test_it_waits_longer_for_data(tmp_path: Path) -> None:
    cluster = Cluster(1, 3)
    for n in range(60):
        for rank in cluster.run:
            rank.batch(n, wait=20 * MS if rank.rank == 2 else 1000)
        cluster.step({2: 0.02})
    found = straggler(cluster, tmp_path)
    assert found is not None
    assert "longer for data" in found.cause
    assert "num_workers" in found.fix
    assert any(note.startswith("rank 2: 60 batches, waited 1.2 s") for note in found.notes)
    assert any(note.startswith("rank 0: 60 batches, waited 0 ms") for note in found.notes)


def test_device_synchronises_are_told(tmp_path: Path) -> None:
    cluster = Cluster(1, 3)
    for _ in range(60):
        cluster.run.rank(2).sync(20 * MS, site="/home/me/train.py:40")
        cluster.step({2: 0.02})
    found = straggler(cluster, tmp_path)
    assert found is not None
    assert "rank 2: 60 device synchronises (train.py:40), 1.2 s in all" in found.notes


def test_other_slowness_is_not_blamed_on_data(tmp_path: Path) -> None:
    cluster = Cluster(1, 3)
    for n in range(60):
        for rank in cluster.run:
            rank.batch(n)
        cluster.step({2: 0.02}, site="train.py:31")
    found = straggler(cluster, tmp_path)
    assert found is not None
    assert "train.py:31" in found.cause


def test_a_straggler_of_ddp_is_released_at_the_end_of_each_backward(tmp_path: Path) -> None:
    cluster = Cluster(1, 3)
    for step in range(60):
        for bucket in range(2):
            late = {2: 0.02} if bucket == 0 else {}
            cluster.step(
                late, holds=bucket == 1, async_=True, role="ddp.backward.bucket",
                iteration=step + 1, shape=[8 + bucket],
            )  # fmt: skip
    found = measured(cluster, tmp_path)
    assert found.slowest.rank == 2
    assert found.slowest.total == pytest.approx(60 * 20 * MS, rel=0.1)

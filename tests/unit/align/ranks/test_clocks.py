"""One clock for ranks of several hosts, and an honest word on how good it is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from collectrace.align.observations.straggler import precision
from collectrace.align.ranks.clocks import Clocks, estimate
from tests.support.cluster import Cluster
from tests.support.judging import aligned, case_of, errors
from tests.support.synthetic import SECOND

MS = SECOND // 1000


def clocks(cluster: Cluster, folder: Path) -> Clocks:
    cluster.finish()
    case = case_of(cluster.run, folder)
    return estimate(case.comparison)


def error(cluster: Cluster, found: Clocks, rank: int, at: float) -> int:
    """By how much a rank's time is wrong against rank 0's, ns."""
    true = found.when(0, cluster.clock(0, at))
    return abs(found.when(rank, cluster.clock(rank, at)) - true)


def jitter(cluster: Cluster, steps: int, **fields: object) -> None:
    chance = random.Random(3)
    for _ in range(steps):
        late = {rank: chance.random() / 1000 for rank in range(cluster.run.world)}
        cluster.step(late, **fields)  # type: ignore[arg-type]


def test_ranks_of_one_host_have_one_clock(tmp_path: Path) -> None:
    cluster = Cluster(1, 3)
    jitter(cluster, 5)
    found = clocks(cluster, tmp_path)
    assert (found.uncertainty, found.unknown, found.hosts) == (0, (), ("node0",))
    assert error(cluster, found, 2, 1.0) == 0
    assert "one host" in precision(found)


@pytest.mark.parametrize("apart", [0.0, 3.0, -7.5])
def test_wall_clocks_that_are_seconds_apart_are_aligned(tmp_path: Path, apart: float) -> None:
    cluster = Cluster(3, 2, apart=apart)
    jitter(cluster, 200)
    found = clocks(cluster, tmp_path)
    assert found.unknown == ()
    assert found.uncertainty < 2 * MS
    for rank in range(6):
        assert error(cluster, found, rank, 0.1) <= 2 * found.uncertainty
    assert found.apart == pytest.approx(abs(2 * apart) * SECOND, abs=found.uncertainty)
    assert "3 hosts" in precision(found)


def test_clocks_that_drift_are_known_less_well_and_it_is_said(tmp_path: Path) -> None:
    steady, drifting = Cluster(2, 1, apart=1.0), Cluster(2, 1, apart=1.0, drift=1e-3)
    for cluster in (steady, drifting):
        for _ in range(100):
            cluster.step(every=0.2)
            cluster.step()
            cluster.step()
    good = clocks(steady, tmp_path / "steady")
    found = clocks(drifting, tmp_path / "drifting")
    assert found.unknown == ()
    for at in (0.0, 5.0, drifting.now):
        assert error(drifting, found, 1, at) <= found.uncertainty + 2 * MS
    assert good.uncertainty < 2 * MS < 5 * MS < found.uncertainty


@pytest.mark.parametrize(
    "fields",
    [
        {"op": "broadcast"},
        {"async_": True},
        {"device": "cuda", "holds": False},
    ],
    ids=["broadcast", "asynchronous", "cuda"],
)
def test_calls_that_wait_for_nobody_tie_no_clocks(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    cluster = Cluster(2, 1, apart=1.0)
    for n in range(50):
        # Each runs ahead in turn, which would be read as a clock that is wrong.
        cluster.step({n // 25: 0.1}, **fields)  # type: ignore[arg-type]
    found = clocks(cluster, tmp_path)
    assert found.unknown == ("node1",)
    assert "Nothing ties" in precision(found)


def test_a_barrier_on_a_gpu_holds_its_host(tmp_path: Path) -> None:
    cluster = Cluster(2, 1, apart=1.0)
    for _ in range(20):
        cluster.step(device="cuda", holds=False)
        cluster.step(op="barrier", device="cuda")
    found = clocks(cluster, tmp_path)
    assert found.unknown == ()
    assert error(cluster, found, 1, 0.01) <= 2 * found.uncertainty


def test_machines_of_one_name_are_told_apart_by_their_clocks(tmp_path: Path) -> None:
    cluster = Cluster(2, 2, apart=4.0)
    jitter(cluster, 100)
    for rank in cluster.run:
        rank.header.host = "localhost"
    found = clocks(cluster, tmp_path)
    assert found.hosts == ("localhost", "localhost")
    assert error(cluster, found, 3, 0.1) <= 2 * found.uncertainty


def test_rotated_logs_of_unequal_length_are_matched_by_row(tmp_path: Path) -> None:
    cluster = Cluster(2, 1, apart=2.0, segment=9000, keep=2)
    for n in range(800):
        cluster.step()
        for _ in range(n % 3):
            cluster.run.rank(1).batch(n)
    found = clocks(cluster, tmp_path)
    assert found.unknown == ()
    assert error(cluster, found, 1, 0.1) <= 2 * found.uncertainty


def test_clocks_that_are_far_apart_kill_nobody(tmp_path: Path) -> None:
    """A healthy job killed everywhere at once; by their wall clocks half of it died long before."""
    cluster = Cluster(2, 2, apart=300.0)
    jitter(cluster, 100)
    cluster.run.rank(0).call("all_reduce")
    alignment = aligned(cluster.run, tmp_path)
    assert alignment.status == "unknown"
    assert not errors(alignment)
    assert "died" not in {rank.state for rank in alignment.ranks}

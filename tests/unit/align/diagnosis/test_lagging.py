"""Everyone came and nothing completes: who lags, by host and by group."""

from __future__ import annotations

from pathlib import Path

from collectrace.align.alignment import align
from collectrace.findings import Finding
from tests.support.cluster import Cluster
from tests.support.synthetic import Rank


def stalled(cluster: Cluster, folder: Path) -> Finding:
    cluster.run.write(folder)
    alignment = align(folder)
    assert alignment.status == "hung"
    assert alignment.findings[0].kind == "stall"
    return alignment.findings[0]


def pairs(cluster: Cluster) -> None:
    for n in range(0, cluster.run.world, 2):
        cluster.run.group(str(1 + n // 2), [n, n + 1], description=f"tp{n // 2}")


def hang(rank: Rank, seconds: float) -> None:
    call = rank.call("all_reduce")
    rank.beat(seconds, rank.inside(call))


def test_silent_ranks_are_told_by_host_and_by_group(tmp_path: Path) -> None:
    cluster = Cluster(4, 4)
    pairs(cluster)
    for _ in range(20):
        cluster.step()
    for rank in cluster.run:
        rank.done(20)
        hang(rank, 10 if 8 <= rank.rank < 11 else 100)
    found = stalled(cluster, tmp_path)
    assert found.suspects == (8, 9, 10)
    assert "Lagging, by host: node2: ranks 8-10 (3 of 4)." in found.notes
    assert (
        "Lagging, by group: group tp4: ranks 8-9 (all); group tp5: rank 10 (1 of 2)." in found.notes
    )


def test_ranks_that_completed_less_lag_and_are_not_blamed(tmp_path: Path) -> None:
    cluster = Cluster(2, 4, device="cuda", backend="nccl")
    pairs(cluster)
    for _ in range(20):
        cluster.step()
    for rank in cluster.run:
        rank.done(18 if rank.rank >= 4 else 20)
        hang(rank, 100)
    found = stalled(cluster, tmp_path)
    assert found.suspects == ()
    assert (
        "Of the calls of this group, ranks 4-7 completed 18; ranks 0-3 completed 20." in found.notes
    )
    assert "Lagging, by host: node1: ranks 4-7 (all)." in found.notes


def test_where_all_stand_alike_nobody_lags(tmp_path: Path) -> None:
    cluster = Cluster(2, 2)
    for _ in range(20):
        cluster.step()
    for rank in cluster.run:
        rank.done(20)
        hang(rank, 100)
    found = stalled(cluster, tmp_path)
    assert found.suspects == ()
    assert not any("agging" in note or "completed" in note for note in found.notes)


def test_callbacks_that_take_up_all_of_gloos_threads(tmp_path: Path) -> None:
    cluster = Cluster(1, 2)
    cluster.step()
    for rank in cluster.run:
        calls = [rank.call("all_reduce", async_=True, role="ddp.backward.bucket")]
        calls += [rank.call("all_reduce", async_=True, thread=f"native-{n}") for n in (7, 8)]
        rank.beat(100, rank.inside(calls[0], what="backward"))
    found = stalled(cluster, tmp_path)
    assert found.seq == 2
    assert "callbacks" in found.cause
    assert "bucket_cap_mb" in found.fix

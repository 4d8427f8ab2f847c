"""One made-up run for every kind of finding, as small as it can be told.

What the reports show of them is in ``golden/``; what the findings say of them, in the tests of
the diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from collectrace.records import Unwaited
from tests.support import seed_cases
from tests.support.cluster import Cluster
from tests.support.synthetic import Rank, Run

LOST: Final = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1185"
STEP: Final[dict[str, Any]] = {"site": "/job/train.py:40", "shape": [1024]}


def waits(rank: Rank, op: str = "all_reduce", group: str = "0", **fields: Any) -> None:
    """A call that does not come back, for half a minute of heartbeats."""
    rank.beat(30, rank.inside(rank.call(op, group, **fields)))


def steps(world: int, rows: int = 3, **header: Any) -> Run:
    """Ranks that agree on a loop of one all_reduce."""
    run = Run(world, **header)
    for _ in range(rows):
        run.all("all_reduce", **STEP)
    return run


def part(wrong: dict[str, Any], right: dict[str, Any], world: int = 4, suspect: int = 2) -> Run:
    """One rank gives a call something else than the others, and all wait in it."""
    run = steps(world)
    for rank in run:
        fields = right | (wrong if rank.rank == suspect else {})
        waits(
            rank, fields.get("op", "all_reduce"), **{k: v for k, v in fields.items() if k != "op"}
        )
    return run


def ddp_step(rank: Rank, n: int, *, buckets: int = 1, site: str = "/job/train.py:21") -> None:
    """Forward and backward of a DDP model with buffers."""
    step: dict[str, Any] = {"iteration": n, "site": site}
    rank.call("broadcast", role="ddp.forward.sync_buffers", shape=[4], **step)
    for _ in range(buckets):
        rank.call("all_reduce", role="ddp.backward.bucket", shape=[10], async_=True, **step)


def crash(rank: Rank, error: str, message: str, site: str) -> None:
    rank.exit("exception", error=error, message=message, site=site)


# -- the kinds -------------------------------------------------------------------------------


def op_mismatch() -> Run:
    """``if rank == 0:`` around a barrier, on 64 ranks of 8 nodes."""
    run = steps(64)
    for rank in run:
        if rank.rank % 8 == 0:
            waits(rank, "barrier", site="/job/train.py:44")
        else:
            waits(rank, **STEP)
    return run


def dtype_mismatch() -> Run:
    return part({"dtype": "bfloat16"}, {"site": "/job/eval.py:7", "shape": [4]})


def shape_mismatch() -> Run:
    return part({"shape": [3, 16]}, {"site": "/job/eval.py:7", "shape": [8, 16]})


def reduce_op_mismatch() -> Run:
    return part({"reduce_op": "MAX"}, {"site": "/job/eval.py:7"})


def root_mismatch() -> Run:
    run = steps(3)
    for rank in run:
        waits(rank, "broadcast", root=rank.rank, shape=[8], site="/job/init.py:12")
    return run


def split_mismatch() -> Run:
    run = steps(3)
    sends = ([1, 2, 3], [2, 2, 1], [3, 1, 1])
    awaits = ([1, 2, 3], [2, 2, 1], [3, 2, 1])
    for rank in run:
        mine = [sends[rank.rank], awaits[rank.rank]]
        waits(rank, "all_to_all_single", splits=mine, shape=[6], site="/job/moe.py:88")
    return run


def lost_mismatch() -> Run:
    """One rank reduced otherwise, and its disk was full just then."""
    run = steps(3)
    for rank in run:
        odd: dict[str, Any] = {"reduce_op": "MAX", "lost": True} if rank.rank == 1 else {}
        rank.call("all_reduce", **STEP, **odd)
    run.all("all_reduce", **STEP)
    run.all("all_reduce", **STEP)
    run.finish()
    return run


def lost_lines() -> Run:
    """The same of a rank that could not describe one of its calls: it may be that one."""
    run = lost_mismatch()
    run.rank(1).items[-1].failures = 1  # type: ignore[union-attr]
    return run


def group_mismatch() -> Run:
    run = steps(4)
    for rank in run:
        rank.group("1", [0, 1] if rank.rank != 3 else [0, 1, 2], site="/job/mesh.py:9")
    run.finish()
    return run


def group_that_some_never_called_for() -> Run:
    """Rank 0 alone makes a group of itself: nobody waits, and the next group would part them."""
    run = steps(3)
    run.rank(0).group("1", [0], site="/job/train.py:9")
    run.all("all_reduce", **STEP)
    run.finish()
    return run


def group_creation_that_one_rank_misses() -> Run:
    """Two of three ranks wait in ``new_group`` for the third, which computes."""
    run = steps(3)
    for rank in run:
        if rank.rank == 1:
            rank.beat(30)
        else:
            asked = rank.group("1", [0, 1, 2], phase="asked", site="/job/mesh.py:9")
            rank.beat(30, rank.creating(asked))
    return run


def two_metrics_in_swapped_order() -> Run:
    """The bytes and the meaning agree; only the lines tell."""
    run = Run(3)
    for _ in range(4):
        for rank in run:
            for line in (17, 21) if rank.rank != 1 else (21, 17):
                rank.call("all_reduce", site=f"/job/eval.py:{line}")
    run.finish()
    return run


def missing_call() -> Run:
    """A few of 512 ranks raised, each in words of its own."""
    run = steps(512, rows=2)
    for rank in run:
        if rank.rank in (3, 17, 18, 19, 250):
            crash(rank, "ValueError", f"shard {rank.rank} is corrupt", "/job/data.py:7")
        else:
            waits(rank, **STEP)
    return run


def p2p_unmatched() -> Run:
    run = steps(2)
    zero, one = run
    sent, awaited = zero.send(1, tag=7, shape=[4]), one.recv(0, tag=8, shape=[4])
    zero.beat(30, zero.inside(sent))
    one.beat(30, one.inside(awaited))
    return run


def p2p_mismatch() -> Run:
    run = steps(2)
    run.rank(0).send(1, dtype="float32", shape=[4])
    run.rank(1).recv(0, dtype="int32", shape=[4])
    run.finish()
    return run


def deadlock() -> Run:
    """Two groups, entered in opposite orders."""
    run = steps(2)
    run.group("1", [0, 1], description="tp")
    run.group("2", [0, 1], description="dp")
    waits(run.rank(0), group="1", site="/job/layers.py:9")
    waits(run.rank(1), group="2", site="/job/sync.py:4")
    return run


def stall() -> Run:
    """Everyone came, and the job gave up."""
    run = steps(3)
    for rank in run:
        rank.call("all_reduce", **STEP)
    for rank in run:
        rank.wait(30)
        crash(rank, "RuntimeError", "Timed out waiting 30000ms for recv operation", STEP["site"])
    return run


def raised() -> Run:
    """A crash that has nothing to do with collectives."""
    run = steps(2)
    for rank in run:
        crash(rank, "ValueError", "loss is nan", "/job/train.py:38")
    return run


def straggler() -> Run:
    """Rank 2 comes 20 ms late to every step but the first few."""
    cluster = Cluster(1, 4)
    for n in range(200):
        cluster.step({2: 0.02} if n >= 10 else {}, **STEP)
    cluster.finish()
    return cluster.run


def config_skew() -> Run:
    """One rank was started with another learning rate, and other settings of NCCL."""
    run = steps(4)
    for rank in run:
        rank.header.argv = ["train.py", "--lr", "0.01" if rank.rank == 3 else "0.1"]
        rank.header.env = {} if rank.rank == 3 else {"NCCL_ALGO": "Ring"}
    run.finish()
    return run


def sampler_epoch() -> Run:
    """Three passes over a shuffling sampler, which is never told the epoch."""
    run = steps(2)
    for rank in run:
        for _ in range(3):
            rank.epoch(0, set=False, shuffle=True, site="/job/train.py:30")
    run.finish()
    return run


def unwaited_work() -> Run:
    """One rank never waits for what it started, the other writes to the tensor before it does."""
    run = steps(2)
    for rank in run:
        call = rank.call("all_reduce", async_=True, site="/job/train.py:44", shape=[1024])
        rank.record(
            Unwaited(
                group=call.group, device=call.device, seq=call.seq, op=call.op, site=call.site,
                touched=rank.rank == 1 or None,
            )
        )  # fmt: skip
    run.finish()
    return run


def early_termination() -> Run:
    """``join(throw_on_early_termination=True)`` raises where the first rank runs out of inputs."""
    run = Run(2)
    for rank in run:
        rank.join("entered", group="0", throws=True, site="/job/train.py:36")
        for n in range(1, 4 + rank.rank):
            rank.batch(n, site="/job/train.py:37")
            if n < 4:
                ddp_step(rank, n)
    shadow, trains = run
    shadow.batch(3, end=True, site="/job/train.py:37")
    shadow.join("joined", group="0", throws=True, iteration=3, site="/job/train.py:36")
    shadow.call("all_reduce", role="join.terminate", site="/job/train.py:36")
    trains.call(
        "all_reduce", role="ddp.forward.terminate_check", iteration=4, site="/job/train.py:40"
    )
    crash(shadow, "RuntimeError", "Rank 0 exhausted all inputs.", "/job/train.py:36")
    told = "Detected at least one rank that exhausted inputs. Throwing across all ranks."
    crash(trains, "RuntimeError", told, "/job/train.py:40")
    return run


def evidence_gap() -> Run:
    """One log is not there, and two ranks against one is no majority of four."""
    run = steps(4)
    for rank in run:
        if rank.rank == 0:
            waits(rank, "broadcast", site="/job/save.py:3")
        else:
            waits(rank, **STEP)
    run.omit(3)
    return run


def killed_everywhere() -> Run:
    """A healthy job that was stopped in the middle: nothing can be told."""
    run = steps(3, rows=50)
    run.rank(0).call("all_reduce", **STEP)
    return run


KINDS: Final[dict[str, Callable[[], Run]]] = {
    "role_mismatch": lambda: seed_cases.case(4, "zeros"),
    "swapped_role_mismatch": two_metrics_in_swapped_order,
    "op_mismatch_uneven_inputs": lambda: seed_cases.case(5),
    "missing_call_uneven_inputs": lambda: seed_cases.case(3),
    "aligned_uneven_inputs": lambda: seed_cases.case(1),
    "op_mismatch": op_mismatch,
    "dtype_mismatch": dtype_mismatch,
    "shape_mismatch": shape_mismatch,
    "reduce_op_mismatch": reduce_op_mismatch,
    "root_mismatch": root_mismatch,
    "split_mismatch": split_mismatch,
    "lost_mismatch": lost_mismatch,
    "lost_lines": lost_lines,
    "group_mismatch": group_mismatch,
    "uncalled_group_mismatch": group_that_some_never_called_for,
    "missing_call": missing_call,
    "creation_missing_call": group_creation_that_one_rank_misses,
    "p2p_unmatched": p2p_unmatched,
    "p2p_mismatch": p2p_mismatch,
    "deadlock": deadlock,
    "stall": stall,
    "raised": raised,
    "straggler": straggler,
    "config_skew": config_skew,
    "sampler_epoch": sampler_epoch,
    "unwaited_work": unwaited_work,
    "early_termination": early_termination,
    "evidence_gap": evidence_gap,
    "killed_everywhere": killed_everywhere,
}
"""By the name of their golden file."""

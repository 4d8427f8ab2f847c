"""Jobs as Flight Recorder dumps show them: what torch's own analyser misses, and the rest.

The classes of mistakes are those of torch's ``test_fr_analysis.py``, and what was found missing in
``torch/distributed/flight_recorder/components`` (torch 2.13).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.support.flight_rings import Job


@dataclass(frozen=True)
class FlightCase:
    """One job."""

    name: str
    build: Callable[[], Job]
    kinds: tuple[str, ...] = ()
    """What must be found, any of these; none: nothing may be."""
    suspects: tuple[int, ...] | None = ()
    """None: not asked."""
    without: tuple[int, ...] = ()
    """Ranks whose dumps are missing."""


def _steps(job: Job, count: int = 8) -> Job:
    job.all("all_reduce", [4], count=count)
    return job


def healthy() -> Job:
    return _steps(Job(4), 50)


def healthy_batch() -> Job:
    job = _steps(Job(2))
    for ring in job:
        ring.send(1 - ring.rank, [8])
        ring.recv(1 - ring.rank, [8], coalesced=True)
        ring.call("coalesced", None, is_p2p=True, coalesced=True)
    return _steps(job)


def healthy_send_then_all_reduce() -> Job:
    job = _steps(Job(2))
    job.ring(0).send(1, [8])
    job.ring(1).recv(0, [8])
    job.all("all_reduce", [4])
    return job


def healthy_wrapped() -> Job:
    job = _steps(Job(4), 60)
    for ring in job:
        ring.forget(20 + 3 * ring.rank)
    return job


def healthy_wrapped_groups() -> Job:
    job = Job(4)
    job.group("1", (0, 1))
    job.all("all_reduce", [4], count=5, group="1")
    _steps(job, 60)
    for ring in job:
        ring.forget(30)
    job.ring(1).forget(10)
    return job


def healthy_wrapped_past_a_group() -> Job:
    job = Job(4)
    job.group("1", (0, 1))
    _steps(job, 30)
    job.all("all_reduce", [4], count=5, group="1")
    _steps(job, 30)
    job.ring(0).forget(50)
    job.ring(1).forget(10)
    return job


def healthy_wrapped_messages() -> Job:
    job = Job(2)
    for n in range(30):
        job.ring(0).send(1, [8 + n])
        job.ring(1).recv(0, [8 + n])
    job.ring(0).forget(20)
    job.ring(1).forget(11)
    return job


def healthy_coalesced() -> Job:
    job = _steps(Job(2), 3)
    for ring in job:
        ring.call("broadcast", [4, 4])
        ring.call("broadcast", [5, 4], coalesced=True)
        ring.call("coalesced", None, coalesced=True)
    return _steps(job, 3)


def healthy_gather() -> Job:
    job = _steps(Job(2), 3)
    for ring in job:
        ring.call("gather", [4, 4], [[4, 4], [4, 4]] if ring.rank == 0 else [[]])
    return _steps(job, 3)


def healthy_uneven_all_to_all() -> Job:
    job = _steps(Job(2), 3)
    job.ring(0).call("all_to_all", [[1], [3]], [[1], [2]])
    job.ring(1).call("all_to_all", [[2], [5]], [[3], [5]])
    return _steps(job, 3)


def healthy_one_call_apart() -> Job:
    job = _steps(Job(4), 20)
    for rank in (0, 1):
        job.ring(rank).call("all_reduce", [4], state="started")
    job.waited = 0.05
    return job


def healthy_asked_while_a_call_completed() -> Job:
    """Dumped by hand: one rank has not yet taken note that its last call is done."""
    job = _steps(Job(2), 20)
    job.ring(0).call("all_reduce", [4])
    job.ring(1).call("all_reduce", [4], state="started")
    job.waited = 6
    return job


def healthy_asked_during_a_long_call() -> Job:
    """Dumped by hand, while all are in a call that may take ten minutes."""
    job = _steps(Job(2), 20)
    job.all("all_reduce", [4], state="started")
    job.waited = 30
    return job


def scalar_dtypes() -> Job:
    job = _steps(Job(3))
    for ring in job:
        ring.call("all_reduce", [], dtype="Long" if ring.rank == 2 else "Float", state="started")
    return job


def p2p_dtypes() -> Job:
    job = _steps(Job(2))
    job.ring(0).send(1, [8], dtype="Float", state="started")
    job.ring(1).recv(0, [8], dtype="Double", state="started")
    return job


def wrong_output() -> Job:
    job = _steps(Job(4))
    for ring in job:
        ring.call("_all_gather_base", [4], [17 if ring.rank == 1 else 16], state="started")
    return job


def wrong_output_everywhere() -> Job:
    job = _steps(Job(4))
    job.all("_all_gather_base", [4], [17], state="started")
    return job


def wrong_pairs() -> Job:
    job = _steps(Job(3))
    job.ring(0).call("all_to_all", [[1], [2], [3]], [[1], [2], [3]], state="started")
    job.ring(1).call("all_to_all", [[2], [2], [4]], [[2], [2], [1]], state="started")
    job.ring(2).call("all_to_all", [[3], [2], [1]], [[3], [4], [1]], state="started")
    return job


def opposite_groups() -> Job:
    job = Job(2)
    job.group("1", (0, 1), "tp")
    job.group("2", (0, 1), "dp")
    _steps(job)
    for ring in job:
        first, second = ("1", "2") if ring.rank == 0 else ("2", "1")
        ring.call("all_reduce", [4], group=first, state="started", line=20)
        ring.call("all_reduce", [4], group=second, state="scheduled", line=30)
    return job


def rank_zero_is_wrong() -> Job:
    job = _steps(Job(4))
    for ring in job:
        op, sizes = ("broadcast", [4]) if ring.rank == 0 else ("all_reduce", [4])
        ring.call(op, sizes, state="started")
    return job


def rank_zero_has_another_size() -> Job:
    job = _steps(Job(4))
    for ring in job:
        ring.call("all_reduce", [5 if ring.rank == 0 else 4], state="started")
    return job


def many_mismatches() -> Job:
    job = _steps(Job(3))
    for _ in range(15):
        for ring in job:
            ring.call("all_reduce", [7 if ring.rank == 2 else 4])
    return job


def never_enqueued() -> Job:
    job = _steps(Job(4))
    for ring in job:
        if ring.rank != 2:
            ring.call("all_reduce", [4], state="started")
    return job


def never_enqueued_after_wrapping() -> Job:
    job = _steps(Job(4), 60)
    for ring in job:
        if ring.rank != 2:
            ring.call("all_reduce", [4], state="started")
        ring.forget(20 + ring.rank)
    return job


def timed_out() -> Job:
    job = never_enqueued()
    for ring in job:
        if ring.rank != 2:
            ring.entries[-1]["retired"] = True
    job.waited = 1e6  # copied: the time of the file says nothing
    return job


def never_completed() -> Job:
    job = _steps(Job(4))
    for ring in job:
        ring.call("all_reduce", [4], state="scheduled" if ring.rank == 3 else "started")
    return job


def coalesced_differs() -> Job:
    job = _steps(Job(3), 3)
    for ring in job:
        ring.call("_broadcast_oop", [4, 4], state="started")
        size = 5 if ring.rank == 1 else 4
        ring.call("_broadcast_oop", [size, 4], coalesced=True, state="started")
        ring.call("ALLGATHER_coalesced", None, coalesced=True, state="started")
    return job


def unmatched_send() -> Job:
    job = _steps(Job(2))
    job.ring(0).send(1, [8], state="started")
    job.ring(1).call("all_reduce", [4], state="started")
    return job


KNOWN_MISSES: Final = (
    FlightCase("float32 meets int64, tensors without dimensions", scalar_dtypes,
               ("dtype_mismatch",), (2,)),
    FlightCase("a message of another dtype", p2p_dtypes, ("p2p_mismatch",)),
    FlightCase("all_gather_into_tensor with a wrong output", wrong_output,
               ("shape_mismatch",), (1,)),
    FlightCase("all_gather_into_tensor with a wrong output on all ranks", wrong_output_everywhere,
               ("shape_mismatch",)),
    FlightCase("all_to_all that does not fit by pairs", wrong_pairs, ("split_mismatch",), None),
    FlightCase("two groups in opposite order", opposite_groups, ("deadlock",)),
    FlightCase("rank 0 alone issues another op", rank_zero_is_wrong, ("op_mismatch",), (0,)),
    FlightCase("rank 0 alone has another size", rank_zero_has_another_size,
               ("shape_mismatch",), (0,)),
    FlightCase("more than ten mismatches", many_mismatches, ("shape_mismatch",), (2,)),
    FlightCase("a dump is missing", rank_zero_is_wrong, ("op_mismatch",), None, without=(3,)),
    FlightCase("a rank is absent, rings have wrapped", never_enqueued_after_wrapping,
               ("missing_call",), (2,)),
)  # fmt: skip

OTHERS: Final = (
    FlightCase("a rank never enqueued the call", never_enqueued, ("missing_call",), (2,)),
    FlightCase("the others timed out; files are copies", timed_out, ("missing_call",), (2,)),
    FlightCase("all enqueued it, none completed it", never_completed, ("stall",)),
    FlightCase("coalesced broadcasts of another size", coalesced_differs,
               ("shape_mismatch",), (1,)),
    FlightCase("a send that nobody receives", unmatched_send,
               ("p2p_unmatched", "deadlock", "missing_call"), None),
)  # fmt: skip

HEALTHY: Final = tuple(
    FlightCase(f"healthy: {build.__name__.removeprefix('healthy').strip('_') or 'plain'}", build)
    for build in (
        healthy, healthy_batch, healthy_send_then_all_reduce, healthy_wrapped,
        healthy_wrapped_groups, healthy_wrapped_past_a_group, healthy_wrapped_messages,
        healthy_coalesced, healthy_gather, healthy_uneven_all_to_all,
        healthy_one_call_apart, healthy_asked_while_a_call_completed,
        healthy_asked_during_a_long_call,
    )
)  # fmt: skip

CASES: Final = (*KNOWN_MISSES, *OTHERS, *HEALTHY)

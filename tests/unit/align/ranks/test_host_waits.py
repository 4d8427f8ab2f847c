"""What a rank waits for that is no collective, by made-up records."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.judging.case import Case
from collectrace.align.ranks import waitgraph
from collectrace.dumps import MAIN
from collectrace.errors import DamagedRecord
from collectrace.records import Activity, KernelWait, Record, Stall, decode
from tests.support.judging import blamed, case_of
from tests.support.synthetic import Rank, Run

THREAD = f"{MAIN} (17)"
OWN = ["/job/train.py:5 main"]


def waits_for_the_lock(rank: Rank, holder: int = 4000) -> None:
    """A rank's stall while it waits for the lock of a file."""
    wait = KernelWait(thread=THREAD, call="flock", file="/data/a.lock", holder=holder)
    rank.stall(stacks={THREAD: OWN}, waits=[wait])
    rank.alive()


def in_call(rank: Rank, *others: str) -> None:
    """A rank's stall in its last call, beside other threads at work."""
    call = rank.call("all_reduce")
    inside = Activity(
        thread=MAIN, what="call", since=call.t, group="0", device="cpu", seq=call.seq,
        op="all_reduce",
    )  # fmt: skip
    rank.stall(inside, stacks={THREAD: OWN} | dict.fromkeys(others, OWN))
    rank.alive(inside)


@pytest.fixture
def run() -> Run:
    """Two ranks of one machine, which share its monotonic clock."""
    run = Run(world=2)
    run.all("all_reduce")
    one, shift = run.rank(1), run.rank(1).header.t - run.rank(0).header.t
    one.now -= shift
    one.header.t -= shift
    for item in one.items:
        assert isinstance(item, Record)
        item.t -= shift
    return run


def pid_of(run: Run, rank: int) -> int:
    return run.rank(rank).header.pid


def targets(case: Case) -> set[tuple[int, int]]:
    return {
        (rank, edge.target[0]) for (rank, _), es in case.graph.edges.items() for edge in es
    }  # fmt: skip


def test_a_lock_that_a_blocked_rank_holds_closes_a_cycle(run: Run, tmp_path: Path) -> None:
    in_call(run.rank(0))
    waits_for_the_lock(run.rank(1), pid_of(run, 0))
    case = case_of(run, tmp_path)
    assert targets(case) == {(0, 1), (1, 0)}
    assert len(waitgraph.cycles(case.graph)) == 1
    assert blamed(run, tmp_path / "again")[0] == ()


def test_another_thread_of_the_holder_may_let_go(run: Run, tmp_path: Path) -> None:
    in_call(run.rank(0), "saver (18)")
    waits_for_the_lock(run.rank(1), pid_of(run, 0))
    assert targets(case_of(run, tmp_path)) == {(0, 1)}


def test_a_holder_that_came_to_its_call_later_may_have_let_go(run: Run, tmp_path: Path) -> None:
    waits_for_the_lock(run.rank(1), pid_of(run, 0))
    run.rank(0).wait(1)
    in_call(run.rank(0))
    assert targets(case_of(run, tmp_path)) == {(0, 1)}


def test_a_process_of_the_same_number_on_another_host_is_none_of_the_job(
    run: Run, tmp_path: Path
) -> None:
    run.rank(0).header.host = "elsewhere"
    in_call(run.rank(0))
    waits_for_the_lock(run.rank(1), pid_of(run, 0))
    case = case_of(run, tmp_path)
    wait = case.standings[1].host_wait
    assert wait is not None
    assert (wait.holder, wait.what[-20:]) == (None, f"held by process {pid_of(run, 0)}"[-20:])
    assert targets(case) == {(0, 1)}


def test_a_rank_that_issued_a_call_since_waits_no_more(run: Run, tmp_path: Path) -> None:
    waits_for_the_lock(run.rank(1))
    run.rank(1).call("barrier")
    assert case_of(run, tmp_path).standings[1].host_wait is None


_LOADER = "/x/site-packages/torch/utils/data/dataloader.py"


@pytest.mark.parametrize(
    ("frames", "row"),
    [
        ([f"{_LOADER}:725 __next__", f"{_LOADER}:1291 _try_get_data"], "dataloader"),
        ([f"{_LOADER}:725 __next__", "/job/data.py:28 __getitem__"], None),
        (["/usr/lib/python3.11/queue.py:171 get"], "thread"),
        (["/usr/lib/python3.11/queue.py:90 join"], "tasks"),
        (["/usr/lib/python3.11/threading.py:327 wait"], "thread"),
        (["/job/queue.py:20 get"], None),
        (["/x/site-packages/torch/_dynamo/eval_frame.py:736 compile_wrapper"], None),
        (["/x/site-packages/torch/_inductor/compile_fx.py:900 codegen"], "compile"),
    ],
)
def test_frames_alone_decide(frames: list[str], row: str | None, run: Run, tmp_path: Path) -> None:
    run.rank(1).stall(stacks={THREAD: [*OWN, *frames]})
    run.rank(1).alive()
    wait = case_of(run, tmp_path).standings[1].host_wait
    assert (wait.row.name if wait is not None else None) == row


@pytest.mark.parametrize(
    "wait",
    ['{"holder":"4000"}', '{"holder":true}', '{"others":["x"]}', '{"file":[]}', "7"],
)
def test_a_damaged_wait_damages_its_line(wait: str) -> None:
    with pytest.raises(DamagedRecord):
        decode(f'{{"kind":"stall","t":1,"waits":[{wait}]}}'.encode())


def test_anything_may_stand_in_a_wait(run: Run, tmp_path: Path) -> None:
    odd = KernelWait(
        thread=THREAD, call="\x1b[2J", wchan="pipe", file="/" + "x" * 9000, peer="\x00",
        others=[-1, 1 << 62], child=1 << 62, holder=-(1 << 62),
    )  # fmt: skip
    child = KernelWait(pid=-3, name="\n", state="?", call="read", file="\x1b")
    run.rank(1).stall(stacks={THREAD: OWN}, waits=[odd], children=[child, KernelWait()])
    run.rank(1).alive()
    wait = case_of(run, tmp_path).standings[1].host_wait
    assert wait is None or wait.holder is None


def test_a_stall_without_the_kernels_facts_is_read_as_ever() -> None:
    found = decode(b'{"kind":"stall","t":1,"stacks":{"MainThread (17)":["a.py:1 f"]}}')
    assert isinstance(found, Stall)
    assert (found.waits, found.children, found.gil_held) == (None, None, None)

"""What is worth knowing and no error: tables, samplers, skew, and what must not be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align.alignment import align
from collectrace.findings import Finding, Kind
from collectrace.records import SourceFile, Unwaited
from tests.support.synthetic import SECOND, Run

MS = SECOND // 1000
RAY_WORKER = "/lib/site-packages/ray/_private/workers/default_worker.py"


def noticed(run: Run, folder: Path, kind: Kind) -> Finding | None:
    run.all("all_reduce")
    run.finish()
    run.write(folder)
    alignment = align(folder)
    assert alignment.status == "aligned"
    found = [finding for finding in alignment.findings if finding.kind == kind]
    assert len(found) < 2
    assert all(finding.severity == "info" for finding in found)
    return found[0] if found else None


# -- evidence --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "words"),
    [({0}, "Rank 0 waits in a group with them."), ({0, 1}, "Ranks 0-1 wait in a group with them.")],
)
def test_who_waits_for_ranks_without_a_file(waiting: set[int], words: str, tmp_path: Path) -> None:
    run = Run(3)
    run.all("all_reduce")
    run.omit(2)
    for rank in run:
        if rank.rank in waiting:
            rank.beat(5, rank.inside(rank.call("all_reduce")))
        else:
            rank.exit()
    run.write(tmp_path)
    found = [finding for finding in align(tmp_path).findings if finding.kind == "evidence_gap"]
    assert [finding.headline for finding in found] == ["rank 2: left no file"]
    assert found[0].cause.endswith(words)


# -- data ------------------------------------------------------------------------------------


def test_uneven_inputs_come_with_a_table(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        for n in range(5 + rank.rank):
            rank.batch(n + 1, wait=(1 + 9 * rank.rank) * MS)
        rank.batch(5 + rank.rank, wait=0, end=True)
    found = noticed(run, tmp_path, "uneven_inputs")
    assert found is not None
    assert "rank 0 had 5 batches" in found.headline
    assert found.notes == (
        "rank 0: 5 batches, waited 5 ms for data (1.0 ms each)",
        "rank 1: 6 batches, waited 60 ms for data (10.0 ms each)",
    )


def test_the_table_of_many_ranks_shows_the_slowest(tmp_path: Path) -> None:
    run = Run(12)
    for rank in run:
        for n in range(2 if rank.rank else 1):
            rank.batch(n + 1, wait=rank.rank * SECOND)
        rank.batch(2 if rank.rank else 1, wait=0, end=True)
    found = noticed(run, tmp_path, "uneven_inputs")
    assert found is not None
    assert found.notes[0].startswith("rank 4: 2 batches, waited 8.0 s")
    assert found.notes[-1] == "4 more ranks waited less"


def test_no_table_of_logs_that_are_not_whole(tmp_path: Path) -> None:
    run = Run(2, segment=6000, keep=2)
    for rank in run:
        for n in range(60 + rank.rank):
            rank.call("all_reduce")
            rank.batch(n + 1, wait=MS)
        rank.batch(60 + rank.rank, wait=0, end=True)
    run.rank(0).call("all_reduce")
    found = noticed(run, tmp_path, "uneven_inputs")
    assert found is not None
    assert "rank 0 had 60 batches" in found.headline
    assert found.notes == ()


# -- samplers --------------------------------------------------------------------------------


def passes(run: Run, count: int, *, told: bool, shuffle: bool = True) -> None:
    for rank in run:
        for epoch in range(count):
            if told:
                rank.epoch(epoch, shuffle=shuffle, site="train.py:8")
            else:
                rank.epoch(0, set=False, shuffle=shuffle, site="train.py:9")


@pytest.mark.parametrize("count", [0, 1])
def test_one_pass_needs_no_epoch(tmp_path: Path, count: int) -> None:
    run = Run(2)
    passes(run, count, told=False)
    assert noticed(run, tmp_path, "sampler_epoch") is None


@pytest.mark.parametrize(("told", "shuffle"), [(True, True), (False, False)])
def test_a_sampler_that_is_told_or_does_not_shuffle_is_fine(
    tmp_path: Path, told: bool, shuffle: bool
) -> None:
    run = Run(2)
    passes(run, 3, told=told, shuffle=shuffle)
    assert noticed(run, tmp_path, "sampler_epoch") is None


# -- skew ------------------------------------------------------------------------------------


def started(*headers: dict[str, object]) -> Run:
    run = Run(len(headers))
    for rank, fields in zip(run, headers, strict=True):
        for name, value in fields.items():
            setattr(rank.header, name, value)
    return run


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (
            ({"versions": {"torch": "2.13.0"}}, {"versions": {"torch": "2.12.1"}}),
            "version of torch: 2.13.0 on rank 0, 2.12.1 on rank 1",
        ),
        (
            ({"env": {"NCCL_ALGO": "Ring"}}, {"env": {}}),
            "variable NCCL_ALGO: Ring on rank 0, unset on rank 1",
        ),
        (
            ({"argv": ["train.py", "--lr", "0.1"]}, {"argv": ["train.py", "--lr", "0.01"]}),
            "argument --lr: 0.1 on rank 0, 0.01 on rank 1",
        ),
        (
            ({"argv": ["train.py", "--fast"]}, {"argv": ["train.py"]}, {"argv": ["train.py"]}),
            "argument --fast: given on rank 0, not given on ranks 1-2",
        ),
        (
            ({"argv": ["train.py", "--batch=8"]}, {"argv": ["train.py", "--batch=16"]}),
            "argument --batch: 8 on rank 0, 16 on rank 1",
        ),
        (
            ({"argv": ["train.py", "a.yaml"]}, {"argv": ["train.py", "b.yaml"]}),
            "argument 1: a.yaml on rank 0, b.yaml on rank 1",
        ),
        (
            ({"argv": ["/home/a/train.py"]}, {"argv": ["/home/b/eval.py"]}),
            "script: train.py on rank 0, eval.py on rank 1",
        ),
    ],
)
def test_what_differs_between_ranks_is_told(
    tmp_path: Path, headers: tuple[dict[str, object], ...], words: str
) -> None:
    found = noticed(started(*headers), tmp_path, "config_skew")
    assert found is not None
    assert words in found.headline


@pytest.mark.parametrize(
    "headers",
    [
        ({"versions": {"torch": "2.13.0"}}, {"versions": {"torch": "2.13.0"}}),
        ({"env": {"RANK": "0"}}, {"env": {"RANK": "1"}}),
        ({"env": {"LOCAL_RANK": "0"}}, {"env": {"LOCAL_RANK": "1"}}),
        ({"env": {"NCCL_SOCKET_IFNAME": "eth0"}}, {"env": {"NCCL_SOCKET_IFNAME": "eth1"}}),
        ({"env": {"NCCL_DEBUG_FILE": "/tmp/0"}}, {"env": {"NCCL_DEBUG_FILE": "/tmp/1"}}),
        ({"env": {"NCCL_HOSTID": "a"}}, {"env": {"NCCL_HOSTID": "b"}}),
        ({"env": {"MASTER_PORT": "1"}}, {"env": {"MASTER_PORT": "2"}}),
        ({"argv": ["train.py", "--rank", "0"]}, {"argv": ["train.py", "--rank", "1"]}),
        ({"argv": ["train.py", "--local_rank=0"]}, {"argv": ["train.py", "--local_rank=1"]}),
        ({"argv": ["train.py", "--local-rank=0"]}, {"argv": ["train.py", "--local-rank=1"]}),
        ({"argv": ["train.py", "--node_rank", "0"]}, {"argv": ["train.py", "--node_rank", "1"]}),
        ({"argv": ["train.py", "--master-port=1"]}, {"argv": ["train.py", "--master-port=2"]}),
        ({"argv": ["train.py", "--gpu", "0"]}, {"argv": ["train.py", "--gpu", "1"]}),
        ({"argv": ["train.py", "0"]}, {"argv": ["train.py", "1"]}),
        ({"argv": ["/home/a/train.py"]}, {"argv": ["train.py"]}),
        ({"argv": ["train.py", "--out", "x"]}, {"argv": []}),
        ({"argv": ["train.py", "--a", "1", "--b"]}, {"argv": ["train.py", "--b", "--a", "1"]}),
        ({"env": {"NCCL_ALGO": "Ring"}}, {"env": {}, "pid": 0}),  # its header is lost
        ({"argv": [RAY_WORKER, "--worker-id=1"]}, {"argv": [RAY_WORKER, "--worker-id=2"]}),
    ],
)
def test_what_must_differ_is_not_told(
    tmp_path: Path, headers: tuple[dict[str, object], ...]
) -> None:
    assert noticed(started(*headers), tmp_path, "config_skew") is None


def test_ranks_that_ran_different_code_are_told(tmp_path: Path) -> None:
    run = Run(world=3)
    for rank, sha256 in zip(run, ("a" * 64, "b" * 64, "a" * 64), strict=True):
        rank.record(SourceFile(path="/job/train.py", sha256=sha256))
        rank.record(SourceFile(path="/job/net.py", sha256="c" * 64))
        rank.record(SourceFile(path=f"/tmp/cell{rank.rank}.py", sha256=sha256))
        rank.call("all_reduce")
    run.finish()
    run.write(tmp_path)
    alignment = align(tmp_path)
    [found] = alignment.findings
    assert (found.kind, found.severity) == ("config_skew", "warning")
    assert alignment.status == "aligned"
    assert found.headline == (
        "the ranks ran different code: train.py (one version on ranks 0,2, another on rank 1)"
    )
    assert found.notes == ("/job/train.py",)


def test_a_group_of_two_backends_is_told(tmp_path: Path) -> None:
    run = Run(world=2)
    for rank, backend in zip(run, ("gloo", "nccl"), strict=True):
        rank.group("1", [0, 1], description="dp", backend=backend)
    found = noticed(run, tmp_path, "config_skew")
    assert found is not None
    assert "dp" in found.headline
    assert "gloo on rank 0, nccl on rank 1" in found.headline


# -- ends ------------------------------------------------------------------------------------


def thrown(throws: bool, *messages: str) -> Run:
    """Ranks inside join() that agree, and raise this."""
    run = Run(len(messages))
    for rank, message in zip(run, messages, strict=True):
        rank.join("entered", group="0", throws=throws or None)
        rank.call("all_reduce")
        rank.exit("exception", error="RuntimeError", message=message, site="/job/train.py:36")
    return run


EXHAUSTED = (
    "Rank 0 exhausted all inputs.",
    "Detected at least one rank that exhausted inputs. Throwing across all ranks.",
)


def first(run: Run, folder: Path) -> Finding:
    run.write(folder)
    return align(folder).findings[0]


@pytest.mark.parametrize(
    ("throws", "messages"), [(False, EXHAUSTED), (True, ("loss is nan", "loss is nan"))]
)
def test_any_other_exception_is_a_crash(
    throws: bool, messages: tuple[str, ...], tmp_path: Path
) -> None:
    found = first(thrown(throws, *messages), tmp_path)
    assert (found.kind, found.severity) == ("raised", "warning")
    assert found.headline.startswith("the job crashed: ranks 0-1 ended with an exception")
    assert "Rank 0 was the first." in found.cause
    assert (found.code, found.fix.count("\n")) == ("CT911", 0)


def test_a_crash_over_lost_connections_is_not_told_to_fix_its_exception(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        rank.exit("exception", error="DistStoreError", message="wait timeout after 7000ms")
    found = first(run, tmp_path)
    assert found.headline == (
        "the job crashed: ranks 0-1 lost a connection or timed out, though the collectives agree"
    )
    assert found.fix.startswith("Look at the network")


def crash_behind(*, touched: bool = False, whose: int = 0) -> Run:
    """Both ranks raise; one had let go of asynchronous work, or written to its tensor."""
    run = Run(2)
    for rank in run:
        call = rank.call("all_reduce", async_=True, site="/job/train.py:44")
        if rank.rank == whose:
            rank.record(
                Unwaited(
                    group=call.group, device=call.device, seq=1, op=call.op, site=call.site,
                    count=1, touched=touched or None,
                )
            )  # fmt: skip
    return run


@pytest.mark.parametrize("touched", [False, True])
def test_a_crash_may_come_of_work_that_nobody_waited_for(touched: bool, tmp_path: Path) -> None:
    run = crash_behind(touched=touched)
    for rank in run:
        rank.exit("exception", error="RuntimeError", message="replicas differ")
    found = first(run, tmp_path)
    assert (found.kind, found.severity, found.suspects) == ("raised", "warning", ())
    assert found.fix.startswith("First see whether it comes of that.")
    assert found.fix.endswith("If it raises all the same, fix what raised.")
    assert "train.py:44" in found.cause
    assert "what raised may come of that" in found.cause
    assert ("never waited for" in found.cause) != touched
    assert "wait()" in found.fix


def test_a_crash_of_another_rank_than_the_one_that_did_not_wait(tmp_path: Path) -> None:
    run = crash_behind(whose=1)
    run.rank(0).exit("exception", error="RuntimeError", message="replicas differ")
    run.rank(1).exit()
    found = first(run, tmp_path)
    assert found.kind == "raised"
    assert (found.code, found.fix.count("\n")) == ("CT911", 0)


def test_a_crash_in_many_words_tells_some(tmp_path: Path) -> None:
    found = first(thrown(False, *(f"shard {n} is corrupt" for n in range(7))), tmp_path)
    assert "shard 3 is corrupt" in found.cause
    assert "shard 4 is corrupt" not in found.cause
    assert "; and 3 more. Rank 0 was the first." in found.cause
    assert len(found.sides) == 4

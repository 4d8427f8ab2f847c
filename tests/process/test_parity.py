"""Tracing changes nothing: the same bits, warnings and random numbers; and the record is whole."""

from __future__ import annotations

import importlib
import random
import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace.align import align
from collectrace.ops import canonical_op
from collectrace.records import Unit
from tests.support import rank_file_checks, trainings
from tests.support.op_table import IS_OLDER
from tests.support.real_ranks import Ranks

# -- the comparison -------------------------------------------------------------------------


def scenario(module: str, name: str, args: list[Any], traced: bool) -> Any:
    """One rank, every warning printed."""
    warnings.simplefilter("always")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if traced:
        # On a busy machine the start alone takes longer than the seconds that tests wait.
        collectrace.enable(stall_after=600)
    dist.init_process_group("gloo")
    result = getattr(importlib.import_module(module), name)(dist.get_rank(), *args)
    dist.destroy_process_group()
    return result


def said(output: str) -> str:
    """Without what differs from run to run: time and process id in front of torch's log lines."""
    output = re.sub(r"^(.*[IWE]\d{4} )[\d:.]+ \d+", r"\1", output, flags=re.MULTILINE)
    # Before torch 2.10 gloo tells of each group that it connects.
    return re.sub(r"^\[Gloo\] Rank \d+ is connected to .*\n", "", output, flags=re.MULTILINE)


def announced(output: str) -> tuple[list[str], str]:
    """The lines that say where the job records; and all others."""
    lines = output.splitlines(keepends=True)
    told = [line for line in lines if line.startswith("collectrace: recording to ")]
    return told, "".join(line for line in lines if line not in told)


def run_twice(
    ranks: Ranks, function: Callable[..., Any], *args: Any
) -> tuple[list[Any], list[rank_file_checks.RankFile]]:
    """Run untraced and traced: equal in every bit and every word, and nothing to find fault with.

    The traced run's files.
    """
    bare, traced = (
        ranks.run(
            scenario,
            2,
            function.__module__,
            function.__name__,
            args,
            traced,
            trace=False,
            init=False,
            env={"COLLECTRACE_ANNOUNCE": "1"},
        )
        for traced in (False, True)
    )
    for rank in range(2):
        assert traced.result(rank) == bare.result(rank)
        told, output = announced(traced.output(rank))
        assert len(told) == (rank == 0)  # the one line that tracing adds, on one rank
        assert said(output) == said(bare.output(rank))
    files = rank_file_checks.read_run(traced.logs, 2)
    for file in files:
        rank_file_checks.check_whole(file, 2)
    rank_file_checks.check_agreement(files)
    alignment = align(traced.logs)
    assert alignment.status == "aligned"
    assert {finding.severity for finding in alignment.findings} <= {"info"}
    return [traced.result(rank) for rank in range(2)], files


def ops(file: rank_file_checks.RankFile) -> Counter[str]:
    return Counter(canonical_op(call.op) for call in file.calls)


def roles(file: rank_file_checks.RankFile) -> Counter[str]:
    return Counter(call.role for call in file.calls)


def parts(file: rank_file_checks.RankFile, role: str) -> set[str | None]:
    return {call.part for call in file.calls if call.role == role}


def issued_by(files: list[rank_file_checks.RankFile], *families: str) -> None:
    """Every call is one of these frameworks', and was caused by a line of the script."""
    for file in files:
        assert {role.partition(".")[0] for role in roles(file)} == set(families)
        # An older torch has other parts, of which not all are patched.
        assert IS_OLDER or not [role for role in roles(file) if role.endswith(".other")]
        assert all(call.site for call in file.calls if call.thread is None)


@pytest.mark.parametrize(
    ("function", "role", "count"),
    [
        (trainings.ddp, "ddp.backward.bucket", 4),
        pytest.param(trainings.ddp_many_buckets, "ddp.backward.bucket", 7, marks=pytest.mark.slow),
        pytest.param(trainings.ddp_bucket_views, "ddp.backward.bucket", 4, marks=pytest.mark.slow),
        pytest.param(trainings.ddp_static_graph, "ddp.backward.bucket", 4, marks=pytest.mark.slow),
        pytest.param(trainings.ddp_buffers, "ddp.forward.sync_buffers", 8, marks=pytest.mark.slow),
        pytest.param(
            trainings.ddp_unused_parameters, "ddp.backward.unused_params", 4, marks=pytest.mark.slow
        ),
        pytest.param(trainings.ddp_no_sync, "ddp.backward.bucket", 2, marks=pytest.mark.slow),
        pytest.param(trainings.ddp_fp16_hook, "ddp.backward.bucket", 4, marks=pytest.mark.slow),
        pytest.param(trainings.ddp_own_hook, "ddp.backward.bucket", 4, marks=pytest.mark.slow),
        (trainings.ddp_powersgd_hook, "ddp.backward.bucket", 20),
        (trainings.two_models, "ddp.backward.bucket", 12),
    ],
)
def test_ddp(function: Callable[..., Any], role: str, count: int, ranks: Ranks) -> None:
    _, files = run_twice(ranks, function)
    for file in files:
        assert roles(file)[role] == count, roles(file)
        assert "user" not in roles(file)
        assert "unknown" not in roles(file)


@pytest.mark.parametrize(
    "function",
    [
        trainings.ddp_join,
        pytest.param(trainings.ddp_join_unused_parameters, marks=pytest.mark.slow),
        pytest.param(trainings.ddp_join_own_hook, marks=pytest.mark.slow),
        trainings.zero_with_join,
    ],
)
def test_uneven_inputs(function: Callable[..., Any], ranks: Ranks) -> None:
    _, files = run_twice(ranks, function)
    joined, worked = map(roles, files)
    assert joined["join.bucket"] > 0
    assert worked["join.bucket"] == 0
    assert joined["ddp.backward.bucket"] + joined["join.bucket"] == worked["ddp.backward.bucket"]
    assert "user" not in joined + worked


def test_early_termination(ranks: Ranks) -> None:
    results, files = run_twice(ranks, trainings.ddp_join_throws)
    assert "exhausted all inputs" in results[0][0]
    assert "Detected at least one rank" in results[1][0]
    assert roles(files[0])["join.terminate"] == 1
    assert roles(files[1])["ddp.forward.terminate_check"] == 4


NO_CPU_STREAMS: Final = not hasattr(torch.cpu.Stream, "record_event")
"""FSDP2 of torch 2.6 does not run on a CPU."""


@pytest.mark.skipif(NO_CPU_STREAMS, reason="this torch's FSDP2 does not run on a CPU")
def test_fsdp2(ranks: Ranks) -> None:
    _, files = run_twice(ranks, trainings.fsdp2)
    for file in files:
        assert ops(file)["reduce_scatter_single"] == 4 * 2
        assert ops(file)["all_gather_single"] >= 4 * 2
        assert parts(file, "fsdp.unshard") == parts(file, "fsdp.reduce_scatter") == {"0", "2"}
        assert [c.iteration for c in file.calls if c.role == "fsdp.reduce_scatter"] == [
            None, None, 2, 2, 3, 3, 4, 4
        ]  # fmt: skip
        assert [unit.of for unit in file.of(Unit)] == ["optimizer.step"]
    issued_by(files, "fsdp", "dtensor")


@pytest.mark.skipif(NO_CPU_STREAMS, reason="this torch's FSDP2 does not run on a CPU")
@pytest.mark.slow
def test_fsdp2_between_replicas(ranks: Ranks) -> None:
    _, files = run_twice(ranks, trainings.hsdp)
    for file in files:
        assert roles(file)["fsdp.all_reduce"] == 3
        assert parts(file, "fsdp.all_reduce") == {"(root)"}
    issued_by(files, "fsdp")


@pytest.mark.slow
def test_fsdp1(ranks: Ranks) -> None:
    _, files = run_twice(ranks, trainings.fsdp1)
    for file in files:
        unsharded = parts(file, "fsdp_one.unshard")
        assert len(unsharded) == 2
        assert parts(file, "fsdp_one.reduce_scatter") == unsharded
        assert roles(file)["fsdp_one.clip_grad_norm"] == 1
    issued_by(files, "fsdp_one")


def test_zero(ranks: Ranks) -> None:
    _, files = run_twice(ranks, trainings.zero)
    for file in files:
        assert {"zero.step", "zero.consolidate"} <= roles(file).keys()
        # DDP counts, and neither the optimizer nor the one inside it.
        assert max(call.iteration or 0 for call in file.calls) == 3
        assert not list(file.of(Unit))
    issued_by(files, "zero", "ddp")


@pytest.mark.slow
def test_tensor_parallel(ranks: Ranks) -> None:
    _, files = run_twice(ranks, trainings.tensor_parallel)
    for file in files:
        assert ops(file)["all_reduce"] >= 4
        assert {"dtensor.grad_norm", "dtensor.full_tensor"} <= roles(file).keys()
    issued_by(files, "dtensor")


@pytest.mark.skipif(IS_OLDER, reason="its gloo mixes up the messages of this script, untraced too")
def test_pipeline(ranks: Ranks) -> None:
    results, files = run_twice(ranks, trainings.pipeline)
    assert results[1][1], "no loss"
    # Two microbatches, each way, in three steps.
    for file in files:
        assert min(ops(file)["send"], ops(file)["recv"]) >= 6
    for rank, file in enumerate(files):
        stage = {f"stage {rank}, microbatch {n}" for n in range(2)}
        assert parts(file, "pp.forward") == parts(file, "pp.backward") == stage
    issued_by(files, "pp")


def test_distributed_checkpoint(ranks: Ranks) -> None:
    results, files = run_twice(ranks, trainings.checkpoints)
    _, _, (saved, saved_beside) = results[0]
    assert saved == saved_beside
    for file in files:
        assert any(call.thread for call in file.calls), "async_save issues from another thread"
        assert parts(file, "dcp.plan") == {"plan"}
        assert parts(file, "dcp.finish") == {"write"}
        assert parts(file, "dcp.gather") == {"read"}
    issued_by(files, "dcp", "ddp")


BACKENDS = ["eager", pytest.param("aot_eager", marks=pytest.mark.slow)]
"""A default run has the other one in test_compile, by which the graphs are the same."""


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_ddp(backend: str, ranks: Ranks) -> None:
    _, files = run_twice(ranks, trainings.compiled_ddp, backend)
    for file in files:
        assert roles(file)["ddp.backward.bucket"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_collectives(backend: str, ranks: Ranks) -> None:
    _, files = run_twice(ranks, trainings.compiled_collectives, backend)
    issued_by(files, "compile")


def test_every_collective(ranks: Ranks) -> None:
    _, files = run_twice(ranks, trainings.every_collective)
    told, others = map(ops, files)
    assert told["all_reduce"] == 5
    assert {"broadcast", "reduce", "all_gather", "gather", "scatter", "barrier"} <= told.keys()
    messages = {"send", "recv"}
    assert {op: told[op] for op in told.keys() - messages} == {
        op: others[op] for op in others.keys() - messages
    }


# -- what else could change -----------------------------------------------------------------


def rng_states(rank: int) -> Any:
    return (
        torch.random.get_rng_state().tolist(),
        [torch.rand(3).tolist(), trainings.ddp(rank)],
        torch.random.get_rng_state().tolist(),
    )


def test_random_numbers_stay_the_same(ranks: Ranks) -> None:
    run_twice(ranks, rng_states)


def python_random(rank: int) -> Any:
    random.seed(rank)
    before = random.getstate()
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    return before == random.getstate(), random.random()


@pytest.mark.slow
def test_the_random_module_stays_the_same(ranks: Ranks) -> None:
    results, _ = run_twice(ranks, python_random)
    assert all(same for same, _ in results)


def on_and_off(rank: int) -> Any:
    def look() -> tuple[Any, ...]:
        return (
            sorted(t.name for t in threading.enumerate()),
            sys.excepthook,
            dist.all_reduce,
            dist.Work.wait,
            torch.autograd.backward,
            DistributedDataParallel.__init__,
            sys.exit,
        )

    before = look()
    trained = [trainings.ddp(rank)]
    for _ in range(3):
        # Without the thread that removes old runs, which may be through by then, or not.
        collectrace.enable(stall_after=600, keep_runs=0)
        during = look()
        trained.append(trainings.ddp(rank))
        collectrace.disable()
    after = look()
    trained.append(trainings.ddp(rank))
    assert all(a is not b for a, b in zip(before[2:], during[2:], strict=True))
    assert len(during[0]) == len(before[0]) + 1
    assert all(a is b for a, b in zip(before[1:], after[1:], strict=True))
    assert before[0] == after[0]
    return trained


def test_disable_leaves_nothing_behind(ranks: Ranks) -> None:
    ran = ranks.run(scenario, 2, __name__, "on_and_off", [], False, trace=False, init=False)
    for rank in range(2):
        first, *others = ran.result(rank)
        assert all(one == first for one in others)
        assert said(ran.output(rank)) == ""

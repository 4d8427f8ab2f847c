"""The six cases that started this project, run for real: what the files hold, and the verdicts.

Each table below is the document's, its words left as they are: R0 on the left, R1 on the right.
What it leaves out is checked apart: the constructor's calls, and the buckets that DDP agrees on
anew before its second backward.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pytest

from collectrace.align import align
from collectrace.records import Call
from tests.support.real_ranks import ROOT, Log, Ran, Ranks
from tests.zoo.protocol import Request
from tests.zoo.runner import Server
from tools.join_cases import known_outcomes

SCRIPT: Final = ROOT / "tools" / "join_cases.py"

CASE_1: Final = """
inputs[0]
    all-reduce (DDP forward() 1)                  | all-reduce (DDP forward() 1)
    all-reduce (DDP forward() 2)                  | all-reduce (DDP forward() 2)
    all-reduce (DDP backward())                   | all-reduce (DDP backward())
inputs[1]
    all-reduce (DDP forward() 1)                  | all-reduce (DDP forward() 1)
    all-reduce (DDP forward() 2)                  | all-reduce (DDP forward() 2)
    all-reduce (DDP backward())                   | all-reduce (DDP backward())
inputs[2]
    all-reduce (join() _get_num_nonjoined_procs())| all-reduce (DDP forward() 1)
    all-reduce (join() check bwd grad sync)       | all-reduce (DDP forward() 2)
    all-reduce (join() hook)                      | all-reduce (DDP backward())
    all-reduce (join() _get_num_nonjoined_procs())| all-reduce (join() _get_num_nonjoined_procs())
    all-reduce (_find_common_rank())              | all-reduce (_find_common_rank())
    broadcast (sync final model params)           | broadcast (sync final model params)
    finish                                        | finish
"""

CASE_2: Final = """
inputs[0]
    all-reduce (backward)                         | all-reduce (backward)
inputs[1]
    all-reduce (backward)                         | all-reduce (backward)
inputs[2]
    finish                                        | all-reduce (backward)
"""

CASE_3: Final = """
inputs[0]
    all-reduce (DDP backward())                   | all-reduce (DDP backward())
    all-reduce (barrier)                          | all-reduce (barrier)
inputs[1]
    all-reduce (DDP backward())                   | all-reduce (DDP backward())
    all-reduce (barrier)                          | all-reduce (barrier)
inputs[2]
    finish                                        | all-reduce (DDP backward())
"""

CASE_4: Final = """
inputs[0]
    all-reduce (DDP forward() 1)                  | all-reduce (DDP forward() 1)
    all-reduce (DDP forward() 2)                  | all-reduce (DDP forward() 2)
    all-reduce (DDP backward())                   | all-reduce (DDP backward())
    all-reduce (barrier)                          | all-reduce (barrier)
inputs[1]
    all-reduce (DDP forward() 1)                  | all-reduce (DDP forward() 1)
    all-reduce (DDP forward() 2)                  | all-reduce (DDP forward() 2)
    all-reduce (DDP backward())                   | all-reduce (DDP backward())
    all-reduce (barrier)                          | all-reduce (barrier)
inputs[2]
    all-reduce (join() _get_num_nonjoined_procs())| all-reduce (DDP forward() 1)
    all-reduce (join() check bwd grad sync)       | all-reduce (DDP forward() 2)
    all-reduce (join() hook)                      | all-reduce (DDP backward())
    all-reduce (join() _get_num_nonjoined_procs())| all-reduce (barrier)
"""

# What the barrier happens to hold decides how it goes on: the document's last two rows where it
# is not zero,
CASE_4_ONES: Final = (
    CASE_4
    + """
    all-reduce (join() check bwd grad sync)       | all-reduce (join() _get_num_nonjoined_procs())
    all-reduce (join() _get_num_nonjoined_procs())| all-reduce (_find_common_rank())
"""
)

# and where it is zero, as NCCL's is today: R0 takes it for "nobody has inputs left".
CASE_4_ZEROS: Final = (
    CASE_4
    + """
    all-reduce (_find_common_rank())              | all-reduce (join() _get_num_nonjoined_procs())
"""
)

# One more input than in the document. There R1 gets past its backward, which NCCL completes
# with R0's barrier; gloo does not.
CASE_5: Final = """
inputs[0]
    all-reduce (DDP backward())                   | all-reduce (DDP backward())
inputs[1]
    all-reduce (DDP backward())                   | all-reduce (DDP backward())
inputs[2]
    barrier                                       | all-reduce (DDP backward())
"""

# "This is the same as Case 1 only with an all-reduce (barrier) at the end".
CASE_6: Final = CASE_1.replace("    finish", "    all-reduce (barrier)", 1).replace(
    "| finish", "| all-reduce (barrier)", 1
)

COUNT, FLOATS = ("float32", [1], "SUM"), ("float32", [2], "SUM")
WORDS: Final = {
    "DDP forward() 1": ("ddp.forward.notify_join", COUNT, "loss = model(batch)"),
    "DDP forward() 2": ("ddp.forward.sync_check", COUNT, "loss = model(batch)"),
    "DDP backward()": ("ddp.backward.bucket", FLOATS, "loss.backward()"),
    "backward": ("ddp.backward.bucket", FLOATS, "loss.backward()"),
    "join() _get_num_nonjoined_procs()": ("join.count_nonjoined", COUNT, "model.join()"),
    "join() check bwd grad sync": ("join.sync_check", COUNT, "model.join()"),
    "join() hook": ("join.bucket", FLOATS, "model.join()"),
    "_find_common_rank()": ("join.common_rank", ("int64", [1], "MAX"), "model.join()"),
    "sync final model params": ("join.final_sync", ("float32", [2], None), "model.join()"),
    "barrier": ("user", COUNT, "dist.barrier()"),
}
"""The document's word for who issued a call: its role, bytes and line of the script."""


@dataclass(frozen=True)
class Cell:
    """One call, as the document tells it or as a file does."""

    op: str
    role: str
    bytes: object
    line: str


def told(cell: str, barrier: str) -> Cell | None:
    cell = cell.strip()
    if not cell or cell == "finish":
        return None
    found = re.fullmatch(r"(all-reduce|broadcast) \((.*)\)", cell)
    op, word = found.groups() if found else ("all-reduce", cell)
    role, carried, line = WORDS[word]
    if word == "barrier" and barrier == "native":
        return Cell("barrier", role, (None, None, None), line)
    return Cell(op.replace("-", "_"), role, carried, line)


def table(text: str, barrier: str) -> tuple[list[Cell], list[Cell]]:
    rows = [line.split("|") for line in text.splitlines() if "|" in line]
    left, right = zip(*rows, strict=True)
    return tuple([c for x in side if (c := told(x, barrier))] for side in (left, right))  # type: ignore[return-value]


@cache
def source() -> list[str]:
    return SCRIPT.read_text().splitlines()


def recorded(call: Call) -> Cell:
    assert call.site is not None
    path, _, line = call.site.rpartition(":")
    assert Path(path) == SCRIPT
    text = source()[int(line) - 1]
    known = next((words for _, _, words in WORDS.values() if words in text), text)
    return Cell(call.op, call.role, (call.dtype, call.shape, call.reduce_op), known)


LEFT_OUT: Final = ("ddp.construct", "ddp.forward.rebuild_buckets")


def check_left_out(log: Log) -> None:
    calls = log.calls
    assert [(c.op, c.dtype) for c in calls[:3]] == [
        ("all_gather", "int64"), ("broadcast", "int64"), ("broadcast", "float32")
    ]  # fmt: skip
    apart = [(n, c) for n, c in enumerate(calls) if c.role in LEFT_OUT]
    assert [c.role for _, c in apart] == [LEFT_OUT[0]] * 3 + [LEFT_OUT[1]] * 2
    assert [(c.op, c.dtype, c.iteration) for _, c in apart[3:]] == [("broadcast", "int32", 2)] * 2
    assert [c.seq for c in calls] == list(range(1, len(calls) + 1))


FORWARDS: Final = "rank 0 ran 2 forward passes and rank 1 got to its 3rd"
BATCHES: Final = "rank 0 had 2 batches and rank 1"
MISSED: Final = (["missing_call"], (), "CT204", FORWARDS)
CROSSED: Final = (["role_mismatch", "dtype_mismatch"], (1,), "CT201", BATCHES)
VERDICTS: Final[dict[tuple[int, str], tuple[list[str], tuple[int, ...], str, str]]] = {
    (2, "native"): MISSED,
    (3, "native"): MISSED,
    (3, "ones"): MISSED,
    (4, "native"): (["op_mismatch"], (1,), "CT201", BATCHES),
    (4, "zeros"): CROSSED,
    (4, "ones"): CROSSED,
    (5, "native"): (["op_mismatch"], (), "CT204", FORWARDS),
    (5, "zeros"): (["shape_mismatch"], (), "CT204", FORWARDS),
}
"""By case and barrier: kinds of errors; suspects, code and words of the first."""


def run(ranks: Ranks, case: int, barrier: str, seconds: float) -> Ran:
    logs = ranks._folder / f"run{ranks._runs + 1}" / "logs"
    return ranks._submit(
        Request(
            script=str(SCRIPT),
            argv=(str(case), "--barrier", barrier, "--batches", "2", "--timeout", str(seconds),
                  "--log-dir", str(logs)),
            ranks=2, limit=2 * seconds, kill_after=None, output="", mode="bare",
        )
    )  # fmt: skip


def ended(status: int | None) -> str:
    if status is None:
        return "hung"
    return "finished" if status == 0 else ("raised" if status > 0 else "aborted")


TRACES: Final = {
    (1, "native"): CASE_1,
    (2, "native"): CASE_2,
    (3, "native"): CASE_3,
    (3, "ones"): CASE_3,
    (4, "native"): CASE_4,
    (4, "zeros"): CASE_4_ZEROS,
    (4, "ones"): CASE_4_ONES,
    (5, "native"): CASE_5,
    (5, "zeros"): CASE_5,
    (6, "native"): CASE_6,
    (6, "ones"): CASE_6,
}
"""By case and barrier."""


@pytest.fixture(scope="module")
def ran(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], Ran]:
    """Runs a case, once for all tests."""
    ranks = Ranks(server, tmp_path_factory.mktemp("cases"))

    @cache
    def once(case: int, barrier: str) -> Ran:
        hangs = case == 5 or (case == 4 and barrier == "native")
        return run(ranks, case, barrier, 18 if hangs else 60)

    return once


@pytest.mark.parametrize(("case", "barrier"), TRACES)
def test_the_documents_trace(case: int, barrier: str, ran: Callable[[int, str], Ran]) -> None:
    left = ran(case, barrier)
    output = "\n".join(left.output(rank) for rank in range(2))
    assert tuple(map(ended, left.exits)) == known_outcomes(case, barrier), output
    for rank, expected in enumerate(table(TRACES[case, barrier], barrier)):
        log = left.log(rank)
        check_left_out(log)
        found = [recorded(c) for c in log.calls if c.role not in LEFT_OUT]
        # An all-reduce of unequal bytes may let a rank of gloo go on before the other aborts.
        goes_on = case == 4 and barrier != "native"
        if goes_on:
            found = found[: len(expected)]
        for row, (one, other) in enumerate(zip_longest(found, expected)):
            assert one == other, f"rank {rank}, row {row}"


@pytest.mark.parametrize(("case", "barrier"), TRACES)
def test_verdict(case: int, barrier: str, ran: Callable[[int, str], Ran]) -> None:
    alignment = align(ran(case, barrier).logs)
    errors = [finding for finding in alignment.findings if finding.severity == "error"]
    if (case, barrier) not in VERDICTS:
        assert (errors, alignment.exit_status) == ([], 0)
        return
    kinds, suspects, code, cause = VERDICTS[case, barrier]
    assert [finding.kind for finding in errors] == kinds
    assert alignment.exit_status == 1
    first, *others = errors
    assert (first.code, first.suspects) == (code, suspects)
    assert cause in first.cause
    assert "join_cases.py:" in first.headline
    for consequence in others:
        assert (consequence.caused_by, consequence.code) == (0, "CT901")
        dtypes = {side.call.dtype for side in consequence.sides if side.call is not None}
        assert dtypes == {"int64", "float32"}


@pytest.mark.parametrize(("barrier", "fatal"), [("zeros", 2), ("ones", 3)])
def test_the_root_is_the_barrier_and_the_bytes_differ_later(
    barrier: str, fatal: int, ran: Callable[[int, str], Ran]
) -> None:
    zero, one = (ran(4, barrier).calls(rank) for rank in range(2))
    pairs = list(zip(zero, one, strict=False))
    root = next(n for n, (a, b) in enumerate(pairs) if a.program != b.program)
    assert (zero[root].role, one[root].role) == ("join.count_nonjoined", "user")
    assert recorded(one[root]).line == "dist.barrier()"
    wire = next(n for n, (a, b) in enumerate(pairs) if a.digest != b.digest)
    assert wire == root + fatal - 1
    assert {zero[wire].dtype, one[wire].dtype} == {"int64", "float32"}

"""The six cases that started this project, as real ranks: recorded, aligned, judged."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
import torch.distributed as dist

from collectrace.align import align
from tests.support.real_ranks import Ranks
from tools.join_cases import BARRIER_HOLDS, known_outcomes, train

EXITS = {"finished": 0, "raised": 1, "aborted": -6}
UNEVEN = "rank 0 ran 5 forward passes and rank 1 got to its 6th"
BATCHES = "rank 0 had 5 batches and rank 1"
CODES = {2: "CT204", 3: "CT204", 4: "CT201", 5: "CT204"}


def run(number: int, barrier: str) -> None:
    # As patient as needed to start on a busy machine; half of the cases end by this timeout.
    patience = timedelta(seconds=6)
    dist.init_process_group("gloo", timeout=patience)
    train(number, 5, BARRIER_HOLDS[barrier])
    # Without a goodbye, as the script leaves: the other rank's batch meets a closed connection.
    if known_outcomes(number, barrier) == ("finished", "finished"):
        dist.destroy_process_group()
    else:
        print("finished on rank", os.environ["RANK"])


@pytest.mark.parametrize(
    ("number", "barrier", "kinds", "suspects", "cause"),
    [
        (1, "native", [], (), ""),
        (2, "native", ["missing_call"], (), UNEVEN),
        (3, "native", ["missing_call"], (), UNEVEN),
        pytest.param(3, "zeros", ["missing_call"], (), UNEVEN, marks=pytest.mark.slow),
        (4, "native", ["op_mismatch"], (1,), BATCHES),
        (4, "zeros", ["role_mismatch", "dtype_mismatch"], (1,), BATCHES),
        (4, "ones", ["role_mismatch", "dtype_mismatch"], (1,), BATCHES),
        pytest.param(5, "native", ["op_mismatch"], (), UNEVEN, marks=pytest.mark.slow),
        (5, "ones", ["shape_mismatch"], (), UNEVEN),
        (6, "native", [], (), ""),
        pytest.param(6, "ones", [], (), "", marks=pytest.mark.slow),
    ],
)
def test_verdict(
    number: int, barrier: str, kinds: list[str], suspects: tuple[int, ...], cause: str, ranks: Ranks
) -> None:
    ends = [EXITS[end] for end in known_outcomes(number, barrier)]
    logs = ranks.run(run, 2, number, barrier, init=False, exits=(ends[0], ends[1])).logs
    alignment = align(logs)
    errors = [finding for finding in alignment.findings if finding.severity == "error"]
    assert [finding.kind for finding in errors] == kinds
    assert alignment.exit_status == (1 if kinds else 0)
    for finding in errors[:1]:
        assert (finding.code, finding.suspects) == (CODES[number], suspects)
        assert cause in finding.cause
        assert "join_cases.py:" in finding.headline
    for consequence in errors[1:]:
        assert (consequence.caused_by, consequence.code) == (0, "CT901")
        dtypes = {side.call.dtype for side in consequence.sides if side.call is not None}
        assert dtypes == {"int64", "float32"}

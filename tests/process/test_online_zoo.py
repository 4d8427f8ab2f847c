"""The collection's mistakes, told by the jobs themselves: no rank sees another's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from collectrace.align import align
from tests.support import torch_names
from tests.support.apart import gather
from tests.zoo import corpus
from tests.zoo.case import Case
from tests.zoo.runner import Server, is_busy

ONLINE: Final = {"COLLECTRACE_ONLINE": "1"}

TOLD: Final = "the whole report: "
"""Ends what the rank prints that has diagnosed."""

USUAL: Final = {
    "join/barrier_inside",
    "matching/missing_on_one_rank",
    "p2p/ring_receives_first",
    "stopped/exception",
}
"""One of each way to be found; the others take minutes."""

UNTOLD: Final = {
    # Nobody waits, and the digests that ranks compare say nothing of it.
    "ddp/two_models_swapped_late",
    "groups/created_in_other_order",
    "loops/step_of_pipeline",
    "p2p/dtype_differs",
    "p2p/size_differs",
    "threads/daemon_left_waiting",
    # One raises for a reason of its own, or is done, and of its peer nothing is known.
    "join/nccl_barrier_inside_zeros",
    "stopped/late_and_alone",
    # They end before they meet, or by a signal to all.
    "stopped/before_init",
    "stopped/ended_by_the_scheduler",
    "stopped/sigterm_to_the_others",
}

WAITED_SHORTLY: Final = "CT318"
"""The logs end before a wait is long enough to prove anything."""

SILENT: Final = {
    "stopped/gil_held",
    "stopped/os_exit",
    "stopped/sigstop_before_the_call",
    "stopped/sigstop_inside_the_call",
}
"""One rank cannot answer, and what it did is in its file alone."""


def mistakes() -> Iterator[Case]:
    """Those whose ranks all are there to tell, and can."""
    for case in (run.case for run in corpus.runs() if not run.twin):
        is_apart = case.untraced or case.lost_logs or case.kill_after or case.interrupt_after
        if not case.is_error or case.synthetic or is_apart or torch_names.lacking(case.source):
            continue
        if case.name not in UNTOLD:
            yield case


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in USUAL else pytest.mark.slow)
        for case in mistakes()
    ],
)
def test_a_job_tells_what_its_files_tell(case: Case, server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with server.run(
        case, twin=False, folder=folder, apart=True, options=ONLINE,
        until_said=TOLD, patience=60,
    ) as outcome:  # fmt: skip
        said = " ".join(" ".join(outcome.output(rank).split()) for rank in range(case.ranks))
        found = align(gather(outcome.logs, tmp_path / "together")).findings[0]
        aborted = any(status is not None and status < 0 for status in outcome.exits)
    if TOLD not in said and is_busy():
        pytest.skip("ranks that end stay for 15 s, and this machine had no diagnosis by then")
    assert TOLD in said
    if aborted or case.name in SILENT:
        # What such a rank did last, its file alone knows; the others may know enough.
        assert "does not answer" in said or found.kind in said
    elif found.code == WAITED_SHORTLY:
        # Ranks that ask each other know a cycle of waits at once. Their files show it by how long
        # they wait, and the job was ended as soon as it had told.
        assert "error[CT" in said
    else:
        assert " ".join(found.headline.split()) in said

"""What headlines say of ranks that made a call, and of those that did not."""

from __future__ import annotations

from pathlib import Path

from collectrace.align.alignment import align
from tests.support.marks import Script
from tests.support.synthetic import Run

CAUGHT = """\
for step in range(9):
    try:
        grad = parse(sample())
        dist.all_reduce(grad)  # GRAD
    except Exception:
        continue
"""


def test_ranks_that_caught_the_failure_of_their_call_wait_no_more(tmp_path: Path) -> None:
    script, run = Script(tmp_path, CAUGHT), Run(3)
    for _ in range(3):
        for rank in run:
            rank.call("all_reduce", **script.at(rank, "GRAD"))
    for rank in (run.rank(0), run.rank(2)):
        call = rank.call("all_reduce", **script.at(rank, "GRAD"))
        rank.done(call.seq, error="RuntimeError: Connection closed by peer")
    run.finish()
    run.write(tmp_path / "logs")
    headline = align(tmp_path / "logs").findings[0].headline
    assert headline == "rank 1 finished without all_reduce (job.py:4); ranks 0,2 waited there"

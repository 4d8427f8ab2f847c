"""Where the excerpt shows that a rank was before a call that it reached late."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.align import align
from tests.support.marks import Script
from tests.support.synthetic import Run

TRAIN = """\
for step in range(9):
    dist.all_reduce(x)  # STEP
    dist.barrier()  # BEFORE
    prepare()  # BUSY
    dist.all_reduce(y)  # MINE
    dist.broadcast(z, src=0)  # THEIRS
"""


@pytest.mark.parametrize(("at", "shown"), [("BUSY", True), ("BEFORE", False)])
def test_a_stall_is_shown_unless_it_was_in_the_call_before(
    at: str, shown: bool, tmp_path: Path
) -> None:
    """A rank that waited for others in the call before was not late itself."""
    script, run = Script(tmp_path, TRAIN), Run(3)
    for mark, op in (("STEP", "all_reduce"), ("BEFORE", "barrier")):
        for rank in run:
            rank.call(op, **script.at(rank, mark))
    line = next(n for n, text in enumerate(TRAIN.splitlines(), 1) if text.endswith(at))
    run.rank(1).wait(60)
    run.rank(1).stall(stacks={"MainThread": [f"{script.path}:{line} <module>"]})
    for rank in run:
        mark, op = ("MINE", "all_reduce") if rank.rank == 1 else ("THEIRS", "broadcast")
        rank.stuck_in(rank.call(op, **script.at(rank, mark)))
    found = align(run.write(tmp_path / "logs")).findings[0]
    notes = [note for one in found.excerpt or () for row in one.lines for note in row.notes]
    assert any(note.startswith("rank 1 was here") for note in notes) is shown

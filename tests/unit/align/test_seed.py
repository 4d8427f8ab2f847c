"""The made-up runs of the six cases that started this project, and the script they follow.

Their verdicts are those of the runs that are recorded, and made: tests/process/test_join_cases.py.
"""

from __future__ import annotations

from pathlib import Path

from collectrace.records import Stack
from tests.support import seed_cases
from tests.support.judging import aligned
from tests.support.seed_cases import AFTER, BACKWARD, INSIDE, SCRIPT


def test_without_the_script_no_loop_is_blamed(tmp_path: Path) -> None:
    """That a line stands after the loop can be read in the script only."""
    run = seed_cases.case(5)
    for rank in run:
        for item in rank.items:
            if getattr(item, "site", None):
                item.site = item.site.replace(str(SCRIPT), "/job/train.py")  # type: ignore[union-attr]
            if isinstance(item, Stack):
                item.frames = [one.replace(str(SCRIPT), "/job/train.py") for one in item.frames]
    first = aligned(run, tmp_path).findings[0]
    assert (first.kind, first.suspects, first.decisions) == ("op_mismatch", (), None)
    assert first.sources == ()


def test_the_lines_are_those_of_the_script() -> None:
    lines = SCRIPT.read_text().splitlines()
    there = [
        lines[int(site.rpartition(":")[2]) - 1]
        for site in (seed_cases.JOIN, seed_cases.FORWARD, BACKWARD, INSIDE, AFTER)
    ]
    for line, text in zip(
        there, ("join()", "model(batch)", "backward()", "barrier()", "barrier()"), strict=True
    ):
        assert text in line

"""Facts about what ranks were doing: exceptions that they handled."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.records import HANDLED, Raised
from tests.support.judging import judged
from tests.support.synthetic import Run


@pytest.mark.parametrize(
    ("odd", "suspects"),
    [
        pytest.param({0: [4]}, (), id="one call of the other rank differs"),
        pytest.param({0: [2]}, (), id="the other rank leaves what it had always made at its line"),
        pytest.param({1: [2]}, (1,), id="its first call in the handler differs"),
        pytest.param({1: [4]}, (), id="one of its calls in the handler differs"),
        pytest.param({1: [2, 4, 6]}, (1,), id="all of its calls in the handler differ"),
    ],
)
def test_who_handled_an_exception_is_blamed_if_that_explains_the_difference(
    odd: dict[int, list[int]], suspects: tuple[int, ...], tmp_path: Path
) -> None:
    run = Run(world=2)
    for step in range(1, 8):
        for rank in run:
            is_handling = rank.rank == 1 and step % 2 == 0
            if is_handling:
                rank.record(Raised(what=HANDLED, error="ValueError", message="", site="job.py:9"))
            dtype = "int8" if step in odd.get(rank.rank, ()) else "float32"
            rank.call("all_reduce", site=f"job.py:{25 if is_handling else 23}", dtype=dtype)
    run.finish()
    assert judged(run, tmp_path)[0].suspects == suspects

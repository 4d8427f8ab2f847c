"""A line that made a call on some ranks only is said to make it, not to compute a value."""

from __future__ import annotations

import pytest

from tests.zoo import corpus
from tests.zoo.verdict import recorded


@pytest.mark.parametrize(
    "name",
    [
        "loops/hook_of_another_kind",
        "matching/meter_formatted_on_one_rank",
        "sharded/block_run_by_itself",
    ],
)
def test_a_line_that_made_a_call_computes_no_value(name: str) -> None:
    run = next(one for one in corpus.runs() if one.name == name)
    found = recorded(run, corpus.index()[name]).finding
    assert found is not None
    assert found.code == "CT106"
    assert "The result of" not in found.cause
    assert found.fix.startswith("Make what")

"""Of generated programs, the statement that decided is always among those found."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.unit.align.code import generated, standin


# A generated generator may yield once more while it is closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(
    max_examples=100, deadline=None, database=None,
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large
    ],
)  # fmt: skip
@given(generated.programs(), st.integers(0, 1 << 20), st.data())
def test_the_statement_that_decided_is_found(text: str, seed: int, data: st.DataObject) -> None:
    try:
        one = generated.execute(text, generated.World(seed))
        assume(one.asked)
        asked = data.draw(st.sampled_from(one.asked))
        two = generated.execute(text, generated.World(seed, asked[0]))
    except generated.StopLongRuns:
        assume(False)
    found = standin.difference([one.run, two.run])
    assume(found is not None)
    assert found is not None
    answer = standin.answer(generated.PATH, text, found[:2])
    lines = {decision.site.line for decision in answer.decisions}
    assert not answer.gaps, answer
    assert lines & generated.deciding(text, one, two, found[:2]), (found, answer)

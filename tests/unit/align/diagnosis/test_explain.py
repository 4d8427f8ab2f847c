"""The table of what words a candidate of each kind."""

from __future__ import annotations

from collectrace.align.diagnosis.explain import EXPLAINERS
from collectrace.findings import KINDS


def test_every_kind_that_can_be_an_error_has_its_words() -> None:
    assert EXPLAINERS.keys() == {kind for kind, row in KINDS.items() if row.status is not None}

"""The step that a refused call's number and digests go back by."""

from __future__ import annotations

from collectrace.signature import BASE, PRIME, extend
from collectrace.tracer.record.recorder import _INVERSE


def test_a_step_is_undone() -> None:
    digest = 12345
    for step in (0, 1, PRIME - 1, 987654321):
        after = extend(digest, step)
        assert (after - step) * _INVERSE % PRIME == digest
        digest = after
    assert BASE * _INVERSE % PRIME == 1

"""Which tests of the rules run by default."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

_HERE: Final = Path(__file__).parent

_RULES: Final = _HERE / "judging", _HERE / "diagnosis"

_ALWAYS: Final = frozenset({
    "test_callers.py", "test_case.py", "test_conflict.py", "test_explain.py",
    "test_framework_fixes.py", "test_inputs.py", "test_join.py", "test_passed_on.py",
    "test_raised_alike.py", "test_rank_words.py", "test_reach.py", "test_refusals.py",
    "test_undelivered.py",
})  # fmt: skip
"""What they test is no single rule."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests that pin the inner workings of one rule to ``--slow``.

    The recorded runs of tests/corpus judge what the rules answer together.
    """
    for item in items:
        is_rule = any(item.path.is_relative_to(folder) for folder in _RULES)
        if is_rule and item.path.name not in _ALWAYS:
            item.add_marker(pytest.mark.slow)

"""What holds for every test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

# How long an example takes is the machine's business, which others use as well.
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits longest begins first: the case collection, then all else with processes."""
    items.sort(key=lambda item: (item.path.name != "test_zoo.py", "unit" in item.path.parts))

"""What holds for every test."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is the machine's business, which others use as well.
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests share a worker, and in which order they begin.

    A file's tests share one, for they share its set-up, unless the file groups them itself. What
    waits longest begins first: the case collection, then all else with processes.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    items.sort(key=lambda item: (item.path.name != "test_zoo.py", "unit" in item.path.parts))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what a quick run leaves out."""
    if config.option.markexpr == "not slow":
        terminalreporter.write_line(
            "live runs were a sample: of the case collection (tests/zoo/sample.py), of generated "
            "programs and of what is asked online; the rest was judged from tests/corpus. "
            "tools/test --slow runs all of it."
        )

"""What holds for every test."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.zoo.runner import share

# How long an example takes is the machine's business, which others use as well. One commit has one
# result; `tools/test --slow` looks for examples that nobody has seen.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "same each time", settings.get_profile("explore"), derandomize=True, database=None
)
settings.load_profile("same each time")


_frozen: set[Path] = set()
"""Modules before whose tests the objects of this process were frozen."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let collections of garbage pass over what earlier modules left: logs, trees and verdicts.

    They took a third of the time of tests that collect garbage themselves.
    """
    if item.path not in _frozen:
        _frozen.add(item.path)
        gc.collect(1)
        gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Have workers fork ranks from one server: each of its own would import torch once more."""
    is_controller = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if is_controller and not config.option.collectonly:
        config.add_cleanup(partial(share().__exit__, None, None, None))


def unit_of(nodeid: str) -> str:
    """Which tests one worker runs: those of a file, for they share its set-up.

    Recorded runs share none: there each class of them is a unit.
    """
    file, _, test = nodeid.partition("::")
    if file == "tests/corpus/test_verdicts.py":
        return f"{file} {test.partition('[')[2].partition('/')[0]}"
    return file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = unit_of
    return scheduler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Weave tests that wait for processes into those that compute, so that both cores are busy.

    The case collection, which takes longest, begins; tests that compute are left for the end.
    """
    items.sort(key=lambda item: item.path.name != "test_zoo.py")
    waiting: dict[str, list[pytest.Item]] = {}
    computing: dict[str, list[pytest.Item]] = {}
    for item in items:
        waits = not {"unit", "corpus"} & set(item.path.parts)
        (waiting if waits else computing).setdefault(unit_of(item.nodeid), []).append(item)
    share = 0.75 * len(computing) / max(1, len(waiting))
    others = iter(computing.values())
    woven: list[pytest.Item] = []
    for n, unit in enumerate(waiting.values()):
        woven += unit
        for _ in range(int((n + 1) * share) - int(n * share)):
            woven += next(others)
    for unit in others:
        woven += unit
    items[:] = woven


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

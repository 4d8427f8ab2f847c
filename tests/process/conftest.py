from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_ranks import Ranks
from tests.zoo.runner import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture
def ranks(server: Server, tmp_path: Path) -> Ranks:
    return Ranks(server, tmp_path)

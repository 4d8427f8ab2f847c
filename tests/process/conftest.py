from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.real_ranks import Ranks
from tests.zoo.runner import Server, shared


@pytest.fixture(scope="session")
def server() -> Server:
    return shared()


@pytest.fixture
def ranks(server: Server, tmp_path: Path) -> Ranks:
    return Ranks(server, tmp_path)

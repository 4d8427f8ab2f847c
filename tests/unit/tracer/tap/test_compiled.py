"""Without kernels in C++ for this very torch, those in Python are used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from collectrace.tracer.tap import compiled


@pytest.fixture(autouse=True)
def _asked_again() -> Iterator[None]:
    compiled._module.cache_clear()
    yield
    compiled._module.cache_clear()


def test_a_file_that_was_built_for_another_torch_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_this = compiled.path()
    monkeypatch.setattr(torch.version, "git_version", "0123456789abcdef")
    assert compiled.path() != of_this
    assert "0123456789ab" in compiled.path().name
    assert compiled.tap(None) is None


def test_a_file_that_cannot_be_loaded_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / compiled.path().name
    built.write_bytes(b"\x7fELF, but not for this machine")
    monkeypatch.setattr(compiled, "path", lambda: built)
    assert compiled.tap(None) is None

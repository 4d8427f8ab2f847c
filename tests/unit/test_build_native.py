"""Nothing needs the code in C: what cannot be built or used leaves that in Python."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from collectrace.tracer.record import native, scopes
from tools import build_native


@pytest.mark.parametrize(
    ("compiler", "said"),
    [("/no/cc", "/no/cc: No such file or directory"), ("false", "false failed")],
)
def test_without_a_compiler_one_line_says_so(
    compiler: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CC", compiler)
    problem = build_native.build(tmp_path / "native.so")
    build_native.say(problem, "native.so")
    assert capfd.readouterr().err == f"collectrace: no code in C: {said}\n"
    assert not list(tmp_path.iterdir())


def test_a_local_that_is_not_the_threads_own_is_left_to_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scopes, "local", SimpleNamespace())
    assert native._built() is None

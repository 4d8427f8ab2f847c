"""Nothing needs the code in C: what cannot be built or used leaves that in Python."""

from __future__ import annotations

import os
from importlib.util import module_from_spec, spec_from_file_location
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


def test_the_hook_loads_without_being_registered_as_a_module() -> None:
    spec = spec_from_file_location("build_script", build_native.__file__)  # as hatchling does
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.target() == build_native.target()


def test_what_was_built_of_an_earlier_source_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "false")
    monkeypatch.setattr(build_native.Torch, "installed", lambda: "no torch")
    old = tmp_path / build_native.TAP.parent.relative_to(build_native.ROOT) / "_tap-1.0.so"
    for file in (old, tmp_path / build_native.target()):
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (0, 0))
    assert build_native.build_all(tmp_path) == []
    assert not [*tmp_path.rglob("*.so")]

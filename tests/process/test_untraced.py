"""``enable()`` that fails, whatever the reason: one line says so, and the job runs untraced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist

import collectrace
from collectrace.tracer.patches import patching, steps
from tests.support.real_ranks import ROOT, Ranks

WORK: Final = """
import torch, torch.distributed as dist
import collectrace
before = dist.all_reduce
collectrace.enable()
with collectrace.trace():
    collectrace.step()
collectrace.disable()
assert dist.all_reduce is before
print("ran")
"""


def said(path: Path, script: str = WORK) -> list[str]:
    """What a program printed that traces itself, with ``path`` in front of what is installed."""
    clean = {n: v for n, v in os.environ.items() if not n.startswith("COLLECTRACE")}
    found = os.pathsep.join(map(str, (path, ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=path,
        env=clean | {"PYTHONPATH": found},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


@pytest.fixture(scope="session")
def old_wrapt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last wrapt before 2.0, from the package index."""
    folder = tmp_path_factory.mktemp("wrapt")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    options = ["--retries=1", "--timeout=10", "--no-deps", f"--target={folder}"]
    done = subprocess.run(
        [*pip, *options, "wrapt<2"], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        pytest.skip(f"an old wrapt comes from the package index: {done.stderr[-200:]}")
    return folder


def test_a_wrapt_that_is_too_old(old_wrapt: Path) -> None:
    *told, last = said(old_wrapt)
    assert last == "ran"
    assert len(told) == 2  # enable(), and trace()
    for line in told:
        assert line.startswith("collectrace: not traced: wrapt is 1.")
        assert line.endswith("pip install --upgrade wrapt")


def test_a_dependency_that_is_not_there(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['orjson'] = None\n"
    *told, last = said(tmp_path, hidden + WORK)
    assert last == "ran"
    assert all(line.startswith("collectrace: not traced: ModuleNotFoundError: ") for line in told)


def works() -> None:
    exec(WORK)


def test_an_option_that_cannot_be_used(ranks: Ranks) -> None:
    env = {"COLLECTRACE_HEARTBEAT": "soon"}
    ran = ranks.run(works, 1, trace=False, init=False, env=env)
    *told, last = ran.output().splitlines()
    assert last == "ran"
    assert len(told) == 2
    assert all("not traced" in line and "HEARTBEAT='soon'" in line for line in told)


def broken(*_: object) -> Any:
    raise ValueError("some\ntext")


def half_installed(module: str, name: str) -> list[bool]:
    """A part of the tracer cannot be installed; what was before it is taken off again."""
    part = {"steps": steps, "patching": patching}[module]
    before = dist.all_reduce, dist.init_process_group, sys.excepthook
    whole = getattr(part, name)
    setattr(part, name, broken)
    collectrace.enable()
    same = [dist.all_reduce is before[0], dist.init_process_group is before[1]]
    same.append(sys.excepthook is before[2])
    dist.init_process_group("gloo")
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    same.append(tensor.tolist() == [2.0, 2.0])
    dist.destroy_process_group()
    setattr(part, name, whole)
    return same


@pytest.mark.parametrize(("module", "name"), [("steps", "install"), ("patching", "_importers")])
def test_a_part_that_cannot_be_installed(module: str, name: str, ranks: Ranks) -> None:
    ran = ranks.run(half_installed, 2, module, name, trace=False, init=False)
    for rank in range(2):
        assert ran.result(rank) == [True] * 4
        told = [line for line in ran.output(rank).splitlines() if "collectrace" in line]
        assert told == ["collectrace: not traced: ValueError: some text; please report it"]
    assert not ran.logs.exists()

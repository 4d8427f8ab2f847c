"""Ranks before whose libc stands ``shim.c``, and what it can be told there."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.zoo.runner import Server

_SOURCE: Final = Path(__file__).with_name("shim.c")


@contextmanager
def preloaded(folder: Path) -> Iterator[Server]:
    """A fork server whose processes have the shim; the test is skipped where none can be built."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc to build the shim with")
    library = folder / "shim.so"
    build = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
    if subprocess.run(build, capture_output=True, check=False).returncode:
        pytest.skip("the shim takes glibc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        server = Server().__enter__()
    try:
        yield server
    finally:
        server.__exit__(None, None, None)


@cache
def _shim() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.shim_move_clocks.argtypes = [ctypes.c_double, ctypes.c_double]
    library.shim_fail_writes.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long]
    return library


def fail_writes(below: Path, first: int, last: int) -> None:
    """Have some of the writes to files below a folder fail with EIO, counted from now on."""
    _shim().shim_fail_writes(os.fsencode(below.resolve()), first, last)


def move_clocks(*, wall: float = 0.0, monotonic: float = 0.0) -> None:
    """Let this process's clocks be so many seconds before what they are."""
    _shim().shim_move_clocks(wall, monotonic)

"""Commands in a process of their own, with as much memory and time as any input may cost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

MEMORY: Final = 1 << 30
_HANGS: Final = 300
"""Seconds after which a command hangs, on the busiest machine."""


def run(*argv: str | Path, cwd: Path) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error, which hold no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "collectrace", *map(str, argv)],
        cwd=cwd, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_HANGS, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1, 2, 3), done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    if done.returncode == 2:
        assert done.stderr.count("\n") == 1
    return done.returncode, done.stdout, done.stderr

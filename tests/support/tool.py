"""The tools of this project, run as a person would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.real_ranks import ROOT


def run(tool: str, *arguments: str | Path) -> tuple[int, str]:
    """Return the exit status of ``tools/<tool>.py``, and all that it printed."""
    ended = subprocess.run(
        [sys.executable, f"tools/{tool}.py", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout

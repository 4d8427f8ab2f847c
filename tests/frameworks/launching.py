"""Starts a program as its user does, and ends it with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PROGRAMS: Final = HERE / "programs"
ROOT: Final = HERE.parents[1]

BY_ITSELF: Final = frozenset({"ray"})
"""Frameworks whose programs start their own ranks."""

ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": "cpu",
    # Ray folds equal lines of its workers into one, and marks each line with its worker.
    "RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "0",
}  # fmt: skip
_GRACE: Final = 40.0
"""Seconds within which a launcher has ended its ranks."""


@contextmanager
def started(
    program: Path, folder: Path, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program on two ranks, in a new folder, where it writes ``output.txt``."""
    folder.mkdir()
    command = [sys.executable, str(program), *arguments]
    if program.name.partition("_")[0] not in BY_ITSELF:
        launcher = ["torch.distributed.run", "--nproc-per-node=2", "--standalone"]
        command[1:1] = ["-m", *launcher]
    path = (str(ROOT), str(PROGRAMS), os.environ.get("PYTHONPATH", ""))
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ
            | ENVIRONMENT
            | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
            | (env or {}),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Launchers end their ranks when they are asked to end."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(sign)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue


def output(folder: Path) -> str:
    """What a program printed."""
    return (folder / "output.txt").read_text(errors="replace")


def complaints(printed: str) -> list[str]:
    """What the tracer printed beside where it records."""
    own = [line for line in printed.splitlines() if "collectrace: " in line]
    return [line for line in own if "collectrace: recording to " not in line]

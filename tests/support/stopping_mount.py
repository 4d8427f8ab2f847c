"""A file system in user space that a test can stop: bindfs, in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_PATIENCE: Final = 60.0


@dataclass(frozen=True)
class StoppingMount:
    """``folder`` shows what lies in ``behind``, as long as ``server``, a process, runs."""

    folder: Path
    behind: Path
    server: int

    @property
    def is_stopped(self) -> bool:
        return Path(f"/proc/{self.server}/stat").read_text().rpartition(") ")[2][0] == "T"

    def go_on(self) -> None:
        os.kill(self.server, signal.SIGCONT)


@contextmanager
def mounted(at: Path) -> Iterator[StoppingMount]:
    """Skips the test where there can be none."""
    if shutil.which("bindfs") is None or os.getuid() or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("needs bindfs, /dev/fuse and root: apt-get install bindfs")
    folder, behind = at / "mount", at / "behind"
    folder.mkdir()
    behind.mkdir()
    server = subprocess.Popen(["bindfs", "-f", str(behind), str(folder)])
    until = time.monotonic() + _PATIENCE
    while not os.path.ismount(folder):
        if server.poll() is not None:
            pytest.skip("bindfs cannot mount anything here")
        assert time.monotonic() < until
        time.sleep(0.05)
    try:
        yield StoppingMount(folder, behind, server.pid)
    finally:
        server.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
        server.kill()
        server.wait(_PATIENCE)

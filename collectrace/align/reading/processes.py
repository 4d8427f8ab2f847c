"""Check whether a traced process exists now, on its own host."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from collectrace.align.reading.rank_log import RankLog

_SLACK: int = 2_000_000_000
"""ns by which two measures of a process's start may differ."""

_SEEN: int = 60_000_000_000
"""ns after which every host that sees the file sees a complete line."""


def still_exists(log: RankLog) -> bool | None:
    """Return whether the process that wrote a log exists now; None if it ran on another host."""
    header = log.header
    if not header.host or header.host != platform.node() or header.pid <= 0:
        return None
    try:
        fields = Path(f"/proc/{header.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines()
            if line.startswith("btime")
        )
        state, started = fields.split()[0], int(fields.split()[19])
    except FileNotFoundError:
        return False if Path("/proc/self/stat").exists() else None
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    began = boot * 1_000_000_000 + started * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    # A zombie does not run; a process younger than the log has reused the number.
    return state not in "ZX" and began <= header.wall + _SLACK


def is_over(log: RankLog, exists: bool | None) -> bool:
    """Return whether a log will not grow, so that an incomplete last line stays incomplete.

    ``exists``: whether its process exists.
    """
    written = log.header.wall - log.header.t + log.last_t
    pause = max(_SEEN, round(log.header.heartbeat * 2e9))
    return exists is False or time.time_ns() - written >= pause

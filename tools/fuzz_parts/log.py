"""A log folder that is being harmed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

from collectrace.log_folder import RANK_FILE

Edit = Callable[["Log", random.Random], str | None]


class Log:
    """The files of a log, by path, that edits change in place."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.forged: dict[int, set[bytes]] = {}
        """By rank, the lines of a call that was changed together with all digests behind it."""

    def logs(self) -> list[str]:
        """Return the paths of rank files and dumps that are not empty."""
        return [p for p in sorted(self.files) if self.files[p] and rank_of(p) is not None]

    def any(self, random_: random.Random) -> str | None:
        """Return the path of a file: mostly one of a rank's."""
        among = self.logs() if random_.random() < 0.9 else [p for p in self.files if self.files[p]]
        return random_.choice(among) if among else None


def rank_of(path: str) -> int | None:
    """Return the rank whose file or dump has this path; None: it is no such file."""
    name = path.rpartition("/")[2]
    found = RANK_FILE.fullmatch(name) or re.fullmatch(r"nccl_trace_rank_(\d+)", name)
    return int(found[1]) if found else None


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of a file, each with its newline."""
    return data.splitlines(keepends=True)

"""The layout of a log folder: names of runs, and of the files of their ranks."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final, Protocol

STAMP: Final = "%Y%m%d-%H%M%S"
"""The format of the start time, in UTC, at the beginning of a run's id."""

RUN_ID: Final = re.compile(r"(\d{8}-\d{6})-[0-9a-f]{6}")
"""Ids that the tracer makes: the start of the run, by which they sort, and random digits."""

PENDING: Final = "pending"
"""The folder of the files of ranks that have not returned from ``init_process_group``. Also the id
of a run that has no other files."""

SOURCES: Final = "sources"
"""The folder beside the rank files of a run that holds the program's text."""

SOURCE_FILE: Final = re.compile(r"([0-9a-f]{64})\.py")
"""SHA-256 of what the file holds."""

PART: Final = re.compile(r"\.collectrace-[0-9a-f]+\.part")
"""A file that is being written. It is renamed when it is complete."""

RANK_FILE: Final = re.compile(r"rank(\d{1,9})(?:\.(\d{1,9}))?\.jsonl")
"""Rank, and ordinal of a segment; the first segment has none."""


SPOOLS: Final = "collectrace-spool"
"""The beginning of the name of a local folder for spools. The name of the user follows."""

LOOK: Final = "look"
TOLD: Final = "told"
QUIET: Final = "quiet"
"""The marks of a look at the files of all ranks. It has begun; it has ended, and an error was
printed; it has ended, and nothing was printed."""


def look_file(number: int, mark: str) -> str:
    """``verdict.0001.look``: the file that stands for a mark of the n-th look, from 1."""
    return f"verdict.{number:04d}.{mark}"


def is_source(path: PurePath) -> bool:
    """Return whether a path is that of a recorded source file."""
    return path.parent.name == SOURCES and SOURCE_FILE.fullmatch(path.name) is not None


def rank_file(rank: int) -> str:
    """Return the name of a rank's first segment: ``rank00000.jsonl``."""
    return f"rank{rank:05d}.jsonl"


class Blob(Protocol):
    """One file."""

    @property
    def name(self) -> str:
        """Path relative to the folder that was opened, with ``/``."""

    @property
    def size(self) -> int:
        """Size when it was listed, bytes; a live file may have grown since."""

    def read(self, start: int, stop: int) -> bytes:
        """Return bytes ``start`` .. ``stop - 1``; fewer if the file ends before."""

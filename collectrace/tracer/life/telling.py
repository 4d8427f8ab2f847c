"""Print messages of the tracer to the person at the terminal.

They go to standard error, as logging may be configured to go anywhere.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def announce(folder: Path) -> None:
    """Print the folder of the run's record, and the command that reads it."""
    say(f"recording to {folder}. If the job hangs or fails, run: {_command(folder)}")


def tell(rank: int | None, what: str, folder: Path | None) -> None:
    """Print what has happened to a rank, and the command that explains it.

    ``rank`` may be unknown (None). ``folder`` is that of the record; None: there is none.
    """
    who = "this process" if rank is None else f"rank {rank}"
    say(f"{who} {what}" + ("" if folder is None else f". To see why, run: {_command(folder)}"))


def _command(folder: Path) -> str:
    return f"python -m collectrace align {folder}"


def say(what: str) -> None:
    """Print a line to standard error, if possible."""
    with contextlib.suppress(Exception):  # it may be closed, missing, or an object of the program
        sys.stderr.write(f"collectrace: {what}\n")
        sys.stderr.flush()

"""What the tracer says to the person at the terminal, in a line of its own.

On standard error: logging may be configured to go anywhere.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def announce(folder: Path) -> None:
    """Say where the run is recorded, and the command for when it is needed."""
    say(f"recording to {folder}. If the job hangs or fails, run: {_command(folder)}")


def tell(rank: int | None, what: str, folder: Path | None) -> None:
    """Say what has happened to a rank, and the command that tells why.

    ``rank``: None where it is not known; ``folder``: where the record is; None: there is none.
    """
    who = "this process" if rank is None else f"rank {rank}"
    say(f"{who} {what}" + ("" if folder is None else f". To see why, run: {_command(folder)}"))


def _command(folder: Path) -> str:
    return f"python -m collectrace.align {folder}"


def say(what: str) -> None:
    """Say something, if there is anywhere to say it."""
    with contextlib.suppress(Exception):  # it is closed, there is none, or it is the program's own
        sys.stderr.write(f"collectrace: {what}\n")
        sys.stderr.flush()

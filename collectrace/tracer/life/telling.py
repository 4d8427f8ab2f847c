"""What the tracer says to the person at the terminal, in a line of its own."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def tell(what: str, folder: Path) -> None:
    """Say what has happened, and the command that tells why; ``folder``: where the record is.

    On standard error: logging may be configured to go anywhere.
    """
    line = f"collectrace: {what}. Why: python -m collectrace.align {folder}\n"
    with contextlib.suppress(OSError, ValueError, AttributeError):  # there may be none
        sys.stderr.write(line)

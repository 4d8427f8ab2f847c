"""Common parts of the processes that a traced rank starts beside its job.

They use little of the machine, always end, and print nothing by accident.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collectrace.findings import Alignment

WIDTH: Final = 100
"""Columns of the report, because standard error may not be a terminal."""

_LONGEST_HEAD: Final = 30_000
"""Characters that are printed."""

_LONGEST: Final = 55
"""Seconds after which such a process ends itself."""

_MOST_MEMORY: Final = 4 << 30
"""Limit of its address space, bytes."""


def be_modest() -> int:
    """Limit this process, and return a descriptor of the original standard error.

    Raises:
        OSError: there is no standard error.

    """
    screen = os.dup(2)
    os.set_inheritable(screen, False)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the program may have had it ignored, or blocked
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(_LONGEST)
    os.environ["COLUMNS"] = str(WIDTH)
    with contextlib.suppress(OSError):
        os.nice(10)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, resource.RLIM_INFINITY))
    return screen


def head(alignment: Alignment, findings: Sequence[int], width: int = WIDTH) -> str:
    """Return the head of a report: the findings with these indices."""
    from rich.console import Console

    from collectrace.report import terminal

    out = io.StringIO()
    terminal.render_head(alignment, Console(file=out, width=width), findings)
    return out.getvalue()[:_LONGEST_HEAD].rstrip()


def show(text: str, screen: int) -> None:
    """Write to a descriptor in few pieces, because other ranks write to the same terminal."""
    data = text.encode(errors="replace")
    with contextlib.suppress(OSError):  # nobody reads it any more
        while data:
            data = data[os.write(screen, data) :]

"""The verbs of the command line, one file each; with :mod:`collectrace.cli` where wings meet.

Each imports what it needs when it is executed: ``--help`` and a mistyped path answer at once.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final, Protocol, TextIO

from collectrace.commands import (
    align,
    diff,
    docs,
    doctor,
    explain,
    gather,
    import_,
    redact,
    run,
    runs,
    schema,
    show,
)


class Command(Protocol):
    """What the module of a verb holds."""

    __doc__: str | None
    """What ``--help`` says: what it does, an empty line, then what stands behind the options."""

    HELP: str
    """What it does, in a few words."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare its arguments."""

    def execute(
        self, arguments: Namespace, stdout: TextIO, stderr: TextIO
    ) -> int | Callable[[], int]:
        """Do it.

        Returns:
            An exit status; or what is left to do, which then has the process for itself and
            gives one.

        Raises:
            CollectraceError: what a person can mend.
            OSError: what could not be read.

        """


COMMANDS: Final[dict[str, Command]] = {
    "run": run,
    "align": align,
    "explain": explain,
    "runs": runs,
    "show": show,
    "diff": diff,
    "gather": gather,
    "import": import_,
    "redact": redact,
    "doctor": doctor,
    "schema": schema,
    "docs": docs,
}

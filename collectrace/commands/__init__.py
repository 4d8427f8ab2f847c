"""The commands of the command line, one file each.

Each imports what it needs when it is executed, so that ``--help`` and a mistyped path answer at
once.
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
    """What the module of a command holds."""

    __doc__: str | None
    """The text of ``--help``: what the command does, an empty line, the text after the options."""

    HELP: str
    """What the command does, in a few words."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare its arguments."""

    def execute(
        self, arguments: Namespace, stdout: TextIO, stderr: TextIO
    ) -> int | Callable[[], int]:
        """Run the command.

        Returns:
            An exit status; or a function that the caller runs last, and that returns one.

        Raises:
            CollectraceError: a problem that the user can solve.
            OSError: a file could not be read.

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

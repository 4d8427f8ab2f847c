"""Commands, run in this process."""

from __future__ import annotations

import io
import re
from typing import Final

from collectrace import cli


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def run(*argv: str) -> tuple[int, str, str]:
    """Return the exit status, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    status = cli.main(argv, out, err)
    return status, out.getvalue(), err.getvalue()


UNDECIDED: Final = re.compile(r"Exit status 3\.\n(collectrace explain CT(318|9..) .*\n)?\Z")
"""How a report ends that cannot show that all is well: a rank may yet come, or is slow."""

"""Commands, run in this process."""

from __future__ import annotations

import io

from collectrace import cli


def run(*argv: str) -> tuple[int, str, str]:
    """Return the exit status, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    status = cli.main(argv, out, err)
    return status, out.getvalue(), err.getvalue()

"""Add the report, as Markdown, to the page of a GitHub Actions job.

The runner shows what a step appends to the file named by ``GITHUB_STEP_SUMMARY``, up to 1 MiB:
https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from collectrace import internal
from collectrace.commands import output

if TYPE_CHECKING:
    from collectrace.findings import Alignment

VARIABLE: Final = "GITHUB_STEP_SUMMARY"
_MOST: Final = 1 << 19
"""Limit of one report, bytes: the step may write more, and GitHub shows nothing beyond 1 MiB."""


def add(alignment: Alignment, environment: Mapping[str, str], stderr: TextIO) -> None:
    """Append the report if the environment names a file; print a failure and go on.

    Args:
        alignment: the answer.
        environment: of this process.
        stderr: for a failure.

    """
    name = environment.get(VARIABLE)
    if not name or environment.get("GITHUB_ACTIONS") != "true":
        return
    try:
        _append(alignment, Path(name))
    except OSError as problem:
        output.complain(stderr, f"{VARIABLE} {name} was not written: {problem.strerror or problem}")
    except Exception as problem:  # noqa: BLE001 - the verdict has been told
        internal.keep(problem)
        output.complain(stderr, f"{VARIABLE}: {internal.line(problem)}")


def _append(alignment: Alignment, file: Path) -> None:
    from collectrace.report import markdown

    page = io.StringIO()
    markdown.write(alignment, page)
    text = page.getvalue()
    if len(text.encode(errors="replace")) <= _MOST:
        with os.fdopen(output.opened(file), "a", encoding="utf-8", errors="replace") as out:
            out.write(text + "\n")

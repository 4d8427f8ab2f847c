"""Arguments that several commands have, declared once."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from collectrace.commands import output
from collectrace.config import PREFIX, Config
from collectrace.errors import CollectraceError

PATH_HELP: Final = "the log folder, a run in it, a rank file (also .gz), or a .tar.gz of the folder"

_LOG_DIR: Final = f"{PREFIX}LOG_DIR"


def place(text: str) -> str:
    """Return the path that an argument names, which is not empty."""
    if not text:
        raise ArgumentTypeError("it is empty, as an unset variable is. Name a folder or a file")
    return text


PATH: Final[Mapping[str, Any]] = {
    "metavar": "PATH",
    "nargs": "?",
    "type": place,
    "help": f"{PATH_HELP} (default: {_LOG_DIR}, or {Config().log_dir}/)",
}
"""The declaration of the argument ``path``: which logs to read."""


def add_run(parser: ArgumentParser) -> None:
    """Declare which run of the logs is read."""
    parser.add_argument("--run", metavar="ID", help="which run (default: the latest)")


def path(given: str | None) -> str:
    """Return the logs to read: those given, or the log folder of the tracer.

    Raises:
        CollectraceError: none were given, and the log folder does not exist.

    """
    if given is not None:
        return given
    folder = os.environ.get(_LOG_DIR) or str(Config().log_dir)
    if not Path(folder).exists():
        raise CollectraceError(
            f"{folder}: no such folder. Name the folder that collectrace wrote to; for a job that "
            "was not traced, set COLLECTRACE=1 or call collectrace.enable()."
        )
    return folder


def add_json(parser: ArgumentParser) -> None:
    """Declare the option ``--json``."""
    parser.add_argument("--json", metavar="FILE", help="write JSON to a file, or with - to stdout")


def deliver(json: str | None, stdout: TextIO, value: Any, show: Callable[[TextIO], object]) -> None:
    """Write JSON to its file, and the text for people unless JSON goes to standard output.

    Raises:
        CollectraceError: it could not be written.

    """
    if json is not None:
        from collectrace.report.machine import as_json

        output.write_to(json, stdout, lambda out: out.write(as_json(value)))
    if json != output.STDOUT:
        output.write_to(output.STDOUT, stdout, show)


def check_json(json: str | None) -> None:
    """Check early that the file of ``--json`` can be written.

    Raises:
        CollectraceError: it cannot.

    """
    if json is not None:
        output.check("--json", json)


def from_zero(text: str) -> int:
    """Return a number from 0 up."""
    return _number(text, 0)


def from_one(text: str) -> int:
    """Return a number from 1 up."""
    return _number(text, 1)


def _number(text: str, least: int) -> int:
    try:
        n = int(text)
    except ValueError:
        n = least - 1
    if n < least:
        raise ArgumentTypeError(f"{text!r} is not a number from {least} up")
    return n

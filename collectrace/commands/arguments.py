"""Arguments that several commands have, declared once."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any, Final, TextIO

from collectrace.commands import output

PATH_HELP: Final = (
    "a log directory, or one run in it; a rank file, its .gz, or a .tar.gz of the folder"
)


def add_path(parser: ArgumentParser) -> None:
    """Which logs, and which run of them."""
    parser.add_argument("path", metavar="PATH", help=PATH_HELP)
    parser.add_argument("--run", metavar="ID", help="which run (default: the latest)")


def add_json(parser: ArgumentParser) -> None:
    """Whether programs are to read the answer, too."""
    parser.add_argument("--json", metavar="FILE", help="write it as JSON; -: to stdout, alone")


def deliver(json: str | None, stdout: TextIO, value: Any, show: Callable[[TextIO], object]) -> None:
    """Write what was asked: JSON to its file, and to standard output whatever is not taken by it.

    Raises:
        CollectraceError: it could not be written.

    """
    if json is not None:
        from collectrace.report.machine import as_json

        output.write_to(json, stdout, lambda out: out.write(as_json(value)))
    if json != output.STDOUT:
        output.write_to(output.STDOUT, stdout, show)


def check_json(json: str | None) -> None:
    """Find out early that it cannot be written.

    Raises:
        CollectraceError: it cannot.

    """
    if json is not None:
        output.check("--json", json)


def from_zero(text: str) -> int:
    """A number from 0 up."""
    return _number(text, 0)


def from_one(text: str) -> int:
    """A number from 1 up."""
    return _number(text, 1)


def _number(text: str, least: int) -> int:
    try:
        n = int(text)
    except ValueError:
        n = least - 1
    if n < least:
        raise ArgumentTypeError(f"{text!r} is not a number from {least} up")
    return n

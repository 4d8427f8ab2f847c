"""Explain the cause of a finding by its code, such as CT102.

Without a code it lists all causes. On a terminal it is laid out for reading; into a pipe or a file
it goes as Markdown.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final, TextIO

from collectrace.commands import docs, output

HELP: Final = "explain the code of a finding, such as CT102"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare which cause."""
    parser.add_argument(
        "code", nargs="?", metavar="CODE", help="such as CT102, or its name; default: list them"
    )


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Print the documentation of the cause.

    Raises:
        CollectraceError: there is no such cause.

    """
    from collectrace.align.causes import catalogue

    code = arguments.code
    text = catalogue.explained(catalogue.find(code)) if code else catalogue.listed()
    output.write_to(output.STDOUT, stdout, lambda out: docs.show(text, out))
    return 0

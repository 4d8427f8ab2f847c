"""Explain the causes of findings by their codes, such as CT102.

Without a code it lists all causes. A terminal shows the text formatted. A pipe or a file gets the
Markdown.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final, TextIO

from collectrace.commands import docs, output

HELP: Final = "explain the code of a finding, such as CT102"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare which causes."""
    parser.add_argument(
        "codes",
        nargs="*",
        metavar="CODE",
        help="a code such as CT102, or a name (default: list all)",
    )


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Print the documentation of the causes.

    Raises:
        CollectraceError: there is no such cause.

    """
    from collectrace.align.causes import catalogue

    causes = [catalogue.find(code) for code in arguments.codes]
    text = "\n".join(map(catalogue.explained, causes)) or catalogue.listed()
    output.write_to(output.STDOUT, stdout, lambda out: docs.show(text, out))
    return 0

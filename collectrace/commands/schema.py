"""Print the format of the rank files, or of the findings that align --json writes.

Without --json-schema it is a text for people: each kind of line, its fields, types
and units.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final, TextIO

from collectrace.commands import output

HELP: Final = "print the format of the rank files, or of the findings"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the format, and for whom to print it."""
    parser.add_argument(
        "--findings", action="store_true", help="the findings' JSON, instead of the rank files"
    )
    parser.add_argument(
        "--json-schema", action="store_true", help="as JSON Schema (draft 2020-12), for programs"
    )


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Print the format."""
    from collectrace import schema

    form = schema.FINDINGS if arguments.findings else schema.RANK_FILE
    text = schema.dumps(form) if arguments.json_schema else schema.describe(form)
    output.write_to(output.STDOUT, stdout, lambda out: out.write(text))
    return 0

"""List the runs in a log folder, the newest first: time, ranks and verdict.

for example:
  python -m collectrace runs logs/
  python -m collectrace runs logs/ --json -
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final, TextIO

from collectrace.commands import arguments as common

HELP: Final = "list the runs in a log folder"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the folder."""
    parser.add_argument("path", **common.PATH)
    common.add_json(parser)


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Align and list each run; a terminal shows each as soon as it is read."""
    common.check_json(arguments.json)
    from collectrace.align.browsing.run_list import list_runs
    from collectrace.report import run_table

    found = list_runs(common.path(arguments.path))
    rows = found if arguments.json is None else list(found)
    common.deliver(arguments.json, stdout, rows, lambda out: run_table.write(rows, out))
    return 0

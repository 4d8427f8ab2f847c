"""Compare two runs of one program, rank by rank: the first call that differs, and the counts.

Use it for two commits, two versions of a library, or two job sizes. It compares the operation,
the issuer, the group, the reduce op and the tensors. For jobs of different sizes it compares only
the dtype of the tensors. Lines of code and names of groups may differ.

for example:
  python -m collectrace diff before/ after/
  python -m collectrace diff logs/20261121-220410-d43106 logs/20261122-091500-02be1c --json -

exit status:
  0  every rank issued the same calls in both
  1  they differ
  2  a run cannot be used, or the command line is wrong
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final, TextIO

from collectrace.commands import arguments as common

HELP: Final = "compare two runs of one program"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the two runs."""
    parser.add_argument("a", metavar="RUN_A", type=common.place, help=common.PATH_HELP)
    parser.add_argument(
        "b", metavar="RUN_B", type=common.place, help="the other run; of a log folder the latest"
    )
    common.add_json(parser)


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Compare the two runs and print the differences."""
    common.check_json(arguments.json)
    from collectrace.align.browsing.schedules import difference
    from collectrace.report import schedule_table

    diff = difference(arguments.a, arguments.b)
    common.deliver(arguments.json, stdout, diff, lambda out: schedule_table.write(diff, out))
    return 0 if diff.is_same else 1

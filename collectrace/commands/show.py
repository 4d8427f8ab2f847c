"""Show what one rank issued, call by call: when, what, by whom, from which line, and its end.

A call is done, pending (the rank was in it when its log ended), failed, or nothing is known of
its end. "cause >" marks the place of a finding. Messages are numbered m1, m2, ... per channel.

for example:
  python -m collectrace show logs/ --rank 3                    its last 50 calls
  python -m collectrace show logs/ --rank 3 --last 10 --group tp
  python -m collectrace show logs/ --rank 3 --around 1207      the calls around one
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final, TextIO

from collectrace.commands import arguments as common

HELP: Final = "show what one rank issued"


def add_arguments(parser: ArgumentParser) -> None:
    """Which rank, and which of its calls."""
    common.add_path(parser)
    parser.add_argument(
        "--rank", type=common.from_zero, required=True, metavar="N", help="which rank"
    )
    parser.add_argument("--group", metavar="NAME", help="only calls of this process group")
    parser.add_argument(
        "--last", type=common.from_one, default=50, metavar="N",
        help="how many calls (default: 50)",
    )  # fmt: skip
    parser.add_argument(
        "--around", type=common.from_one, metavar="SEQ",
        help="those around this call of the group (without --group: of the default one)",
    )  # fmt: skip
    common.add_json(parser)


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Read the run, show the rank."""
    common.check_json(arguments.json)
    from collectrace.align.browsing.calls import calls_of
    from collectrace.report import call_table

    calls = calls_of(
        arguments.path, arguments.rank, run=arguments.run, group=arguments.group,
        last=arguments.last, around=arguments.around,
    )  # fmt: skip
    common.deliver(arguments.json, stdout, calls, lambda out: call_table.write(calls, out))
    return 0

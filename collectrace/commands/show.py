"""Show the calls of one rank: time, operation, issuer, line and outcome.

A call is done, pending (the log ends inside it), failed, or its outcome is not known.
"cause >" marks the call of a finding. Messages are numbered m1, m2, ... per channel.

for example:
  python -m collectrace show logs/ --rank 3                    its last 50 calls
  python -m collectrace show logs/ --rank 3 --last 10 --group tp
  python -m collectrace show logs/ --rank 3 --around 1207      the calls around one
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final, TextIO

from collectrace.commands import arguments as common

HELP: Final = "show the calls of one rank"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the rank, and which of its calls to show."""
    parser.add_argument("path", **common.PATH)
    common.add_run(parser)
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
        help="the calls around this one of the group (default: of the default group)",
    )  # fmt: skip
    common.add_json(parser)


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Read the run and show the calls of the rank."""
    common.check_json(arguments.json)
    from collectrace.align.browsing.calls import calls_of
    from collectrace.report import call_table

    calls = calls_of(
        common.path(arguments.path), arguments.rank, run=arguments.run, group=arguments.group,
        last=arguments.last, around=arguments.around,
    )  # fmt: skip
    common.deliver(arguments.json, stdout, calls, lambda out: call_table.write(calls, out))
    return 0

"""Trace a script that does not trace itself, and is otherwise run as python runs it.

The processes of python that it starts are traced, too, however it starts them.

for example:
  python -m collectrace run train.py --lr 0.1
  torchrun --nproc-per-node 2 -m collectrace run train.py --lr 0.1
"""

from __future__ import annotations

import os
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final, TextIO

from collectrace.config import (
    LEVELS,
    OFF,
    PREFIX,
    SWITCH,
    Config,
    folders,
    size,
)

HELP: Final = "trace a script"

_OPTIONS: Final = (
    ("log_dir", str, "DIR", "where runs are written"),
    ("max_bytes", size, "N", "bytes one rank may keep, such as 512M"),
    ("stall_after", float, "S", "seconds after which a pending collective has stalled"),
    ("heartbeat", float, "S", "seconds between two heartbeats"),
    ("max_failures", int, "N", "internal failures before the tracer goes silent"),
    ("library", folders, "DIR[:DIR]", "folders of code that is not the user's own"),
    ("keep_runs", int, "N", "runs that the folder may hold, 0: all; the oldest go"),
)


_LEVELS: Final = (
    ("sources", "what to record of the script's text"),
    ("values", "what to record of variables when a rank stalls or fails"),
)


def add_arguments(parser: ArgumentParser) -> None:
    """The tracer's options, then the script and all that follows it."""
    default = Config()
    for name, kind, metavar, words in _OPTIONS:
        usual = getattr(default, name) or "none"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            metavar=metavar,
            help=f"{words} (default: {usual}, or {PREFIX}{name.upper()})",
        )
    for name, words in _LEVELS:
        parser.add_argument(
            f"--{name}", choices=LEVELS[name],
            help=f"{words} (default: {getattr(default, name)}, or {PREFIX}{name.upper()})",
        )  # fmt: skip
    parser.add_argument(
        "--no-sources", dest="sources", action="store_const", const=OFF, help="--sources off"
    )
    parser.add_argument(
        "--no-announce", dest="announce", action="store_false", default=None,
        help=f"do not say on standard error where it records (or {PREFIX}ANNOUNCE=0)",
    )  # fmt: skip
    parser.add_argument(
        "--no-report", dest="report", action="store_false", default=None,
        help=f"do not print what is wrong when ranks hang or fail (or {PREFIX}REPORT=0)",
    )  # fmt: skip
    parser.add_argument(
        "--online", action="store_true", default=None,
        help=f"have the ranks say themselves what is wrong (or {PREFIX}ONLINE=1)",
    )  # fmt: skip
    parser.add_argument(
        "-m", dest="module", action="store_true", help="SCRIPT is a module, as in python -m"
    )
    parser.add_argument("script", metavar="SCRIPT", help="what to run, as __main__")
    parser.add_argument(
        "arguments", metavar="ARGUMENT", nargs=REMAINDER, help="the script's own arguments"
    )


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> Callable[[], int]:  # noqa: ARG001 - the script has the process's own streams
    """Switch tracing on; the script is left to run, for what it raises is its own affair."""
    import collectrace
    from collectrace import launch

    script = launch.find(
        arguments.script, [*arguments.inserted, *arguments.arguments], module=arguments.module
    )
    options = [*(name for name, *_ in _OPTIONS), *LEVELS, "announce", "report", "online"]
    config = Config.from_environment(**{name: getattr(arguments, name) for name in options})
    # For what the script starts by itself; and so for this process.
    os.environ.update(config.to_environment() | {SWITCH: "1"})
    collectrace.enable()
    return script.run

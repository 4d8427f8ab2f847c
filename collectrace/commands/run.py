"""Run a script under the tracer, otherwise exactly as python would.

Python processes that the script starts are traced, too.

for example:
  python -m collectrace run train.py --lr 0.1
  torchrun --nproc-per-node 2 -m collectrace run train.py --lr 0.1
"""

from __future__ import annotations

import os
from argparse import REMAINDER, ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable
from typing import Any, Final, TextIO

from collectrace.config import OFF, OPTIONS, PREFIX, SWITCH, Config, Option
from collectrace.errors import CollectraceError, not_traced

HELP: Final = "run a script under the tracer"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the tracer's options, then the script and its arguments."""
    parser.usage = (
        f"{parser.prog} [OPTION ...] SCRIPT [ARGUMENT ...]\n"
        f"       {parser.prog} [OPTION ...] -m MODULE [ARGUMENT ...]"
    )
    default = Config()
    for name, option in OPTIONS.items():
        usual = getattr(default, name)
        form: dict[str, Any] = (
            {"type": _reader(option), "metavar": option.metavar}
            if option.metavar
            else {"action": BooleanOptionalAction}
        )
        parser.add_argument(
            f"--{name.replace('_', '-')}", default=None, **form,
            help=f"{option.what} (default: {_shown(usual)}, or {PREFIX}{name.upper()})",
        )  # fmt: skip
    parser.add_argument(
        "--no-sources", dest="sources", action="store_const", const=OFF, help="--sources off"
    )
    parser.add_argument(
        "-m", dest="module", action="store_true", help="run a module, as python -m does"
    )
    parser.add_argument("script", metavar="SCRIPT", help="the script, or with -m the module")
    rest = parser.add_argument(
        "arguments", metavar="ARGUMENT", nargs=REMAINDER, help="arguments of the script"
    )
    rest.required = False  # otherwise argparse lists it as missing, beside the script


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> Callable[[], int]:  # noqa: ARG001 - the script has the process's own streams
    """Switch tracing on, and return the function that runs the script."""
    import collectrace
    from collectrace import launch

    script = launch.find(
        arguments.script, [*arguments.inserted, *arguments.arguments], module=arguments.module
    )
    try:
        config = Config.from_environment(**{name: getattr(arguments, name) for name in OPTIONS})
    except CollectraceError as problem:
        not_traced(problem)  # a variable of the environment must not end a job
        return script.run
    # For children of the script, and for this process. Who has switched it off keeps it off.
    os.environ.update(config.to_environment() | {SWITCH: os.environ.get(SWITCH) or "1"})
    collectrace.enable()
    return script.run


def _reader(option: Option) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return option.read(text)
        except (ValueError, OverflowError):
            raise ArgumentTypeError(f"{text!r} is not {option.wanted}") from None

    return read


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, tuple):
        return "none"
    return f"{default:g}" if isinstance(default, float) else str(default or "none")

"""The command line: ``python -m collectrace``, or ``collectrace``, and a verb of ``COMMANDS``.

What a person sees of a problem is one line on standard error, and never a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final, NoReturn, TextIO

from collectrace import file_modes, internal, quiet
from collectrace.commands import COMMANDS, output
from collectrace.config import is_switched_on
from collectrace.errors import CollectraceError
from collectrace.findings import INTERNAL
from collectrace.printable import clean
from collectrace.version import __version__

UNUSABLE: Final = 2
"""Exit status for input or usage that nothing can be made of, and for output that was lost."""

INTERRUPTED: Final = 130
"""What a shell says of a program that Ctrl-C ended."""

PROGRAM: Final = "python -m collectrace"

_INSERTED: Final = re.compile(r"--local[-_]rank=\d+")
"""What launchers put before the arguments of the program they launch, and so before the verb:
``deepspeed --module``, ``torch.distributed.launch --module``. It is meant for the script."""


def main(argv: Sequence[str], stdout: TextIO, stderr: TextIO, *, program: str = PROGRAM) -> int:
    """Run a command.

    Args:
        argv: the verb and its arguments.
        stdout: where its output goes.
        stderr: where a problem is told, and how far a long reading is.
        program: how it was called, for usage and errors.

    Returns:
        The exit status.

    Raises:
        SystemExit: only from a script that ``run`` runs, as it raised it.

    """
    try:
        file_modes.share(is_switched_on(os.environ, file_modes.VARIABLE))
        outcome = _execute(argv, stdout, stderr, program)
    except CollectraceError as problem:
        output.complain(stderr, problem)
        return UNUSABLE
    except OSError as problem:
        output.complain(stderr, _os_error(problem))
        return UNUSABLE
    except KeyboardInterrupt:
        output.say(stderr, "interrupted")
        return INTERRUPTED
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - no error of ours is a verdict
        internal.keep(problem)
        output.complain(stderr, internal.line(problem))
        return INTERNAL
    return outcome if isinstance(outcome, int) else outcome()


def _execute(
    argv: Sequence[str], stdout: TextIO, stderr: TextIO, program: str
) -> int | Callable[[], int]:
    inserted = list(takewhile(_INSERTED.fullmatch, argv))
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            arguments = _parser(program).parse_args(argv[len(inserted) :])
    except SystemExit as done:  # argparse's way to say that it printed help, version or an error
        with output.surviving_reader(stdout):
            return done.code if isinstance(done.code, int) else UNUSABLE
    arguments.inserted = inserted
    if arguments.command != "run":  # which leaves the streams to the script
        output.lossy(stdout)
    return COMMANDS[arguments.command].execute(arguments, stdout, stderr)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage is one ``--help`` away."""

    def error(self, message: str) -> NoReturn:
        self.exit(UNUSABLE, f"{self.prog}: {clean(message)} (see {self.prog} --help)\n")


_TO_BEGIN: Final = """\
to begin:
  import collectrace; collectrace.enable()   at the top of the training script, or
  {run:<40}   a script as it is
  {align:<40}   after the hang, or while it lasts

{program} COMMAND --help tells more."""


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
        description="Find the first collective where the ranks of a torch.distributed job part\n"
        "ways: which one, which rank, which line of your code, why, and what to change.",
        epilog=_TO_BEGIN.format(
            program=program, run=f"{program} run train.py", align=f"{program} align logs/"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"collectrace {__version__}")
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True
    )
    for name, command in COMMANDS.items():
        # What a command does stands first, its arguments next, examples and the rest behind them.
        what, _, more = inspect.cleandoc(command.__doc__ or "").partition("\n\n")
        sub = commands.add_parser(
            name,
            help=command.HELP,
            description=what,
            epilog=more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(sub)
    return parser


def _os_error(problem: OSError) -> str:
    what = problem.strerror or str(problem) or type(problem).__name__
    return f"{problem.filename}: {what}" if problem.filename is not None else what


def console(*before: str, program: str = PROGRAM) -> NoReturn:
    """The door for ``python -m``: the process's own arguments, behind those given."""
    # Python has None in place of a stream that was closed before it began.
    stdout, stderr = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()
    argv = [*before, *sys.argv[1:]]
    quiet.no_more()
    status = main(argv, stdout, stderr, program=program)
    if argv[:1] != ["run"]:
        quiet.until_somebody_answers()  # while the interpreter ends; a script's end is its own
    sys.exit(status)


def script() -> NoReturn:
    """The door for the program ``collectrace`` that an installation brings."""
    if not sys.flags.safe_path:
        with contextlib.suppress(FileNotFoundError):  # the working directory is gone
            sys.path[0] = str(Path.cwd())  # as python -m has it: modules are found from here
    console(program="collectrace")

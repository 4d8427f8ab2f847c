"""The command line: ``python -m collectrace``, or ``collectrace``, and a command of ``COMMANDS``.

A problem is one line on standard error, never a traceback.
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

from collectrace import file_modes, internal, quiet, words
from collectrace.commands import COMMANDS, output
from collectrace.config import is_switched_on
from collectrace.errors import CollectraceError
from collectrace.findings import INTERNAL
from collectrace.printable import clean
from collectrace.version import __version__

UNUSABLE: Final = 2
"""Exit status for unusable input or arguments, and for output that could not be written."""

INTERRUPTED: Final = 130
"""The exit status of a program that Ctrl-C ended, as shells report it."""

PROGRAM: Final = "python -m collectrace"

_COLUMNS: Final = "100"
"""The width of what is printed if there is no terminal, as that of the automatic verdict."""

_INSERTED: Final = re.compile(r"--local[-_]rank=\d+")
"""Arguments that launchers insert before those of the program, and so before the command:
``deepspeed --module``, ``torch.distributed.launch --module``. It is meant for the script."""


def main(argv: Sequence[str], stdout: TextIO, stderr: TextIO, *, program: str = PROGRAM) -> int:
    """Run a command.

    Args:
        argv: the command and its arguments.
        stdout: where its output goes.
        stderr: for problems and progress.
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
    given = argv[len(inserted) :]
    if given and given[0] == "help":
        given = [*given[1:], "--help"]
    if given and not given[0].startswith("-") and given[0] not in COMMANDS:
        raise CollectraceError(
            f"no command {given[0]!r}.{output.meant(given[0], COMMANDS)} "
            f"{program} --help lists the commands."
        )
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            arguments = parser(program).parse_args(given or ["--help"])
    except SystemExit as done:  # argparse's way to say that it printed help, version or an error
        with output.surviving_reader(stdout):
            return done.code if isinstance(done.code, int) else UNUSABLE
    arguments.inserted = inserted
    if arguments.command != "run":  # which leaves the streams to the script
        output.lossy(stdout)
    return COMMANDS[arguments.command].execute(arguments, stdout, stderr)


class _Parser(argparse.ArgumentParser):
    """A parser that reports a problem in one line. ``--help`` prints the usage."""

    def parse_known_args(  # type: ignore[override] # of three overloads the one that is called
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments. Refuse the others here, where the help of the command is known."""
        found, unknown = super().parse_known_args(args, namespace)
        options = [one for one in unknown if one.startswith("-")]
        if options:
            known = re.findall(r"^ +(?:-\w[^-\n]*, )?(--[\w-]+)", self.format_help(), re.MULTILINE)
            name = options[0].partition("=")[0]
            self.error(f"no option {options[0]}.{output.meant(name, known)}")
        if unknown:
            self.error(f"too many arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        needs = _NO_VALUE.fullmatch(message)
        said = clean(message if needs is None else self._lacking(needs[1]))
        if lacking := _MISSING.fullmatch(said):
            names = lacking[1].split(", ")
            said = f"{words.listed(names)} {words.verb(names, 'is', 'are')} missing"
        said = said.removeprefix("argument ")
        end = "" if said.endswith((".", "?")) else "."
        self.exit(UNUSABLE, f"{self.prog}: {said}{end} {self.prog} --help lists the arguments.\n")

    def _lacking(self, option: str) -> str:
        """Return what an option without its value needs."""
        action = self._option_string_actions.get(option.rpartition("/")[2])
        value = action.metavar if action is not None else None
        what = "needs a file" if value == "FILE" else f"needs a value ({value})"
        more = ", or - for standard output" if action and "stdout" in (action.help or "") else ""
        return f"{option} {what}{more}"


_NO_VALUE: Final = re.compile(r"argument (\S+): expected one argument")

_MISSING: Final = re.compile(r"the following arguments are required: (.+)")

_TO_BEGIN: Final = """\
to begin:
  import collectrace; collectrace.enable()   at the top of the training script, or
  {run:<40}   without a change of the script
  {align:<40}   during the hang, or after it

{program} COMMAND --help explains a command."""


def parser(program: str) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = _Parser(
        prog=program,
        description="Find the first collective at which the ranks of a torch.distributed job\n"
        "diverge: which call, which rank, which line of your code, why, and what to change.",
        epilog=_TO_BEGIN.format(
            program=program, run=f"{program} run train.py", align=f"{program} align logs/"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"collectrace {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        # The description comes first, then the arguments, then examples and the rest.
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
    if problem.filename is None:
        return what
    return f"{problem.filename}: {what}. Check its permissions, or name another place."


def console(*before: str, program: str = PROGRAM) -> NoReturn:
    """Run the command line of this process; ``before``: arguments to prepend."""
    # Python has None in place of a stream that was closed before it began.
    stdout, stderr = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()
    argv = [*before, *sys.argv[1:]]
    if argv[:1] != ["run"] and not any(map(os.isatty, range(3))):  # in a pipe, a file, a CI log
        os.environ.setdefault("COLUMNS", _COLUMNS)
    quiet.no_more()
    status = main(argv, stdout, stderr, program=program)
    if argv[:1] != ["run"]:
        quiet.until_somebody_answers()  # while the interpreter ends; scripts handle their own end
    sys.exit(status)


def script() -> NoReturn:
    """Run the installed program ``collectrace``."""
    # Only a script needs the modules here. A queue.py beside logs must not be imported.
    if "run" in sys.argv and not sys.flags.safe_path:
        with contextlib.suppress(FileNotFoundError):  # the working directory is gone
            sys.path[0] = str(Path.cwd())  # as python -m does, so that modules here are found
    console(program="collectrace")

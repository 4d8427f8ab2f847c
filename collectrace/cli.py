"""The commands: ``python -m collectrace run | align | schema``. The only place where wings meet.

Nothing heavy is imported before a command needs it: ``--help`` and a mistyped path answer at
once, and only ``run`` ever imports torch.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

from collectrace.config import PREFIX, Config
from collectrace.errors import CollectraceError

if TYPE_CHECKING:
    from collectrace.findings import Alignment

UNUSABLE: Final = 2
"""Exit status for input or usage that nothing can be made of."""

INTERRUPTED: Final = 130
"""What a shell says of a program that Ctrl-C ended."""

PROGRAM: Final = "python -m collectrace"

Outcome = int | Callable[[], int]
"""An exit status; or what is left to do, which then has the process for itself."""


@dataclass(frozen=True, slots=True)
class Command:
    """One verb: its help, its arguments, and what it does."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace, TextIO, TextIO], Outcome]


def main(argv: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    """Run a command; its exit status.

    Raises:
        SystemExit: only from a script that ``run`` runs, as it raised it.

    """
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            arguments = _parser().parse_args(argv)
    except SystemExit as done:  # argparse's way to say that --help or an error was printed
        return done.code if isinstance(done.code, int) else UNUSABLE
    try:
        outcome: Outcome = COMMANDS[arguments.command].execute(arguments, stdout, stderr)
    except CollectraceError as problem:
        return _complain(stderr, str(problem))
    except OSError as problem:
        return _complain(stderr, _os_error(problem))
    except KeyboardInterrupt:
        print("interrupted", file=stderr)
        return INTERRUPTED
    return outcome if isinstance(outcome, int) else outcome()


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage is one ``--help`` away."""

    def error(self, message: str) -> NoReturn:
        self.exit(UNUSABLE, f"{self.prog}: {message} (see {self.prog} --help)\n")


_TO_BEGIN: Final = f"""\
to begin:
  import collectrace; collectrace.enable()   at the top of the training script, or
  {f"{PROGRAM} run train.py":<40}   a script as it is
  {f"{PROGRAM} align logs/":<40}   after the hang, or while it lasts

{PROGRAM} COMMAND --help tells more."""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Find the first collective where the ranks of a torch.distributed job part\n"
        "ways: which one, which rank, which line of your code, why, and what to change.",
        epilog=_TO_BEGIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True
    )
    for name, command in COMMANDS.items():
        # What a command does stands first, its arguments next, examples and the rest behind them.
        what, _, more = inspect.cleandoc(command.execute.__doc__ or "").partition("\n\n")
        sub = commands.add_parser(
            name,
            help=command.help,
            description=what,
            epilog=more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.arguments(sub)
    return parser


def _complain(stderr: TextIO, message: str) -> int:
    line = " ".join(message.split())
    print(f"collectrace: {line}", file=stderr)
    return UNUSABLE


def _os_error(problem: OSError) -> str:
    what = problem.strerror or str(problem) or type(problem).__name__
    return f"{problem.filename}: {what}" if problem.filename is not None else what


# run


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    default = Config()
    for name, kind, metavar, words in (
        ("log_dir", str, "DIR", "where runs are written"),
        ("max_bytes", int, "N", "bytes one rank may keep"),
        ("stall_after", float, "S", "seconds after which a pending collective has stalled"),
        ("heartbeat", float, "S", "seconds between two heartbeats"),
        ("max_failures", int, "N", "internal failures before the tracer goes silent"),
    ):
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            metavar=metavar,
            help=f"{words} (default: {getattr(default, name)}, or {PREFIX}{name.upper()})",
        )
    parser.add_argument(
        "-m", dest="module", action="store_true", help="SCRIPT is a module, as in python -m"
    )
    parser.add_argument("script", metavar="SCRIPT", help="what to run, as __main__")
    parser.add_argument(
        "arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="the script's own arguments"
    )


def _run(arguments: argparse.Namespace, stdout: TextIO, stderr: TextIO) -> Outcome:  # noqa: ARG001 - the script has the process's own streams
    """Trace a script that does not trace itself, and is otherwise run as python runs it.

    for example:
      python -m collectrace run train.py --lr 0.1
      torchrun --nproc-per-node 2 -m collectrace run train.py --lr 0.1
    """
    import collectrace
    from collectrace import launch

    script = launch.find(arguments.script, arguments.arguments, module=arguments.module)
    collectrace.enable(
        log_dir=arguments.log_dir,
        max_bytes=arguments.max_bytes,
        stall_after=arguments.stall_after,
        heartbeat=arguments.heartbeat,
        max_failures=arguments.max_failures,
    )
    # Not called here: whatever the script raises is its own affair.
    return script.run


# align


def _align_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a log directory, or one run in it")
    parser.add_argument("--run", metavar="ID", help="which run (default: the latest)")
    parser.add_argument("--group", metavar="NAME", help="look at this process group only")
    parser.add_argument(
        "--context",
        type=_not_negative,
        default=6,
        metavar="N",
        help="rows to show before and after a difference (default: 6)",
    )
    parser.add_argument(
        "--full", action="store_true", help="read every line, however large the logs are"
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="watch a job that runs: what every rank is doing, then, as soon as the logs prove an "
        "error, when the job is over or at Ctrl-C, the report",
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        metavar="S",
        help="with --follow: seconds between two looks (default: 1)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the findings as JSON; -: to stdout")


def _not_negative(text: str) -> int:
    try:
        n = int(text)
    except ValueError:
        n = -1
    if n < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return n


def _seconds(text: str) -> float:
    try:
        s = float(text)
    except ValueError:
        s = 0.0
    if not 0 < s < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return s


def _align(arguments: argparse.Namespace, stdout: TextIO, stderr: TextIO) -> Outcome:
    """Read the logs of a run and tell where its ranks part ways.

    for example:
      python -m collectrace align logs/                    the latest run in this folder
      python -m collectrace align logs/ --context 20       more rows around the difference
      python -m collectrace align logs/ --follow           beside a job that runs
      python -m collectrace align logs/ --json -           the findings, for programs

    exit status:
      0  aligned: every rank issued the same collectives
      1  diverged or hung: the report says where, who and why
      2  the logs cannot be used, or the command line is wrong
      3  unknown: nothing wrong found, but the logs cannot show that all is well

    --follow ends with the report and these, too; with --json - standard output still
    gets one object, at the end, and the picture goes to standard error.
    """
    _check_writable(arguments.json)
    if arguments.follow:
        return _follow(arguments, stdout, stderr)
    if arguments.interval is not None:
        raise CollectraceError("--interval goes with --follow")
    from collectrace.align import align

    with _progress(stderr) as progress:
        alignment = align(
            arguments.path,
            run=arguments.run,
            full=arguments.full,
            group=arguments.group,
            context=arguments.context,
            progress=progress,
        )
    return _deliver(arguments, alignment, stdout)


def _check_writable(name: str | None) -> None:
    """Before anything is read: a report without its file would come with the wrong status."""
    if name is not None and name != "-":
        folder = Path(name).parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise CollectraceError(f"--json {name}: {folder} is no folder that can be written to")


def _deliver(arguments: argparse.Namespace, alignment: Alignment, stdout: TextIO) -> int:
    from collectrace.report import machine

    with _surviving_reader(stdout):
        if arguments.json == "-":
            stdout.write(machine.dumps(alignment))
        else:
            _render(alignment, stdout)
    if arguments.json not in (None, "-"):
        Path(arguments.json).write_text(machine.dumps(alignment), encoding="ascii")
    return alignment.exit_status


def _follow(arguments: argparse.Namespace, stdout: TextIO, stderr: TextIO) -> int:
    if arguments.group is not None:
        raise CollectraceError("--group does not go with --follow, which watches all groups")
    from collectrace.align.follow import INTERVAL, Follower
    from collectrace.report.live import Picture

    follower = Follower(
        arguments.path,
        run=arguments.run,
        full=arguments.full,
        context=arguments.context,
        interval=arguments.interval or INTERVAL,
    )
    # Standard output is for one JSON object then, and for nothing else.
    screen = stderr if arguments.json == "-" else stdout
    with _surviving_reader(screen), _ctrl_c() as stop, Picture(screen, arguments.path) as picture:
        for alignment in follower.looks(stop):
            picture.show(alignment)
    report = follower.report()
    if report is None:
        print("interrupted", file=stderr)
        return INTERRUPTED
    return _deliver(arguments, report, stdout)


@contextlib.contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """Set by Ctrl-C, which then does not interrupt what is being read; a second one does."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def leave(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _render(alignment: Alignment, stdout: TextIO) -> None:
    from rich.console import Console

    from collectrace.report import terminal

    terminal.render(alignment, Console(file=stdout))


@contextlib.contextmanager
def _surviving_reader(stdout: TextIO) -> Iterator[None]:
    """A reader that has seen enough (``| head``) closes the pipe; the verdict stands."""
    try:
        yield
        stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        # Python flushes standard output once more at exit, and would complain then.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stdout.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def _progress(stderr: TextIO) -> Iterator[Callable[[int, int], None] | None]:
    """What the aligner tells how far it is; nothing is shown to a file, or in the first second."""
    if not stderr.isatty():
        yield None
        return
    from collectrace.report.progress import Progress

    with Progress(stderr) as progress:
        yield progress


# schema


def _schema_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json-schema", action="store_true", help="as JSON Schema (draft 2020-12), for programs"
    )


def _schema(arguments: argparse.Namespace, stdout: TextIO, stderr: TextIO) -> Outcome:  # noqa: ARG001 - as every command
    """Print the format of the rank files: every kind of line, its fields, types and units."""
    from collectrace import schema

    with _surviving_reader(stdout):
        stdout.write(schema.dumps() if arguments.json_schema else schema.describe())
    return 0


COMMANDS: Final[dict[str, Command]] = {
    "run": Command("trace a script", _run_arguments, _run),
    "align": Command("find where the ranks part ways", _align_arguments, _align),
    "schema": Command("print the format of the rank files", _schema_arguments, _schema),
}


def console() -> NoReturn:
    """The door for ``python -m``."""
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))

"""Read the logs of a run and report where its ranks diverge.

for example:
  python -m collectrace align                          the latest run in logs/
  python -m collectrace align logs/ --context 20       more calls around the difference
  python -m collectrace align logs/ --follow           watch a job that runs
  python -m collectrace align logs/ --html report.html a page for a browser, with pictures
  python -m collectrace align logs/ --json -           the findings, for programs
  python -m collectrace align --store 10.0.0.1:29500   read from the ranks of a running job

exit status:
  0  aligned: every rank issued the same collectives, also if all of them then crashed
  1  the ranks diverged, or one did not reach a call of the others; with --strict also a warning
  2  the logs cannot be used, a report cannot be written, or the command line is wrong
  3  unknown: no error found, but the logs are too incomplete to say that there is none
  4  an error inside collectrace: standard error has one line, please report it

--follow ends with the report and the same exit status. With --json -, standard output
gets one JSON object at the end, and the live view goes to standard error.

--json - prints a whole object or nothing. After an internal error in a part of the
explanation, the verdict and the status stay. "internal_errors" names the error.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final, TextIO

from collectrace import exchange, words
from collectrace.commands import arguments as common
from collectrace.commands import output, readers, step_summary
from collectrace.errors import CollectraceError
from collectrace.report import REPORTS, Report

if TYPE_CHECKING:
    from collectrace.align.reading.source import Folder
    from collectrace.findings import Alignment

HELP: Final = "report where the ranks diverge"

_ALLOCATIONS: Final = 20_000
"""New objects after which Python looks for cycles; by default 700, a sixth of the time of a verdict
on 4,096 ranks."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what to read, how much of it, and an option for each report that has one."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("path", **common.PATH)
    where.add_argument(
        "--store",
        metavar="HOST:PORT",
        help="instead of PATH: read from the ranks of a job that runs with online=True, at their "
        "MASTER_ADDR:MASTER_PORT (see docs online)",
    )
    common.add_run(parser)
    parser.add_argument("--group", metavar="NAME", help="look at this process group only")
    parser.add_argument(
        "--context",
        type=common.from_zero,
        default=6,
        metavar="N",
        help="calls to show before and after a difference (default: 6)",
    )
    parser.add_argument(
        "--full", action="store_true", help="read every line, however large the logs are"
    )
    readers.add_arguments(parser)
    parser.add_argument("--strict", action="store_true", help="exit with 1 also for a warning")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="watch a job that runs: show what every rank does. Print the report when an error is "
        "proven, the job ends, or you press Ctrl-C",
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        metavar="S",
        help="with --follow: seconds between two looks (default: 1)",
    )
    parser.add_argument(
        "--perfetto",
        metavar="FILE",
        help="write a timeline (.json, .json.gz) for ui.perfetto.dev or vizviewer",
    )
    parser.add_argument(
        "--prometheus",
        metavar="FILE",
        help="with --follow: write metrics of the job to this file, for Prometheus",
    )
    for report in REPORTS:
        if report.option is not None and report.is_short:
            parser.add_argument(
                f"--{report.option}", action="store_const", const=output.STDOUT,
                help=f"instead of the report: {report.what}",
            )  # fmt: skip
        elif report.option is not None:
            parser.add_argument(
                f"--{report.option}", metavar="FILE", help=f"write {report.what}; -: to stdout"
            )


def _seconds(text: str) -> float:
    try:
        s = float(text)
    except ValueError:
        s = 0.0
    if not 0 < s < threading.TIMEOUT_MAX:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return s


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:
    """Align, or follow until there is something to report; write the reports, return the status."""
    asked = _asked(arguments)
    if arguments.store is None:
        arguments.path = common.path(arguments.path)
    # If one report goes to standard output, nothing else does.
    taken = output.STDOUT in (*asked.values(), arguments.perfetto)
    if arguments.follow:
        alignment = _follow(arguments, stderr if taken else stdout, stderr)
    else:
        alignment = _align(arguments, stderr)
    if arguments.strict:
        alignment = replace(alignment, strict=True)
    by_itself = {r: output.STDOUT for r in REPORTS if r.option is None and not taken}
    _deliver(alignment, by_itself | asked, stdout)
    if arguments.perfetto is not None:
        _timeline(arguments, alignment, stdout)
    _tell_files([*asked.values(), arguments.perfetto], stderr)
    step_summary.add(alignment, os.environ, stderr)
    return alignment.exit_status


def _asked(arguments: Namespace) -> dict[Report, str]:
    """Return the reports that the options request, and the file of each, or ``-``.

    Raises:
        CollectraceError: it cannot be written there. This is checked before anything is read, so
        that a missing file does not change the exit status.

    """
    asked: dict[Report, str] = {}
    for report in REPORTS:
        name = None if report.option is None else getattr(arguments, report.option)
        if name is not None:
            output.check(f"--{report.option}", name)
            if report.lacks is not None:
                raise CollectraceError(
                    f"--{report.option} needs {report.lacks}, which is not installed. "
                    f"Run: pip install 'collectrace[{report.option}]'"
                )
            _check_place(asked, f"--{report.option}", name, is_short=report.is_short)
            asked[report] = name
    if arguments.perfetto is not None:
        if arguments.store is not None:
            raise CollectraceError(
                "--perfetto cannot read from --store. Give the log folder instead."
            )
        output.check("--perfetto", arguments.perfetto)
        _check_place(asked, "--perfetto", arguments.perfetto)
    return asked


def _check_place(
    asked: Mapping[Report, str], option: str, name: str, *, is_short: bool = False
) -> None:
    """Check that no other report goes to the file of an option, or to standard output with it.

    Raises:
        CollectraceError: which option names the same place.

    """
    other = next((f"--{one.option}" for one, place in asked.items() if place == name), None)
    if other is not None:
        place = "standard output" if name == output.STDOUT else name
        advice = "Leave one out" if is_short else f"Name another file for {option}"
        raise CollectraceError(f"{other} and {option} both write to {place}. {advice}.")


def _deliver(alignment: Alignment, places: Mapping[Report, str], stdout: TextIO) -> None:
    """Write every report that can be written.

    Raises:
        CollectraceError: which could not, and why.
        Exception: an internal error of the first report that has one.

    """
    problems: list[Exception] = []
    for report, name in places.items():
        try:
            output.write_to(name, stdout, partial(report.write, alignment))
        except Exception as problem:  # noqa: BLE001 - the other reports are written all the same
            problems.append(problem)
    internal = next((one for one in problems if not isinstance(one, CollectraceError)), None)
    if internal is not None:
        raise internal
    if problems:
        raise CollectraceError("; ".join(map(str, problems)))


def _tell_files(names: Iterable[str | None], stderr: TextIO) -> None:
    """Say on standard error which files were written; a device or a pipe is none."""
    files = [name for name in names if name not in (None, output.STDOUT) and Path(name).is_file()]
    if files:
        output.say(stderr, f"Wrote {words.listed(files)}.")


def _timeline(arguments: Namespace, alignment: Alignment, stdout: TextIO) -> None:
    """Write the timeline, event by event as it is read."""
    from collectrace.align.browsing import timeline
    from collectrace.report import perfetto

    head = timeline.began(alignment)
    found = timeline.events(arguments.path, alignment)
    output.write_to(arguments.perfetto, stdout, lambda out: perfetto.write(head, found, out))


def _align(arguments: Namespace, stderr: TextIO) -> Alignment:
    for option in "interval", "prometheus":
        if getattr(arguments, option) is not None:
            raise CollectraceError(f"--{option} needs --follow. Add it, or leave --{option} out.")
    from collectrace.align import align

    with (
        _place(arguments) as place,
        readers.opened(arguments) as executor,
        _progress(stderr) as progress,
        _few_collections(),
    ):
        return align(
            place,
            run=arguments.run,
            full=arguments.full,
            group=arguments.group,
            context=arguments.context,
            progress=progress,
            executor=executor,
        )


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Let Python look for cycles of objects rarely: those of thousands of logs are all kept."""
    before = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _place(arguments: Namespace) -> AbstractContextManager[str | Folder]:
    """Return the source of the rank files: a path, or the URL of the job's store."""
    if arguments.store is None:
        return contextlib.nullcontext(arguments.path)
    from collectrace.align.reading import through_store

    return through_store.opened(_url(arguments))


def _url(arguments: Namespace) -> str:
    """Return the URL of the store that ``--store`` names."""
    run = f"/{arguments.run}" if arguments.run is not None else ""
    return f"{exchange.SCHEME}{arguments.store}{run}"


def _progress(stderr: TextIO) -> AbstractContextManager[Callable[[int, int], None] | None]:
    """Return a progress bar for the aligner, on a terminal only."""
    if not stderr.isatty():
        return contextlib.nullcontext()
    from collectrace.report.progress import ProgressBar

    return ProgressBar(stderr)


def _follow(arguments: Namespace, screen: TextIO, stderr: TextIO) -> Alignment:
    """Show what every rank is doing until an error is proven, the job is over, or at Ctrl-C.

    Raises:
        KeyboardInterrupt: Ctrl-C came before there was anything to read.

    """
    if arguments.dask is not None or arguments.jobs > 1:
        raise CollectraceError("--follow reads in one process. Leave --jobs and --dask out.")
    if arguments.group is not None:
        raise CollectraceError("--follow watches all groups. Leave --group out.")
    if arguments.prometheus is not None:
        output.check_file("--prometheus", arguments.prometheus)
    from collectrace.align.follow import INTERVAL, Follower
    from collectrace.commands.metrics import Metrics
    from collectrace.report.live import LiveView

    metrics = Metrics(arguments.prometheus, stderr)
    follower = Follower(
        arguments.path if arguments.store is None else _url(arguments),
        run=arguments.run,
        full=arguments.full,
        context=arguments.context,
        interval=arguments.interval or INTERVAL,
    )
    with (
        output.surviving_reader(screen),
        _stopped_by_ctrl_c() as stop,
        LiveView(screen, arguments.path or arguments.store) as view,
    ):
        for alignment in follower.looks(stop):
            view.show(alignment)
            metrics.write(alignment, follower.positions())
    report = follower.report()
    if follower.gone is not None:
        output.complain(
            stderr,
            f"{arguments.store} stopped answering: {follower.gone.partition('. ')[0]}. "
            "The report shows what its ranks answered last.",
        )
    if report is None:
        raise KeyboardInterrupt
    metrics.write(report, follower.positions())
    return report


class _CtrlC:
    """A flag that a signal handler can set while the same thread waits for it.

    A ``threading.Event`` would block forever if the signal comes while the thread holds the event's
    lock, on its way into or out of ``wait()``. A ``SimpleQueue`` is made for such use.
    """

    def __init__(self) -> None:
        self._came = SimpleQueue[None]()

    def set(self) -> None:
        self._came.put(None)

    def is_set(self) -> bool:
        return not self._came.empty()

    def wait(self, timeout: float) -> bool:
        with contextlib.suppress(Empty):
            self._came.put(self._came.get(timeout=timeout))
        return self.is_set()


@contextlib.contextmanager
def _stopped_by_ctrl_c() -> Iterator[_CtrlC]:
    """Yield a flag that the first Ctrl-C sets, without an interrupt; a second one interrupts."""
    stop = _CtrlC()
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

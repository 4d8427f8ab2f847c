"""Copy the logs of many machines to one folder, to align them.

Each host packs its logs with tar. A second call copies only what is new. Hosts are reached by
ssh. --via names another way, or gives the whole command. A folder without HOST: is on this machine.

for example:
  python -m collectrace gather node1:/job/logs node2:/job/logs -o logs/
  python -m collectrace gather --via kubectl train-0:/logs train-1:/logs -o logs/
  python -m collectrace gather --via "kubectl exec -n ml {host} -c pytorch --" w-0:/logs -o logs/
  python -m collectrace gather --via srun $(scontrol show hostnames | sed s,$,:/tmp/logs,) -o logs/

exit status:
  0  the logs of every host were copied
  1  some hosts failed: the message names them
  2  all hosts failed, or the command line is wrong
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from collectrace import file_modes, words
from collectrace.commands import output
from collectrace.errors import CollectraceError, LogError

if TYPE_CHECKING:
    from collectrace.gather import Gathered

HELP: Final = "copy the logs of many machines to one folder"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare from where, to where, and how."""
    parser.add_argument("sources", metavar="HOST:DIR", nargs="+", help="a host and its log folder")
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="the folder to copy them to"
    )
    parser.add_argument(
        "--via", default="ssh", metavar="WAY",
        help="ssh (default), kubectl, srun, docker; or a command with {host} in it",
    )  # fmt: skip


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - as every command
    """Copy the logs of each host, then print which ranks of the newest run are missing."""
    from collectrace import gather
    from collectrace.report import text

    via = gather.way(arguments.via)
    sources = [gather.Source.parse(source) for source in arguments.sources]
    names = [source.name for source in sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CollectraceError(
            f"two folders of {twice}. Gather one after the other, each with its own -o."
        )
    to = Path(arguments.output)
    if to.exists() and not to.is_dir():
        raise CollectraceError(f"-o {to}: that is a file. Name a folder.")
    file_modes.make_folder(to)
    found = []
    with output.surviving_reader(stdout):
        for source in sources:
            one = gather.gather(source, to, via)
            found.append(one)
            name = text.clean(source.host or source.folder)
            print(f"{name}: {text.clean(_summary(one))}", file=stdout, flush=True)
    failed = gather.failures(found)
    if not any(one.files for one in found):
        raise CollectraceError("nothing was gathered. Check the host, the folder and --via.")
    with output.surviving_reader(stdout):
        for line in _completeness(to, [text.clean(one.source.host) for one in failed]):
            print(line, file=stdout)
    return 1 if failed else 0


def _summary(one: Gathered) -> str:
    came = f"{words.counted(one.files, 'file')}, {one.bytes / 1e6:.1f} MB"
    if not one.problem:
        return came
    return f"{came}, then: {one.problem}" if one.files else f"nothing: {one.problem}"


def _completeness(to: Path, failed: list[str]) -> list[str]:
    """Return lines about the newest run: complete, or which ranks and hosts are missing."""
    from collectrace.align.reading import run_reader
    from collectrace.align.reading.hosts import hosts_missing
    from collectrace.report import text

    try:
        run = run_reader.read(to)
    except LogError as problem:
        return [f"no run yet: {text.clean(str(problem))}"]
    lines = [
        f"run {text.clean(run.run)}: {len(run.logs)} of {words.counted(run.world_size, 'rank')}"
    ]
    if run.missing:
        lines.append(f"missing: {words.ranks(run.missing)}{text.clean(hosts_missing(run))}")
        if failed:
            lines.append(f"not reached: {', '.join(failed)}")
    lines.append(f"python -m collectrace align {text.clean(str(to))}")
    return lines

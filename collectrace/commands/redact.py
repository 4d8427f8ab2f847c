"""Copy logs without private data, so that they can be shared and give the same finding.

Names of hosts, users, files, functions, variables and groups become placeholders, such as host1 or
file1.py:12, the same in all files. The structure of the program stays: keywords, and calls of
functions of Python, torch and known frameworks, on the same lines. Command lines, values of
variables, comments and strings are removed. `docs privacy` lists what a log contains.

for example:
  python -m collectrace redact logs/ -o shared/
  python -m collectrace redact logs/ -o shared/ --map names.json
  python -m collectrace redact logs/ -o shared/ --keep source,values

exit status:
  0  the copy is complete
  2  nothing was copied: the new folder is not empty, or there are no logs
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Final, TextIO

from collectrace import words
from collectrace.commands import arguments as common
from collectrace.commands import output
from collectrace.errors import CollectraceError
from collectrace.printable import clean

HELP: Final = "copy logs without private data"

_MOST_NAMED: Final = 4


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the logs, the copy, and what it keeps."""
    parser.add_argument(
        "path", metavar="LOGS", type=common.place,
        help="log_dir, a run's folder, an archive; or a folder of dumps",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="the new folder, or an empty one"
    )
    parser.add_argument(
        "--keep", metavar="PART[,PART]", type=_parts, default=(),
        help="what stays as it is: arguments, environment, messages, source, values",
    )  # fmt: skip
    parser.add_argument(
        "--no-source", action="store_true", help="take out the structure of the program, too"
    )
    parser.add_argument(
        "--map", metavar="FILE", help="a new file, for you alone: what each placeholder stands for"
    )


def _parts(text: str) -> tuple[str, ...]:
    from collectrace.redact.folder import PARTS

    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if unknown := [part for part in parts if part not in PARTS]:
        raise ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
    return parts


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - all is said on standard output
    """Write the copy, and print its place.

    Raises:
        CollectraceError: it cannot be written, or is inside the log folder.

    """
    from collectrace.align.reading.source import open_folder
    from collectrace.redact import folder as redacted

    to = Path(arguments.output)
    map_file = Path(arguments.map) if arguments.map is not None else None
    if map_file is not None:
        output.check("--map", arguments.map)
    for path in filter(None, (to, map_file)):
        if path.resolve().is_relative_to(Path(arguments.path).resolve()):
            raise CollectraceError(f"{path} is inside the log folder. Name another place.")
    if map_file is not None and map_file.resolve().is_relative_to(to.resolve()):
        raise CollectraceError(
            f"--map {map_file}: it would be shared with the copy. Name a file elsewhere."
        )
    found = open_folder(arguments.path)
    if not found.files:
        raise CollectraceError(f"{arguments.path} is empty. Give the log_dir of a run.")
    done = redacted.redact(
        found.files, to, arguments.keep, drop_source=arguments.no_source, map_file=map_file
    )
    counts = words.counted(done.files, "file"), words.counted(len(done.replaced), "placeholder")
    told = [
        f"{counts[0]} in {to}, with {counts[1]}",
        *([f"left out: {_named(done.left_out)}"] if done.left_out else []),
        f"python -m collectrace align {to}",
    ]
    lines = [f"{clean(line)}\n" for line in told]
    output.write_to(output.STDOUT, stdout, lambda out: out.writelines(lines))
    return 0


def _named(files: list[str]) -> str:
    more = len(files) - _MOST_NAMED
    return words.listed([*files[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])])

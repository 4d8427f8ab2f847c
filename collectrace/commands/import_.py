"""Convert Flight Recorder dumps to the rank files of a run.

Each dump becomes a rank file, as the tracer writes it, with digests. align also reads a folder of
dumps directly.

for example:
  python -m collectrace import dumps/ -o logs/         logs/dumps/rank00000.jsonl, ...
  python -m collectrace import dumps/ --run before     logs/before/rank00000.jsonl, ...
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Final, TextIO

from collectrace import file_modes, words
from collectrace.commands import arguments as common
from collectrace.commands import output
from collectrace.errors import CollectraceError, NotLogs, NotThere
from collectrace.printable import clean

_ADVICE: Final = "Give a folder of Flight Recorder dumps, or one dump, such as nccl_trace_rank_0."

HELP = "convert Flight Recorder dumps to rank files"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the folder, and where the rank files go."""
    parser.add_argument(
        "path", metavar="DUMPS", type=common.place,
        help="folder of Flight Recorder dumps (nccl_trace_rank_0, ..., or JSON), or one of them",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="logs", help="log_dir to write to (default: logs)"
    )
    parser.add_argument(
        "--run", metavar="ID", type=_run_id, help="id of the run (default: the folder's name)"
    )


def _run_id(text: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,100}", text) or set(text) == {"."}:
        raise ArgumentTypeError(f"{text!r} has more than letters, digits, _, - and .")
    return text


def execute(arguments: Namespace, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001 - all is said on standard output
    """Write the rank files, and print what they are and what was left out."""
    from collectrace.align.reading.source import open_folder

    try:
        folder = open_folder(arguments.path)
    except NotThere:
        raise CollectraceError(f"{arguments.path}: no such file or folder. {_ADVICE}") from None
    except NotLogs:
        raise CollectraceError(f"{arguments.path} is not a dump. {_ADVICE}") from None
    if folder.tool is None:
        raise CollectraceError(
            f"{arguments.path} holds nothing to import; rank files need no import. {_ADVICE}"
        )
    run = arguments.run or re.sub(r"[^\w.-]+", "-", folder.name).strip(".-") or "imported"
    target = Path(arguments.output) / run
    if target.exists() and any(target.iterdir()):
        raise CollectraceError(f"{target} exists already. Give another --run.")
    file_modes.make_folder(target)
    for blob in folder.files:
        path = target / blob.name
        file_modes.make_folder(path.parent)
        with open(path, "xb", opener=file_modes.opener) as out:
            out.write(blob.read(0, blob.size))
    ranks = {blob.name.partition(".")[0] for blob in folder.files}
    told = (
        f"{folder.tool} dumps of {words.counted(len(ranks), 'rank')}: {target}/; "
        f"python -m collectrace align {target}"
    )
    lines = [f"{clean(line)}\n" for line in (*folder.notes, told)]
    output.write_to(output.STDOUT, stdout, lambda out: out.writelines(lines))
    return 0

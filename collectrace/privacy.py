"""The table of what each field of a rank file says about the user, and what follows from it.

The table decides what ``omit`` leaves out while a job is recorded, what ``redact`` replaces, and
what the chapter ``docs privacy`` lists. A field without a row holds numbers and truth values only;
a test compares the table with the schema.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from enum import Enum
from typing import Any, Final

from collectrace.config import ARGUMENTS, PATHS
from collectrace.records import KINDS, Activity, FrameValues, KernelWait


class Holds(Enum):
    """What the text in a field is about."""

    TERM = "a term of the format, of collectrace or of torch"
    HOST = "host name"
    ADDRESS = "address and port"
    RUN = "id of a run"
    NAME = "name that the program gave: a function, class, module, thread, group or variable"
    PATH = "path of a file"
    PLACE = "path and line"
    FRAME = "path, line and function"
    LIBRARY_FRAME = "position, path, line and function"
    MESSAGE = "text of an exception"
    ARGUMENT = "command line, with what looks like a secret replaced by `***`"
    ENVIRONMENT = "variables by name, from a fixed list; no other is recorded"
    VERSION = "versions of software"
    HASH = "hash of a file's text"
    LINE = "a line of the program's text, with its number"
    VALUE = "what variables held"


_TABLE: Final[Mapping[Holds, str]] = {
    Holds.TERM: """
        header.targets header.omitted header.code
        unfamiliar.ops unfamiliar.targets blind.name blind.how blind.what
        imported.tool imported.version imported.open group.phase call.device call.op call.dtype
        call.reduce_op call.role call.api done.device done.op answer.device unit.of join.phase
        sync.api no_sync.phase unwaited.device unwaited.op outside.op raised.what values.reason
        exit.reason
        fault.doing activity.what activity.device activity.op kernel_wait.state
        kernel_wait.call
        kernel_wait.wchan""",
    Holds.HOST: "header.host",
    Holds.ADDRESS: "kernel_wait.peer",
    Holds.RUN: "header.run removed.runs",
    Holds.NAME: """
        group.group group.description group.backend group.device_id call.group call.part
        call.thread done.group answer.group stack.path join.group join.joinables unwaited.group
        outside.thread raised.error raised.thread fault.error values.thread exit.error
        exit.parameters checkpoint.streams checkpoint.channels activity.thread activity.group
        kernel_wait.thread kernel_wait.name""",
    Holds.PATH: "header.cwd header.spool imported.file source_file.path kernel_wait.file",
    Holds.PLACE: """
        group.site group.via call.site call.via source.site join.site batch.site epoch.site
        sync.site no_sync.site unwaited.site outside.site raised.site exit.site exit.through
        activity.site""",
    Holds.FRAME: "stack.frames stall.stacks exit.frames frame_values.frame",
    Holds.LIBRARY_FRAME: "stack.libraries",
    Holds.MESSAGE: "done.error raised.message fault.message exit.message exit.causes",
    Holds.ARGUMENT: "header.argv",
    Holds.ENVIRONMENT: "header.env",
    Holds.VERSION: "header.versions",
    Holds.HASH: "source_file.sha256",
    Holds.LINE: "source.lines source.ways source.given",
    Holds.VALUE: "frame_values.values",
}

FIELDS: Final[dict[str, Holds]] = {
    name: holds for holds, names in _TABLE.items() for name in names.split()
}
"""``kind.field``: what the text in it is about."""

OF_FILES: Final[dict[str, str]] = {
    "sources/<sha256>.py": "the text of a file of the program, or of a library that called it",
    "rank00000.stacks.txt, rank00000.ends.txt": "paths, lines and functions of all threads",
    "rank00000.flight.json": "torch's Flight Recorder: paths, lines, functions and group names",
    "verdict.0001.told": "the kind, ranks and headline of the errors that were found",
}
"""What the files beside the lines hold."""

PARTS: Final[dict[type[Any], str]] = {
    **{cls: kind for kind, cls in KINDS.items()},
    Activity: "activity", FrameValues: "frame_values", KernelWait: "kernel_wait",
}  # fmt: skip
"""The names of classes in the table."""


_INSTALLED: Final = re.compile(
    r"/(?:site-packages|dist-packages)/.*|/lib(?:64)?/python3[.\dt]*/.*|/collectrace/tracer/.*"
    r"|/third_party/.*|/torch/csrc/.*"
)
"""Matches the public part of a path to installed code, the tracer or torch."""

_ABSOLUTE: Final = re.compile(r"(?<![\w./:-])(?:/[^/\s'\":,;()\[\]<>=]+)+")
"""An absolute path in a text."""

_FOLDERS: Final = re.compile(r"[^\s=:,;'\"]*/")
"""The folders of any path in an argument."""


def bare(path: str) -> str:
    """Return the last part of a path; of installed code, the part from ``/site-packages/`` on."""
    installed = _INSTALLED.search(path)
    return installed[0] if installed else path.rpartition("/")[2]


def without_paths(text: str) -> str:
    """Return a text in which each absolute path is cut to its last part."""
    return _ABSOLUTE.sub(lambda found: bare(found[0]), text)


def _without_folders(text: str) -> str:
    return _FOLDERS.sub("", text)


def _bare_frame(text: str) -> str:
    place, space, function = text.rpartition(" ")
    return f"{bare(place)}{space}{function}"


def _bare_library(text: str) -> str:
    inside, space, frame = text.partition(" ")
    return f"{inside}{space}{_bare_frame(frame)}"


_WITHOUT_PATHS: Final = {
    Holds.PATH: bare, Holds.PLACE: bare, Holds.FRAME: _bare_frame,
    Holds.LIBRARY_FRAME: _bare_library, Holds.MESSAGE: without_paths,
    Holds.ARGUMENT: _without_folders, Holds.ENVIRONMENT: without_paths,
}  # fmt: skip


def without(record: Any, omitted: Collection[str]) -> Any:
    """Return a record without the omitted parts: a copy, if that changes it.

    ``omitted``: words of the option ``omit``. Source text and values are not read in the first
    place.
    """
    changed = dict(_changes(record, omitted))
    return replace(record, **changed) if changed else record


def _changes(record: Any, omitted: Collection[str]) -> Iterator[tuple[str, Any]]:
    for f in fields(record):
        value = getattr(record, f.name)
        if not value:
            continue
        holds = FIELDS.get(f"{PARTS[type(record)]}.{f.name}")
        if type(value) is list and type(value[0]) in PARTS:
            yield f.name, [without(part, omitted) for part in value]
        elif holds is Holds.ARGUMENT and ARGUMENTS in omitted:
            yield f.name, []
        elif holds is Holds.PATH and PATHS in omitted and f.name == "cwd":
            yield f.name, ""
        elif PATHS in omitted and holds in _WITHOUT_PATHS:
            yield f.name, mapped(value, _WITHOUT_PATHS[holds])


def mapped(value: Any, change: Any) -> Any:
    """Return a value of JSON with each text in it changed; the keys of objects stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [mapped(one, change) for one in value]
    if isinstance(value, dict):
        return {key: mapped(one, change) for key, one in value.items()}
    return value

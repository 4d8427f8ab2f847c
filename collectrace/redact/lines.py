"""Put placeholders into the lines of rank files, and into what handlers wrote beside them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from typing import Any, Final

import orjson

from collectrace import config
from collectrace.chain import step
from collectrace.errors import DamagedRecord
from collectrace.ops import POINT_TO_POINT
from collectrace.privacy import FIELDS, PARTS, Holds, mapped
from collectrace.records import (
    KINDS,
    Activity,
    Call,
    FrameValues,
    Header,
    KernelWait,
    SourceFile,
    Values,
    from_dict,
    json_name,
)
from collectrace.redact import structure
from collectrace.redact.digests import Place, Programs
from collectrace.redact.names import Names, public_part

ENVIRONMENT: Final = "environment"
MESSAGES: Final = "messages"

DAMAGED: Final = b"{"
"""Replaces a line that cannot be read."""

_OBJECTS: Final[dict[str, type[Any]]] = {
    "in_": Activity, "functions": FrameValues, "waits": KernelWait, "children": KernelWait,
}  # fmt: skip

_HEAD: Final = re.compile(rb'\{"kind":"call","t":\d{1,18},"seq":(\d{1,18})')
_TAIL: Final = re.compile(
    rb'(?:,"iteration":\d{1,18})?,"digest":\d{1,19},"program":(\d{1,19})(?:,"pairs":\d{1,19})?\}'
)
_PROGRAM: Final = re.compile(rb'"program":\d{1,19}(?=[,}])')
_MOST_KNOWN: Final = 20_000
"""Most forms of calls, equal except for their numbers, that are remembered."""

NewText = Callable[[SourceFile, bool], str]
"""Given a file and whether it is public: the hash of its text in the redacted log."""


class Lines:
    """Gives each line of all logs its placeholders; ``keep``: parts that stay as they are."""

    def __init__(
        self, names: Names, keep: Collection[str], taken_out: Collection[str], new_text: NewText
    ) -> None:
        self._names, self._keep, self._new_text = names, keep, new_text
        self._taken_out = taken_out
        self.programs = Programs()
        self._known: dict[bytes, tuple[bytes, Call, int, int]] = {}
        self._changes: dict[Holds, Callable[[str], str]] = {
            Holds.TERM: str, Holds.HASH: str, Holds.VALUE: str, Holds.HOST: names.host,
            Holds.ADDRESS: names.address, Holds.RUN: names.run, Holds.NAME: names.names,
            Holds.PATH: names.path, Holds.PLACE: names.place, Holds.FRAME: names.frame,
            Holds.LIBRARY_FRAME: names.library_frame, Holds.MESSAGE: names.message,
            Holds.ARGUMENT: str, Holds.VERSION: names.version, Holds.LINE: self._numbered,
            Holds.ENVIRONMENT: str if ENVIRONMENT in keep else names.masked,
        }  # fmt: skip

    # -- rank files ---------------------------------------------------------------------------

    def line(self, line: bytes, log: str) -> bytes | None:
        """Return the new line for a line of a log, both without newline; None: leave it out."""
        head = _HEAD.match(line)
        if head is not None:
            cut = _end_of_body(line)
            tail = _TAIL.fullmatch(line, cut) if cut >= 0 else None
            if tail is not None:
                known = self._known.get(line[head.end() : cut])
                if known is not None:
                    new, call, *steps = known
                    place = Place(log, call.group, call.device)
                    self.programs.add(place, int(head[1]), int(tail[1]), *steps)
                    return line[: head.end()] + new + line[cut:]
        try:
            data = orjson.loads(line)
            record = from_dict(data)
        except (DamagedRecord, ValueError, RecursionError):
            return DAMAGED
        if record is None:
            return b'{"kind":"unknown","seq":0}' if b'"seq":' in line else b'{"kind":"unknown"}'
        if isinstance(record, Values) and config.IN_VARIABLES not in self._keep:
            return None
        if isinstance(record, SourceFile):
            data["sha256"] = self._new_text(record, bool(public_part(record.path)))
        changed = self._object(type(record), data)
        if isinstance(record, Header):
            changed.pop("inode", None)
            changed["omitted"] = sorted({*(record.omitted or ()), *self._taken_out})
        out = orjson.dumps(changed)
        if isinstance(record, Call):
            self._know(record, line, out, head, log)
        return out

    def _know(
        self, call: Call, line: bytes, out: bytes, head: re.Match[bytes] | None, log: str
    ) -> None:
        """Record the digest of a call, and remember how its line is changed."""
        if call.op in POINT_TO_POINT or call.program is None:
            return
        changed = replace(
            call, group=self._names.names(call.group),
            part=None if call.part is None else self._names.names(call.part),
        )  # fmt: skip
        steps = step(call, "", None).program, step(changed, "", None).program
        place = Place(log, changed.group, changed.device)
        self.programs.add(place, call.seq, call.program, *steps)
        new_head = _HEAD.match(out)
        if head is None or new_head is None:
            return
        cut, new_cut = _end_of_body(line), _end_of_body(out)
        if min(cut, new_cut) > 0 and _TAIL.fullmatch(line, cut):
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            body = out[new_head.end() : new_cut]
            self._known[line[head.end() : cut]] = body, changed, *steps

    def _object(self, cls: type[Any], data: dict[str, Any]) -> dict[str, Any]:
        """Return an object with placeholders; what the format does not know is left out."""
        names = {json_name(f.name): f.name for f in fields(cls)}
        out: dict[str, Any] = {"kind": data["kind"]} if cls in KINDS.values() else {}
        for key, value in data.items():
            name = names.get(key)
            if name is None or value is None:
                continue
            if name in _OBJECTS and isinstance(value, list):
                out[key] = [self._object(_OBJECTS[name], one) for one in value]
                continue
            holds = FIELDS.get(f"{PARTS[cls]}.{name}")
            if holds is None:
                out[key] = mapped(value, lambda _: "")
            elif holds is Holds.ARGUMENT and config.ARGUMENTS not in self._keep:
                # Whether ranks had the same command line is part of the finding.
                line = shlex.join(map(str, value))
                out[key] = [self._names.of("command", line)] if line else []
            elif key == "cwd":
                out[key] = ""
            elif holds is Holds.VALUE:
                out[key] = {self._names.names(n): self._value(one) for n, one in value.items()}
            elif isinstance(value, dict):
                change = self._changes[holds]
                out[key] = {self._names.names(n): mapped(one, change) for n, one in value.items()}
            else:
                out[key] = mapped(value, self._changes[holds])
        return out

    def _value(self, value: Any) -> Any:
        """Return what a variable held, with the name of its type replaced."""
        if not isinstance(value, dict):
            return value
        return value | {"type": self._names.names(value["type"])}

    def _numbered(self, text: str) -> str:
        """Return ``number text``, or more numbers before the text, of a line of the program."""
        if config.SOURCE in self._keep:
            return text
        found = re.match(r"((?:\d+|return|break|continue|raise|pass) )*", text)
        numbers = found[0] if found is not None else ""
        if config.SOURCE in self._taken_out:
            return numbers.rstrip()
        return numbers + structure.fragment(text[len(numbers) :], self._names)

    # -- digests ------------------------------------------------------------------------------

    def with_new_digests(self, line: bytes, log: str) -> bytes:
        """Return a line that has its placeholders, with the digests of the new names."""
        if line.startswith(b'{"kind":"call"') and b'"program":' in line:
            data = orjson.loads(line)
            place = Place(log, data["group"], data["device"])
            new = self.programs.new(place, data["seq"], data["program"])
            return line if new is None else _PROGRAM.sub(b'"program":%d' % new, line)
        if line.startswith(b'{"kind":"checkpoint"'):
            data = orjson.loads(line)
            for row in data.get("streams", ()):
                if len(row) == 6 and isinstance(row[4], int) and isinstance(row[2], int):
                    row[4] = self.programs.new(Place(log, str(row[0]), str(row[1])), row[2], row[4])
            return orjson.dumps(data)
        return line

    # -- beside them --------------------------------------------------------------------------

    def stacks(self, text: str) -> str:
        """Return what faulthandler wrote."""
        return "".join(f"{line}\n" for line in map(self._of_stacks, text.splitlines()) if line)

    def _of_stacks(self, line: str) -> str:
        if (frame := _FRAME.fullmatch(line)) is not None:
            place, _, function = self._names.frame(f"{frame[1]}:{frame[2]} {frame[3]}").rpartition(
                " "
            )
            return f'  File "{place.rpartition(":")[0]}", line {frame[2]} in {function}'
        if (fatal := _FATAL.fullmatch(line)) is not None:
            return f"{fatal[1]}{self._names.message(fatal[2])}"
        if (thread := _THREAD.fullmatch(line)) is not None:
            return f"{thread[1]}{self._names.names(thread[2])}"
        return ""

    def flight(self, data: bytes) -> bytes | None:
        """Return what torch's Flight Recorder holds, as JSON; None: it cannot be read."""
        try:
            return json.dumps(self._flight(json.loads(data), "")).encode()
        except (ValueError, RecursionError):
            return None

    def _flight(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            return self._names.path(value) if key == "filename" else self._names.names(value)
        if isinstance(value, list):
            return [self._flight(one, key) for one in value]
        if isinstance(value, dict):
            return {self._names.names(name): self._flight(one, name) for name, one in value.items()}
        return value


def _end_of_body(line: bytes) -> int:
    """Return the offset in a call's line from which it differs from similar calls; -1: none."""
    found = line.find(b',"iteration":')
    return found if found >= 0 else line.find(b',"digest":')


_FRAME: Final = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
_FATAL: Final = re.compile(r"(Fatal Python error: )(.*)")
_THREAD: Final = re.compile(r"((?:Current thread|Thread) 0x[0-9a-f]+)(.*)")

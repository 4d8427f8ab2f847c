"""Put calls, ranks, numbers and lists into words, the same in every finding and report.

Strings of a log go into findings shortened only. The code that prints them makes them safe.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Final

from collectrace import ops, roles
from collectrace.findings import DecisionSide, DependsOn, Evidence, GroupInfo, Way
from collectrace.records import DEFAULT_GROUP as DEFAULT_DESCRIPTION
from collectrace.records import NATIVE, Call, Group, Shape
from collectrace.signature import is_user, stands_at_its_line

ORIGINS: Final[Mapping[DependsOn, str]] = {
    "rank": "the rank", "clock": "a clock", "random": "random numbers",
    "files": "the file system", "environment": "the environment",
    "received": "what was received", "root": "a result of the root",
    "exception": "an exception", "order": "the order of a set",
    "state": "state that only some ranks changed", "chosen": "the rank", "data": "each rank's data",
    "length": "a length",
    "unknown": "something that the source does not show",
    "agreed": "a value that the ranks agreed on",
}  # fmt: skip
"""What the outcome of a statement depends on."""

_OUTCOMES: Final[Mapping[Way, tuple[str, str]]] = {
    "taken": ("true", ""), "not_taken": ("false", ""), "iterates": ("next iteration", ""),
    "ended": ("ends", ""), "case": ("matches a case", "matches line {}"),
    "no_case": ("no case matches", ""), "handler": ("caught", "caught at line {}"),
    "no_handler": ("not entered", ""), "raised": ("raises", ""),
    "calls": ("calls a function", "calls {}()"), "calls_other": ("calls another function", ""),
    "next": ("goes on to the next statement", ""), "value": ("computes a value", ""),
}  # fmt: skip
"""What a statement did; the second, if there is one, with the line or function that is known."""

_MOST_SHAPES: Final = 3
_LONGEST_TEXT: Final = 300

_SENTENCE: Final = 100
"""Characters of an exception's text after which its first sentence is enough."""

_FRAMES: Final = re.compile(r"^Traceback \(most recent.*\n(?:[ \t].*\n)*", re.MULTILINE)
"""A traceback in a text, down to its type and text, as torch.distributed.checkpoint quotes it."""

_ADDRESS: Final = re.compile(r"( object)? at 0x[0-9a-f]+(?=>)")
"""Of an object's ``repr``."""

# The place of an error in gloo's sources: "[/__w/pytorch/.../gloo/transport/tcp/pair.cc:553] ".
_CPP: Final = re.compile(r"^\[[^\]]*\.(cc|cpp|h):\d+\] ")


_MOST_RUNS: Final = 12
"""Runs of numbers that are listed; of more the first are, and how many there are."""

_LONGEST: Final = 24
"""Characters of a list of ranks that a sentence can hold."""

_FIRST: Final = 2
"""Runs that stand for a list that is longer."""

_LISTED: Final = 8
"""Members of a group that are listed; more are shown as ranges."""

_SERIES: Final = 5
"""Numbers at equal distances that are shown as a series."""


AT_ITS_END: Final = (
    "at the exit code in the launcher's output, and for the out-of-memory killer in the kernel's "
    "log (dmesg)"
)
"""The place to look if a rank died."""

DOING: Final = {
    "batch": "fetching a batch",
    "backward": "in backward()",
    "sync": "synchronising its device",
}
"""What a busy rank is doing, by ``Activity.what``."""


def ranges(numbers: Iterable[int]) -> str:
    """``0-2,5``: sorted, neighbours joined; ``0,8,..,504``; ``0,3,5-7,9,12,.. (40 in all)``."""
    chosen = sorted(set(numbers))
    step = chosen[1] - chosen[0] if len(chosen) >= _SERIES else 1
    if step > 1 and chosen == list(range(chosen[0], chosen[-1] + 1, step)):
        return f"{chosen[0]},{chosen[1]},..,{chosen[-1]}"
    runs: list[list[int]] = []
    for n in chosen:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    told = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    if len(told) <= _MOST_RUNS:
        return ",".join(told)
    return f"{','.join(told[: _MOST_RUNS - 2])},.. ({len(chosen)} in all)"


def ranks(members: Iterable[int]) -> str:
    """``rank 1``, ``ranks 0-2,5``; of a list too long for a sentence ``56 ranks (1-7,9-15,..)``."""
    chosen = sorted(set(members))
    listed = ranges(chosen)
    if len(listed) > _LONGEST:
        return f"{len(chosen)} ranks ({','.join(listed.split(',')[:_FIRST])},..)"
    return f"rank{'s' * (len(chosen) != 1)} {listed}"


def verb(members: Sized, singular: str, plural: str) -> str:
    """Return the form of a verb that fits the number."""
    return singular if len(members) == 1 else plural


def upper(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]


def lower(text: str) -> str:
    """Return a text with a small first letter."""
    return text[:1].lower() + text[1:]


def ordinal(n: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{suffix}"


def counted(n: int, noun: str, plural: str = "") -> str:
    """``1 call``, ``1,234 calls``, ``2 batches``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def listed(parts: Sequence[str], most: int | None = None) -> str:
    """``a``; ``a and b``; ``a, b and c``; of more than ``most`` parts ``a, b and 4 more``."""
    if most is not None and len(parts) > most:
        parts = [*parts[:most], f"{len(parts) - most} more"]
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def compared(evidence: Evidence) -> str:
    """Return what agrees: ``1 collective and 162 messages``; empty: nothing was compared."""
    parts = [counted(evidence.agreed, "collective")] if evidence.agreed else []
    parts += [counted(evidence.messages, "message")] if evidence.messages else []
    return listed(parts)


def seconds(ns: float) -> str:
    """``17 ms``, ``0.2 s``, ``75 s``, ``30 min``."""
    s = max(0.0, ns / 1e9)
    if s < 0.1:
        return f"{1000 * s:.0f} ms"
    if s < 10:
        return f"{s:.1f} s"
    return f"{s:.0f} s" if s < 600 else f"{s / 60:.0f} min"


def milliseconds(ns: float) -> str:
    """``12.3 ms``; from a second on as :func:`seconds` says it."""
    return f"{ns / 1e6:.1f} ms" if ns < 1e9 else seconds(ns)


def brief(text: str, limit: int = _LONGEST_TEXT) -> str:
    """Return a text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def exception(error: str, message: str) -> str:
    """Return ``RuntimeError: Connection closed by peer``, without C++ files and advice.

    Addresses of objects are left out, so that equal errors of ranks have equal texts. If the text
    quotes a traceback, only the text after the frames is returned.
    """
    told = brief(_ADDRESS.sub("", _CPP.sub("", _FRAMES.split(message)[:2][-1])))
    if len(told) > _SENTENCE and (end := told.find(". ", 20)) > 0:
        told = told[:end]
    told = told if told.endswith("...") else told.rstrip(".")
    return f"{error}: {told}" if told else error


DEFAULT_GROUP: Final = "the default group"

_HASHED: Final = re.compile(r"[0-9a-f]{40}")
"""``new_group(..., use_local_synchronization=True)`` names a group by SHA-1."""


def group(info: GroupInfo) -> str:
    """Return ``the default group``, ``group tp``: the user's name for it, or torch's."""
    if info.description == DEFAULT_DESCRIPTION:
        return DEFAULT_GROUP
    # torch describes a group that was given no description as "undefined".
    if info.description in ("", "undefined", info.name):
        if _HASHED.match(info.name) and info.ranks:
            return f"the group of {ranks(info.ranks)}"
        return named_group(info.name)
    return f"group {info.description}"


def creation(group: Group | GroupInfo) -> str:
    """Return ``new_group([0, 1])``: the call that creates a group."""
    if group.description == DEFAULT_DESCRIPTION:
        return "init_process_group()"
    those = ", ".join(map(str, group.ranks)) if len(group.ranks) <= _LISTED else ranges(group.ranks)
    return f"new_group([{those}])"


def named_group(name: str) -> str:
    """Return words for a group with only a known name. torch counts groups; 0 is the default group.

    A name that is a hash of its members is shortened to its beginning.
    """
    name = _HASHED.sub(lambda found: f"{found[0][:8]}..", name)
    return DEFAULT_GROUP if name.partition("@")[0] == "0" else f"group {name}"


def site(place: str) -> str:
    """``file:line``, without its folders."""
    return place.rpartition("/")[2]


def names_site(text: str, place: str) -> bool:
    """Return whether a text names a line in the form of :func:`site`."""
    return re.search(rf"(?<![\w.-]){re.escape(site(place))}(?!\d)", text) is not None


def at(call: Call) -> str:
    """`` at train.py:43``, or nothing."""
    return at_site(call.site)


def at_site(place: str | None) -> str:
    """`` at train.py:43``, or nothing."""
    return f" at {site(place)}" if place else ""


def in_thread(call: Call) -> str:
    """`` in thread saver``; nothing for the main thread, and for one that Python did not start."""
    is_named = call.thread and not call.thread.startswith(NATIVE)
    return f" in thread {call.thread}" if is_named else ""


def tensors(call: Call) -> str:
    """``float32[2, 3]``; empty where the call has none."""
    if call.dtype is None:
        return ""
    dtype = call.dtype if isinstance(call.dtype, str) else ", ".join(dict.fromkeys(call.dtype))
    return dtype + _shape(call.shape if call.shape is not None else call.out_shape)


def sized(call: Call) -> str:
    """``float32[2, 3] (6 elements)``: as backends count them, where the shape does not say it."""
    shape = call.shape if call.shape is not None else call.out_shape
    sizes = [n for n in shape or () if isinstance(n, int)]
    if not _FLAT < len(sizes) <= _DEEP:
        return tensors(call)
    return f"{tensors(call)} ({math.prod(sizes)} elements)"


_FLAT: Final = 1
"""Dimensions of a tensor that shows its number of elements."""
_DEEP: Final = 16
"""Dimensions, the most that are multiplied: a damaged record may hold any number."""


def _shape(value: Shape | None) -> str:
    if value is None:
        return ""
    if not value or not isinstance(value[0], list):
        return str(value)
    if len(value) > _MOST_SHAPES:
        return f"[{len(value)} tensors]"
    return " and ".join(map(str, value))


def op(call: Call) -> str:
    """Return a call: ``all_reduce(float32[1], SUM)``, ``send(int64[4], to rank 1)``."""
    if call.void:
        return f"{call.op} (not described)"
    parts = [tensors(call), call.reduce_op or ""]
    if call.root is not None:
        parts.append(f"{root(call)} {call.root}")
    if call.peer is not None:
        parts.append(peer(call))
        parts += [f"tag {call.tag}"] if call.tag else []
    return f"{call.op}({', '.join(part for part in parts if part)})"


def whole(call: Call) -> str:
    """Return a call as a table shows it: ``all_reduce float32[2, 3] SUM``."""
    if call.void:
        return f"{call.op} (could not be described)"
    shown = dtypes(call) + shapes(call.shape)
    if call.out_shape is not None:
        shown += f" -> {shapes(call.out_shape)}"
    parts = [call.op, shown, call.reduce_op or ""]
    if call.root is not None:
        parts.append(f"root {call.root}")
    if call.peer is not None:
        parts.append(peer(call) + (f", tag {call.tag}" if call.tag else ""))
    if call.splits and len(call.splits) == 2:
        parts.append(f"sends {call.splits[0]}, expects {call.splits[1]}")
    return " ".join(part for part in parts if part)


def dtypes(call: Call) -> str:
    """Return ``float32``; several are joined by commas."""
    if call.dtype is None:
        return ""
    return ",".join(dict.fromkeys([call.dtype] if isinstance(call.dtype, str) else call.dtype))


def shapes(value: Shape | None) -> str:
    """Return ``[2, 3]``; for a list of tensors each one's, or how many there are."""
    if value is None:
        return ""
    if not value or not isinstance(value[0], list):
        return str(value)
    if len(value) > _MOST_SHAPES:
        same = all(one == value[0] for one in value)
        return f"{len(value)} x {value[0]}" if same else f" in {len(value)} tensors"
    return " ".join(map(str, value))


def peer(call: Call) -> str:
    """Return the peer of a message: ``to rank 1``, ``from any rank``."""
    other = "any rank" if call.peer is None or call.peer < 0 else f"rank {call.peer}"
    return f"{'from' if call.op == 'recv' else 'to'} {other}"


def other_end(call: Call) -> str:
    """Return the matching call: ``the send of rank 1``; of a collective the calls of all ranks."""
    if call.peer is None:
        return f"the {call.op} of all others"
    op, who = "send" if call.op == "recv" else "recv", f"rank {call.peer}"
    return f"the {op} of {who if call.peer >= 0 else 'whichever rank it is for'}"


def root(call: Call) -> str:
    """Return torch's name of the root argument: ``src``, ``dst``."""
    return ops.of(call.op).root or "root"


def issuer(call: Call) -> str:
    """Return the issuer: the framework's part in words, or ``the user's call``."""
    if is_user(call):
        return roles.words(roles.USER)
    return roles.words(call.role) + (of_model(call) if call.model and call.model > 1 else "")


def of_model(call: Call) -> str:
    """`` of model 2``: DDP modules of one group, counted as they were constructed."""
    return f" of model {call.model or 1}"


def call(c: Call, place: str | None = None) -> str:
    """Return a call with its arguments, its line, and its issuer if that is not the user.

    ``place`` replaces the line, in the form of :func:`at`.
    """
    whole = op(c) + (at(c) if place is None else place) + in_thread(c)
    if is_user(c):
        return f"{c.api}(): {whole}" if c.api and c.api != c.op else whole
    return f"{whole} ({issuer(c)})"


def name(c: Call) -> str:
    """Return its name in a headline: the user's function, or the issuer."""
    if not is_user(c):
        row = roles.of(c.role)
        if not stands_at_its_line(c):
            return row.issuer
        if c.role.endswith(".other"):  # the part is not known, but its op is
            return f"{row.short} {c.op}"
        names_part = c.part and (row.is_library or not row.is_asked)
        return f"{row.short} of {c.part}" if names_part else row.short
    return c.api or c.op


def outcome(side: DecisionSide) -> str:
    """Return what a statement did on a side: ``true``, ``calls step()``."""
    if side.did is None:
        return "not known"
    plain, with_place = _OUTCOMES[side.did]
    place = side.name or side.line
    return with_place.format(place) if place and with_place else plain


def message(c: Call) -> str:
    """``recv``; ``recv (irecv)`` where the script asked for it by another name."""
    return f"{c.op} ({c.api})" if is_user(c) and c.api and c.api != c.op else c.op


def did(members: tuple[int, ...], c: Call, what: str = "") -> str:
    """``rank 1 called barrier``, ``ranks 0-2 were in DDP backward()``."""
    verb_ = "called" if is_user(c) else verb(members, "was in", "were in")
    return f"{ranks(members)} {verb_} {what or name(c)}"

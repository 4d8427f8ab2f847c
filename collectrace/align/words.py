"""Calls, ranks and numbers as parts of sentences.

Strings of a log go into findings as they are, only shortened: what prints them makes them safe
for where they are printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collectrace import roles
from collectrace.findings import GroupInfo
from collectrace.records import Call, Shape
from collectrace.signature import is_user

_MOST_SHAPES = 3
_LONGEST = 300


def ranges(numbers: Iterable[int]) -> str:
    """``0-2, 5``: sorted, runs of three and more joined."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    parts: list[str] = []
    for first, last in runs:
        parts += [str(first)] if first == last else [f"{first}-{last}"]
        if last == first + 1:
            parts[-1:] = [str(first), str(last)]
    return ", ".join(parts)


def ranks(members: Iterable[int]) -> str:
    """``rank 1``; ``ranks 0 and 1``; ``ranks 0-2, 5``."""
    chosen = sorted(set(members))
    if len(chosen) == 1:
        return f"rank {chosen[0]}"
    if len(chosen) == 2:
        return f"ranks {chosen[0]} and {chosen[1]}"
    return f"ranks {ranges(chosen)}"


def verb(members: Sequence[int], singular: str, plural: str) -> str:
    """The form of a verb that fits the number of ranks."""
    return singular if len(members) == 1 else plural


def upper(text: str) -> str:
    """With a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]


def ordinal(n: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def counted(n: int, noun: str, plural: str = "") -> str:
    """``1 call``, ``2 calls``, ``2 batches``."""
    return f"{n} {noun if n == 1 else plural or noun + 's'}"


def seconds(ns: float) -> str:
    """``0.2 s``, ``75 s``, ``30 min``."""
    s = max(0.0, ns / 1e9)
    if s < 10:
        return f"{s:.1f} s"
    return f"{s:.0f} s" if s < 600 else f"{s / 60:.0f} min"


def brief(text: str, limit: int = _LONGEST) -> str:
    """One line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def group(info: GroupInfo) -> str:
    """``the default group``, ``group tp``: what the user calls it, else its name."""
    if info.description == "default_pg":
        return "the default group"
    # torch describes a group that was given no description as "undefined".
    if info.description in ("", "undefined", info.name):
        return f"group {info.name}"
    return f"group {info.description}"


def site(place: str) -> str:
    """``file:line``, without its folders."""
    return place.rpartition("/")[2]


def at(call: Call) -> str:
    """`` at train.py:43``, or nothing."""
    return f" at {site(call.site)}" if call.site else ""


def tensors(call: Call) -> str:
    """``float32[2, 3]``; empty where the call has none."""
    if call.dtype is None:
        return ""
    dtype = call.dtype if isinstance(call.dtype, str) else ", ".join(dict.fromkeys(call.dtype))
    return dtype + _shape(call.shape if call.shape is not None else call.out_shape)


def _shape(value: Shape | None) -> str:
    if value is None:
        return ""
    if not value or not isinstance(value[0], list):
        return str(value)
    if len(value) > _MOST_SHAPES:
        return f"[{len(value)} tensors]"
    return " and ".join(map(str, value))


def op(call: Call) -> str:
    """A call whole: ``all_reduce(float32[1], SUM)``, ``send(int64[4], to rank 1)``."""
    if call.void:
        return f"{call.op} (not described)"
    parts = [tensors(call), call.reduce_op or ""]
    if call.root is not None:
        parts.append(f"{_ROOT.get(call.op, 'root')} {call.root}")
    if call.peer is not None:
        other = "any rank" if call.peer < 0 else f"rank {call.peer}"
        parts.append(f"{'from' if call.op == 'recv' else 'to'} {other}")
        parts += [f"tag {call.tag}"] if call.tag else []
    return f"{call.op}({', '.join(part for part in parts if part)})"


_ROOT = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst"}
"""What torch calls the root."""


def issuer(call: Call) -> str:
    """Who issued it: the framework's part in words, or ``the user's call``."""
    if is_user(call):
        return "the script's own call"
    of = f" (model {call.model})" if call.model and call.model > 1 else ""
    return roles.words(call.role) + of


def call(c: Call) -> str:
    """A call whole, where it was made, and by which framework's part if not by the user."""
    whole = op(c) + at(c)
    if c.api and c.api != c.op and is_user(c):
        whole = f"{c.api}(): " + whole
    return whole if is_user(c) else f"{whole} ({issuer(c)})"


def listed(parts: Sequence[str]) -> str:
    """``a``; ``a and b``; ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"

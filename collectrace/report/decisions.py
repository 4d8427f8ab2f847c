"""The statements that can have sent ranks different ways, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from collectrace import words
from collectrace.findings import Decision, DecisionSide, DependsOn, Strength, Way
from collectrace.report import text

_MOST_NAMES: Final = 6
"""Names whose values are shown of one rank."""

DID: Final[Mapping[Way, str]] = {
    "next": "went on",
    "taken": "the condition was true",
    "not_taken": "the condition was false",
    "iterates": "the loop began another iteration",
    "ended": "the loop ended",
    "case": "a case matched",
    "no_case": "no case matched",
    "handler": "the handler was entered",
    "no_handler": "no handler was entered",
    "raised": "an exception was raised",
    "calls": "called the function",
    "calls_other": "did not call that function",
    "value": "computed a value",
}

DEPENDS_ON: Final[Mapping[DependsOn, str]] = {
    "rank": "the rank",
    "clock": "a clock",
    "random": "a random generator",
    "files": "the file system",
    "environment": "the environment or the host",
    "received": "a received message",
    "root": "a result that only the root of a collective gets",
    "exception": "whether an exception was raised",
    "order": "the order of a set",
    "data": "batches or tensors of the rank",
    "length": "a length",
    "unknown": "something that the source does not show",
    "agreed": "what is the same on both ranks",
}

SURE: Final[Mapping[Strength, str]] = {
    "only": "The source shows no other statement that can have decided.",
    "confirmed": "Confirmed: a value that it depends on differs between the two ranks.",
    "equal": "Its values that were read are equal on both ranks.",
    "possible": "It can have decided; so can others.",
}


def described(decision: Decision) -> Iterator[str]:
    """Return what each side did at a statement, and how sure it is that it decided."""
    ranks = [side.rank for side in decision.sides]
    for n, side in enumerate(decision.sides):
        # A rank may be compared with itself in an earlier iteration.
        yield _side(side, is_before=side.rank in ranks[:n])
    told = f"depends on {words.listed([DEPENDS_ON[one] for one in decision.depends_on])}. "
    yield told + SURE[decision.strength]
    if decision.read_later:
        names = words.listed([f"`{text.clean(one)}`" for one in decision.read_later[:_MOST_NAMES]])
        yield f"Read later, may have changed since: {names}."


def _side(side: DecisionSide, *, is_before: bool) -> str:
    """Return ``rank 1: the condition was false; `loss` is nan``."""
    held = [
        f"`{text.clean(name)}` is {value(one)}"
        for name, one in list((side.values or {}).items())[:_MOST_NAMES]
    ]
    return f"rank {side.rank}{' usually' if is_before else ''}: {'; '.join([_did(side), *held])}"


def _did(side: DecisionSide) -> str:
    if side.did is None:
        return "which way it went is not known"
    did = DID[side.did]
    if side.did == "calls" and side.name:
        return f"called {text.clean(side.name)}()"
    if side.did in ("case", "handler") and side.line:
        return f"{did} (line {side.line})"
    return did


def value(one: Any) -> str:
    """Return what a record says of a value, in words: ``nan``, ``a list of 4``."""
    if not isinstance(one, Mapping):
        return text.clean(str(one))
    kind = text.clean(str(one.get("type", "")))
    if "shape" in one or "dtype" in one:
        tensor = f"{kind} {one.get('dtype', '')}{one.get('shape', '')}"
        return f"{one['value']} ({text.clean(tensor)})" if "value" in one else text.clean(tensor)
    if "value" in one:
        return text.clean(str(one["value"]))
    if "len" in one:
        return f"a {kind} of {one['len']}{_hash(one)}"
    return f"a {kind}"


def _hash(one: Mapping[str, Any]) -> str:
    """Return what tells strings apart whose text is not recorded."""
    return f", hash {one['hash']}" if "hash" in one else ""

"""Compare the values that the names of a decision held on two ranks."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from collectrace.align.code import names
from collectrace.align.code.between import Side
from collectrace.align.code.decisions import Decision
from collectrace.align.code.files import Frame, Function, Gap
from collectrace.align.code.graph import Way
from collectrace.align.code.lasting import Lasting
from collectrace.align.code.program import Program
from collectrace.align.reading.evidence import RankLog
from collectrace.findings import Strength
from collectrace.records import DDP_FORWARD, FrameValues

Plain = Any
"""A value as a record stores it."""

_UNSETTLED: Final = "unsettled"
_SHOWS_ALL: Final = ("value", "hash")
"""Fields that distinguish a value from all others of its type."""


@dataclass(frozen=True, slots=True)
class Held:
    """The values of a decision's names."""

    values: tuple[Mapping[str, Plain], Mapping[str, Plain]]
    """By side, the values that are still those that the decision used."""
    later: tuple[str, ...] = ()
    """Names that may have changed since the decision, on at least one rank."""
    outcomes: tuple[bool | int | None, bool | int | None] = (None, None)
    """By side, what the statement did with these values; None: unknown."""
    is_of_names: bool = True
    """The statement depends only on its names."""

    @property
    def strength(self) -> Strength | None:
        """What the values prove about the decision; None: nothing."""
        if None not in self.outcomes:
            return "equal" if self.outcomes[0] == self.outcomes[1] else "confirmed"
        one, two = self.values
        compared = [_are_equal(one[name], two[name]) for name in one if name in two]
        if False in compared:
            return "confirmed"
        is_whole = one.keys() == two.keys() and not self.later and self.is_of_names
        return "equal" if compared and is_whole and all(compared) else None


@dataclass(frozen=True, slots=True)
class Levels:
    """The functions that a rank was in when its variables were read, innermost first."""

    functions: Sequence[FrameValues] = field(default_factory=tuple)

    @classmethod
    def of(cls, log: RankLog | None, side: Side, t: int | None) -> Levels:
        """Return the functions of a side with variables that were read in its next call.

        ``t``: when it made that call; None if it made none. Empty if the thread was elsewhere.
        """
        if log is None or (t is not None and not _is_in_call_of(log, t)):
            return cls()
        found = sorted(log.values.values(), key=lambda one: -one.t)
        for record in found:
            at = [Frame.parse(one.frame) for one in record.functions]
            if at and _are_same_lines(at, side.stack):
                return cls(record.functions)
        return cls()

    def of_function(self, function: Function) -> FrameValues | None:
        """Return the values of a function; None if it is not on the stack exactly once."""
        found = [
            one
            for one in self.functions
            if Frame.parse(one.frame).path == function.file.path
            and Frame.parse(one.frame).function == function.qualified
            and (function.parent is None or one.first_line == function.first)
        ]
        return found[0] if len(found) == 1 and not found[0].moved else None


def is_one_iteration(levels: Sequence[Levels], function: Function, loop: ast.AST) -> bool:
    """Return whether all sides were in the same iteration of a loop, by its loop variable.

    Two iterations of a loop seldom have the same number or string.
    """
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    name, values = names.loop_variable(loop), list[Plain]()
    for one in levels:
        read = one.of_function(function)
        line = Frame.parse(read.frame).line if read is not None else 0
        if read is None or not loop.body[0].lineno <= line <= (loop.body[-1].end_lineno or 0):
            return False
        values.append(read.values.get(name))
    return type(values[0]) in (int, str) and all(one == values[0] for one in values)


def values_held(program: Program, decision: Decision, rank: int, levels: Sequence[Levels]) -> Held:
    """Return what the names of a decision held on both sides; ``rank`` is one of them."""
    at = Frame(decision.site.path, decision.site.line, decision.function)
    function = program.files.function(rank, at)
    if isinstance(function, Gap):
        return Held(({}, {}))
    lasting = Lasting(program, function, decision.site)
    values: list[dict[str, Plain]] = []
    later: dict[str, None] = {}
    used = lasting.names()
    for level, did in zip(levels, decision.outcomes, strict=True):
        mine: dict[str, Plain] = {}
        read = level.of_function(function)
        if read is None:
            values.append(mine)
            continue
        for name in used:
            if name not in read.values:
                continue
            value = _settled(read.values[name])
            if value is not None and lasting.lasts(name, Frame.parse(read.frame).line, did):
                mine[name] = value[0]
            else:
                later[name] = None
        values.append(mine)
    one, two = values
    known = Held((one, two), tuple(later), is_of_names=lasting.is_of_names())
    if any(did is not None and did.way is Way.VALUE for did in decision.outcomes):
        return known  # the values show which items a loop visits, not how many
    return replace(known, outcomes=(lasting.outcome(one), lasting.outcome(two)))


def _is_in_call_of(log: RankLog, t: int) -> bool:
    """Return whether a rank is still in what made its call at ``t``.

    One forward of DDP may make several calls.
    """
    last = log.last_call
    if last is None or last.t <= t:
        return True
    if not last.role.startswith(f"{DDP_FORWARD}.") or last.iteration is None:
        return False
    seen = log.vocabulary.appearances
    made = {
        (one.where, one.role, rows.iteration[at])
        for rows, _ in map(log.rows, log.counts)
        for at in range(bisect_left(rows.t, t), len(rows))
        for one in [seen[rows.appearance[at]]]
    }
    return len(made) == 1 and log.unit == DDP_FORWARD


def _are_same_lines(at: Sequence[Frame], stack: Sequence[Frame]) -> bool:
    """Return whether two stacks are at the same lines, as far as both are known."""
    both = list(zip(at, stack, strict=False))
    return bool(both) and all(
        (one.path, one.line) == (two.path, two.line)
        and (not two.function or one.function == two.function)
        for one, two in both
    )


def _settled(value: Plain) -> tuple[Plain] | None:
    """Return a value without numbers that a pending call may overwrite; None if nothing is left."""
    if not isinstance(value, dict) or not value.get(_UNSETTLED):
        return (value,)
    rest = {key: one for key, one in value.items() if key != "value"}
    return (rest,) if rest.keys() - {_UNSETTLED, "type"} else None


def _are_equal(one: Plain, two: Plain) -> bool | None:
    """Return whether two values are equal; None if the records do not show it."""
    if not isinstance(one, dict) or not isinstance(two, dict):
        return bool(one == two)
    if any(one[key] != two[key] for key in one.keys() & two.keys()):
        return False
    shown = any(key in one and key in two for key in _SHOWS_ALL)
    return True if shown else None

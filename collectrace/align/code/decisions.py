"""The types of the answer, and the source lines that identify statements for a reader."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from collectrace.align.code import origins
from collectrace.align.code.files import Function, Gap
from collectrace.align.code.graph import Kind, Node, Outcome
from collectrace.align.code.origins import Origin
from collectrace.align.code.places import Place, Site, Source

Outcomes = tuple[Outcome | None, Outcome | None]
"""What a statement did on each side; None: several outcomes are possible."""


class Strength(Enum):
    """How certain it is that a statement decided."""

    ONLY = "only"
    """The source shows no other statement that can have decided."""
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True)
class Decision:
    """A statement that can have sent two ranks different ways."""

    site: Site
    text: str
    """The line, without indentation."""
    function: str
    """Qualified name."""
    outcomes: Outcomes
    origins: tuple[Origin, ...]
    """What it depends on, the most informative first."""
    strength: Strength = Strength.POSSIBLE
    comes_from: Site | None = None
    """The line where the first origin comes in, if it is another line."""
    is_constant: bool = False
    """Its outcome is the same each time: ``for _ in range(3)``."""

    @property
    def origin(self) -> Origin:
        """The most informative origin."""
        return self.origins[0] if self.origins else Origin.UNKNOWN


@dataclass(frozen=True, slots=True)
class Answer:
    """The decisions between two next calls."""

    decisions: tuple[Decision, ...] = ()
    """In the order in which control reaches them after the last common call."""
    dropped: tuple[Decision, ...] = ()
    """Branches between the calls that depend only on agreed values. If there are no others, the
    ranks diverged earlier: one of them ran an iteration without a call."""
    gaps: frozenset[Gap] = frozenset()
    """Why a decision may be missing from the list."""


def merged(one: Decision, other: Decision) -> Decision:
    """Return a decision with the origins of another one at the same line added.

    The more informative origin names the earlier line. If either tests the rank directly, the
    result names none.
    """
    found = origins.sorted_by_weight({*one.origins, *other.origins})
    asks = any(part.origin is Origin.RANK and part.comes_from is None for part in (one, other))
    is_of_other = one.origin is not found[0] and other.origin is found[0]
    comes_from = None if asks else (other if is_of_other else one).comes_from
    return replace(one, origins=found, comes_from=comes_from)


IMPORTS: Final = ast.Import, ast.ImportFrom


def origin_site(sources: Sequence[Source], found: Sequence[Origin], line: int) -> Site | None:
    """Return the line where the first origin of a value comes in, if it is another line."""
    # What tests the rank tells more than what is made of its outcome.
    for one in sorted(sources, key=lambda one: not _is_test(one.inner or one.place)):
        place = one.inner or one.place
        node = place.node
        is_import = node is not None and isinstance(node.tree, IMPORTS)
        if found and one.origin is found[0] and not is_import:
            at = node.line if node is not None else place.line
            if at and at != line:
                return Site(place.function.file.path, at)
            return _where_set(sources)
    return None


def _where_set(sources: Sequence[Source]) -> Site | None:
    """Return the line that sets a flag of an object, as ``control.should_stop = True``."""
    for place in (one.place for one in sources):
        match place.node.tree if place.node is not None else None:
            case ast.Assign(
                targets=[ast.Attribute()], value=ast.Constant(value=bool()), lineno=line
            ):
                return Site(place.function.file.path, line)
    return None


def _is_test(place: Place) -> bool:
    return place.node is not None and place.node.kind is Kind.TEST


def compares_constant(condition: ast.AST | None) -> bool:
    """Whether a condition compares with a string or constant, as in ``name == "forces"``."""
    return isinstance(condition, ast.Compare) and any(
        (isinstance(one, ast.Constant) and isinstance(one.value, str))
        or (isinstance(one, ast.Name) and one.id.isupper())
        for one in condition.comparators
    )


def is_item(source: Source) -> bool:
    """Whether a value is an item of a loop."""
    return source.place.node is not None and source.place.node.kind is Kind.LOOP


def at_line(
    function: Function,
    line: int,
    outcomes: Outcomes,
    found: tuple[Origin, ...],
    comes_from: Site | None = None,
) -> Decision:
    """Return the decision of a statement at a line of a function."""
    file = function.file
    text = file.whole_line(line)
    at = Site(file.path, line)
    return Decision(at, text, function.qualified, outcomes, found, comes_from=comes_from)


_COMPOUND: Final = ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Assert


def line_of(node: Node) -> int:
    """Return the line that identifies a step for a reader."""
    if node.kind in (Kind.TEST, Kind.LOOP) and isinstance(node.head, _COMPOUND):
        return node.head.lineno
    return node.line

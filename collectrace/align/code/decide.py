"""Find the statements that can have decided that two ranks made different calls.

The input is the stack of the last call that both ranks made, and for each rank the stack of its
next call, or how it ended. The output is a list of decisions, each with what it depends on. It says
what the source allows, not what happened.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from collectrace.align.code import branches
from collectrace.align.code.between import Between, Side
from collectrace.align.code.branches import TARGETS, Branch, Region
from collectrace.align.code.files import Gap
from collectrace.align.code.graph import Kind, Node, Outcome, Way
from collectrace.align.code.paths import Context, Edge, Program


class Strength(Enum):
    """How sure it is that a statement decided."""

    ONLY = "only"
    """The source shows no other statement that can have decided."""
    POSSIBLE = "possible"


class Site(NamedTuple):
    """A line of a file."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A statement that can have sent two ranks different ways."""

    site: Site
    text: str
    """The line, without indentation."""
    function: str
    """Qualified name."""
    outcomes: tuple[Outcome | None, Outcome | None]
    """What it did on either side; None: it may have done several things."""
    strength: Strength


@dataclass(frozen=True, slots=True)
class Answer:
    """The decisions between two next calls."""

    decisions: tuple[Decision, ...] = ()
    """In the order in which control reaches them after the last common call."""
    gaps: frozenset[Gap] = frozenset()
    """Why a decision may be missing from the list."""


def decide(program: Program, one: Side, two: Side) -> Answer:
    """Return the statements that can have decided between the next calls of two sides."""
    gaps: set[Gap] = set()
    if _is_different(program, one, two):
        return Answer(gaps=frozenset({Gap.DIFFERENT}))
    try:
        between = Between(program, (one, two), gaps)
        found: dict[Site, Decision] = {}
        for region in between.regions(gaps):
            naming = _Naming(between, region)
            same = between.same and Gap.UNREACHABLE not in gaps
            for branch in branches.separating(region, same=same):
                for decision in naming.decisions(branch):
                    found.setdefault(decision.site, decision)
    except LookupError:
        return Answer(gaps=frozenset({*gaps, Gap.UNREACHABLE}))
    except (OverflowError, RecursionError):
        return Answer(gaps=frozenset({*gaps, Gap.TOO_LARGE}))
    return Answer(tuple(found.values()), frozenset(gaps))


def _is_different(program: Program, one: Side, two: Side) -> bool:
    """Whether the two sides ran different text of a file on their stacks."""
    paths = {frame.path for side in (one, two) for frame in (*side.last, *side.stack)}
    texts = [[program.files.file(side.rank, path) for side in (one, two)] for path in paths]
    return any(a is not b for a, b in texts)


class _Naming:
    """Names the statements of a region by which a reader knows its branches."""

    def __init__(self, between: Between, region: Region) -> None:
        self._between = between
        self._region = region

    def decisions(self, branch: Branch) -> Iterator[Decision]:
        """Return the decisions that a branch stands for: its handlers, if it is an exception."""
        for context, node in self._named(branch):
            yield self._decision(branch, context, node)

    def _named(self, branch: Branch) -> Iterator[tuple[Context, Node]]:
        """Return the nodes by which a branch is called: its handlers, if it is an exception."""
        context, node = self._between.owner(branch.step)
        if branch.by_exception or node.kind is Kind.DISPATCH:
            yield from self._handlers(branch)
            return
        if node.kind in (Kind.EXIT, Kind.YIELD, Kind.RAISED) and context.parent and context.call:
            yield context.parent, context.call
        else:
            yield context, node

    def _handlers(self, branch: Branch) -> Iterator[tuple[Context, Node]]:
        """Return the handlers that an exception may reach first, if that separates the sides."""
        edges = self._region.edges[branch.step]
        normal = 0
        for edge in edges:
            normal |= 0 if edge.is_exception else self._region.leads[edge.target]
        todo: deque[tuple[int, tuple[Context, Node] | None]] = deque(
            (edge.target, None) for edge in edges if edge.is_exception or not branch.by_exception
        )
        seen = set(todo)
        while todo:
            step, block = todo.popleft()
            if step in TARGETS:
                if block is not None:  # no handler, but a call in a ``finally``
                    yield block
                continue
            context, node = self._between.owner(step)
            lead = self._region.leads[step]
            if node.kind is Kind.HANDLER:
                if lead not in (normal, 0) or lead == branches.BOTH:
                    yield context, node
                continue
            if node.kind is Kind.FINALLY:
                block = block or (context, node)
            for edge in self._region.edges.get(step, ()):
                if (edge.target, block) not in seen:
                    seen.add((edge.target, block))
                    todo.append((edge.target, block))

    def _decision(self, branch: Branch, context: Context, node: Node) -> Decision:
        line = _line(node)
        file = context.function.file
        outcomes = [
            _outcome(self._region, branch, node, mark) for mark in (branches.ONE, branches.TWO)
        ]
        return Decision(
            Site(file.path, line), file.line(line), context.function.qualified,
            (outcomes[0], outcomes[1]), Strength.POSSIBLE,
        )  # fmt: skip


_COMPOUND = (
    ast.If,
    ast.While,
    ast.For,
    ast.AsyncFor,
    ast.With,
    ast.AsyncWith,
    ast.Match,
    ast.Assert,
)


def _line(node: Node) -> int:
    """Return the line by which a reader knows a node."""
    if node.kind in (Kind.TEST, Kind.LOOP) and isinstance(node.head, _COMPOUND):
        return node.head.lineno
    return node.line


def _outcome(region: Region, branch: Branch, node: Node, mark: int) -> Outcome | None:
    """Return what a branch did on a side; None: several outcomes are possible."""
    possible = {
        _named_outcome(edge, node, branch)
        for edge in region.edges[branch.step]
        if region.leads[edge.target] & mark
    }
    return possible.pop() if len(possible) == 1 else None


def _named_outcome(edge: Edge, node: Node, branch: Branch) -> Outcome:
    if branch.by_exception:
        return Outcome(Way.HANDLER, line=node.line) if edge.is_exception else Outcome(Way.NEXT)
    return edge.outcome

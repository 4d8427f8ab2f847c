"""All paths through the functions on a few stacks, as one graph.

A context is a function below one chain of calls on one of the stacks; each chain has its own. A
call enters the contexts below it and continues behind it. A function that is on none of the stacks
issues no call of interest, so calling it is a single step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from collectrace.align.code import calls
from collectrace.align.code.files import Function
from collectrace.align.code.graph import NEXT, Graph, Kind, Node, Outcome, Way
from collectrace.align.code.program import Level, Program

MOST_STEPS: Final = 30_000
"""Steps of a graph of paths."""

_MOST_CONTEXTS: Final = 64

_WAYS_OF_ENDED: Final = {Kind.LOOP: (Way.ENDED,), Kind.UNWIND: (Way.HANDLER,)}
"""Outcomes of a step if the generator that it drives ends. A context manager made of a generator
suppresses an exception by ending."""


ONE: Final = 1
TWO: Final = 2
BOTH: Final = ONE | TWO
"""The sides that are compared, as bits."""


@dataclass(eq=False, slots=True)
class Context:
    """A function below one chain of calls."""

    function: Function
    graph: Graph
    parent: Context | None
    call: Node | None
    """The step of the parent that calls it."""
    certain: bool
    """That step calls the function every time."""
    offset: int
    """Number of its first step among the steps of all contexts."""
    loops: tuple[int, ...]
    """Heads of the loops around the call, outermost first, as step numbers."""
    children: dict[int, list[Context]] = field(default_factory=dict)
    """By number of the calling node."""


class Edge(NamedTuple):
    """A transition from one step to another."""

    target: int
    outcome: Outcome
    is_exception: bool
    sides: int = BOTH
    """The sides that can take it: ``ONE``, ``TWO`` or both."""


class Paths:
    """The graph of all paths through the functions on a few stacks."""

    def __init__(self, program: Program, root: Level) -> None:
        self._program = program
        self._contexts: list[Context] = []
        self._owners: dict[int, tuple[Context, Node]] = {}
        self.is_trusting = True
        """A step that must call a function, judged by its name, does call it."""
        self.root = self._context(root, None, None)

    def place(self, levels: Sequence[Level], *, raises: bool = False) -> list[int]:
        """Return the steps at which the innermost frame of a stack may be.

        ``raises``: the stack is that of an exception.

        Raises:
            OverflowError: there are too many.

        """
        contexts = [self.root]
        for n, level in enumerate(levels):
            inner = levels[n + 1] if n + 1 < len(levels) else None
            callee, generator = (
                (inner.function, inner.graph.is_generator) if inner else (None, False)
            )
            if inner is None and raises:
                nodes = calls.raising_nodes(level.graph, level.line)
            else:
                nodes = calls.locate_frame(level.graph, level.line, callee, generator)
            if inner is None:
                return [self.number(context, node) for context in contexts for node in nodes]
            contexts = [
                self._context(inner, context, node)
                for context in contexts
                for node in _fitting(nodes, inner)
            ]
            if len(contexts) > _MOST_CONTEXTS:
                raise OverflowError
        return []

    def number(self, context: Context, node: Node) -> int:
        """Return the number of a step, which is a node in a context."""
        return context.offset + node.number

    def owner(self, step: int) -> tuple[Context, Node]:
        """Return the context and the node of a step."""
        return self._owners[step if step >= 0 else ~step]

    def loops(self, step: int) -> tuple[int, ...]:
        """Return the heads of the loops around a step, in its function and around its callers."""
        context, node = self.owner(step)
        return context.loops + tuple(context.offset + head for head in node.loops)

    def _context(self, level: Level, parent: Context | None, call: Node | None) -> Context:
        around: tuple[int, ...] = ()
        certain = True
        if parent is not None and call is not None:
            same = parent.children.setdefault(call.number, [])
            for one in same:
                if one.function.tree is level.function.tree:
                    return one
            around = parent.loops + tuple(parent.offset + head for head in call.loops)
            certain = calls.must_call(
                call, parent.function, level.function, self._program.lookup,
                generator=level.graph.is_generator,
            )  # fmt: skip
            if not certain:  # what calls it may call it again
                around = (*around, self.number(parent, call))
        last = self._contexts[-1] if self._contexts else None
        offset = last.offset + len(last.graph.nodes) if last is not None else 0
        if offset + len(level.graph.nodes) > 1 << 40 or len(self._contexts) > _MOST_CONTEXTS:
            raise OverflowError
        made = Context(level.function, level.graph, parent, call, certain, offset, around)
        self._contexts.append(made)
        self._owners.update((self.number(made, node), (made, node)) for node in level.graph.nodes)
        if parent is not None and call is not None:
            parent.children[call.number].append(made)
        return made

    def after(self, step: int) -> Iterator[Edge]:
        """Return the edges of a step after its call has returned."""
        context, node = self.owner(step)
        yield from self._normal(context, node, node)
        if node.raises is not None:
            yield Edge(self.number(context, node.raises), NEXT, True)

    def edges(self, step: int) -> Iterator[Edge]:
        """Return the edges of a step. A negative number is the first arrival at a loop's head."""
        context, node = self.owner(step)
        match node.kind:
            case Kind.EXIT:
                yield from self._returned(context)
            case Kind.RAISED:
                yield from self._raised(context)
            case Kind.YIELD if node.number not in context.children:
                yield from self._suspended(context, node)
            case _:
                yield from self._called(context, node, is_first=step < 0)

    def _called(self, context: Context, node: Node, *, is_first: bool) -> Iterator[Edge]:
        children = context.children.get(node.number, ())
        for child in children:
            outcome = Outcome(Way.CALLS, child.function.name)
            for inner, target in _entries(child, is_first=is_first):
                yield Edge(self.number(inner, target), outcome, False)
        certain = self.is_trusting and bool(children) and all(one.certain for one in children)
        if not certain:
            for edge in self._normal(context, node, node):
                other = bool(children) and edge.outcome.way is Way.NEXT
                yield edge._replace(outcome=Outcome(Way.CALLS_OTHER)) if other else edge
        if node.raises is not None and not certain:
            yield Edge(self.number(context, node.raises), NEXT, True)

    def _normal(
        self, context: Context, node: Node, source: Node, ways: Iterable[Way] | None = None
    ) -> Iterator[Edge]:
        """Return the edges of a node in its own function, as edges from ``source``."""
        for outcome, target in node.edges:
            if ways is not None and outcome.way not in ways:
                continue
            number = self.number(context, target)
            if (
                target.kind is Kind.LOOP
                and target.number in context.children
                and target.number not in source.loops
            ):
                number = ~number  # the loop starts a new generator
            yield Edge(number, outcome, False)

    def _returned(self, context: Context) -> Iterator[Edge]:
        parent, call = context.parent, context.call
        if parent is None or call is None:
            return
        ways = _WAYS_OF_ENDED.get(call.kind) if context.graph.is_generator else None
        yield from self._normal(parent, call, call, ways)
        if not context.certain:
            yield Edge(self.number(parent, call), NEXT, False)

    def _raised(self, context: Context) -> Iterator[Edge]:
        parent, call = context.parent, context.call
        if parent is None or call is None:
            return
        if call.kind is Kind.LOOP and not context.graph.is_generator:  # StopIteration
            yield from self._normal(parent, call, call, (Way.ENDED,))
        if call.raises is not None:
            yield Edge(self.number(parent, call.raises), NEXT, True)

    def _suspended(self, context: Context, node: Node) -> Iterator[Edge]:
        """Return where control goes at a ``yield``: to the consumer of the generator."""
        edges, goes_on = self._consumer(context)
        yield from edges
        if goes_on:
            yield from self._normal(context, node, node)
            if node.raises is not None:
                yield Edge(self.number(context, node.raises), NEXT, True)

    def _consumer(self, context: Context) -> tuple[list[Edge], bool]:
        """Return the edges of the consumer of a suspended generator.

        The flag is true if the consumer may be a library that resumes the generator at once.
        """
        parent, call = context.parent, context.call
        if parent is None or call is None:
            return [], True
        match call.kind:
            case Kind.LOOP:
                return list(self._normal(parent, call, call, (Way.ITERATES,))), False
            case Kind.ENTER | Kind.LEAVE | Kind.UNWIND:
                return list(self._normal(parent, call, call)), False
            case Kind.YIELD:
                return self._consumer(parent)
            case _:
                return list(self._normal(parent, call, call)), True


def _fitting(nodes: Sequence[Node], inner: Level) -> Sequence[Node]:
    """Return the nodes that can have called a frame, by the frame's line in its function.

    If a context manager is a generator, entering the block runs it to its ``yield``, and leaving
    the block runs the rest.
    """
    graph = inner.graph
    if not graph.is_generator:
        return nodes
    at = {node.number for node in graph.at(inner.line)}
    fitting = [
        node
        for node in nodes
        if node.kind not in (Kind.ENTER, Kind.LEAVE, Kind.UNWIND)
        or at & (graph.before_first_yield if node.kind is Kind.ENTER else graph.after_yield)
    ]
    return fitting or nodes


def _entries(child: Context, *, is_first: bool) -> Iterator[tuple[Context, Node]]:
    """Return where a called function starts: at its entry, or behind its ``yield``."""
    graph, call = child.graph, child.call
    assert call is not None
    resumes = graph.is_generator and call.kind not in (Kind.ENTER, Kind.YIELD)
    begins = not graph.is_generator or call.kind not in (Kind.LEAVE, Kind.UNWIND)
    if call.kind is Kind.LOOP and graph.is_generator:
        begins, resumes = is_first, not is_first
    elif call.kind is Kind.CALL and isinstance(call.tree, ast.Call) and child.certain:
        resumes = False  # the step makes a generator and consumes it
    if begins:
        yield child, graph.entry
    if resumes:
        yield from _resumed(child, unwinds=call.kind is Kind.UNWIND)


def _resumed(context: Context, *, unwinds: bool) -> Iterator[tuple[Context, Node]]:
    """Return where a generator resumes, or the inner generator of its ``yield from``."""
    for node in context.graph.yields:
        for inner in context.children.get(node.number, ()):
            yield from _resumed(inner, unwinds=unwinds)
        if not unwinds:
            yield from ((context, target) for _, target in node.edges)
        elif node.raises is not None:
            yield context, node.raises

"""The control-flow graph of one function, and how a stack frame finds its node.

A node is one step of a function: a call, a test, the head of a loop, or the rest of a statement.
Its edges lead to the possible next steps, each with the outcome that selects it. A separate edge,
``raises``, leads to the handler that an exception reaches first. ``lowering`` builds the nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple


class Kind(Enum):
    """What a node does."""

    ENTRY = auto()
    EXIT = auto()
    """The function returns."""
    RAISED = auto()
    """An exception leaves the function."""
    STATEMENT = auto()
    """The rest of a statement, after the calls in it."""
    CALL = auto()
    AWAIT = auto()
    YIELD = auto()
    ENTER = auto()
    """``with`` enters a context manager."""
    LEAVE = auto()
    """``with`` leaves its context managers."""
    UNWIND = auto()
    """``with`` leaves them because of an exception."""
    TEST = auto()
    """A condition, or a part of one."""
    LOOP = auto()
    """The head of a ``for`` loop or of a comprehension: it fetches the next item."""
    WHILE = auto()
    """The head of a ``while`` loop, before its condition."""
    MATCH = auto()
    DISPATCH = auto()
    """The search for the handler of an exception."""
    HANDLER = auto()
    """An ``except`` that was entered, or a ``with`` that suppressed an exception."""
    FINALLY = auto()
    """A ``finally`` that an exception entered."""


class Way(Enum):
    """The kind of an outcome; the values are those of ``findings.Way``."""

    NEXT = "next"
    TAKEN = "taken"
    NOT_TAKEN = "not_taken"
    ITERATES = "iterates"
    ENDED = "ended"
    CASE = "case"
    NO_CASE = "no_case"
    HANDLER = "handler"
    NO_HANDLER = "no_handler"
    RAISED = "raised"
    CALLS = "calls"
    CALLS_OTHER = "calls_other"
    VALUE = "value"


class Outcome(NamedTuple):
    """What a statement did."""

    way: Way
    name: str = ""
    """The name of the called function."""
    line: int = 0
    """The line of the handler or case."""


NEXT: Final = Outcome(Way.NEXT)
TAKEN: Final = Outcome(Way.TAKEN)
NOT_TAKEN: Final = Outcome(Way.NOT_TAKEN)
ITERATES: Final = Outcome(Way.ITERATES)
ENDED: Final = Outcome(Way.ENDED)


@dataclass(eq=False, slots=True)
class Node:
    """One step of a function."""

    number: int
    kind: Kind
    line: int
    end: int
    """Last line; for a compound statement, the last line of its head."""
    tree: ast.AST | None
    """The expression or statement that the node evaluates."""
    head: ast.AST | None
    """The statement that the outcome belongs to: the ``if`` of a part of its condition."""
    loops: tuple[int, ...]
    """Numbers of the heads of the loops around it, outermost first. A head is in its own loop."""
    edges: list[tuple[Outcome, Node]] = field(default_factory=list, repr=False)
    raises: Node | None = field(default=None, repr=False)
    """Where an exception of the node leads; None: the node raises nothing."""


@dataclass(eq=False, slots=True)
class Graph:
    """The control-flow graph of a function."""

    nodes: list[Node]
    entry: Node
    exit: Node
    raised: Node
    inlined: frozenset[int]
    """``id`` of each comprehension or generator expression whose steps are in this graph."""
    yields: Sequence[Node] = ()
    """Nodes at which a generator stops and resumes."""
    before_first_yield: frozenset[int] = frozenset()
    """Numbers of the nodes that a generator reaches before its first ``yield``."""
    after_yield: frozenset[int] = frozenset()
    """Numbers of the nodes that it reaches after a ``yield``."""
    choices: dict[tuple[int, ...], Sequence[object]] = field(default_factory=dict, repr=False)
    """What chooses between some steps, by their numbers: see ``conditions.choosing_steps``."""

    @property
    def is_generator(self) -> bool:
        """Whether calling the function makes a generator."""
        return bool(self.yields)

    def returning_handlers(self, dispatch: Node) -> list[Node]:
        """Return the handlers of a ``try`` that can change what the function returns.

        None can if each of them raises, or leads back to the block until that succeeds.
        """
        block = [node for node in self.nodes if node.raises is dispatch]
        handlers = [node for _, node in dispatch.edges if node.kind is Kind.HANDLER]
        is_returned = self.exit.number in reached(handlers, (node.number for node in block))
        is_repeated = not reached(block, [dispatch.number]).isdisjoint(dispatch.loops[-1:])
        return handlers if block and (is_returned or is_repeated) else []

    def at(self, line: int) -> Iterator[Node]:
        """Return the nodes of a source line."""
        return (n for n in self.nodes if n.tree is not None and n.line <= line <= n.end)


def called_name(tree: ast.AST | None) -> str:
    """Return the last part of a called or used name: ``step`` for ``self.step(x)``; or empty."""
    while isinstance(tree, ast.Call | ast.Await):
        tree = tree.func if isinstance(tree, ast.Call) else tree.value
    if isinstance(tree, ast.Attribute):
        return tree.attr
    return tree.id if isinstance(tree, ast.Name) else ""


def following(node: Node) -> Iterator[Node]:
    """Return the nodes that control can reach next, also by an exception."""
    yield from (target for _, target in node.edges)
    if node.raises is not None:
        yield node.raises


def reached(
    starts: Iterable[Node],
    barred: Iterable[int] = (),
    after: Callable[[Node], Iterable[Node]] = following,
) -> frozenset[int]:
    """Return the numbers of the nodes that control can reach from some nodes, including these.

    Args:
        starts: these nodes.
        barred: numbers of nodes that it may not pass.
        after: returns the nodes that may come next.

    """
    seen = set(without := frozenset(barred))
    todo = list(starts)
    while todo:
        node = todo.pop()
        if node.number not in seen:
            seen.add(node.number)
            todo += after(node)
    return frozenset(seen - without)

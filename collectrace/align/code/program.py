"""The functions of a run, with cached graphs and definitions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from collectrace.align.code import names
from collectrace.align.code.files import Files, Frame, Function, Gap, statements
from collectrace.align.code.graph import Graph
from collectrace.align.code.lowering import build
from collectrace.align.code.names import Definitions, GlobalBinding

Stack = Sequence[Frame]
"""Frames of a call, innermost first, as records have them."""


class Level(NamedTuple):
    """A frame of a stack, with the graph of its function."""

    function: Function
    graph: Graph
    line: int


class Program:
    """The functions of a run. Each graph is built once."""

    def __init__(
        self, files: Files, world_size: int | None = None, *, same_arguments: bool = False
    ) -> None:
        self.files = files
        self.world_size = world_size
        """Number of ranks of the run; None: it is not known."""
        self.same_arguments = same_arguments
        """Whether all ranks are known to have been started with the same command line."""
        self._graphs: dict[int, Graph | None] = {}
        self._definitions: dict[int, Definitions | None] = {}
        self._globals: dict[int, Mapping[str, Sequence[GlobalBinding]]] = {}
        self._declared: dict[int, frozenset[str]] = {}
        self._changed: dict[int, frozenset[str]] = {}
        self._kept: list[Function] = []
        """Keeps the trees alive, because the caches use their ``id``."""

    def lookup(self, name: str) -> Sequence[Function]:
        """Return the functions and classes with a name in the files read so far."""
        return [one for file in self.files.known() for one in file.by_name.get(name, ())]

    def constructed(self, owner: Function) -> Sequence[tuple[Function, ast.Call]]:
        """Return the calls that construct a class in the files read so far.

        Each comes with the function that contains it.
        """
        return list(self.calls(owner.name))

    def calls(self, name: str) -> Iterator[tuple[Function, ast.Call]]:
        """Return the calls of a name, or of methods as ``.name``, with the functions around."""
        for file in self.files.known():
            yield from file.calls_by_name.get(name, ())

    def stores(self, name: str) -> Iterator[tuple[Function, ast.Assign]]:
        """Return the statements that set such an attribute of another object than ``self``."""
        for function, statement, target in self._stores(name):
            if not (isinstance(target, ast.Name) and target.id == "self"):
                yield function, statement

    def _stores(self, name: str) -> Iterator[tuple[Function, ast.Assign, ast.expr]]:
        for file in self.files.known():
            yield from file.stores_by_name.get(name, ())

    def only_class_with(self, name: str) -> Function | None:
        """Return the only known class with methods that set an attribute; None: there are more."""
        found = [one for file in self.files.known() for one in file.owners_by_name.get(name, ())]
        return found[0] if len(found) == 1 else None

    def flags(self, name: str) -> Iterator[tuple[Function, ast.Assign, Graph]]:
        """Return the statements that set an attribute with a name to a flag or a number.

        Each comes with the function that contains it, and that function's graph. What a constructor
        sets is the value that everything begins with.
        """
        for function, statement, _ in self._stores(name):
            match statement.value:
                case ast.Constant(value=int()) if function.name != "__init__":
                    graph = self.graph(function)
                    if graph is not None:
                        yield function, statement, graph
                case _:
                    pass

    def graph(self, function: Function) -> Graph | None:
        """Return the graph of a function, or None if it is too large."""
        key = id(function.tree)
        if key not in self._graphs:
            self._kept.append(function)
            try:
                self._graphs[key] = build(function, self.lookup)
            except (OverflowError, RecursionError):
                self._graphs[key] = None
        return self._graphs[key]

    def definitions(self, function: Function) -> Definitions | None:
        """Return the definitions of a function, or None if it is too large."""
        key = id(function.tree)
        if key not in self._definitions:
            graph = self.graph(function)
            found = Definitions.of(function, graph) if graph is not None else None
            self._definitions[key] = found
        return self._definitions[key]

    def globals(self, module: Function) -> Mapping[str, Sequence[GlobalBinding]]:
        """Return the bindings of a module's variables, in all functions of its file."""
        key = id(module.tree)
        if key not in self._globals:
            self._globals[key] = names.global_bindings(module)
        return self._globals[key]

    def declared(self, function: Function) -> frozenset[str]:
        """Return the names that a function declares as ``global`` or ``nonlocal``."""
        key = id(function.tree)
        if key not in self._declared:
            body = getattr(function.tree, "body", ())
            self._declared[key] = frozenset(
                name
                for one in (statements(body) if isinstance(body, list) else ())
                if isinstance(one, ast.Global | ast.Nonlocal)
                for name in one.names
            )
        return self._declared[key]

    def changed(self, function: Function) -> frozenset[str]:
        """Return the names in a function with values that may change untracked."""
        key = id(function.tree)
        if key not in self._changed:
            self._changed[key] = names.changed_in(function.tree)
        return self._changed[key]

    def levels(self, rank: int, stack: Stack, gaps: set[Gap]) -> list[Level]:
        """Return the frames of a stack with known functions, outermost first."""
        found: list[Level] = []
        for frame in reversed(stack):
            function = self.files.function(rank, frame)
            if isinstance(function, Gap):
                gaps.add(function)
                continue
            if found and id(function.tree) in found[-1].graph.inlined:
                found[-1] = found[-1]._replace(line=frame.line)
                continue
            graph = self.graph(function)
            if graph is None:
                gaps.add(Gap.TOO_LARGE)
                continue
            found.append(Level(function, graph, frame.line))
        return found

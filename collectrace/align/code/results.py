"""Find what the result of a call depends on: its arguments, and what the called function returns.

A row of ``origins`` decides for the functions of libraries. Known functions of the program are
entered, one call deep.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from collectrace.align.code import calls, names, origins
from collectrace.align.code.conditions import choosing_steps, condition_of
from collectrace.align.code.files import Function
from collectrace.align.code.graph import Kind, called_name
from collectrace.align.code.origins import Origin, Rule
from collectrace.align.code.places import (
    OF_FORM,
    Agreements,
    Asked,
    Place,
    Site,
    Source,
    as_data,
    ignore_order,
)
from collectrace.align.code.program import Program

_DEEPEST: Final = 8
"""Longest chain of definitions and calls behind which a function is still entered."""


class _Trace(Protocol):
    """Follows one expression."""

    def follow(self, tree: ast.AST | None, place: Place, depth: int) -> Iterator[Source]:
        """Return what an expression depends on."""


class Results:
    """What the calls in one expression depend on."""

    def __init__(
        self, trace: _Trace, program: Program, agreements: Agreements, asked: Asked
    ) -> None:
        self._trace = trace
        self._program = program
        self._agreements = agreements
        self._asked = asked

    def of_call(self, tree: ast.Call, place: Place, depth: int) -> Iterator[Source]:
        """Return what the result of a call depends on."""
        if self._asked is Asked.DTYPE and (given := _dtype_of(tree)) is not None:
            yield from self._trace.follow(given, place, depth)
            return
        operands = self._operands(tree)
        text = names.dotted(tree.func)
        name = called_name(tree)
        known = calls.called_by(tree, place.function, self._program.lookup)
        if known is not None:
            yield from self.inside(known, tree, place, depth)
            return
        for iterator in calls.iterators_of(name, self._program.lookup):
            yield from self._iterated(iterator, place, depth)
        row = self.row(text or f"?.{name}", place.function)
        if row is not None:
            if row.rule is Rule.RESULT:
                yield Source(place, self.returned(tree, place))
            else:
                yield from self.by_row(row, operands, place, depth)
            return
        is_method = isinstance(tree.func, ast.Attribute)
        if name in (origins.TRANSPARENT_METHODS if is_method else origins.TRANSPARENT) or (
            name in origins.TRANSPARENT and text
        ):
            for operand in operands:
                if not self.is_imported(operand, place):
                    found = self._trace.follow(operand, place, depth)
                    found = found if name in _OF_NUMBERS else as_data(found)
                    yield from ignore_order(found) if name in _ORDERLESS else found
            return
        yield Source(place, Origin.RANK if origins.is_rank(name) else Origin.UNKNOWN)
        if not isinstance(tree.func, ast.Name | ast.Attribute):
            operands.append(tree.func)
        for operand in operands:
            if not self.is_imported(operand, place):
                found = self.processed(self._trace.follow(operand, place, depth + 1))
                yield from (one for one in found if one.origin is not Origin.AGREED)

    def _operands(self, tree: ast.Call) -> list[ast.AST]:
        """Return a method's object and the arguments that have a part in what is asked."""
        left_out = _VALUES if self._asked in OF_FORM else ()
        is_filled = self._asked in OF_FORM and called_name(tree) in _FILLED
        owner = [tree.func.value] if isinstance(tree.func, ast.Attribute) else []
        given = (one.value for one in tree.keywords if one.arg not in left_out)
        return [*owner, *tree.args[: 1 if is_filled else None], *given]

    def by_row(
        self, row: origins.Row, operands: Sequence[ast.AST], place: Place, depth: int
    ) -> Iterator[Source]:
        """Return what the result of a function of a library depends on, by its row."""
        if self._asked in OF_FORM and row.origin is Origin.RANDOM and operands:
            for operand in operands:  # the numbers that are drawn do not decide how many there are
                yield from self._trace.follow(operand, place, depth)
            return
        if row.rule in (Rule.ALONE, Rule.STARTED):
            is_agreed = row.rule is Rule.STARTED and self._program.same_arguments
            yield Source(place, Origin.AGREED if is_agreed else row.origin)
            return
        found = [one for tree in operands for one in self._trace.follow(tree, place, depth)]
        found = list(as_data(found))
        if row.origin is Origin.LENGTH:
            found = list(ignore_order(found))
        if any(one.origin is not Origin.AGREED for one in found) or not operands:
            yield Source(place, row.origin)
            found = [] if row.rule is Rule.ONLY else found
        yield from found

    def inside(
        self, callee: Function, tree: ast.Call, place: Place, depth: int
    ) -> Iterator[Source]:
        """Return what a function's result depends on: its returns, and the conditions on them."""
        definitions = self._program.definitions(callee)
        if definitions is None or depth > _DEEPEST or definitions.graph.is_generator:
            yield Source(place, Origin.UNKNOWN)
            return
        graph = definitions.graph
        ends = [one for one in graph.nodes if isinstance(one.tree, ast.Return | ast.Raise)]
        chosen = choosing_steps(graph, ends, graph.exit)
        deciding = {*graph.nodes} if chosen is None else {one.node for one in chosen}
        for node in graph.nodes:
            value: ast.AST | None = condition_of(node) if node in deciding else None
            if isinstance(node.tree, ast.Return) and node.kind is Kind.STATEMENT:
                value = node.tree.value
                is_passed_on = value is not None and _is_of_one(value, callee)
            else:
                is_passed_on = isinstance(value, ast.Name)
            inner = Place(callee, node, None)
            handlers = graph.returning_handlers(node) if node.kind is Kind.DISPATCH else ()
            for handler in handlers:
                yield Source(place, Origin.EXCEPTION, Place(callee, handler, None))
            for one in self._trace.follow(value, inner, depth + 3) if value else ():
                # For ``return float(loss)``, the line that sets ``loss`` is more informative. So is
                # the line that only some ranks ran.
                is_further = is_passed_on or one.origin is Origin.STATE
                further = one.inner or one.place if is_further else inner
                yield Source(place, one.origin, further)
        passed = [*tree.args, *(one.value for one in tree.keywords)]
        is_asked = origins.is_rank(called_name(tree))
        for operand in passed:
            found = self._trace.follow(operand, place, depth)
            # A parameter that has a part in the result is unknown inside.
            known = (one for one in found if is_asked or one.origin is not Origin.UNKNOWN)
            yield from known if is_asked else self.processed(known)

    def _iterated(self, iterator: Function, place: Place, depth: int) -> Iterator[Source]:
        """Return what decides how many items an object of a known class yields, or their order."""
        definitions = self._program.definitions(iterator)
        for node in definitions.graph.nodes if definitions is not None else ():
            condition, inner = condition_of(node), Place(iterator, node, None)
            if condition is not None:
                for one in self._trace.follow(condition, inner, depth + 3):
                    yield Source(place, one.origin, inner)
            elif isinstance(node.tree, ast.Return):  # ``return iter(self.words)``
                for one in self._trace.follow(node.tree.value, inner, depth + 3):
                    if one.origin is Origin.ORDER:
                        yield Source(place, one.origin, inner)

    def returned(self, tree: ast.Call, place: Place) -> Origin:
        """Return the origin of a collective's return value, or of what it writes to an argument."""
        row = self.row(names.dotted(tree.func), place.function)
        name = called_name(tree)
        if row is None and name in names.IN_PLACE:
            row = origins.row_of(f"torch.distributed.{name}")
        if row is None:
            return Origin.UNKNOWN
        if row.rule is not Rule.RESULT:
            return row.origin
        agreed = self._agreements.agreed(Site(place.function.file.path, tree.lineno))
        return Origin.AGREED if agreed else Origin.UNKNOWN

    def processed(self, found: Iterable[Source]) -> Iterator[Source]:
        """Return sources of an unknown function's result, by its arguments.

        If a model takes a batch of random numbers, its result is data and not random. The size of
        a part that the rank chose remains chosen.
        """
        if self._asked in OF_FORM:
            return as_data(found)
        return (
            one._replace(origin=Origin.DATA) if one.origin in _PROCESSED else one for one in found
        )

    def is_imported(self, tree: ast.AST, place: Place) -> bool:
        """Whether an expression is a module, or a member of one."""
        text = names.dotted(tree)
        return bool(text) and text.partition(".")[0] in place.function.file.imports

    def row(self, text: str, function: Function, *, is_called: bool = True) -> origins.Row | None:
        """Return the row of a dotted name, with the import of its first part resolved."""
        first, dot, rest = text.partition(".")
        found = function.file.imports.get(first)
        name = f"{found or first}{dot}{rest}"
        return origins.row_of(name, is_imported=found is not None, is_called=is_called)


_PROCESSED: Final = frozenset({Origin.RANK, Origin.STATE, Origin.CHOSEN, Origin.RANDOM})


def _is_of_one(value: ast.AST, function: Function) -> bool:
    """Whether an expression is made of one variable, as ``float(loss)`` and ``a[0] / a[1]`` are."""
    parts = [*ast.walk(value)]
    if any(isinstance(one, ast.IfExp) for one in parts):
        return False
    known = {called_name(one) for one in parts if isinstance(one, ast.Call)}
    used = {one.id for one in parts if isinstance(one, ast.Name)}
    return len(used - known - function.file.imports.keys()) == 1


def _dtype_of(tree: ast.Call) -> ast.expr | None:
    """Return the argument that alone decides the dtype of what a call returns; None: unknown."""
    given = next((one.value for one in tree.keywords if one.arg == "dtype"), None)
    if given is None and called_name(tree) in ("to", "type") and tree.args:
        text = names.dotted(tree.args[0])
        row = origins.row_of(text)
        is_dtype = text.endswith("dtype") or (row is not None and row.origin is Origin.AGREED)
        given = tree.args[0] if is_dtype else None
    parts = ast.walk(given) if given is not None else ()
    # ``dtype=None`` leaves it to the values.
    may_be_none = any(isinstance(one, ast.Constant) and one.value is None for one in parts)
    return None if may_be_none else given


_VALUES: Final = frozenset({"generator", "fill_value"})
"""Arguments that decide the values of a tensor alone."""

_FILLED: Final = frozenset({"full", "full_like"})
"""Functions whose first argument alone decides the size."""

_OF_NUMBERS: Final = frozenset({"int", "bool", "str", "abs", "min", "max"})
"""Functions whose result is a rank if their argument is."""

_ORDERLESS: Final = frozenset({"sorted", "min", "max", "any", "all", "bool"})
"""Functions whose results do not depend on the order of their argument's items."""

"""Find what an expression depends on: trace its names back to their origins.

The trace follows the definitions in the function, the arguments that the caller on the stack
passes, attributes of ``self``, module variables, and one call deep the functions of known files.
Whatever it cannot follow is unknown, and never counts as agreed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from collectrace.align.code import calls, controls, names, objects, origins
from collectrace.align.code.conditions import (
    choosing_steps,
    condition_of,
    is_bound_by_comprehension,
    is_same_on_all_ranks,
)
from collectrace.align.code.files import Function
from collectrace.align.code.graph import Graph, Kind, Node, called_name
from collectrace.align.code.names import Binding, Definitions, How
from collectrace.align.code.origins import Origin, Rule
from collectrace.align.code.places import (
    Agreements,
    Asked,
    Place,
    Source,
    as_data,
    as_state,
    ignore_order,
)
from collectrace.align.code.program import Program
from collectrace.align.code.ran import may_have_run
from collectrace.align.code.results import Results
from collectrace.align.reading.rank_names import is_variable

_MOST: Final = 200
"""Expressions that are followed for one question."""

_DEEPEST: Final = 12
"""Longest chain of definitions and calls that is followed."""

_MOST_BINDINGS: Final = 6
"""Bindings of one name at one place that are followed."""

_MUTABLE: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Call)
"""Values that may change without their name being bound again."""


class Tracer:
    """Traces expressions of one program back to their origins."""

    def __init__(self, program: Program, agreements: Agreements) -> None:
        self._program = program
        self._agreements = agreements

    def sources(
        self, tree: ast.AST | None, place: Place, asked: Asked = Asked.VALUE
    ) -> list[Source]:
        """Return what an expression depends on, with the places where it comes in."""
        trace = _Trace(self._agreements, self._program, asked, place.node)
        found = list(trace.follow(tree, place, 0))
        return [*found, *trace.around(place, 0)] if asked is Asked.DTYPE else found

    def assignments(
        self, tree: ast.AST | None, place: Place, asked: Asked = Asked.VALUE
    ) -> list[tuple[Place, list[Source]]]:
        """Return the assignments that gave a local name its value, with what each depends on.

        A conditional expression counts with what its condition depends on. If a value comes from
        the caller, or an expression is no name, return the places of its sources instead. What
        selects an assignment is a source, too.
        """
        sources = self.sources(tree, place, asked)
        definitions = self._program.definitions(place.function)
        is_local = all(one.place.function is place.function for one in sources)
        if not isinstance(tree, ast.Name) or definitions is None or not place.node:
            return [(one.place, [one]) for one in sources]
        given, is_chosen = list[tuple[Place, list[Source]]](), False
        for binding in definitions.reaching(place.node, tree.id):
            if binding.how in (How.VALUE, How.CHANGE):
                at = Place(place.function, binding.node, place.context)
                chosen = self._chosen_by(binding.value, at)
                is_chosen |= bool(chosen)
                given.append((at, chosen or self.sources(binding.value, at, asked)))
        if not (is_local or is_chosen):
            return [(one.place, [one]) for one in sources]
        selecting = (one for one in sources if one.place.node and condition_of(one.place.node))
        return [*given, *((one.place, [one]) for one in (selecting if given else sources))]

    def _chosen_by(self, value: ast.AST | None, at: Place) -> list[Source]:
        """Return what the condition of a conditional expression depends on, if ranks can differ."""
        found = self.sources(value.test, at) if isinstance(value, ast.IfExp) else []
        is_open = any(one.origin not in (Origin.AGREED, Origin.UNKNOWN) for one in found)
        return found if is_open else []


class _Trace:
    """The trace of one expression."""

    def __init__(
        self, agreements: Agreements, program: Program, asked: Asked, use: Node | None
    ) -> None:
        self._agreements = agreements
        self._use = use
        """The step that uses the value. What it decides itself is no reason for its outcome."""
        self._program = program
        self._asked = asked
        self._results = Results(self, program, agreements, asked)
        self._seen: set[tuple[int, int, int]] = set()

    def follow(self, tree: ast.AST | None, place: Place, depth: int) -> Iterator[Source]:
        key = id(tree), id(place.node), id(place.context)
        if tree is None or key in self._seen:
            return
        is_too_far = depth > _DEEPEST or len(self._seen) > _MOST
        if is_too_far or is_variable(tree):
            yield Source(place, Origin.UNKNOWN if is_too_far else Origin.RANK)
            return
        self._seen.add(key)
        match tree:
            case ast.Constant():
                yield Source(place, Origin.AGREED)
            case ast.Name():
                yield from self._name(tree.id, place, depth)
            case ast.Attribute():
                yield from self._attribute(tree, place, depth)
            case ast.Call():
                yield from self._results.of_call(tree, place, depth)
            case ast.Await() | ast.Yield() | ast.YieldFrom():
                yield Source(place, Origin.UNKNOWN)
            case ast.Set() | ast.SetComp():
                yield Source(place, Origin.ORDER)
            case ast.Compare():
                yield from self._compared(tree, place, depth)
            case _ if _picks(tree):
                yield from as_data(self._parts(tree, place, depth))
            case _:
                yield from self._parts(tree, place, depth)

    def _compared(self, tree: ast.Compare, place: Place, depth: int) -> Iterator[Source]:
        if is_same_on_all_ranks(tree):
            yield Source(place, Origin.AGREED)
            return
        match tree.ops:
            case [ast.Is() | ast.IsNot()] if self._asked is not Asked.IDENTITY:
                trace = _Trace(self._agreements, self._program, Asked.IDENTITY, self._use)
                yield from trace.follow(tree, place, depth)
            case [ast.In() | ast.NotIn()]:
                yield from ignore_order(self._parts(tree, place, depth))
            case _:
                yield from self._parts(tree, place, depth)

    def _parts(self, tree: ast.AST, place: Place, depth: int) -> Iterator[Source]:
        """Return what the parts of an expression depend on; of a lambda, its result."""
        if isinstance(tree, ast.Tuple | ast.List | ast.Dict):  # an empty one has no parts
            yield Source(place, Origin.AGREED)
        if self._asked is Asked.LENGTH and isinstance(tree, ast.List) and not _is_unpacked(tree):
            return  # it has as many items as are written there
        children = ast.iter_child_nodes(tree)
        if self._asked is Asked.LENGTH and isinstance(tree, ast.ListComp | ast.GeneratorExp):
            children = iter(tree.generators)
        for child in children:
            if isinstance(child, ast.expr | ast.comprehension | ast.keyword):
                yield from self.follow(child, place, depth)

    def around(self, place: Place, depth: int) -> Iterator[Source]:
        """Return what decides in which contexts a value is computed: ``with precision(rank):``."""
        function, context = place.function, place.context
        for step, block in _blocks(self._program.graph(function), place.node):
            for item in block.items:
                found = as_data(
                    self.follow(item.context_expr, Place(function, step, context), depth)
                )
                yield from (one for one in found if one.origin not in _SILENT)
        if context is not None and context.parent is not None:
            outer = Place(context.parent.function, context.call, context.parent)
            yield from self.around(outer, depth)

    # Names

    def _name(self, name: str, place: Place, depth: int) -> Iterator[Source]:
        found = list(self._bindings(name, place, depth))
        if found:
            if origins.is_rank(name) and {one.origin for one in found} <= _OF_RANK:
                yield Source(place, Origin.RANK)
            else:
                yield from found
            return
        row = self._results.row(name, place.function)
        if row is not None:
            yield Source(place, row.origin)
        elif name in origins.TRANSPARENT or is_bound_by_comprehension(name, place):
            yield Source(place, Origin.AGREED)
        else:
            yield Source(place, Origin.RANK if origins.is_rank(name) else Origin.UNKNOWN)

    def _bindings(self, name: str, place: Place, depth: int) -> Iterator[Source]:
        """Return what the bindings of a name depend on, from the function outwards."""
        function: Function | None = place.function
        while function is not None:
            definitions = self._program.definitions(function)
            if definitions is None:
                yield Source(place, Origin.UNKNOWN)
                return
            inside = function is place.function and place.node is not None
            if isinstance(function.tree, ast.Module):
                if inside and place.node is not None and not self._is_global(name, function):
                    found = definitions.reaching(place.node, name)
                    yield from self._bound(found, definitions, name, place, depth)
                else:
                    yield from self._global(name, function, place, depth)
                return
            if not isinstance(function.tree, ast.ClassDef) and name not in self._program.declared(
                function
            ):
                bound = definitions.all(name)
                if bound and inside and place.node is not None:
                    bound = definitions.reaching(place.node, name)
                if bound:
                    at = place if inside else Place(function, None, None)
                    yield from self._bound(bound, definitions, name, at, depth)
                    return
            function = function.parent

    def _is_global(self, name: str, module: Function) -> bool:
        bindings = self._program.globals(module).get(name, ())
        return any(one.function is not module for one in bindings)

    def _bound(
        self,
        bound: Sequence[Binding],
        definitions: Definitions,
        name: str,
        place: Place,
        depth: int,
    ) -> Iterator[Source]:
        """Return what some bindings of a name depend on, and what chose between them."""
        function = definitions.function
        bound = [
            one for one in bound if may_have_run(self._agreements, function, one.node.line)
        ] or bound
        if self._asked is Asked.LENGTH:
            bound = [one for one in bound if not _keeps_length(one)]
        if self._asked is Asked.IDENTITY:
            bound = [one for one in bound if one.how is not How.CHANGE]
        for binding in bound:
            at = Place(definitions.function, binding.node, place.context)
            if binding.how is How.PARAMETER:
                yield from self._parameter(name, place, depth)
            else:
                yield from self._given(name, binding, at, depth)
            if self._asked is Asked.DTYPE:
                yield from self.around(at, depth + 1)
        if len(bound) > 1 or any(one.how is How.CHANGE for one in bound):
            yield from self._chosen(bound, definitions, place, depth)

    def _given(self, name: str, binding: Binding, at: Place, depth: int) -> Iterator[Source]:
        """Return what the value depends on that a statement gives a name."""
        match binding.how:
            case How.EXCEPTION:
                yield Source(at, Origin.EXCEPTION)
            case How.CALL if isinstance(binding.value, ast.Call):
                yield Source(at, self._results.returned(binding.value, at))
            case How.UNKNOWN:
                yield from self._defined(name, at)
            case How.ITEM if _is_index(name, binding):
                yield Source(at, Origin.AGREED)
            case How.ITEM:  # the loop itself decides the item
                found = self.follow(binding.value, at, depth + 1)
                yield from (Source(at, one.origin, one.inner or one.place) for one in found)
            case _:
                yield from self.follow(binding.value, at, depth + 1)
                if self._may_change(name, binding.value, binding.how, at.function):
                    yield Source(at, Origin.UNKNOWN)

    def _chosen(
        self, bound: Sequence[Binding], definitions: Definitions, place: Place, depth: int
    ) -> Iterator[Source]:
        """Return what decides which of several bindings gave a name its value."""
        if place.node is None or len(bound) > _MOST_BINDINGS:
            yield Source(place, Origin.UNKNOWN)
            return
        chosen = choosing_steps(definitions.graph, [one.node for one in bound], place.node)
        if chosen is None:
            yield Source(place, Origin.UNKNOWN)
        for node, by_exception in chosen or ():
            at = Place(definitions.function, node, place.context)
            condition = None if by_exception else condition_of(node)
            if condition is None:
                yield Source(at, Origin.EXCEPTION)
            else:
                found = list(self.follow(condition, at, depth + 1))
                if not _is_flag(*(one.value for one in bound)):
                    found = list(as_data(found))
                yield from (Source(at, one.origin) for one in found)

    def _parameter(self, name: str, place: Place, depth: int) -> Iterator[Source]:
        """Return what the value of a parameter depends on."""
        for tree, at in objects.passed(self._program, name, place):
            if tree is None:
                yield Source(at, Origin.UNKNOWN)
            else:
                yield from self.follow(tree, at, depth + 1)

    def _global(self, name: str, module: Function, place: Place, depth: int) -> Iterator[Source]:
        """Return what a variable of a module depends on."""
        found = self._program.globals(module).get(name, ())
        for function, how, value in found:
            at = Place(function, None, None, getattr(value, "lineno", 0))
            if how is How.UNKNOWN:
                yield from self._defined(name, place)
            elif how is How.CALL and isinstance(value, ast.Call):
                yield Source(at, self._results.returned(value, at))
            else:
                yield from self.follow(value, at, depth + 1)
                if self._may_change(name, value, how, module):
                    yield Source(at, Origin.UNKNOWN)
        if len(found) > 1 or any(how is How.CHANGE for _, how, _ in found):
            yield Source(place, Origin.UNKNOWN)  # the order of the bindings is not followed

    def _may_change(self, name: str, value: ast.AST | None, how: How, function: Function) -> bool:
        """Whether a list or the like is used in a way that may change it."""
        if how is not How.VALUE or not isinstance(value, _MUTABLE):
            return False
        if isinstance(value, ast.Call) and called_name(value) in _IMMUTABLE:
            return False
        return name in self._program.changed(function)

    def _defined(self, name: str, place: Place) -> Iterator[Source]:
        """Return what an imported name, a function or a class depends on."""
        if name in place.function.file.imports:
            row = self._results.row(name, place.function)
            if row is not None:
                yield Source(place, row.origin)
            else:
                yield Source(place, Origin.RANK if origins.is_rank(name) else Origin.UNKNOWN)
        else:
            yield Source(place, Origin.AGREED)  # a definition is the same on both sides

    def _attribute(self, tree: ast.Attribute, place: Place, depth: int) -> Iterator[Source]:
        text = names.dotted(tree)
        row = self._results.row(text or f"?.{tree.attr}", place.function, is_called=False)
        owner = objects.class_of(self._program, tree.value, place)
        found: list[Source] = []
        if owner is not None:
            computed = calls.property_of(tree.attr, owner)
            if computed is not None:
                found = list(self._results.inside(computed, ast.Call(tree, [], []), place, depth))
            else:
                found = list(self._of_object(tree.attr, owner, depth))
        if found or row is not None:
            found += self._set_under(tree.attr, depth)
        known = {one.origin for one in found}
        if found and not (row is not None and known - {Origin.AGREED} == {Origin.UNKNOWN}):
            if origins.is_rank(tree.attr) and known <= _OF_RANK:
                yield Source(place, Origin.RANK)
            else:
                yield from found
        elif row is not None and row.rule is not Rule.RESULT:
            yield from found
            yield from self._results.by_row(row, [tree.value], place, depth)
        elif origins.is_rank(tree.attr):
            yield Source(place, Origin.RANK)
        elif objects.holds_options(self._program, tree.value, place):
            base = self.follow(tree.value, place, depth + 1)
            yield from (one for one in base if one.origin is not Origin.UNKNOWN)
            for value, at in (
                *objects.defaults(self._program, tree.attr),
                *self._stored(tree.attr),
            ):
                yield from self.follow(value, at, depth + 1)
        else:
            yield Source(place, Origin.UNKNOWN)
            if not self._results.is_imported(tree.value, place):
                yield from self._set_under(tree.attr, depth)
                owner = self._program.only_class_with(tree.attr)
                if owner is not None:
                    yield from self._results.processed(self._of_object(tree.attr, owner, depth))
                base = self.follow(tree.value, place, depth + 1)
                yield from (one for one in base if one.origin is not Origin.AGREED)

    def _of_object(self, name: str, owner: Function, depth: int) -> Iterator[Source]:
        """Return what an attribute of ``self`` depends on, by all methods of the class."""
        found = list(names.attribute_bindings(owner, name))
        for one in found:
            yield from self._of_binding(one, owner, depth)
        bases = getattr(owner.tree, "bases", ())
        if found and (len(found) > 1 or bases):
            yield Source(Place(owner, None, None), Origin.UNKNOWN)
        for value, at in (*objects.fields(self._program, owner, name), *self._stored(name)):
            yield from as_data(self.follow(value, at, depth + 1))

    def _stored(self, name: str) -> Iterator[tuple[ast.expr, Place]]:
        """Yield what is stored in an attribute of another object than ``self``."""
        for function, one in self._program.stores(name):
            yield one.value, Place(function, None, None, one.lineno)

    def _of_binding(
        self, one: names.AttributeBinding, owner: Function, depth: int
    ) -> Iterator[Source]:
        """Return what an attribute depends on by one statement that sets or changes it."""
        at = Place(one.function, None, None, one.statement.lineno)
        if one.how is How.CALL and isinstance(one.value, ast.Call):
            if self._use is None or one.value is not self._use.tree:
                yield Source(at, self._results.returned(one.value, at))
            return
        is_item = isinstance(one.statement, ast.Assign)
        if one.how is How.CHANGE and self._asked is Asked.IDENTITY and not is_item:
            return  # it is the same object as before
        if one.how is How.CHANGE:
            yield from self._changed(one, at, depth)
        elif one.value is not None:
            yield from self.follow(one.value, at, depth + 1)
        if one.how is not How.VALUE or isinstance(one.value, _MUTABLE):
            yield Source(at, Origin.UNKNOWN)
        if one.function.name != "__init__":
            graph = self._program.graph(one.function)
            if one.how is How.VALUE and graph is not None:
                yield from as_state(self._reached(one.function, one.statement, graph, depth))
            yield from self._called_under(one.function, owner, depth)

    def _called_under(self, method: Function, owner: Function, depth: int) -> Iterator[Source]:
        """Return what decides whether a method of an object is called that sets its state."""
        for function, call in self._program.calls(f".{method.name}"):
            graph = self._program.graph(function)
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            found = objects.class_of(self._program, receiver, Place(function, None))
            if graph is not None and found is owner:
                yield from as_state(self._reached(function, call, graph, depth))

    def _changed(self, change: names.AttributeBinding, at: Place, depth: int) -> Iterator[Source]:
        """Return what a change depends on: its value, and whether it is made."""
        value = change.value
        if self._asked is Asked.IDENTITY and isinstance(value, ast.Tuple) and value.elts:
            value = value.elts[0]  # the index decides whether there is such an item
        yield from as_data(self.follow(value, at, depth + 1))
        graph = self._program.graph(change.function)
        if graph is not None:
            yield from as_state(self._reached(change.function, change.statement, graph, depth))

    def _set_under(self, name: str, depth: int) -> Iterator[Source]:
        """Return what decides whether a flag is set, as by ``trainer.should_stop = True``."""
        for function, statement, graph in self._program.flags(name):
            yield from self._reached(function, statement, graph, depth)

    def _reached(
        self, function: Function, tree: ast.AST, graph: Graph, depth: int
    ) -> Iterator[Source]:
        """Return what decides whether a statement or a call is reached."""
        steps = [node for node in graph.nodes if node.tree is tree]
        for one in controls.controls(function, graph, steps):
            at = Place(function, next(iter(steps), None), None)
            if self._use is not None and one.head is self._use.head:
                continue
            if one.is_handler:
                yield Source(at, Origin.EXCEPTION)
            elif one.node is not None:
                inside = Place(function, one.node, None)
                for source in self.follow(one.test, inside, depth + 1):
                    if source.origin is not Origin.AGREED:
                        yield Source(at, source.origin)


def _picks(tree: ast.AST) -> bool:
    """Whether an expression selects or computes a value from its parts, instead of testing them."""
    match tree:
        case ast.IfExp():
            return not _is_flag(tree.body, tree.orelse)
        case ast.BinOp():
            return not isinstance(tree.op, ast.Mod | ast.FloorDiv)
        case _:
            return isinstance(tree, ast.Subscript | ast.JoinedStr | ast.List | ast.Dict)


def _keeps_length(binding: Binding) -> bool:
    """Whether a statement changes an item and not their number: ``meters["loss"] += loss``."""
    tree = binding.node.tree
    return isinstance(tree, ast.AugAssign) and isinstance(tree.target, ast.Subscript)


def _blocks(graph: Graph | None, node: Node | None) -> Iterator[tuple[Node, ast.With]]:
    """Yield the ``with`` statements around a step, each with a step that enters it."""
    if graph is None or node is None:
        return
    for one in graph.nodes:
        block = one.head if one.kind is Kind.ENTER else None
        if not isinstance(block, ast.With):
            continue
        if block.body[0].lineno <= node.line <= (block.end_lineno or 0):
            yield one, block


_OF_RANK: Final = frozenset({Origin.RANK, Origin.UNKNOWN, Origin.AGREED})
"""Origins of a name for the rank: where it is read tells more than where it was asked for."""

_SILENT: Final = frozenset({Origin.AGREED, Origin.UNKNOWN})


def _is_index(name: str, binding: Binding) -> bool:
    """Whether a name counts the items of a loop: ``for name, batch in enumerate(loader):``."""
    match binding.node.tree:
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=first), *_]), iter=ast.Call() as items):
            return first == name and called_name(items) == "enumerate"
        case _:
            return False


def _is_unpacked(tree: ast.List) -> bool:
    """Whether a list has a part of unknown length: ``[*batches, last]``."""
    return any(isinstance(one, ast.Starred) for one in tree.elts)


def _is_flag(*values: ast.expr | None) -> bool:
    """Whether one of some values is false, as in ``Writer() if rank == 0 else None``.

    A test of such a value tests the condition that selected it.
    """
    return any(isinstance(one, ast.Constant) and not one.value for one in values)


_IMMUTABLE: Final = frozenset(
    {"len", "int", "float", "bool", "str", "range", "min", "max", "sum", "abs", "round", "tuple",
     "get_rank", "get_world_size", "isinstance", "any", "all"}
)  # fmt: skip
"""Functions whose results cannot be changed."""

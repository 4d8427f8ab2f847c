"""What an expression depends on: from its names back to where their values come from.

The way back leads through the definitions in the function, the arguments that its caller on the
stack passes, the attributes of its object, the variables of its module, and one call deep into
functions of known files. What the way back does not show is unknown; it is never taken for agreed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from collectrace.align.code import names, origins
from collectrace.align.code.files import Function, statements
from collectrace.align.code.graph import Kind, Node, called_name
from collectrace.align.code.names import Binding, Definitions, How
from collectrace.align.code.origins import Origin, Rule
from collectrace.align.code.paths import Context, Program

_MOST: Final = 200
"""Expressions that are followed for one question."""

_DEEPEST: Final = 12
"""Definitions and calls that lead to one another."""

_MUTABLE: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Call)
"""Values that may be changed without their name being bound again."""

_READING: Final = frozenset({"items", "keys", "values", "get", "copy", "index", "count"})
_PURE: Final = frozenset(
    {"len", "sorted", "enumerate", "zip", "range", "list", "tuple", "sum", "min", "max", "print",
     "isinstance", "bool", "any", "all", "reversed", "iter"}
)  # fmt: skip


class Site(NamedTuple):
    """A line of a file."""

    path: str
    line: int


class Agreements(Protocol):
    """What the records say about results of collectives."""

    def agreed(self, site: Site) -> bool:
        """Whether each call from a line completed before the first difference on both sides.

        All of them in groups that contain both sides.
        """


class Nothing:
    """No record says that a result is agreed."""

    def agreed(self, site: Site) -> bool:  # noqa: ARG002
        """Return False."""
        return False


class Place(NamedTuple):
    """Where an expression is evaluated."""

    function: Function
    node: Node | None
    """The step; None: somewhere in the function."""
    context: Context | None
    """The calls that led to the function; None: not known."""


class Source(NamedTuple):
    """A part of an expression whose value comes from elsewhere than a name that is followed."""

    place: Place
    origin: Origin


class Tracer:
    """Follows expressions of one program back."""

    def __init__(self, program: Program, agreements: Agreements) -> None:
        self._program = program
        self._agreements = agreements
        self._definitions: dict[int, Definitions | None] = {}

    def origins(self, tree: ast.AST | None, place: Place) -> tuple[Origin, ...]:
        """Return what an expression depends on, the most telling first."""
        return origins.sorted_by_weight(source.origin for source in self.sources(tree, place))

    def sources(self, tree: ast.AST | None, place: Place) -> list[Source]:
        """Return what an expression depends on, with the places where it comes in."""
        return list(_Trace(self, self._agreements, self._program).follow(tree, place, 0))

    def definitions(self, function: Function) -> Definitions | None:
        """Return the definitions of a function; None: it is too large."""
        key = id(function.tree)
        if key not in self._definitions:
            graph = self._program.graph(function)
            found = Definitions.of(function, graph) if graph is not None else None
            self._definitions[key] = found
        return self._definitions[key]


class _Trace:
    """One question: what an expression depends on."""

    def __init__(self, tracer: Tracer, agreements: Agreements, program: Program) -> None:
        self._tracer = tracer
        self._agreements = agreements
        self._program = program
        self._seen: set[tuple[int, int, int]] = set()

    def follow(self, tree: ast.AST | None, place: Place, depth: int) -> Iterator[Source]:
        key = id(tree), id(place.node), id(place.context)
        if tree is None or key in self._seen:
            return
        if depth > _DEEPEST or len(self._seen) > _MOST:
            yield Source(place, Origin.UNKNOWN)
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
                yield from self._call(tree, place, depth)
            case ast.Lambda() | ast.Await() | ast.Yield() | ast.YieldFrom():
                yield Source(place, Origin.UNKNOWN)
            case ast.Set() | ast.SetComp():
                yield Source(place, Origin.ORDER)
            case ast.Compare() if _is_alike(tree):
                yield Source(place, Origin.AGREED)
            case _:
                yield from self._parts(tree, place, depth)

    def _parts(self, tree: ast.AST, place: Place, depth: int) -> Iterator[Source]:
        if isinstance(tree, ast.Tuple | ast.List | ast.Dict):  # an empty one has no parts
            yield Source(place, Origin.AGREED)
        for child in ast.iter_child_nodes(tree):
            if isinstance(child, ast.expr | ast.comprehension | ast.keyword):
                yield from self.follow(child, place, depth)

    # Names

    def _name(self, name: str, place: Place, depth: int) -> Iterator[Source]:
        found = list(self._bindings(name, place, depth))
        if found:
            origins_found = {one.origin for one in found}
            unknown = origins_found <= {Origin.UNKNOWN, Origin.AGREED}
            if unknown and origins.is_rank(name) and not _is_parameter(name, place.function):
                yield Source(place, Origin.RANK)
            else:
                yield from found
            return
        row = origins.row_of(self._resolved(name, place.function))
        if row is not None:
            yield Source(place, row.origin)
        elif name in origins.TRANSPARENT or _is_comprehended(name, place):
            yield Source(place, Origin.AGREED)
        else:
            yield Source(place, Origin.RANK if origins.is_rank(name) else Origin.UNKNOWN)

    def _bindings(self, name: str, place: Place, depth: int) -> Iterator[Source]:
        """Return what the bindings of a name depend on, from the function outwards."""
        function: Function | None = place.function
        while function is not None:
            definitions = self._tracer.definitions(function)
            if definitions is None:
                yield Source(place, Origin.UNKNOWN)
                return
            inside = function is place.function and place.node is not None
            if isinstance(function.tree, ast.Module):
                if inside and place.node is not None and not _is_global(name, function):
                    found = definitions.reaching(place.node, name)
                    yield from self._bound(found, definitions, name, place, depth)
                else:
                    yield from self._global(name, function, place, depth)
                return
            if not isinstance(function.tree, ast.ClassDef) and not _declares(name, function):
                bound = definitions.all(name)
                if bound and inside and place.node is not None:
                    bound = definitions.reaching(place.node, name)
                if bound:
                    at = place if inside else Place(function, None, None)
                    yield from self._bound(bound, definitions, name, at, depth)
                    return
            function = function.parent

    def _bound(
        self,
        bound: Sequence[Binding],
        definitions: Definitions,
        name: str,
        place: Place,
        depth: int,
    ) -> Iterator[Source]:
        """Return what some bindings of a name depend on, and what chose between them."""
        for binding in bound:
            at = Place(definitions.function, binding.node, place.context)
            match binding.how:
                case How.PARAMETER:
                    yield from self._parameter(name, place, depth)
                case How.EXCEPTION:
                    yield Source(at, Origin.EXCEPTION)
                case How.CALL if isinstance(binding.value, ast.Call):
                    yield Source(at, self._result(binding.value, at))
                case How.UNKNOWN:
                    yield from self._defined(name, at)
                case How.ITEM:  # the loop itself is where other items come in
                    found = self.follow(binding.value, at, depth + 1)
                    yield from (Source(at, one.origin) for one in found)
                case _:
                    yield from self.follow(binding.value, at, depth + 1)
                    if _may_change(name, binding.value, binding.how, at.function):
                        yield Source(at, Origin.UNKNOWN)
        several = len(bound) > 1 or any(one.how is How.CHANGE for one in bound)
        if several and not self._is_chosen_alike(bound, definitions, place, depth):
            yield Source(place, Origin.UNKNOWN)

    def _is_chosen_alike(
        self, bound: Sequence[Binding], definitions: Definitions, place: Place, depth: int
    ) -> bool:
        """Whether both sides went the same way through the bindings of a name."""
        before = definitions.leading_to([one.node for one in bound])
        for node in before:
            if node.kind in (Kind.HANDLER, Kind.DISPATCH, Kind.YIELD, Kind.FINALLY):
                return False
            condition = condition_of(node)
            if condition is not None:
                at = Place(definitions.function, node, place.context)
                found = self.follow(condition, at, depth + 1)
                if any(one.origin is not Origin.AGREED for one in found):
                    return False
        return True

    def _parameter(self, name: str, place: Place, depth: int) -> Iterator[Source]:
        """Return what the caller on the stack passes for a parameter."""
        context = place.context
        if context is None or context.parent is None or context.call is None:
            yield Source(place, Origin.UNKNOWN)
            return
        tree = context.call.tree
        passed = (
            names.argument(tree, context.function, name) if isinstance(tree, ast.Call) else None
        )
        if passed is None or called_name(tree) != context.function.name:
            yield Source(
                Place(context.parent.function, context.call, context.parent), Origin.UNKNOWN
            )
            return
        at = Place(context.parent.function, context.call, context.parent)
        yield from self.follow(passed, at, depth + 1)

    def _global(self, name: str, module: Function, place: Place, depth: int) -> Iterator[Source]:
        """Return what a variable of a module depends on."""
        found = list(names.global_values(module, name))
        for function, value, how in found:
            at = Place(function, None, None)
            if how is How.UNKNOWN:
                yield from self._defined(name, place)
            elif how is How.CALL and isinstance(value, ast.Call):
                yield Source(at, self._result(value, at))
            else:
                yield from self.follow(value, at, depth + 1)
                if _may_change(name, value, how, function.file.module):
                    yield Source(at, Origin.UNKNOWN)
        if len(found) > 1 or any(how is How.CHANGE for _, _, how in found):
            yield Source(place, Origin.UNKNOWN)  # which of them came last is not followed

    def _defined(self, name: str, place: Place) -> Iterator[Source]:
        """Return what an imported name, a function or a class depends on."""
        if name in place.function.file.imports:
            row = origins.row_of(self._resolved(name, place.function))
            if row is not None:
                yield Source(place, row.origin)
            else:
                yield Source(place, Origin.RANK if origins.is_rank(name) else Origin.UNKNOWN)
        else:
            yield Source(place, Origin.AGREED)  # a definition is the same on both sides

    def _attribute(self, tree: ast.Attribute, place: Place, depth: int) -> Iterator[Source]:
        text = names.dotted(tree)
        row = origins.row_of(self._resolved(text, place.function) if text else f"?.{tree.attr}")
        if row is not None and row.rule is not Rule.RESULT:
            yield from self._by_row(row, [tree.value], place, depth)
            return
        owner = _class_of(place.function)
        found: list[Source] = []
        if owner is not None and text in (f"self.{tree.attr}", f"cls.{tree.attr}"):
            found = list(self._of_object(tree.attr, owner, depth))
        if found:
            if origins.is_rank(tree.attr) and {one.origin for one in found} <= {Origin.UNKNOWN}:
                yield Source(place, Origin.RANK)
            else:
                yield from found
        elif origins.is_rank(tree.attr):
            yield Source(place, Origin.RANK)
        else:
            yield Source(place, Origin.UNKNOWN)
            base = self.follow(tree.value, place, depth + 1)
            yield from (one for one in base if one.origin is not Origin.AGREED)

    def _of_object(self, name: str, owner: Function, depth: int) -> Iterator[Source]:
        """Return what an attribute of ``self`` depends on, by all methods of the class."""
        found = list(names.attribute_values(owner, name))
        for function, value in found:
            at = Place(function, None, None)
            if value is None:
                yield Source(at, Origin.UNKNOWN)
            else:
                yield from self.follow(value, at, depth + 1)
                if isinstance(value, _MUTABLE):
                    yield Source(at, Origin.UNKNOWN)
        bases = getattr(owner.tree, "bases", ())
        if found and (len(found) > 1 or bases):
            yield Source(Place(owner, None, None), Origin.UNKNOWN)

    # Calls

    def _call(self, tree: ast.Call, place: Place, depth: int) -> Iterator[Source]:
        operands: list[ast.AST] = [*tree.args, *(one.value for one in tree.keywords)]
        if isinstance(tree.func, ast.Attribute):
            operands.insert(0, tree.func.value)
        text = names.dotted(tree.func)
        name = called_name(tree)
        known = self._known(tree, place)
        if known is not None:
            yield from self._inside(known, tree, place, depth)
            return
        row = origins.row_of(self._resolved(text, place.function) if text else f"?.{name}")
        if row is not None:
            if row.rule is Rule.RESULT:
                yield Source(place, self._result(tree, place))
            else:
                yield from self._by_row(row, operands, place, depth)
            return
        is_method = isinstance(tree.func, ast.Attribute)
        if name in (origins.TRANSPARENT_METHODS if is_method else origins.TRANSPARENT) or (
            name in origins.TRANSPARENT and text
        ):
            base = text.partition(".")[0]
            for operand in operands:
                if not (names.dotted(operand) == base and base in place.function.file.imports):
                    yield from self.follow(operand, place, depth)
            return
        yield Source(place, Origin.RANK if origins.is_rank(name) else Origin.UNKNOWN)
        if not isinstance(tree.func, ast.Name | ast.Attribute):
            operands.append(tree.func)
        for operand in operands:
            found = self.follow(operand, place, depth + 1)
            yield from (one for one in found if one.origin is not Origin.AGREED)

    def _by_row(
        self, row: origins.Row, operands: Sequence[ast.AST], place: Place, depth: int
    ) -> Iterator[Source]:
        if row.rule is Rule.ALONE:
            yield Source(place, row.origin)
            return
        found = [one for operand in operands for one in self.follow(operand, place, depth)]
        if any(one.origin is not Origin.AGREED for one in found) or not operands:
            yield Source(place, row.origin)
        yield from found

    def _known(self, tree: ast.Call, place: Place) -> Function | None:
        """Return the function of a known file that a call calls; None: it is not known."""
        name = called_name(tree)
        same = [
            one
            for one in self._program.lookup(name)
            if isinstance(one.tree, ast.FunctionDef)
            and set(map(called_name, one.decorators)) <= {"staticmethod", "classmethod", "property"}
        ]
        if isinstance(tree.func, ast.Name):
            same = [one for one in same if one.owner is None]
        elif isinstance(tree.func, ast.Attribute):
            of_self = isinstance(tree.func.value, ast.Name) and tree.func.value.id in (
                "self",
                "cls",
            )
            owner = _class_of(place.function)
            same = [one for one in same if one.owner is not None]
            if of_self and owner is not None:
                same = [one for one in same if one.owner is owner] or same
        return same[0] if len(same) == 1 else None

    def _inside(
        self, callee: Function, tree: ast.Call, place: Place, depth: int
    ) -> Iterator[Source]:
        """Return what the result of a function depends on: its returns, and what chooses them."""
        definitions = self._tracer.definitions(callee)
        if definitions is None or depth > _DEEPEST - 4 or definitions.graph.is_generator:
            yield Source(place, Origin.UNKNOWN)
            return
        for node in definitions.graph.nodes:
            value: ast.AST | None = condition_of(node)
            if isinstance(node.tree, ast.Return) and node.kind is Kind.STATEMENT:
                value = node.tree.value
            if node.kind in (Kind.HANDLER, Kind.DISPATCH):
                yield Source(place, Origin.EXCEPTION)
            for one in self.follow(value, Place(callee, node, None), depth + 3) if value else ():
                yield Source(place, one.origin)
        passed = [*tree.args, *(one.value for one in tree.keywords)]
        for operand in passed:
            yield from self.follow(operand, place, depth)

    def _result(self, tree: ast.Call, place: Place) -> Origin:
        """Return the origin of what a collective returns, or writes into an argument."""
        row = origins.row_of(self._resolved(names.dotted(tree.func), place.function))
        name = called_name(tree)
        if row is None and name in names.IN_PLACE:
            row = origins.row_of(f"torch.distributed.{name}")
        if row is None:
            return Origin.UNKNOWN
        if row.rule is not Rule.RESULT:
            return row.origin
        agreed = self._agreements.agreed(Site(place.function.file.path, tree.lineno))
        return Origin.AGREED if agreed else Origin.UNKNOWN

    def _resolved(self, text: str, function: Function) -> str:
        """Return a dotted name with the import of its first part resolved."""
        first, dot, rest = text.partition(".")
        found = function.file.imports.get(first, first)
        return f"{found}{dot}{rest}"


def condition_of(node: Node) -> ast.AST | None:
    """Return the expression by which a step chooses where to go; None: it does not choose."""
    tree = node.tree
    match node.kind:
        case Kind.TEST:
            return tree
        case Kind.LOOP if isinstance(tree, ast.For | ast.AsyncFor):
            return tree.iter
        case Kind.LOOP:
            return tree
        case Kind.MATCH if isinstance(tree, ast.Match):
            return tree.subject
        case _:
            return None


def _is_alike(test: ast.Compare) -> bool:
    """Whether a test of the rank has one outcome on all ranks: ``rank >= 0``, ``rank is None``."""
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[other]):
            rank = origins.is_rank(called_name(left))
            value = other.operand if isinstance(other, ast.UnaryOp) else other
            number = value.value if isinstance(value, ast.Constant) else ...
            if not rank or number is ...:
                return False
            negative = isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.USub)
            if number == 0 and not negative:
                return isinstance(op, ast.GtE | ast.Lt)
            return number is None or (negative and number == 1)
        case _:
            return False


def _is_parameter(name: str, function: Function) -> bool:
    return name in names.parameters(function.tree)


def _is_comprehended(name: str, place: Place) -> bool:
    """Whether a name is bound by a comprehension or lambda in the statement."""
    trees = (place.node.tree, place.node.head) if place.node is not None else (place.function.tree,)
    for tree in trees:
        for one in ast.walk(tree) if tree is not None else ():
            if isinstance(one, ast.comprehension | ast.arguments) and any(
                getattr(part, "id", getattr(part, "arg", "")) == name
                for part in ast.walk(one.target if isinstance(one, ast.comprehension) else one)
            ):
                return True
    return False


def _is_global(name: str, module: Function) -> bool:
    """Whether a function of the file binds a name of its module."""
    return any(
        isinstance(one, ast.Global) and name in one.names
        for one in statements(module.file.tree.body, into_functions=True)
    )


def _declares(name: str, function: Function) -> bool:
    """Whether a function declares a name as ``global`` or ``nonlocal``."""
    return any(
        isinstance(one, ast.Global | ast.Nonlocal) and name in one.names
        for one in statements(getattr(function.tree, "body", ()))
        if not isinstance(function.tree, ast.Lambda)
    )


def _class_of(function: Function) -> Function | None:
    """Return the class whose method a function is, or is in."""
    outer: Function | None = function
    while outer is not None and outer.owner is None:
        outer = outer.parent
    return outer.owner if outer is not None else None


def _may_change(name: str, value: ast.AST | None, how: How, function: Function) -> bool:
    """Whether a list or the like is used in a way that may change it."""
    if how is not How.VALUE or not isinstance(value, _MUTABLE):
        return False
    if isinstance(value, ast.Call) and called_name(value) in _IMMUTABLE:
        return False
    reads: set[int] = set()
    for one in ast.walk(function.tree):
        match one:
            case ast.Call(func=ast.Attribute(value=ast.Name() as used, attr=method)):
                if method in _READING:
                    reads.add(id(used))
            case ast.Call(func=ast.Name(id=called)) if called in _PURE:
                reads.update(map(id, one.args))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                reads.add(id(one.iter))
            case ast.Subscript(value=ast.Name(), ctx=ast.Load()):
                reads.add(id(one.value))
            case ast.Compare():
                reads.update(map(id, [one.left, *one.comparators]))
            case ast.If() | ast.While():
                reads.add(id(one.test))
            case _:
                pass
    return any(
        isinstance(one, ast.Name)
        and one.id == name
        and isinstance(one.ctx, ast.Load)
        and id(one) not in reads
        for one in ast.walk(function.tree)
    )


_IMMUTABLE: Final = frozenset(
    {"len", "int", "float", "bool", "str", "range", "min", "max", "sum", "abs", "round", "tuple",
     "get_rank", "get_world_size", "isinstance", "any", "all"}
)  # fmt: skip
"""Functions whose results cannot be changed."""

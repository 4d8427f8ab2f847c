"""Find where the names in a condition got their values.

Names of a function are followed by the definitions that reach a step of its control-flow graph.
Attributes of ``self`` use the assignments in all methods of the class, and module variables all
assignments in the file.

The library ``beniget`` computes definitions too. It is not used because it takes ten times as long
as parsing, prints warnings about the analysed program, and knows no attributes and no type
parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from collectrace.align.code.files import Function, statements
from collectrace.align.code.graph import Graph, Kind, Node, called_name, following


class How(Enum):
    """How a name gets a value."""

    VALUE = auto()
    """The value of an expression, or a part of it."""
    CHANGE = auto()
    """Its own value, changed by an expression."""
    ITEM = auto()
    """The items of an expression, one after the other."""
    EXCEPTION = auto()
    PARAMETER = auto()
    CALL = auto()
    """A function that gets it as an argument writes into it."""
    UNKNOWN = auto()


class Binding(NamedTuple):
    """A place where a name gets a value."""

    how: How
    value: ast.expr | None
    node: Node


@dataclass(slots=True)
class Definitions:
    """The bindings of one function, found in its graph."""

    function: Function
    graph: Graph
    _bindings: Mapping[int, Mapping[str, list[Binding]]]
    """By number of the node, then by name."""
    _before: Sequence[Sequence[Node]]

    @classmethod
    def of(cls, function: Function, graph: Graph) -> Definitions:
        """Return the definitions of a function."""
        before: list[list[Node]] = [[] for _ in graph.nodes]
        for node in graph.nodes:
            for target in following(node):
                before[target.number].append(node)
        found: dict[int, dict[str, list[Binding]]] = {}
        # The walrus is rare, and searching for it takes longer than everything else.
        lines = function.file.lines[max(function.first - 1, 0) : function.last]
        has_walrus = any(":=" in line for line in lines)
        for node in graph.nodes:
            for name, how, value in _bound_at(node, has_walrus=has_walrus):
                binding = Binding(how, value, node)
                found.setdefault(node.number, {}).setdefault(name, []).append(binding)
        for name in parameters(function.tree):
            at_entry = found.setdefault(graph.entry.number, {})
            at_entry[name] = [Binding(How.PARAMETER, None, graph.entry)]
        return cls(function, graph, found, before)

    def before(self, node: Node) -> Sequence[Node]:
        """Return the steps that control can come from to a step."""
        return self._before[node.number]

    def reaching(self, node: Node, name: str) -> list[Binding]:
        """Return the bindings of a name that reach a step; empty if the function has none."""
        found: list[Binding] = []
        todo = list(self.before(node))
        if node.kind is Kind.LOOP:  # the head binds its target after it has read the iterator
            todo = [one for one in todo if one is not node]
        seen: set[int] = set()
        while todo:
            one = todo.pop()
            if one.number in seen:
                continue
            seen.add(one.number)
            here = self._bindings.get(one.number, {}).get(name, [])
            found += here
            if not any(binding.how is not How.CHANGE for binding in here):
                todo += self.before(one)
        return found

    def binds(self, node: Node, name: str) -> bool:
        """Whether a step binds a name, or an object that is a prefix of a dotted name."""
        bound = self._bindings.get(node.number, {})
        return any(name == one or name.startswith(f"{one}.") for one in bound)

    def all(self, name: str) -> list[Binding]:
        """Return every binding of a name in the function."""
        return [one for names in self._bindings.values() for one in names.get(name, ())]


IN_PLACE: Final = {
    **dict.fromkeys(
        ("all_reduce", "all_reduce_coalesced", "broadcast", "broadcast_object_list", "all_gather",
         "all_gather_object", "all_gather_into_tensor", "reduce", "scatter", "scatter_object_list",
         "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "recv",
         "recv_object_list", "irecv"), 0,
    ),
    "gather": 1,
    "gather_object": 1,
}  # fmt: skip
"""Position of the argument that gets the result, by function of ``torch.distributed``. From torch
2.13, ``torch/distributed/distributed_c10d.py``."""

CHANGING: Final = frozenset(
    {"append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "remove", "clear",
     "sort", "reverse", "update", "add", "discard", "setdefault", "move_to_end", "rotate"}
)  # fmt: skip
"""Methods that change a list, a dictionary, a set or a deque."""

_OUTPUTS: Final = frozenset(
    {"tensor", "tensor_list", "object_list", "output", "output_tensor", "gather_list",
     "object_gather_list", "output_tensor_list", "scatter_object_output_list", "tensors"}
)  # fmt: skip
"""The names of these arguments."""


def output_of(call: ast.Call) -> ast.expr | None:
    """Return the argument that a collective writes its result to, or None."""
    place = IN_PLACE.get(called_name(call))
    if place is None:
        return None
    if place < len(call.args):
        return call.args[place]
    return next((one.value for one in call.keywords if one.arg in _OUTPUTS), None)


def _bound_at(node: Node, *, has_walrus: bool) -> Iterator[tuple[str, How, ast.expr | None]]:
    """Return the names that a step binds."""
    tree = node.tree
    match node.kind:
        case Kind.STATEMENT:
            yield from _bound_by(tree)
        case Kind.LOOP if isinstance(tree, ast.For | ast.AsyncFor):
            yield from _targets(tree.target, How.ITEM, tree.iter)
        case Kind.LOOP if tree is not None:
            for generator in getattr(tree, "generators", ()):
                yield from _targets(generator.target, How.ITEM, generator.iter)
        case Kind.ENTER if isinstance(node.head, ast.With | ast.AsyncWith):
            yield from (one for one in _entered(node.head) if one[2] is tree)
        case Kind.HANDLER if isinstance(tree, ast.ExceptHandler) and tree.name:
            yield tree.name, How.EXCEPTION, None
        case Kind.MATCH if isinstance(tree, ast.Match):
            yield from ((name, How.VALUE, tree.subject) for name in _captured(tree))
        case Kind.CALL if isinstance(tree, ast.Call):
            yield from _written_by(tree)
        case _:
            pass
    if has_walrus:
        yield from _walrus(node)


def _captured(tree: ast.Match) -> Iterator[str]:
    for case in tree.cases:
        for one in ast.walk(case.pattern):
            name = getattr(one, "name", None) or getattr(one, "rest", None)
            if isinstance(name, str):
                yield name


def _entered(tree: ast.With | ast.AsyncWith) -> Iterator[tuple[str, How, ast.expr | None]]:
    for item in tree.items:
        if item.optional_vars is not None:
            yield from _targets(item.optional_vars, How.VALUE, item.context_expr)


def _bound_by(tree: ast.AST | None) -> Iterator[tuple[str, How, ast.expr | None]]:
    match tree:
        case ast.Assign():
            for target in tree.targets:
                yield from _targets(target, How.VALUE, tree.value)
        case ast.AugAssign():
            yield from _targets(tree.target, How.CHANGE, tree.value)
        case ast.AnnAssign(value=ast.expr() as value):
            yield from _targets(tree.target, How.VALUE, value)
        case ast.Import() | ast.ImportFrom():
            for alias in tree.names:
                yield (alias.asname or alias.name).partition(".")[0], How.UNKNOWN, None
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield tree.name, How.UNKNOWN, None
        case ast.Delete():
            for target in tree.targets:
                if isinstance(target, ast.Subscript):
                    yield from _targets(target, How.CHANGE, target.slice)
        case _:
            pass


def _targets(
    target: ast.expr, how: How, value: ast.expr | None
) -> Iterator[tuple[str, How, ast.expr | None]]:
    match target:
        case ast.Name():
            yield target.id, how, value
        case ast.Attribute():
            if text := dotted(target):
                yield text, how, value
        case ast.Starred():
            yield from _targets(target.value, how, value)
        case ast.Tuple() | ast.List():
            parts: Sequence[ast.expr | None] = [value] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                parts = value.elts if how is How.VALUE else parts
            for one, part in zip(target.elts, parts, strict=True):
                yield from _targets(one, how, part)
        case ast.Subscript():
            yield from _targets(target.value, How.CHANGE, value)
        case _:
            pass


def _written_by(call: ast.Call) -> Iterator[tuple[str, How, ast.expr | None]]:
    """Return the names whose values a call changes: outputs of collectives, methods like add_()."""
    output = output_of(call)
    if output is not None:
        if text := dotted(output):
            yield text, How.CALL, call
    elif isinstance(call.func, ast.Attribute):
        method, text = call.func.attr, dotted(call.func.value)
        in_place = method.endswith("_") and not method.endswith("__")
        if text and (in_place or method in CHANGING):
            yield text, How.CHANGE, ast.Tuple(call.args, ast.Load())


def _walrus(node: Node) -> Iterator[tuple[str, How, ast.expr | None]]:
    if node.kind not in (Kind.TEST, Kind.STATEMENT, Kind.CALL) or node.tree is None:
        return
    if isinstance(node.tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for one in ast.walk(node.tree):
        if isinstance(one, ast.NamedExpr):
            yield one.target.id, How.VALUE, one.value


def parameters(tree: ast.AST) -> Sequence[str]:
    """Return the names of the parameters of a function, in order."""
    arguments = getattr(tree, "args", None)
    if not isinstance(arguments, ast.arguments):
        return ()
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    extra = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [one.arg for one in (*plain, *extra)]


def argument(call: ast.Call, callee: Function, name: str) -> ast.expr | None:
    """Return what a call passes for a parameter, or its default; None: not known."""
    arguments = getattr(callee.tree, "args", None)
    if not isinstance(arguments, ast.arguments):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    plain = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    if name in plain:
        bound = callee.owner is not None and "staticmethod" not in map(
            called_name, callee.decorators
        )
        place = plain.index(name) - bound
        if any(isinstance(one, ast.Starred) for one in call.args):
            return None
        if 0 <= place < len(call.args):
            return call.args[place]
        default = plain.index(name) - len(plain) + len(arguments.defaults)
        return arguments.defaults[default] if default >= 0 else None
    keyword_only = [one.arg for one in arguments.kwonlyargs]
    return arguments.kw_defaults[keyword_only.index(name)] if name in keyword_only else None


def loop_variable(loop: ast.stmt) -> str:
    """Return the first variable that a loop binds; empty if there is none."""
    target = loop.target if isinstance(loop, ast.For | ast.AsyncFor) else None
    while isinstance(target, ast.Tuple | ast.List) and target.elts:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else ""


def dotted(tree: ast.AST | None) -> str:
    """Return ``a.b.c`` as text; empty for anything else."""
    parts: list[str] = []
    while isinstance(tree, ast.Attribute):
        parts.append(tree.attr)
        tree = tree.value
    return ".".join([tree.id, *reversed(parts)]) if isinstance(tree, ast.Name) else ""


class AttributeBinding(NamedTuple):
    """A statement of a class that sets or changes an attribute."""

    function: Function
    """The method, or the class itself."""
    statement: ast.stmt
    how: How
    value: ast.expr | None
    """What it is set to or changed by."""


def attribute_bindings(owner: Function, name: str) -> Iterator[AttributeBinding]:
    """Return the statements that set or change an attribute in the methods of a class."""
    for function in owner.file.functions:
        if function.owner is not owner and function is not owner:
            continue
        for statement in statements(getattr(function.tree, "body", ())):
            for text, how, value in _bound_of(statement):
                if text in ((name,) if function is owner else (f"self.{name}", f"cls.{name}")):
                    yield AttributeBinding(function, statement, how, _with_index(statement, value))


def _with_index(statement: ast.stmt, value: ast.expr | None) -> ast.expr | None:
    """Return what an item is set to, with the index of the item."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(slice=index)]) if value is not None:
            return ast.copy_location(ast.Tuple([index, value], ast.Load()), value)
        case _:
            return value


def attribute_values(owner: Function, name: str) -> Iterator[tuple[Function, ast.expr | None]]:
    """Return the values that methods of a class assign to an attribute, with each method.

    A value of None stands for a change that is not followed.
    """
    for one in attribute_bindings(owner, name):
        yield one.function, one.value if one.how is How.VALUE else None


class GlobalBinding(NamedTuple):
    """A binding of a variable of a module."""

    function: Function
    how: How
    value: ast.expr | None


def global_bindings(module: Function) -> Mapping[str, Sequence[GlobalBinding]]:
    """Return the bindings of a module's variables, in all functions of its file."""
    found: dict[str, list[GlobalBinding]] = {}
    for function in module.file.functions:
        if isinstance(function.tree, ast.ClassDef):
            continue
        body = list(statements(getattr(function.tree, "body", ())))
        declared = {name for one in body if isinstance(one, ast.Global) for name in one.names}
        if function is not module and not declared:
            continue
        for statement in body:
            for text, how, value in _bound_of(statement):
                if function is module or text in declared:
                    found.setdefault(text, []).append(GlobalBinding(function, how, value))
    return found


_READING: Final = frozenset({"items", "keys", "values", "get", "copy", "index", "count"})
_PURE: Final = frozenset(
    {"len", "sorted", "enumerate", "zip", "range", "list", "tuple", "sum", "min", "max", "print",
     "isinstance", "bool", "any", "all", "reversed", "iter"}
)  # fmt: skip


def changed_in(tree: ast.AST) -> frozenset[str]:
    """Return the names that a function uses in a way that may change a list or the like.

    Bindings do not count, nor methods that are known to only read, or that are followed elsewhere.
    """
    reads: set[int] = set()
    loads: list[ast.Name] = []
    for one in ast.walk(tree):
        match one:
            case ast.Name(ctx=ast.Load()):
                loads.append(one)
            case ast.Call(func=ast.Attribute(value=ast.Name() as used, attr=method)):
                if method in _READING or method in CHANGING:
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
            case ast.Return():
                reads.add(id(one.value))
            case _:
                pass
    return frozenset(one.id for one in loads if id(one) not in reads)


def _bound_of(statement: ast.stmt) -> Iterator[tuple[str, How, ast.expr | None]]:
    if isinstance(statement, ast.For | ast.AsyncFor):
        yield from _targets(statement.target, How.ITEM, statement.iter)
    elif isinstance(statement, ast.With | ast.AsyncWith):
        yield from _entered(statement)
    else:
        yield from _bound_by(statement)
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Call):  # alone, or as in ``oldest = self.steps.pop(0)``
            yield from _written_by(value)

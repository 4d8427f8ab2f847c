"""Find the step of a function that a stack frame is at, and whether it must call a function.

Names decide: ``self.step(x)`` calls ``step``, ``model(x)`` a method ``forward``, a ``with`` block
an ``__enter__``. If the step may also call something else, it may itself be what made two ranks
differ: an overridden method, a table of functions, a cache, or a callback of a library.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Final

from collectrace import ops
from collectrace.align.code.expressions import is_method_of_self
from collectrace.align.code.files import Function
from collectrace.align.code.graph import Graph, Kind, Node, called_name
from collectrace.align.code.names import dotted

Lookup = Callable[[str], Sequence[Function]]
"""Returns the known functions and classes with a name."""

COLLECTIVES: Final = frozenset(ops.NAMES) | {"isend", "irecv"}
"""Functions that issue one call each."""

_WITHOUT_GROUP: Final = 2
"""Number of leading arguments of a collective that are never its group."""

CACHES: Final = frozenset({"cache", "lru_cache", "cached_property", "cachedmethod", "cached"})
PROPERTIES: Final = frozenset({"property", "cached_property"})
_MANAGERS: Final = frozenset({"contextmanager", "asynccontextmanager"})
_OF_CLASS: Final = frozenset({"__init__", "__new__", "__post_init__"})
_BY_LIBRARY: Final = frozenset({"backward"})
"""Methods that a library may call from within a call of the same name."""

_ENTERING: Final = frozenset({"__enter__", "__aenter__"})
_LEAVING: Final = frozenset({"__exit__", "__aexit__"})
_CALLING: Final = (
    Kind.CALL,
    Kind.AWAIT,
    Kind.ENTER,
    Kind.LEAVE,
    Kind.UNWIND,
    Kind.LOOP,
    Kind.YIELD,
)
_IMPLICIT: Final = (Kind.LOOP, Kind.ENTER, Kind.LEAVE, Kind.UNWIND)
_KEEPING: Final = frozenset(
    {"staticmethod", "classmethod", "override", "abstractmethod", "property", "no_grad",
     "inference_mode", "enable_grad"}
)  # fmt: skip
"""Decorators that leave what a function returns unchanged."""


def locate_frame(graph: Graph, line: int, callee: Function | None, generator: bool) -> list[Node]:
    """Return the nodes at which a frame may be.

    Args:
        graph: of the function of the frame.
        line: of the frame.
        callee: the function of the next inner frame; None: the frame is the innermost.
        generator: the callee is a generator.

    """
    here = list(graph.at(line))
    found = [n for n in here if n.kind in _CALLING]
    if callee is None:
        named = [n for n in found if called_name(n.tree) in COLLECTIVES]
    else:
        named = [n for n in found if is_named(n, callee, generator=generator)]
        if generator:  # the call only makes the generator; its consumer runs it
            named = [n for n in named if n.kind is not Kind.CALL] or named
        if not named:  # prefer the call of ``hooks[0]()`` to a call in the index
            named = [n for n in found if n.kind is Kind.CALL and not called_name(n.tree)]
    found = named or found or [n for n in here if n.kind is not Kind.WHILE]
    exact = [n for n in found if line in (n.line, _name_line(n.tree))]
    return exact or found


def is_recorded(tree: ast.AST | None, function: Function) -> bool:
    """Whether a step makes a call that every rank records: a collective of all ranks."""
    if not isinstance(tree, ast.Call) or called_name(tree) not in COLLECTIVES:
        return False
    first, _, rest = dotted(tree.func).partition(".")
    name = ".".join(filter(None, (function.file.imports.get(first, ""), rest)))
    most = 0 if called_name(tree) in ops.BARRIERS else _WITHOUT_GROUP
    return (
        name == f"torch.distributed.{called_name(tree)}"
        and len(tree.args) <= most
        and not any(one.arg in (None, "group") for one in tree.keywords)
    )


def raising_nodes(graph: Graph, line: int) -> list[Node]:
    """Return the nodes at which an exception may have been raised in a line."""
    here = [node for node in graph.at(line) if node.raises is not None]
    explicit = [
        node
        for node in here
        if node.kind is Kind.STATEMENT and isinstance(node.tree, ast.Raise | ast.Assert)
    ]
    return explicit or here


def _name_line(tree: ast.AST | None) -> int:
    """Return the line of a called method's name: of ``step`` in ``self.step()``."""
    function = tree.func if isinstance(tree, ast.Call) else tree
    return getattr(function, "end_lineno", None) or 0


def is_named(node: Node, callee: Function, *, generator: bool) -> bool:
    """Whether a node can call a function by its kind, and by the name if it has one."""
    name = callee.name
    match node.kind:
        case Kind.ENTER:
            return name in _ENTERING or (generator and called_name(node.tree) == name)
        case Kind.LEAVE | Kind.UNWIND:
            items = node.tree.items if isinstance(node.tree, ast.With | ast.AsyncWith) else []
            named = any(called_name(item.context_expr) == name for item in items)
            return name in _LEAVING or (generator and named)
        case Kind.YIELD:
            return generator and isinstance(node.tree, ast.YieldFrom)
        case Kind.LOOP:
            return name in ("__iter__", "__next__", "__aiter__", "__anext__") or generator
        case Kind.CALL | Kind.AWAIT if isinstance(node.tree, ast.ClassDef):
            return name == node.tree.name
        case Kind.CALL | Kind.AWAIT:
            owner = callee.owner
            called = called_name(node.tree)
            return called == name or (
                name in _OF_CLASS and owner is not None and called == owner.name
            )
        case _:
            return False


def decorated_by(function: Function) -> frozenset[str]:
    """Return the last part of each decorator's name of a function."""
    return frozenset(map(called_name, function.decorators))


def must_call(
    node: Node, caller: Function, callee: Function, lookup: Lookup, *, generator: bool
) -> bool:
    """Whether a node calls a function every time, and never another one in its place."""
    if isinstance(callee.tree, ast.ClassDef | ast.Module):
        return isinstance(callee.tree, ast.ClassDef)  # a module is imported once
    decorators = decorated_by(callee)
    if decorators & CACHES or callee.name in _BY_LIBRARY:
        return False
    if node.kind in _IMPLICIT and is_named(node, callee, generator=generator):
        return True
    if is_named(node, callee, generator=generator):
        return _is_only(node, callee, lookup)
    if decorators & PROPERTIES:
        return len(_methods(callee, lookup)) == 1
    if isinstance(node.tree, ast.Call):
        if isinstance(callee.tree, ast.Lambda):
            return False
        if callee.name in ("forward", "__call__"):
            return len(_methods(callee, lookup)) == 1
        return _is_wrapped(called_name(node.tree), caller, callee, lookup)
    return False


def _methods(callee: Function, lookup: Lookup) -> Sequence[Function]:
    return lookup(callee.name)


def _is_only(node: Node, callee: Function, lookup: Lookup) -> bool:
    """Whether a name can only stand for one function."""
    if callee.name in _OF_CLASS:
        return True
    func = node.tree.func if isinstance(node.tree, ast.Call) else None
    same = lookup(callee.name)
    if isinstance(func, ast.Name):  # a parameter of that name holds it too, as the stack shows
        return not decorated_by(callee) - _KEEPING - _MANAGERS
    if callee.owner is not None and isinstance(func, ast.Attribute):
        if isinstance(func.value, ast.Name) and func.value.id in ("self", "cls"):
            return not any(one is not callee and _derives(one, callee, lookup) for one in same)
        if isinstance(func.value, ast.Call) and called_name(func.value) == "super":
            return True
    return len(same) <= 1


def _bound(tree: ast.AST) -> frozenset[str]:
    arguments = getattr(tree, "args", None)
    names = (
        {one.arg for one in ast.walk(arguments) if isinstance(one, ast.arg)} if arguments else set()
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return frozenset(names)


def _derives(one: Function, other: Function, lookup: Lookup) -> bool:
    """Whether the class of a method may derive from that of another."""
    seen: set[str] = set()
    todo = [one.owner]
    while todo:
        owner = todo.pop()
        if owner is None or owner.name in seen or not isinstance(owner.tree, ast.ClassDef):
            continue
        seen.add(owner.name)
        for base in owner.tree.bases:
            name = called_name(base)
            if other.owner is not None and name == other.owner.name:
                return True
            todo += lookup(name)
    return False


def _is_wrapped(name: str, caller: Function, callee: Function, lookup: Lookup) -> bool:
    """Whether a decorator connects the called name with the function that runs."""
    decorator = callee.parent
    if decorator is not None and any(decorator.name in decorated_by(one) for one in lookup(name)):
        return True  # the wrapper that the decorator returned for the named function
    wrapper = caller.parent
    if wrapper is None or wrapper.name not in decorated_by(callee):
        return False
    return name in _bound(wrapper.tree)  # the decorated function, as the decorator's argument


def called_by(tree: ast.Call, caller: Function, lookup: Lookup) -> Function | None:
    """Return the plain function or method that a call calls, or None if it is not known."""
    same = [
        one
        for one in lookup(called_name(tree))
        if isinstance(one.tree, ast.FunctionDef) and decorated_by(one) <= _KEEPING
    ]
    if isinstance(tree.func, ast.Name):
        same = [one for one in same if one.owner is None]
    else:
        same = [one for one in same if one.owner is not None]
        owner = class_of(caller)
        if is_method_of_self(tree.func) and owner is not None:
            same = [one for one in same if one.owner is owner] or same
    return same[0] if len(same) == 1 else None


def class_of(function: Function) -> Function | None:
    """Return the class that contains a function, directly or through outer functions, or None."""
    outer: Function | None = function
    while outer is not None and outer.owner is None:
        outer = outer.parent
    return outer.owner if outer is not None else None


def iterators_of(name: str, lookup: Lookup) -> list[Function]:
    """Return the methods that iterate over objects of a class with this name."""
    return [
        one
        for method in ("__iter__", "__next__")
        for one in lookup(method)
        if one.owner is not None and one.owner.name == name
    ]


def property_of(name: str, owner: Function) -> Function | None:
    """Return the property method of a class with this name, or None."""
    found = (one for one in owner.file.by_name.get(name, ()) if one.owner is owner)
    return next((one for one in found if decorated_by(one) & _COMPUTED), None)


_COMPUTED: Final = frozenset({"property", "cached_property"})

"""Find which class an object is of, and what is passed to functions, constructors and parsers.

Only what the source shows counts: calls of a known class, and the arguments of the caller on the
stack.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from collectrace.align.code import calls, names
from collectrace.align.code.files import Function
from collectrace.align.code.graph import called_name
from collectrace.align.code.names import How
from collectrace.align.code.places import Place
from collectrace.align.code.program import Program

_MOST_CALLS: Final = 6
"""Calls of one function that are followed."""

_MOST_VALUES: Final = 6
"""Values of one name that are followed."""

_DEEPEST: Final = 6
"""Longest chain of names that leads to the constructor of an object."""

_SAME: Final = (How.CHANGE, How.CALL)
"""Ways to change an object that leave its class the same."""


def passed(
    program: Program, name: str, place: Place, *, anywhere: bool = False
) -> Iterator[tuple[ast.expr | None, Place]]:
    """Yield what is passed for a parameter of a function, each with the place of the call.

    None stands for a value that is not known. On a stack the caller decides, and for a constructor
    all calls that are known. ``anywhere``: so for any function.
    """
    context, function = place.context, place.function
    if context is not None and context.parent is not None and context.call is not None:
        call = context.call.tree
        tree = None
        if isinstance(call, ast.Call) and called_name(call) == context.function.name:
            tree = names.argument(call, context.function, name)
        yield tree, Place(context.parent.function, context.call, context.parent)
        return
    made = list(_calls(program, function)) if anywhere or function.name == "__init__" else []
    if not 0 < len(made) <= _MOST_CALLS:
        yield None, place
        return
    for around, one in made:
        tree = names.argument(one, function, name)
        yield tree, place if tree is None else Place(around, None, None, one.lineno)


def _calls(program: Program, function: Function) -> Iterator[tuple[Function, ast.Call]]:
    """Yield the calls of a function, or of the constructor of its class, in known files."""
    if function.name == "__init__" and function.owner is not None:
        yield from program.constructed(function.owner)
    elif len(program.lookup(function.name)) == 1:
        name = function.name if function.owner is None else f".{function.name}"
        yield from program.calls(name)


def fields(program: Program, owner: Function, name: str) -> Iterator[tuple[ast.expr, Place]]:
    """Yield what the constructor calls of a dataclass pass for a field, without its default."""
    if "dataclass" not in calls.decorated_by(owner):
        return
    known = [
        one.target.id
        for one in getattr(owner.tree, "body", ())
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    if name not in known:
        return
    position = known.index(name)
    for around, call in program.constructed(owner):
        at = Place(around, None, None, call.lineno)
        unpacked = (one.value for one in call.args if isinstance(one, ast.Starred))
        plain = call.args[position : position + 1]
        given = (one.value for one in call.keywords if one.arg in (None, name))
        for tree in (*unpacked, *plain, *given):
            yield tree, at


def defaults(program: Program, name: str) -> Iterator[tuple[ast.expr, Place]]:
    """Yield the defaults of a command line's option, as ``add_argument`` is given them."""
    for around, call in program.calls(".add_argument"):
        given = {one.arg: one.value for one in call.keywords}
        flags = [str(one.value) for one in call.args if isinstance(one, ast.Constant)]
        known = {flag.lstrip("-").replace("-", "_") for flag in flags}
        if isinstance(dest := given.get("dest"), ast.Constant):
            known = {str(dest.value)}
        if name in known and "default" in given:
            yield given["default"], Place(around, None, None, call.lineno)


def holds_options(program: Program, tree: ast.AST, place: Place) -> bool:
    """Whether an object holds the options of the command line, as ``parse_args()`` returns them."""
    made = _makers(program, tree, place, 0) or []
    return bool(made) and all(called_name(one) == "parse_args" for one in made)


def class_of(
    program: Program, tree: ast.AST | None, place: Place, depth: int = 0
) -> Function | None:
    """Return the class of an object; None if the source does not show one class alone."""
    match tree:
        case ast.Name(id="self" | "cls"):
            return calls.class_of(place.function)
    made = _makers(program, tree, place, depth) or ()
    found = [_only(program, called_name(one)) for one in made]
    first = found[0] if found else None
    is_one = first is not None and all(one is not None and one.tree is first.tree for one in found)
    return first if is_one else None


def _makers(
    program: Program, tree: ast.AST | None, place: Place, depth: int
) -> list[ast.Call] | None:
    """Return the calls of which one has made an object; None if the source does not show all."""
    if depth > _DEEPEST:
        return None
    match tree:
        case ast.Call():
            return [tree]
        case ast.Name(id=name):
            values = _values(program, name, place)
        case ast.Attribute(attr=name, value=base):
            owner = class_of(program, base, place, depth + 1)
            if owner is None:
                return None
            values = [
                (one.value if one.how is How.VALUE else None, Place(one.function, None, None))
                for one in names.attribute_bindings(owner, name)
                if one.how not in _SAME
            ]
        case _:
            return None
    if len(values) > _MOST_VALUES:
        return None
    found: list[ast.Call] = []
    for value, at in values:
        made = _makers(program, value, at, depth + 1)
        if made is None:
            return None
        found += made
    return found


def _values(program: Program, name: str, place: Place) -> list[tuple[ast.expr | None, Place]]:
    """Return the values that a name of a function may have; None for one that is not known."""
    definitions = program.definitions(place.function)
    if definitions is None:
        return []
    bound = definitions.all(name)
    if bound and place.node is not None:
        bound = definitions.reaching(place.node, name)
    found: list[tuple[ast.expr | None, Place]] = []
    module = place.function.file.module
    for other in program.globals(module).get(name, ()) if not bound else ():
        if other.how not in _SAME:
            value = other.value if other.how is How.VALUE else None
            found.append((value, Place(other.function, None, None)))
    for one in bound:
        if one.how is How.PARAMETER:
            found += passed(program, name, place, anywhere=True)
        elif one.how not in _SAME:
            at = Place(place.function, one.node, place.context)
            found.append((one.value if one.how is How.VALUE else None, at))
    return found


def _only(program: Program, name: str) -> Function | None:
    found = program.lookup(name)
    is_class = len(found) == 1 and isinstance(found[0].tree, ast.ClassDef)
    return found[0] if is_class else None

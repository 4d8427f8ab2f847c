"""Names in a program that hold what a collective gives to its root, and what reads them.

By the source, within one function: no flow of values is followed beyond a name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from collectrace.align.reading import chains
from collectrace.align.reading.code_files import CodeFiles

_RESULTS: Final = {
    "reduce": (0, "tensor"),
    "gather": (1, "gather_list"),
    "gather_object": (1, "object_gather_list"),
}
"""By function of ``torch.distributed`` the argument that its root alone gets the result in: by its
place and its name. From torch 2.13, ``torch/distributed/distributed_c10d.py``."""

_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def read_by(code: CodeFiles, site: str) -> dict[int, str]:
    """The conditions behind a collective to a root that read its result, and by which name.

    By the number of their lines. Not those before which the name is set anew, by what does not
    read it. Empty if the text of the file is not known, or the line holds no such call.
    """
    file, number = chains.split(site)
    tree = code.parsed(file)
    try:
        return _read_by(tree, number) if tree is not None else {}
    except RecursionError:
        return {}


def _read_by(tree: ast.Module, number: int) -> dict[int, str]:
    body = _function(tree, number)
    names = {name for node in body if _line_of(node) == number and (name := _result(node))}
    if len(names) != 1:
        return {}
    name = names.pop()
    set_anew = sorted(_set_anew(body, name))
    return {
        node.lineno: name
        for node in body
        if isinstance(node, ast.If | ast.While)
        and _reads(node.test, name)
        and _is_next(body, number, node.lineno, set_anew)
    }


def _line_of(node: ast.AST) -> int:
    """The first line of a node; 0: it has none."""
    return getattr(node, "lineno", 0)


def _function(tree: ast.Module, number: int) -> list[ast.AST]:
    """The nodes of the innermost function around a line, or of the module, without nested ones."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno < number <= (node.end_lineno or 0)
    ]
    inner: ast.AST = max(around, key=lambda node: node.lineno, default=tree)
    return list(_within(inner))


def _within(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _FUNCTIONS):
            yield child
            yield from _within(child)


def _result(node: ast.AST) -> str:
    """The name that a call to a root puts its result in; empty: it is none, or has no name."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return ""
    called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    place, keyword = _RESULTS.get(called, (-1, ""))
    given = [one.value for one in node.keywords if one.arg == keyword]
    if 0 <= place < len(node.args):
        given.append(node.args[place])
    named = [one for one in given if isinstance(one, ast.Name | ast.Attribute)]
    return ast.unparse(named[0]) if keyword and named else ""


def _reads(node: ast.AST, name: str) -> bool:
    """Whether it depends on the value of a name: not whether that is there at all."""
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(None)]):
            return False
        case ast.Name() | ast.Attribute() if isinstance(node.ctx, ast.Load):
            if ast.unparse(node) == name:
                return True
    return any(_reads(one, name) for one in ast.iter_child_nodes(node))


def _set_anew(body: Sequence[ast.AST], name: str) -> Iterator[int]:
    """Lines that give a name a value which is not made of its own."""
    for node in body:
        match node:
            case ast.Assign(targets=targets, value=value):
                made_of = value
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets, made_of = [target], value
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                targets, made_of = [target], value
            case ast.With(items=items) | ast.AsyncWith(items=items):
                targets = [one.optional_vars for one in items if one.optional_vars is not None]
                made_of = ast.Constant(None)
            case ast.NamedExpr(target=target, value=value):
                targets, made_of = [target], value
            case _:
                continue
        stored = (one for target in targets for one in ast.walk(target))
        if not _reads(made_of, name) and any(
            isinstance(one, ast.Name | ast.Attribute) and ast.unparse(one) == name for one in stored
        ):
            yield _line_of(node)


def _is_next(body: Sequence[ast.AST], call: int, condition: int, set_anew: Sequence[int]) -> bool:
    """Whether a condition is come to from a call with the name as that left it."""
    if condition > call:
        return not any(call < line < condition for line in set_anew)
    loops = [
        node
        for node in body
        if isinstance(node, _LOOPS) and node.lineno <= condition and call <= (node.end_lineno or 0)
    ]
    if not loops:
        return False
    loop = max(loops, key=lambda node: node.lineno)
    last = loop.end_lineno or 0
    return not any(call < line <= last or loop.lineno <= line < condition for line in set_anew)

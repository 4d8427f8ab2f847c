"""Loops that try something again: who succeeds leaves them, and who fails goes round once more."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from collectrace.align.reading import chains
from collectrace.align.reading.code_files import CodeFiles

_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_LEAVES: Final = (ast.Return, ast.Break)


def leaves_on_success(code: CodeFiles, site: str) -> bool:
    """Whether the innermost loop around a line is left once the ``try`` around that has passed.

    By a ``return`` or a ``break`` in its body behind the line, in its ``else``, or behind it. False
    if the text of the file is not known.
    """
    file, number = chains.split(site)
    tree = code.parsed(file)
    if tree is None:
        return False
    try:
        loops = [one for one in ast.walk(tree) if isinstance(one, _LOOPS) and _holds(one, number)]
    except RecursionError:
        return False
    if not loops:
        return False
    innermost = max(loops, key=lambda loop: loop.lineno)
    if any(_goes_round(innermost.body)):
        return False
    return any(_leaves_behind(block, number) for block in _blocks(innermost.body, number))


def _goes_round(body: Sequence[ast.AST]) -> Iterator[bool]:
    """True for each ``continue`` in no handler: it leads to a new turn for another reason."""
    for node in body:
        if isinstance(node, ast.Continue):
            yield True
        elif not isinstance(node, (*_LOOPS, ast.ExceptHandler)):
            yield from _goes_round(list(ast.iter_child_nodes(node)))


def _holds(node: ast.stmt, number: int) -> bool:
    return node.lineno <= number <= (node.end_lineno or node.lineno)


def _blocks(body: Sequence[ast.stmt], number: int) -> list[Sequence[ast.stmt]]:
    """The lists of statements around a line, from the one given to that of its ``try``."""
    found: list[Sequence[ast.stmt]] = [body]
    for statement in body:
        if _holds(statement, number) and isinstance(statement, ast.Try):
            if statement.orelse:
                found.append([statement, *statement.orelse])
            found += _blocks(statement.body, number)
        elif _holds(statement, number) and isinstance(statement, ast.With | ast.AsyncWith):
            found += _blocks(statement.body, number)
    return found


def _leaves_behind(block: Sequence[ast.stmt], number: int) -> bool:
    """Whether a list of statements is left for good behind the one at a line, or by it."""
    at = next((n for n, one in enumerate(block) if _holds(one, number)), None)
    if at is None:
        return False
    return any(isinstance(one, _LEAVES) for one in block[at:])

"""The files of a project: those that calls came from, and what these import.

A class that is defined in a file from which no call came is found in none of the recorded frames.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from collectrace.align.reading import code_files

_MOST_FILES: Final = 64
"""Files of a project that are looked through."""


def reached(files: Iterable[str]) -> list[str]:
    """These files, and those of the same project that they import, and so on.

    As far as the modules lie in a file's folder or in one above it.
    """
    found, todo = dict[str, None](), sorted(files)
    while todo and len(found) < _MOST_FILES:
        file = todo.pop(0)
        if file not in found:
            found[file] = None
            todo += _imported(file)
    return list(found)


@lru_cache(maxsize=_MOST_FILES)
def _imported(file: str) -> tuple[str, ...]:
    tree, folder = code_files.parsed(file), Path(file).parent
    modules = (
        dict.fromkeys(one for node in ast.walk(tree) for one in _modules(node)) if tree else ()
    )
    return tuple(dict.fromkeys(one for known in modules for one in _files(folder, *known)))


def _files(folder: Path, level: int, module: str) -> Iterator[str]:
    """Where a module lies: beside the file that imports it, or further up."""
    above = [folder, *folder.parents]
    roots = above[level - 1 : level] if level else above[:_FURTHEST]
    for root in roots:
        path = root.joinpath(*module.split("."))
        for one in (path.with_suffix(".py"), path / "__init__.py"):
            with suppress(OSError, ValueError):
                if one.is_file():
                    yield str(one)


_FURTHEST: Final = 4
"""Folders, a file's own and those above it, in which the modules are looked for."""


def _modules(node: ast.AST) -> Iterator[tuple[int, str]]:
    """How many dots stand before a module that is imported, and its name."""
    if isinstance(node, ast.Import):
        yield from ((0, one.name) for one in node.names)
    elif isinstance(node, ast.ImportFrom):
        if node.module:
            yield node.level, node.module
        inner = f"{node.module}." if node.module else ""
        yield from ((node.level, f"{inner}{one.name}") for one in node.names if one.name != "*")

"""The files of a project: those that calls came from, and what these import.

A class that is defined in a file from which no call came is found in none of the recorded frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from collectrace.align.reading.code_files import CodeFiles

_MOST_FILES: Final = 64
"""Files of a project that are looked through."""


def reached(code: CodeFiles, files: Iterable[str]) -> list[str]:
    """These files, and those of the same project that they import, and so on.

    As far as the modules lie in a file's folder or in one above it, and their text was recorded.
    """
    found, todo = dict[str, None](), sorted(files)
    while todo and len(found) < _MOST_FILES:
        file = todo.pop(0)
        if file not in found:
            found[file] = None
            todo += _imported(code, file)
    return list(found)


def _imported(code: CodeFiles, file: str) -> tuple[str, ...]:
    folder, modules = PurePosixPath(file).parent, code.spans(file).imports
    return tuple(dict.fromkeys(one for known in modules for one in _files(code, folder, *known)))


def _files(code: CodeFiles, folder: PurePosixPath, level: int, module: str) -> Iterator[str]:
    """Where a module lies: beside the file that imports it, or further up."""
    above = [folder, *folder.parents]
    roots = above[level - 1 : level] if level else above[:_FURTHEST]
    for root in roots:
        path = root.joinpath(*module.split("."))
        for one in (path.with_suffix(".py"), path / "__init__.py"):
            if code.text(str(one)):
                yield str(one)


_FURTHEST: Final = 4
"""Folders, a file's own and those above it, in which the modules are looked for."""

"""Frames of libraries between and above the user's, where their text was recorded.

A training loop of a framework calls the user's code: what it decided by lies in its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from collectrace.align.code.between import Finished, Raised, Side
from collectrace.align.code.program import Stack
from collectrace.align.deciding import frames
from collectrace.align.reading import chains
from collectrace.align.reading.source_files import SourceFiles


def added(files: SourceFiles, one: Side, two: Side) -> tuple[Side, Side]:
    """Return two sides with the frames of libraries, or as they are.

    The user's frames of a stack may have been reached from several lines of a library. Then it is
    not known from which, and nothing is added to any of the stacks.
    """
    try:
        return _whole(files, one), _whole(files, two)
    except LookupError:
        return one, two


def owners(files: SourceFiles, ranks: Iterable[int]) -> Mapping[str, str]:
    """Return by path the names of the libraries whose frames are on stacks of these ranks."""
    lines = {
        line
        for rank in ranks
        for variants in files.libraries(rank).values()
        for variant in variants
        for line in variant
    }
    paths = {chains.file(line.partition(" ")[2]) for line in lines}
    return {path: name_of(path) for path in paths}


def name_of(path: str) -> str:
    """Return the name of the package that a file of a library is in."""
    _, installed, inner = path.rpartition("-packages/")
    if installed:
        return PurePosixPath(inner).parts[0].removesuffix(".py")
    return PurePosixPath(path).parent.name or path


def _whole(files: SourceFiles, side: Side) -> Side:
    """Return a side with the frames of libraries in its stacks.

    Raises:
        LookupError: they are not known.

    """
    known = files.libraries(side.rank)

    def whole(stack: Stack) -> Stack:
        own = tuple(frame.text for frame in stack)
        variants = known.get(own, set()) if stack else {()}
        if len(variants) != 1:
            raise LookupError(own)
        [lines] = variants
        held = [
            line for line in lines if files.is_held(side.rank, chains.file(line.partition(" ")[2]))
        ]
        return frames.with_libraries(stack, held)

    last = whole(side.last)
    match side.next:
        case Finished() | Raised():
            return replace(side, last=last)
        case stack:
            return replace(side, last=last, next=whole(stack))

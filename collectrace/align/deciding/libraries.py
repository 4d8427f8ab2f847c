"""Add library frames between and above the user's frames, if their source was recorded.

A framework's training loop calls the user's code, so the deciding statement may be in the library.
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


def add_library_frames(files: SourceFiles, one: Side, two: Side) -> tuple[Side, Side]:
    """Return two sides with library frames, or both unchanged.

    If the same user frames were reached from several library lines, the right ones are unknown:
    then no stack gets library frames.
    """
    try:
        return _with_libraries(files, one), _with_libraries(files, two)
    except LookupError:
        return one, two


def library_names(files: SourceFiles, ranks: Iterable[int]) -> Mapping[str, str]:
    """Return the library names by path, for all library files on the stacks of these ranks."""
    lines = {
        line
        for rank in ranks
        for variants in files.libraries(rank).values()
        for variant in variants
        for line in variant
    }
    paths = {chains.file(line.partition(" ")[2]) for line in lines}
    return {path: package_name(path) for path in paths}


def package_name(path: str) -> str:
    """Return the name of the package that contains a library file."""
    _, installed, inner = path.rpartition("-packages/")
    if installed:
        return PurePosixPath(inner).parts[0].removesuffix(".py")
    return PurePosixPath(path).parent.name or path


def _with_libraries(files: SourceFiles, side: Side) -> Side:
    """Return a side with library frames in its stacks.

    Raises:
        LookupError: the library frames are not known.

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
        return frames.insert_libraries(stack, held)

    last = whole(side.last)
    match side.next:
        case Finished() | Raised():
            return replace(side, last=last)
        case stack:
            return replace(side, last=last, next=whole(stack))

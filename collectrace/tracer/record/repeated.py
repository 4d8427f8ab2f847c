"""What stands again at the head of each segment, since the segments before it may be deleted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from collectrace.chain import CHECKPOINT_EVERY

_MOST: Final = 2_000
"""Lines, the latest."""


class Repeated:
    """Lines that were written once, in their order."""

    def __init__(self) -> None:
        self._lines: deque[tuple[bytes, int]] = deque(maxlen=_MOST)

    def add(self, line: bytes, known_stacks: int) -> None:
        """One more; ``known_stacks`` as a checkpoint behind it says."""
        self._lines.append((line, known_stacks))

    def head(self, most_bytes: int, checkpoint: Callable[[int], bytes]) -> Iterator[bytes]:
        """The latest of the lines that fit into so many bytes.

        Where they are many, there are checkpoints between them, made from the number of stacks
        before them: by these a reader searches, and relies on one in every so many bytes.
        """
        lines = list(self._lines)
        room = most_bytes
        first = len(lines)
        while first and room >= len(lines[first - 1][0]):
            first -= 1
            room -= len(lines[first][0])
        size = 0
        for line, known_stacks in lines[first:]:
            yield line
            size += len(line)
            if size >= CHECKPOINT_EVERY:
                yield checkpoint(known_stacks)
                size = 0

"""The lines that are repeated at the head of each segment, as earlier segments may be deleted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from collectrace.chain import CHECKPOINT_EVERY

_MOST: Final = 2_000
"""The latest lines that are kept."""


class Repeated:
    """The lines to repeat, in the order in which they were written."""

    def __init__(self) -> None:
        self._lines: deque[tuple[bytes, int]] = deque(maxlen=_MOST)

    def add(self, line: bytes, known_stacks: int) -> None:
        """Add a line; ``known_stacks``: the number for a checkpoint after this line."""
        self._lines.append((line, known_stacks))

    def head(self, most_bytes: int, checkpoint: Callable[[int], bytes]) -> Iterator[bytes]:
        """Yield the latest of the lines that fit into ``most_bytes``, with checkpoints.

        ``checkpoint`` makes one from the number of stacks before it. A reader searches by
        checkpoints, and relies on one in every ``CHECKPOINT_EVERY`` bytes.
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

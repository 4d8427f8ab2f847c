"""Calls of a synthetic run from lines of a script that are marked by comments.

script = Script(folder, "for n in range(9):\n    dist.recv(x, 0)  # TAKE\n")
run.rank(0).recv(1, **script.at(run.rank(0), "TAKE"))
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from tests.support.stacks import Stacks
from tests.support.synthetic import Rank

_MARK: Final = re.compile(r"# ([A-Z_]+)$")
_FUNCTION: Final = re.compile(r"def (\w+)")


class Script:
    """A script on disk, and its marked lines."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "job.py"
        self.path.write_text(text)
        self._stacks = Stacks()
        self._frames: dict[str, str] = {}
        function = "<module>"
        for number, line in enumerate(text.splitlines(), 1):
            if line and not line.startswith(" "):
                found = _FUNCTION.match(line)
                function = found[1] if found else "<module>"
            if mark := _MARK.search(line):
                self._frames[mark[1]] = f"{self.path}:{number} {function}"

    def at(self, rank: Rank, *marks: str) -> dict[str, Any]:
        """Fields of a call of a rank from a marked line; then the lines that led there."""
        return self._stacks.at(rank, *(self._frames[mark] for mark in marks))

"""A synthetic run of a small program that lies on the disk, and the decisions of its findings."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from collectrace.align import align
from collectrace.findings import Alignment, Decision
from collectrace.log_folder import SOURCES
from collectrace.records import Call
from tests.support.stacks import Stacks
from tests.support.synthetic import Rank, Run


class Program:
    """``program.call(rank, "all_reduce", "share main")``: a call from the lines so marked."""

    def __init__(self, folder: Path, text: str, world: int = 2) -> None:
        self.path = folder / "train.py"
        self.path.write_text(text)
        self.lines = text.splitlines()
        self.run = Run(world)
        self._logs = folder / "logs"
        self._stacks = Stacks()

    def line(self, mark: str) -> int:
        """The line that ends in ``# mark``."""
        [found] = [n for n, one in enumerate(self.lines, 1) if one.endswith(f"# {mark}")]
        return found

    def frame(self, mark: str, function: str) -> str:
        return f"{self.path}:{self.line(mark)} {function}"

    def at(self, rank: Rank, *frames: tuple[str, str]) -> dict[str, Any]:
        """Fields of a call from marked lines and their functions, the innermost first."""
        return self._stacks.at(rank, *(self.frame(*one) for one in frames))

    def call(self, rank: int, op: str, *frames: tuple[str, str], **fields: Any) -> Call:
        one = self.run.rank(rank)
        return one.call(op, **self.at(one, *frames), **fields)

    def recorded(self, path: Path) -> str:
        """Record the text of another file; its hash."""
        data = path.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        text = self._logs / self.run.name / SOURCES / f"{sha256}.py"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_bytes(data)
        return sha256

    def align(self) -> Alignment:
        self.run.write(self._logs)
        return align(self._logs)

    def decisions(self) -> list[Decision]:
        alignment = self.align()
        assert alignment.internal_errors is None
        return list(alignment.findings[0].decisions or ())

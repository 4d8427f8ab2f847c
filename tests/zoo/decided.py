"""The programs of tests/support/decisions.py, run and judged as cases are.

They are recorded together, all of one shape in one archive: they are much alike, and are made by
one template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from collectrace.findings import Alignment, Finding
from tests.support import decisions
from tests.zoo.case import marked_places, read
from tests.zoo.corpus import Run

RANKS: Final = (2, 3)
FOLDER: Final = "decisions/"
"""Where they are recorded."""

_HARMFUL: Final = ("drop_last", "DataLoader", "join()", "find_unused_parameters", "dst ")
"""Advice about what no program has."""


class Program(NamedTuple):
    """One of them."""

    kind: str
    shape: str
    ranks: int

    @property
    def name(self) -> str:
        """Such as ``handler_alone_2``."""
        return f"{self.kind}_{self.shape}_{self.ranks}"

    def written(self, folder: Path) -> Run:
        """Write it into a folder."""
        path = folder / f"{self.name}.py"
        path.write_text(decisions.program(*self))
        return Run(read(path), twin=False)


def programs(shape: str | None = None) -> list[Program]:
    """All of them, or those of one shape."""
    shapes = decisions.SHAPES if shape is None else (shape,)
    return [Program(*one) for one in product(decisions.KINDS, shapes, RANKS)]


def archive(shape: str) -> str:
    """The name under which a shape is recorded."""
    return FOLDER + shape


def program_hash(shape: str) -> str:
    """Of all texts of a shape, and of what they import."""
    seen = hashlib.sha256()
    for one in programs(shape):
        seen.update(decisions.program(*one).encode())
    seen.update(Path(__file__).with_name("common.py").read_bytes())
    return seen.hexdigest()[:16]


def of_program(files: Mapping[str, bytes], program: Program) -> dict[str, bytes]:
    """The files of one program in the archive of its shape."""
    below = f"{program.name}/"
    return {name.removeprefix(below): f for name, f in files.items() if name.startswith(below)}


def problems(program: Program, alignment: Alignment) -> list[str]:
    """Say what is wrong: an answer must name a deciding line, and blame nobody but rank 1."""
    errors = [f for f in alignment.findings if f.severity == "error" and f.caused_by is None]
    if len(errors) != 1:
        return [f"expected one error, found {[f.headline for f in errors]}"]
    found = errors[0]
    wrong = []
    if not set(found.suspects) <= {1}:
        wrong.append(f"expected rank 1 or nobody to be blamed, found {found.suspects}")
    path = Path(f"{program.name}.py")
    places = marked_places(path, decisions.program(*program))["WAY"]
    said = _said(found)
    if not any(place in said for place in places):
        wrong.append(f"none of {places} is named in: {said}")
    decisions_at = [one.site.rpartition("/")[2] for one in found.decisions or ()]
    if not set(places) & set(decisions_at):
        wrong.append(f"none of {places} is among the decisions: {decisions_at}")
    wrong += [f"must not be claimed: {word}" for word in _HARMFUL if word in said + found.fix]
    return wrong


def _said(found: Finding) -> str:
    return " ".join((found.headline, found.cause, *found.notes))

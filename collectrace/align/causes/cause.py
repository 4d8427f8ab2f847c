"""A row of the table of causes, and sets of kinds and codes that rows share."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final, Literal

from collectrace.align.causes import phrases
from collectrace.align.causes.situation import NEEDS, Need, Situation
from collectrace.align.causes.words import Words
from collectrace.findings import KINDS, MISMATCHES, Kind

Status = Literal["stable", "preview", "retired"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A row of the table of causes."""

    code: str
    """``CT102``. A code never changes its meaning, and is never reused."""

    name: str
    """``skipped-by-condition``. The module is ``ct102_skipped_by_condition``."""

    summary: str
    """One sentence."""

    kinds: frozenset[Kind]
    """The kinds of finding that it can explain."""

    needs: tuple[Need, ...] = ("root",)
    """Facts that must hold before it is tried: see ``situation.NEEDS``."""

    yields_to: tuple[str, ...] = ()
    """Codes that are more specific and win if both apply; ``CT2`` stands for all that begin so."""

    example: str = ""
    """A script of ``tests/zoo`` in which it wins."""

    counter_example: str = ""
    """A script of ``tests/zoo`` that looks alike and in which it must not apply."""

    since: str = "0.1.0"
    """The version that had it first."""

    status: Status = "stable"

    reason: str = ""
    """Why it was retired."""

    @property
    def module(self) -> str:
        """Name of the module that finds it and words it."""
        return f"{self.code.lower()}_{self.name.replace('-', '_')}"

    @property
    def is_observed(self) -> bool:
        """Whether an observation finds it and words it: its module only holds the documentation."""
        return self.kinds <= INFORMATION

    def load(self) -> ModuleType:
        """Return its module."""
        return importlib.import_module(f"collectrace.align.causes.{self.module}")

    def find(self, situation: Situation) -> Any:
        """Return what the module finds, None if the cause does not apply."""
        if situation.kind not in self.kinds:
            return None
        if not all(NEEDS[need](situation) for need in self.needs):
            return None
        return self.load().find(situation)

    def words(self, situation: Situation, found: Any) -> Words:
        """Return its words for what it found."""
        said: Words = self.load().words(situation, found)
        return replace(said, headline=phrases.fitted(said.headline))


ROWS: Final[frozenset[Kind]] = MISMATCHES - {"lost_mismatch"}
"""Kinds of a call of a stream at which ranks made different calls."""

INFORMATION: Final[frozenset[Kind]] = frozenset(k for k, v in KINDS.items() if v.status is None)
"""Kinds that are observed beside the errors, and never judged."""

ERRORS: Final[frozenset[Kind]] = frozenset(KINDS) - INFORMATION

ALL: Final[frozenset[Kind]] = frozenset(KINDS)


def kinds(*those: Kind) -> frozenset[Kind]:
    """Return the kinds of finding that a cause can explain."""
    return frozenset(those)


STATES: Final = (
    "CT2", "CT5", "CT602", "CT8", "CT30", "CT317", "CT4",
)  # fmt: skip
"""Causes that take precedence over statements: states of ranks, and arguments of one call."""

CAUGHT: Final = (
    "CT2", "CT104", "CT306", "CT502", "CT505", "CT508", "CT510", "CT511",
)  # fmt: skip
"""Causes that take precedence over arguments: frameworks, and earlier calls that raised."""
